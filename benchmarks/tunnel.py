"""Calls through a tunnel, against the same calls over a direct channel, in turns in one run.

This process stands for a server that is a peer of the server between. It makes the calls that it would forward.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Sequence
from typing import Any

import grpc

from benchmarks.report import Figure
from benchmarks.servers import ServerProcess, several_connected
from nameserver.transport.peer_link import Link
from nameserver.transport.tunnel_socket import TunnelSockets
from shadowtree.v1 import name_service_pb2 as messages

HERE, THERE, BETWEEN = "a.x", "b.x", "c.x"
GROUP, MEMBER = "list@b.x", "ann@b.x"
CHECK = "/shadowtree.v1.NameService/Check"

CALLERS = 16
ROUNDS = 5


def measure(*, quick: bool) -> list[Figure]:
    """Measure calls a second, and the time of one call."""
    with several_connected([[HERE], [THERE], [BETWEEN]]) as (servers, (_, there, _)):
        there.create_group(GROUP)
        there.join(GROUP, MEMBER, kind="process")
        return asyncio.run(_measure(servers, calls=200 if quick else 2_000))


async def _measure(servers: Sequence[ServerProcess], *, calls: int) -> list[Figure]:
    direct, between = _link(THERE, servers[1].address), _link(BETWEEN, servers[2].address)
    links = {THERE: direct, BETWEEN: between}
    sockets = TunnelSockets(here=HERE, link_of=links.get, say=print)
    while not (direct.is_ready() and between.is_ready()):
        await asyncio.sleep(0.05)
    tunnel = await sockets.open(THERE, via=BETWEEN, link=direct)
    assert tunnel is not None
    try:
        channels = (direct.channel, tunnel.channel)
        for channel in channels:
            await _rate(channel, calls // 10)
        rates = [[await _rate(channel, calls) for channel in channels] for _ in range(ROUNDS)]
        times = [[await _median(channel, calls // 10) for channel in channels] for _ in range(ROUNDS)]
    finally:
        await tunnel.close(None)
        sockets.close()
        for link in links.values():
            await link.close()
    direct_rate, tunnel_rate = (statistics.median(column) for column in zip(*rates, strict=True))
    direct_time, tunnel_time = (statistics.median(column) for column in zip(*times, strict=True))
    return [
        Figure(
            f"calls a second through a tunnel, {CALLERS} at once, to those over a direct channel",
            tunnel_rate / direct_rate,
            0.3,
            "x",
            lower_is_better=False,
            note=f"{tunnel_rate:,.0f} a second against {direct_rate:,.0f}; three processes share one machine",
        ),
        Figure(
            "  one call, p50",
            tunnel_time / direct_time,
            None,
            "x",
            note=f"{tunnel_time * 1e6:,.0f} us against {direct_time * 1e6:,.0f} us",
        ),
    ]


def _link(server: str, address: str) -> Link:
    link = Link(address, (server,), chance=lambda: 0.0, clock=time.monotonic, wall_clock=time.time)
    link.connected(server, [server])
    return link


def _check(channel: grpc.aio.Channel) -> Any:
    ask: Any = channel.unary_unary(CHECK)
    return ask, messages.CheckRequest(group=GROUP, member=MEMBER).SerializeToString()


async def _rate(channel: grpc.aio.Channel, calls: int) -> float:
    ask, request = _check(channel)
    mark = (("shadowtree-forwarded-by", HERE),)

    async def one_caller() -> None:
        for _ in range(calls // CALLERS):
            answer = messages.CheckResponse.FromString(await ask(request, metadata=mark))
            assert answer.is_member

    started = time.perf_counter()
    await asyncio.gather(*(one_caller() for _ in range(CALLERS)))
    return calls // CALLERS * CALLERS / (time.perf_counter() - started)


async def _median(channel: grpc.aio.Channel, calls: int) -> float:
    ask, request = _check(channel)
    times = []
    for _ in range(calls):
        started = time.perf_counter()
        await ask(request, metadata=(("shadowtree-forwarded-by", HERE),))
        times.append(time.perf_counter() - started)
    return statistics.median(times)
