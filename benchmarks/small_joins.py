"""A join across two servers on a small graph, compared with a call right after it that does nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack

import grpc

from benchmarks.bare_servers import bare_update
from benchmarks.builds import NOW, Build
from benchmarks.echo import echo_call, medians_beside
from benchmarks.report import Figure, speed_figure
from benchmarks.servers import echo_server, several_connected
from shadowtree import Arc, Client

ECHO_BYTES = 60
CASES = (
    ("of a normal arc, 3 servers, durable, p50", "child", "b.x"),
    ("the same, the parent having a child elsewhere already", "second", "c.x"),
    ("of two groups of one server", "child", "a.x"),
)


def measure(*, quick: bool, builds: Sequence[Build]) -> list[Figure]:
    """Join group after group, each in turn with an echo, and all builds in turns."""
    count = 30 if quick else 200
    figures = []
    with ExitStack() as stack:
        clients = {build: _small_graph(stack, build, count) for build in builds}
        echo = stack.enter_context(echo_server())
        channel = stack.enter_context(grpc.insecure_channel(echo.address))
        for what, child, subnet in CASES:
            joins = [_joining(client, child, subnet) for client in clients.values()]
            *seconds, bare = medians_beside(joins, echo_call(channel, ECHO_BYTES), rounds=count)
            found = dict(zip(clients, seconds, strict=True))
            note = f"{found[NOW] * 1e3:.1f} ms; echo {bare * 1e3:.2f} ms"
            figures.append(Figure(f"join {what}", found[NOW] / bare, 9, "x echo", note=note))
            figures += [
                speed_figure("  as fast as before", before / bare, found[NOW] / bare, target=1, unit="x echo")
                for build, before in found.items()
                if build is not NOW
            ]
        bare_updates = [stack.enter_context(bare_update())]
        update, bare = medians_beside(bare_updates, echo_call(channel, ECHO_BYTES), rounds=count)
        note = f"{update * 1e3:.1f} ms; echo {bare * 1e3:.2f} ms"
        figures.append(
            Figure("the hops and flushes of a join, without the servers", update / bare, None, "x echo", note=note)
        )
    return figures


def _small_graph(stack: ExitStack, build: Build, count: int) -> Client:
    _, (client, *_) = stack.enter_context(several_connected([["a.x"], ["b.x"], ["c.x"]], build=build))
    client.import_arcs(
        Arc(f"{name}-{number}@{subnet}", "", "group")
        for number in range(count)
        for name, subnet in (("parent", "a.x"), ("child", "a.x"), ("child", "b.x"), ("second", "c.x"))
    )
    return client


def _joining(client: Client, child: str, subnet: str) -> Callable[[], object]:
    numbers = iter(range(1_000_000))

    def join() -> None:
        number = next(numbers)
        client.join(f"parent-{number}@a.x", f"{child}-{number}@{subnet}", kind="group")

    return join
