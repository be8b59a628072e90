"""However many calls of one service rest here, and however large, those of others are answered."""

import asyncio

import grpc
import pytest

from namegraph import Reason
from nameserver.calls import places as places_module
from nameserver.calls.places import Places, RequestBytes, guarded
from nameserver.wire.metadata import FORWARDED_KEY
from nameserver.wire.status_mapping import refusal_of
from tests.callers import identified

SERVICE = "test.Service"
OTHER = "test.Other"


class Under:
    """A server with a service of few places, and another one."""

    def __init__(self):
        self.server = grpc.aio.server()
        self.request_bytes = RequestBytes()
        self.working = 0
        self.most_at_work = 0
        self.may_go_on = asyncio.Event()
        for service, count in ((SERVICE, 3), (OTHER, 3)):
            handlers = {
                "Echo": grpc.unary_unary_rpc_method_handler(self.echo, bytes, bytes),
                "Hold": grpc.unary_unary_rpc_method_handler(self.hold),
                "Answers": grpc.stream_stream_rpc_method_handler(self.answers),
                "Sum": grpc.stream_unary_rpc_method_handler(self.sum),
                "Generated": grpc.stream_stream_rpc_method_handler(self.generated),
            }
            found = guarded(handlers, places=Places(count), request_bytes=self.request_bytes)
            self.server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, identified(found)),))

    async def __aenter__(self):
        port = self.server.add_insecure_port("127.0.0.1:0")
        await self.server.start()
        self.channel = grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=[("grpc.use_local_subchannel_pool", 1)])
        return self

    async def __aexit__(self, *_):
        self.may_go_on.set()
        await self.channel.close()
        await self.server.stop(None)

    async def echo(self, request, context):
        return request

    async def hold(self, request, context):
        self.working += 1
        self.most_at_work = max(self.most_at_work, self.working)
        await self.may_go_on.wait()
        self.working -= 1
        return request

    async def answers(self, requests, context):
        async for request in requests:
            await context.write(request)

    async def generated(self, requests, context):
        async for request in requests:
            yield request

    async def sum(self, requests, context):
        return bytes([sum([len(request) async for request in requests])])

    def echo_at(self, service, request=b"x", **options):
        return self.channel.unary_unary(f"/{service}/Echo")(request, **options)

    def hold_at(self, service, request=b"x", **options):
        return asyncio.ensure_future(self._hold(service, request, options))

    async def _hold(self, service, request, options):
        return await self.channel.unary_unary(f"/{service}/Hold")(request, **options)


async def refused(call):
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value


async def until(condition):
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.005)


async def test_calls_that_rest_take_the_places_of_their_service_alone():
    async with Under() as under:
        held = [under.hold_at(SERVICE) for _ in range(3)]
        await until(lambda: under.working == 3)
        error = await refused(under.echo_at(SERVICE))
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert await under.echo_at(OTHER) == b"x"
        under.may_go_on.set()
        await asyncio.gather(*held)
        assert await under.echo_at(SERVICE) == b"x"


@pytest.mark.parametrize("method", ["Answers", "Generated"])
async def test_a_silent_stream_ends_and_its_place_is_free(monkeypatch, method):
    monkeypatch.setattr(places_module, "FIRST_MESSAGE_SECONDS", 0.1)
    async with Under() as under:
        streams = [under.channel.stream_stream(f"/{SERVICE}/{method}")() for _ in range(3)]
        for stream in streams:
            error = await refused(stream.read())
            assert error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
            assert refusal_of(error).facts["idle_seconds"] == "0.1"
        assert await under.echo_at(SERVICE) == b"x"


async def test_a_stream_that_falls_silent_ends(monkeypatch):
    monkeypatch.setattr(places_module, "NEXT_MESSAGE_SECONDS", 0.1)
    async with Under() as under:
        stream = under.channel.stream_stream(f"/{SERVICE}/Answers")()
        await stream.write(b"one")
        assert await stream.read() == b"one"
        assert (await refused(stream.read())).code() is grpc.StatusCode.DEADLINE_EXCEEDED


async def test_a_stream_that_is_used_goes_on_to_its_end():
    async with Under() as under:
        call = under.channel.stream_unary(f"/{SERVICE}/Sum")(iter([b"ab", b"c"]))
        assert await call == b"\x03"


async def test_large_requests_wait_for_one_another_and_forwarded_ones_for_forwarded_ones_alone(monkeypatch):
    monkeypatch.setattr(places_module, "LARGE_REQUESTS_AT_ONCE", 1)
    large = bytes(places_module.LARGE_REQUEST_BYTES)
    async with Under() as under:
        monopoly = [under.hold_at(SERVICE, large) for _ in range(3)] + [under.hold_at(OTHER, large)]
        await until(lambda: under.working == places_module.LARGE_REQUESTS_AT_ONCE)
        assert await under.echo_at(OTHER) == b"x"
        forwarded = [under.hold_at(OTHER, large, metadata=((FORWARDED_KEY, "b.x"),)) for _ in range(2)]
        await until(lambda: under.working == 2 * places_module.LARGE_REQUESTS_AT_ONCE)
        under.may_go_on.set()
        await asyncio.gather(*monopoly, *forwarded)
        assert under.most_at_work == 2 * places_module.LARGE_REQUESTS_AT_ONCE


