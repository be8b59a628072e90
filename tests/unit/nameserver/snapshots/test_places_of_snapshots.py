"""An abandoned snapshot gives its place back: one whose cut is never made, and one that has no reader."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from delivery.server import Server
from namegraph import Reason, RefusedError
from nameserver.calls.adapters import stream_call
from nameserver.driver.run_loop import RunLoop
from nameserver.snapshots import live_snapshot
from nameserver.snapshots.live_snapshot import SNAPSHOTS_AT_ONCE_LIMIT, SnapshotCalls
from resolver.reach import GraphReach
from shadowtree.v1.admin_pb2 import ExportSnapshotRequest, SnapshotChunk
from storage.memory import MemoryDatabase, MemoryStore

CHUNK = bytes(64 * 1024)


@pytest.fixture
async def snapshots():
    core = Server(server="one", subnets=["b.c"])
    core.begin_delivery(GraphReach, start=7)
    with ThreadPoolExecutor(max_workers=1) as worker:
        run_loop = RunLoop(
            core=core, store=MemoryStore(MemoryDatabase(), server="one"), worker=worker, clock=time.monotonic
        )
        yield SnapshotCalls(core=core, reads=core, run_loop=run_loop)


async def test_a_snapshot_whose_cut_is_never_made_ends_and_its_place_is_free(snapshots, monkeypatch):
    monkeypatch.setattr(live_snapshot, "CUT_WAIT_SECONDS", 0.05)
    request = ExportSnapshotRequest(cut="never")
    waiting = [await snapshots.export(request, None) for _ in range(SNAPSHOTS_AT_ONCE_LIMIT)]
    for chunks in waiting:
        while not SnapshotChunk.FromString(await anext(chunks)).is_caught_up:
            pass
    with pytest.raises(RefusedError) as caught:
        await snapshots.export(request, None)
    assert caught.value.refusal.reason is Reason.UNAVAILABLE
    for chunks in waiting:
        with pytest.raises(RefusedError, match="no cut 'never' was made within"):
            await anext(chunks)
    await (await snapshots.export(request, None)).aclose()


async def test_a_stream_of_which_nothing_is_taken_ends_and_what_it_holds_is_given_up():
    ended = asyncio.Event()

    async def endless(request, context):
        async def chunks():
            try:
                while True:
                    yield CHUNK
            finally:
                ended.set()

        return chunks()

    server = grpc.aio.server()
    handlers = {"Export": stream_call(endless, ExportSnapshotRequest, stalled_seconds=0.1)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Service", handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            call = channel.unary_stream("/test.Service/Export")(b"")
            async with asyncio.timeout(20):
                await ended.wait()
                with pytest.raises(grpc.aio.AioRpcError, match="nothing was taken from this stream for") as caught:
                    await read_all(call)
                assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    finally:
        await server.stop(None)


async def read_all(call):
    while await call.read() is not grpc.aio.EOF:
        pass
