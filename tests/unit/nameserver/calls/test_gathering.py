"""Batches in chunks take bounded memory until they are whole, and a slow caller holds up no other caller."""

import asyncio
from contextlib import asynccontextmanager

import grpc
import pytest

from namegraph import Reason
from nameserver.calls import gathering, places
from nameserver.calls.gathering import BATCHES_OF_CALLER_LIMIT
from nameserver.calls.places import Places, RequestBytes, guarded
from nameserver.wire.metadata import FORWARDED_KEY
from nameserver.wire.status_mapping import refusal_of
from tests.callers import identified

CHUNK = bytes(1_000)


class Server:
    """A server with one method whose request comes in chunks."""

    def __init__(self):
        self.request_bytes = RequestBytes()
        self.taken = []
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()
        handlers = {"Batch": grpc.stream_unary_rpc_method_handler(self.batch)}
        found = guarded(handlers, places=Places(100), request_bytes=self.request_bytes, chunked={"Batch"})
        self.server = grpc.aio.server()
        self.server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Service", identified(found)),))
        self.channels = []

    async def __aenter__(self):
        self.port = self.server.add_insecure_port("127.0.0.1:0")
        await self.server.start()
        self.one, self.other = self.caller(), self.caller()
        return self

    async def __aexit__(self, *_):
        self.may_go_on.set()
        for channel in self.channels:
            await channel.close()
        await self.server.stop(None)

    def caller(self):
        """Another connection: on this machine each is a caller of its own."""
        options = [("grpc.use_local_subchannel_pool", 1)]
        self.channels.append(grpc.aio.insecure_channel(f"127.0.0.1:{self.port}", options=options))
        return self.channels[-1].stream_unary("/test.Service/Batch")

    async def batch(self, chunks, context):
        self.taken.append(b"".join(chunks))
        await self.may_go_on.wait()
        return b"done"

    @property
    def held(self):
        return self.request_bytes._under_way

    @asynccontextmanager
    async def half_sent(self, begin, count=1, **options):
        """Open `count` streams that are not whole. Each has a place, and has sent one chunk."""
        calls = [begin(**options) for _ in range(count)]
        for call in calls:
            await call.write(CHUNK)
        yield calls
        for call in calls:
            call.cancel()


async def refused_after(begin, chunks):
    """Return the refusal of a stream by its last chunk. gRPC may hide a refusal that comes while it still writes."""
    call = begin()
    for _ in range(chunks):
        await call.write(CHUNK)
    return await refused(call)


async def refused(call):
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return refusal_of(caught.value)


async def until(condition):
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.005)


async def test_a_batch_is_counted_once_from_its_first_chunk_to_its_answer():
    async with Server() as server:
        server.may_go_on.clear()
        async with server.half_sent(server.one) as (call,):
            await until(lambda: server.held == 1_000)
            await call.write(CHUNK)
            await until(lambda: server.held == 2_000)
            assert server.taken == []
            await call.done_writing()
            await until(lambda: server.taken == [2 * CHUNK])
            assert server.held == 2_000
            server.may_go_on.set()
            assert await call == b"done"
        assert server.held == 0


async def test_a_batch_that_is_too_large_is_refused_and_nothing_of_it_stays(monkeypatch):
    monkeypatch.setattr(gathering, "BATCH_BYTES_LIMIT", 2_500)
    async with Server() as server:
        found = await refused_after(server.one, 3)
        assert (found.reason, found.facts["limit"]) == (Reason.LIMIT_EXCEEDED, "2500")
        assert (server.held, server.taken) == (0, [])
        assert await server.one(iter([CHUNK] * 2)) == b"done"


async def test_a_chunk_of_a_client_is_no_larger_than_any_message_of_it(monkeypatch):
    monkeypatch.setattr(places, "CLIENT_MESSAGE_BYTES_LIMIT", 999)
    async with Server() as server:
        assert (await refused_after(server.one, 1)).facts["limit"] == "999"
        assert await server.one(iter([CHUNK]), metadata=((FORWARDED_KEY, "b.x"),)) == b"done"


async def test_a_batch_that_takes_too_long_is_ended_though_something_came_of_it_lately(monkeypatch):
    monkeypatch.setattr(gathering, "GATHERING_SECONDS", 0.2)
    async with Server() as server:
        assert (await refused_after(server.one, 3)).reason is Reason.DEADLINE_EXCEEDED
        assert (server.held, server.taken) == (0, [])


async def test_a_batch_on_which_nothing_more_comes_is_ended(monkeypatch):
    monkeypatch.setattr(places, "NEXT_MESSAGE_SECONDS", 0.1)
    async with Server() as server, server.half_sent(server.one) as (call,):
        assert (await refused(call)).facts["idle_seconds"] == "0.1"
        assert (server.held, server.taken) == (0, [])


async def test_further_batches_of_a_caller_wait_unread_and_those_of_others_do_not():
    async with Server() as server, server.half_sent(server.one, BATCHES_OF_CALLER_LIMIT) as first:
        await until(lambda: server.held == 1_000 * BATCHES_OF_CALLER_LIMIT)
        async with server.half_sent(server.one, 10):
            assert await server.other(iter([CHUNK])) == b"done"
            # What the server itself passes on for another one is no batch of the caller beside it.
            assert await server.one(iter([CHUNK]), metadata=((FORWARDED_KEY, "b.x"),)) == b"done"
            assert server.held == 1_000 * BATCHES_OF_CALLER_LIMIT
            await first[0].done_writing()
            assert await first[0] == b"done"
            await until(lambda: server.held == 1_000 * BATCHES_OF_CALLER_LIMIT)
    await until(lambda: server.held == 0)


@pytest.mark.parametrize("limit", ["STREAMS_OF_CALLER_LIMIT", "STREAMS_LIMIT"])
async def test_more_batches_than_may_wait_are_refused_after_their_first_chunk(monkeypatch, limit):
    monkeypatch.setattr(gathering, limit, 4)
    async with Server() as server, server.half_sent(server.one, 4):
        await until(lambda: server.held == 1_000 * BATCHES_OF_CALLER_LIMIT)
        found = await refused_after(server.one, 1)
        assert (found.reason, "try again" in found.message) == (Reason.LIMIT_EXCEEDED, True)
        if limit == "STREAMS_LIMIT":
            assert (await refused_after(server.other, 1)).reason is Reason.LIMIT_EXCEEDED
        else:
            assert await server.other(iter([CHUNK])) == b"done"
        assert server.held == 1_000 * BATCHES_OF_CALLER_LIMIT


async def test_batches_of_all_callers_that_are_not_whole_are_bounded(monkeypatch):
    monkeypatch.setattr(gathering, "BATCHES_LIMIT", 3)
    async with Server() as server:
        streams = [server.half_sent(server.caller()) for _ in range(6)]
        calls = [(await stream.__aenter__())[0] for stream in streams]
        await until(lambda: server.held == 3_000)
        # A batch that is whole makes place for another one, while it is worked on.
        server.may_go_on.clear()
        await calls[0].done_writing()
        await until(lambda: server.held == 4_000)
        assert len(server.taken) == 1
        for stream in streams:
            await stream.__aexit__(None, None, None)
        server.may_go_on.set()
        await until(lambda: server.held == 0)


async def test_a_stream_that_breaks_gives_all_back():
    async with Server() as server:
        async with server.half_sent(server.one, BATCHES_OF_CALLER_LIMIT):
            await until(lambda: server.held == 1_000 * BATCHES_OF_CALLER_LIMIT)
        await until(lambda: server.held == 0)
        assert await server.one(iter([CHUNK] * 3)) == b"done"