async def test_large_requests_leave_room_for_small_ones(monkeypatch):
    monkeypatch.setattr(places_module, "REQUEST_BYTES_LIMIT", 300_000)
    monkeypatch.setattr(places_module, "RESERVED_BYTES", 100_000)
    async with Under() as under:
        held = under.hold_at(SERVICE, bytes(190_000))
        await until(lambda: under.working == 1)
        larger = bytes(places_module.SMALL_REQUEST_BYTES)
        assert (await refused(under.echo_at(OTHER, larger))).code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert await under.echo_at(OTHER, bytes(60_000)) == bytes(60_000)
        under.may_go_on.set()
        await held
        assert await under.echo_at(OTHER, larger) == larger


async def test_more_bytes_of_requests_than_there_is_room_for_are_refused(monkeypatch):
    monkeypatch.setattr(places_module, "REQUEST_BYTES_LIMIT", 1_000)
    async with Under() as under:
        held = under.hold_at(SERVICE, bytes(600))
        await until(lambda: under.working == 1)
        assert (await refused(under.echo_at(OTHER, bytes(600)))).code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        stream = under.channel.stream_stream(f"/{OTHER}/Answers")()
        await stream.write(bytes(600))
        assert (await refused(stream.read())).code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        under.may_go_on.set()
        await held
        assert await under.echo_at(OTHER, bytes(600)) == bytes(600)


async def test_a_message_of_a_client_is_bounded_and_one_of_another_server_is_not(monkeypatch):
    monkeypatch.setattr(places_module, "CLIENT_MESSAGE_BYTES_LIMIT", 1_000)
    async with Under() as under:
        assert await under.echo_at(SERVICE, bytes(1_000)) == bytes(1_000)
        found = refusal_of(await refused(under.echo_at(SERVICE, bytes(1_001))))
        assert (found.reason, found.facts["limit"]) == (Reason.LIMIT_EXCEEDED, "1000")
        stream = under.channel.stream_stream(f"/{SERVICE}/Answers")()
        await stream.write(bytes(1_000))
        assert await stream.read() == bytes(1_000)
        await stream.write(bytes(1_001))
        assert refusal_of(await refused(stream.read())).facts["limit"] == "1000"
        assert await under.echo_at(SERVICE, bytes(1_001), metadata=((FORWARDED_KEY, "b.x"),)) == bytes(1_001)
        assert under.request_bytes._under_way == 0


def test_a_short_way_answers_no_request_that_the_long_way_refuses(monkeypatch):
    monkeypatch.setattr(places_module, "CLIENT_MESSAGE_BYTES_LIMIT", 1_000)
    short = places_module.admitted_shortly(lambda request: request, places=Places(1), request_bytes=RequestBytes())
    assert (short(bytes(1_000)), short(bytes(1_001))) == (bytes(1_000), None)


async def test_bytes_that_are_no_message_are_refused():
    def read(_):
        raise places_module.DecodeError

    handlers = {"Echo": grpc.unary_unary_rpc_method_handler(lambda request, _: request, read)}
    found = guarded(handlers, places=Places(1), request_bytes=RequestBytes())
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, found),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        error = await refused(channel.unary_unary(f"/{SERVICE}/Echo")(b"?"))
        assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    await server.stop(None)


async def test_what_a_stream_holds_is_given_back_though_a_task_of_its_call_still_reads():
    """So it is with calls that answer and read at once: the answering ends, and the reading is not over yet."""
    request_bytes, readers = RequestBytes(), []

    async def ends_early(requests, context):
        assert await anext(requests) == b"first"
        held.append(request_bytes._under_way)
        readers.append(asyncio.create_task(anext(requests)))
        await asyncio.sleep(0)
        await context.write(b"done")

    async def ends_at_once(requests, context):
        assert await anext(requests) == b"first"
        held.append(request_bytes._under_way)

    held = []
    server = grpc.aio.server()
    handlers = {
        "Early": grpc.stream_stream_rpc_method_handler(ends_early),
        "AtOnce": grpc.stream_stream_rpc_method_handler(ends_at_once),
    }
    found = guarded(handlers, places=Places(2), request_bytes=request_bytes)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, found),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        for name in ("Early", "AtOnce"):
            call = channel.stream_stream(f"/{SERVICE}/{name}")()
            await call.write(b"first")
            answers = []
            while (answer := await call.read()) is not grpc.aio.EOF:
                answers.append(answer)
            assert answers == ([b"done"] if name == "Early" else [])
    for reader in readers:
        reader.cancel()
    await asyncio.gather(*readers, return_exceptions=True)
    await server.stop(None)
    assert held == [len(b"first"), len(b"first")]
    assert request_bytes._under_way == 0
