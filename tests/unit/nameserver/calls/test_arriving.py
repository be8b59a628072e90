"""Few large or slow requests are received at once. Small requests hardly wait for them."""

import asyncio
import gc
import weakref

import grpc
import pytest

from namegraph import Reason, Refusal
from nameserver.calls import arriving as arriving_module
from nameserver.calls.arriving import UNREAD_BYTES, Arriving
from nameserver.wire.status_mapping import abort, refusal_of

SERVICE = "S"
LARGE = 4 * 1024 * 1024
BOUND_SECONDS = 20


class Memory:
    """Memory of the process, as a test sets it."""

    taken = 0

    def __call__(self):
        return self.taken


class Under:
    """A server whose requests arrive under a guard."""

    async def __aenter__(self):
        self.memory, self.lines = Memory(), []
        self.arriving = Arriving(report=self.lines.append, memory=self.memory)

        async def echo(request, _context):
            return request[:10]

        async def answers(request, context):
            await context.write(request[:10])

        handlers = {
            "Echo": grpc.unary_unary_rpc_method_handler(echo),
            "Answers": grpc.unary_stream_rpc_method_handler(answers),
        }
        options = (("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", UNREAD_BYTES))
        self.server = grpc.aio.server(options=(*options, ("grpc.max_receive_message_length", 2 * LARGE)))
        found = self.arriving.handlers(handlers)
        self.server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, found),))
        port = self.server.add_insecure_port("127.0.0.1:0")
        await self.server.start()
        self.channel = grpc.aio.insecure_channel(f"127.0.0.1:{port}")
        return self

    async def __aexit__(self, *_):
        await self.channel.close()
        await self.server.stop(None)

    async def echo(self, request):
        async with asyncio.timeout(BOUND_SECONDS):
            return await self.channel.unary_unary(f"/{SERVICE}/Echo")(request)

    async def half(self, count):
        """Make `count` calls whose requests do not come."""
        calls = [self.channel.stream_unary(f"/{SERVICE}/Echo")() for _ in range(count)]
        async with asyncio.timeout(BOUND_SECONDS):
            while len(self.slow()) + sum(call.done() for call in calls) < count:
                await asyncio.sleep(0.005)
        return calls

    def slow(self):
        return [arrival for arrival in self.arriving._arrivals.values() if arrival.is_slow]


async def refused(call):
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value


async def test_a_request_comes_whole_and_is_answered_once_or_by_many_messages():
    async with Under() as under:
        assert await under.echo(b"small") == b"small"
        assert await under.echo(bytes(LARGE)) == bytes(10)
        stream = under.channel.unary_stream(f"/{SERVICE}/Answers")(b"asked")
        assert [answer async for answer in stream] == [b"asked"]


async def test_beside_many_that_do_not_come_others_are_answered():
    async with Under() as under:
        calls = await under.half(5 * arriving_module.READ_AT_ONCE)
        assert await asyncio.gather(*(under.echo(b"%d" % number) for number in range(50))) == [
            b"%d" % number for number in range(50)
        ]
        assert not any(call.done() for call in calls), "they take no memory"
        assert under.arriving.ended == 0


async def test_those_that_take_memory_are_few_and_operators_are_told():
    async with Under() as under:
        calls = await under.half(18)
        under.memory.taken = arriving_module.GROWTH_BYTES
        async with asyncio.timeout(BOUND_SECONDS):
            while sum(call.done() for call in calls) < 16:
                await asyncio.sleep(0.005)
        ended = [call for call in calls if call.done()]
        assert [await call.code() for call in ended] == [grpc.StatusCode.RESOURCE_EXHAUSTED] * 16
        assert len(under.slow()) == arriving_module.SLOW_REQUESTS_LIMIT
        assert under.arriving.ended == 16
        assert under.lines == ["large or slow requests are refused, most of them from this machine"]
        error = await refused(ended[0])
        assert "try again in a moment" in refusal_of(error).message
        assert await under.echo(b"small") == b"small"


async def test_one_that_takes_too_long_ends(monkeypatch):
    monkeypatch.setattr(arriving_module, "ARRIVAL_SECONDS", 0.1)
    async with Under() as under:
        (call,) = await under.half(1)
        assert (await refused(call)).code() is grpc.StatusCode.DEADLINE_EXCEEDED


async def test_a_call_without_a_request_is_refused():
    async with Under() as under:
        call = under.channel.stream_unary(f"/{SERVICE}/Echo")()
        await call.done_writing()
        assert (await refused(call)).code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_calls_that_are_given_up_while_they_wait_leave_their_turns_to_others():
    async with Under() as under:
        for _ in range(10):
            calls = [under.channel.stream_unary(f"/{SERVICE}/Echo")() for _ in range(30)]
            await asyncio.sleep(0)
            for call in calls:
                call.cancel()
        assert await under.echo(b"small") == b"small"
        async with asyncio.timeout(BOUND_SECONDS):
            while under.arriving._arrivals:
                await asyncio.sleep(0.005)
        assert under.arriving._fresh == 0


class Parsed:
    """Stands for what a call works on."""


def fail(parsed):
    raise ValueError(parsed)


async def test_what_a_refused_call_has_worked_on_is_given_up_without_the_collector():
    kept = []

    async def refuse(_request, context):
        parsed = Parsed()
        kept.append(weakref.ref(parsed))
        try:
            fail(parsed)
        except ValueError:
            await abort(context, Refusal(Reason.INVALID_REQUEST, "no"))

    handlers = Arriving().handlers({"Refuse": grpc.unary_unary_rpc_method_handler(refuse)})
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    gc.disable()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            assert (await refused(channel.unary_unary(f"/{SERVICE}/Refuse")(b"x"))).details() == "no"
            async with asyncio.timeout(BOUND_SECONDS):
                while kept[0]() is not None:
                    await asyncio.sleep(0.005)
    finally:
        gc.enable()
        await server.stop(None)
