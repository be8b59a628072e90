"""Clients that take all that they can get: other clients are served, and no effect lasts."""

import asyncio
import threading
import time
from pathlib import Path

import grpc
import pytest

from shadowtree import Client
from shadowtree.v1 import admin_pb2, name_service_pb2
from tests.integration.nameserver.server_process import PATIENCE_SECONDS, wait_until

IDLE_STREAMS = 6_500
MEBIBYTE = 1024 * 1024


async def open_idle_streams(address, count):
    """Channels with so many streams on which nothing is sent."""
    options = [("grpc.use_local_subchannel_pool", 1)]
    channels = [grpc.aio.insecure_channel(address, options=options) for _ in range(8)]
    calls = []
    for number in range(count):
        calls.append(channels[number % 8].stream_stream("/shadowtree.v1.NameService/CheckBulk")())
        if number % 250 == 0:
            await asyncio.sleep(0)
    return channels, calls


async def test_thousands_of_idle_streams_keep_nobody_from_status_and_health_and_end(start):
    server = start()
    channels, calls = await open_idle_streams(server.address, IDLE_STREAMS)
    async with grpc.aio.insecure_channel(server.address) as own:
        status = own.unary_unary("/shadowtree.v1.AdminService/GetStatus")
        health = own.unary_unary("/grpc.health.v1.Health/Check")
        for _ in range(20):
            await status(b"", timeout=20)
            await health(b"", timeout=20)
        async with asyncio.timeout(60):
            codes = [await call.code() for call in calls]
        # Of those beyond the limit gRPC itself resets some.
        assert grpc.StatusCode.OK not in codes
        assert codes.count(grpc.StatusCode.DEADLINE_EXCEEDED) > IDLE_STREAMS / 2
        check = own.unary_unary("/shadowtree.v1.NameService/ListGroups")
        await check(b"", timeout=20)
    for channel in channels:
        await channel.close()


def test_imports_that_send_nothing_more_give_their_places_back(start):
    server = start()
    chunk = name_service_pb2.ImportChunk(names=["x@b.c"])
    silent = threading.Event()

    def stalling():
        silent.wait()
        yield chunk

    stalled = [server.names.Import.future(stalling()) for _ in range(2)]
    begun = time.monotonic()
    for call in stalled:
        assert call.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert time.monotonic() - begun < 20
    silent.set()
    with Client(server.address) as names:
        names.create_group("g@b.c")


def test_beyond_a_limit_large_requests_are_refused_and_status_goes_on(start):
    server = start()
    operation = name_service_pb2.ApplyUpdatesRequest.Operation(parent="p" * 240 + "@b.c", child="c" * 240 + "@x.y")
    chunk = name_service_pb2.ApplyUpdatesChunk(operations=[operation] * 2_000)
    first = name_service_pb2.ApplyUpdatesChunk(operations=[operation] * 2_000, operation_count=14_000)
    assert 7 * chunk.ByteSize() > 6 * MEBIBYTE
    # One caller sends sixteen at once, and nineteen that are whole are as much as is taken.
    calls = [server.names.ApplyInChunks.future(iter([first, *[chunk] * 6])) for _ in range(26)]

    def status_is_told_and_all_is_done():
        server.admin.GetStatus(admin_pb2.GetStatusRequest(), timeout=PATIENCE_SECONDS)
        return all(call.done() for call in calls)

    wait_until(status_is_told_and_all_is_done, "answers")
    assert grpc.StatusCode.RESOURCE_EXHAUSTED in {call.code() for call in calls}


def peak_bytes(process):
    (line,) = [
        line for line in Path(f"/proc/{process.pid}/status").read_text().splitlines() if line.startswith("VmHWM")
    ]
    return 1024 * int(line.split()[1])


def test_large_requests_that_come_at_once_take_little_memory_and_leave_others_be(start):
    server = start()
    before = peak_bytes(server.process)
    request = b"\x0a" + bytes(7 * MEBIBYTE)
    options = [("grpc.use_local_subchannel_pool", 1)]
    channels = [grpc.insecure_channel(server.address, options=options) for _ in range(4)]
    calls = [channel.unary_unary("/shadowtree.v1.NameService/ApplyUpdates") for channel in channels]
    under_way = [calls[number % 4].future(request) for number in range(60)]
    with Client(server.address) as client:
        client.create_group("g@b.c")
        assert client.status().groups == 1
    assert {call.code() for call in under_way} == {grpc.StatusCode.RESOURCE_EXHAUSTED}
    assert peak_bytes(server.process) - before < 300 * MEBIBYTE
    for channel in channels:
        channel.close()


@pytest.mark.parametrize(("host", "is_open"), [("127.0.0.1", False), ("0.0.0.0", True), ("[::1]", False)])
def test_a_server_that_others_can_reach_says_that_nobody_is_authenticated(start, host, is_open):
    server = start(listen=f"{host}:0", log_level="warning", insecure_listen_on_a_public_address=is_open)
    assert (f"WARNING: other machines can reach {host}:" in server.terminate()[1]) is is_open, (
        "the warning is for those whom others can reach"
    )


def test_a_watch_of_many_is_ended_by_nobody_but_leaves_room(start):
    """Health has places of its own: those who watch it keep no client out."""
    server = start()
    with grpc.insecure_channel(server.address) as channel:
        watch = channel.unary_stream("/grpc.health.v1.Health/Watch")
        watches = [watch(b"") for _ in range(150)]
        wait_until(lambda: sum(call.done() for call in watches) >= 50, "those for whom there was no place end")
        with Client(server.address) as names:
            names.create_group("g@b.c")
        for call in watches:
            call.cancel()
