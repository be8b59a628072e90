"""Joins and leaves, one by one and from many clients at once. Each is durable before it is answered."""

from __future__ import annotations

import asyncio
import random
import statistics
import tempfile
from itertools import pairwise
from pathlib import Path

from benchmarks.echo import echo_rate
from benchmarks.imports import import_example
from benchmarks.report import Figure, timed
from benchmarks.servers import ServerProcess, connected, echo_server, example_subnets
from shadowtree import Arc, Client, aio

SUBNET = "bench.example"
CLIENTS = 16
SEED = 7


def measure(*, quick: bool) -> list[Figure]:
    """Change groups made for the purpose."""
    with tempfile.TemporaryDirectory() as folder, connected(Path(folder), subnets=[SUBNET]) as (server, client):
        return [
            *_many_clients(server, client, quick=quick),
            *_loop(client, quick=quick),
            *_below_many_ancestors(client, quick=quick),
            *_arcs_of_the_example(quick=quick),
        ]


def _arcs_of_the_example(*, quick: bool) -> list[Figure]:
    """Leave and join again random arcs between groups of the example graph, one by one."""
    with tempfile.TemporaryDirectory() as folder, connected(Path(folder), subnets=example_subnets()) as (_, client):
        import_example(client)
        arcs = [arc for arc in client.export() if arc.kind == "group" and arc.child]
        chosen = random.Random(SEED).sample(arcs, 20 if quick else 300)
        client.join(chosen[0].parent, "somebody@people.example")
        leaving = sorted(timed(lambda arc=arc: client.leave(arc.parent, arc.child)) * 1e3 for arc in chosen)
        joining = sorted(timed(lambda arc=arc: client.join(arc.parent, arc.child)) * 1e3 for arc in chosen)
    figures = []
    for what, times in (("leave", leaving), ("join", joining)):
        note = f"p90 {times[len(times) * 9 // 10]:.0f} ms, longest {times[-1]:.0f} ms"
        figures.append(
            Figure(f"{what} of an arc of the example graph, p50", times[len(times) // 2], 20, "ms", note=note)
        )
    return figures


def _many_clients(server: ServerProcess, client: Client, *, quick: bool) -> list[Figure]:
    """Measure 16 clients, each with a connection of its own. Each waits for its answer before it goes on."""
    each = 50 if quick else 500
    for number in range(CLIENTS):
        client.create_group(f"busy-{number}@{SUBNET}")

    async def one_client(number: int) -> None:
        async with aio.Client(server.address) as names:
            group = f"busy-{number}@{SUBNET}"
            for member in range(each):
                await names.join(group, f"m-{member}@people.example", kind="process")
            for member in range(each):
                await names.leave(group, f"m-{member}@people.example")

    async def all_clients() -> None:
        await asyncio.gather(*(one_client(number) for number in range(CLIENTS)))

    seconds = timed(lambda: asyncio.run(all_clients()))
    rate = CLIENTS * each * 2 / seconds
    with echo_server() as echo:
        bare = asyncio.run(echo_rate(echo.address, clients=CLIENTS, calls=each, size=80))
    what = "joins and leaves of a process, durable, 16 clients"
    note = f"{rate / bare:.2f} of the rate of the echo, {bare:,.0f}"
    return [Figure(what, rate, 1_500, "a second", lower_is_better=False, note=note)]


def _loop(client: Client, *, quick: bool) -> list[Figure]:
    length = 1_000
    names = [f"ring-{number}@{SUBNET}" for number in range(length)]
    client.import_arcs(Arc(above, below, "group") for above, below in pairwise(names))
    closing, breaking = [], []
    for _ in range(3 if quick else 15):
        closing.append(timed(lambda: client.join(names[-1], names[0])))
        breaking.append(timed(lambda: client.leave(names[-1], names[0])))
    return [
        Figure("join that closes a loop of 1,000 groups, p50", statistics.median(closing) * 1e3, 100, "ms"),
        Figure("leave that breaks it, p50", statistics.median(breaking) * 1e3, 100, "ms"),
    ]


def _below_many_ancestors(client: Client, *, quick: bool) -> list[Figure]:
    """Measure joins below many ancestors: one group below 10,000 others gets another child again and again."""
    count = 10_000
    rows = [Arc(f"above-{number}@{SUBNET}", f"above-{number // 3}@{SUBNET}", "group") for number in range(1, count)]
    client.import_arcs(rows)
    bottom = f"above-0@{SUBNET}"
    times = []
    for number in range(5 if quick else 50):
        group = f"below-{number}@{SUBNET}"
        client.create_group(group)
        times.append(timed(lambda group=group: client.join(bottom, group)))
        assert len(client.memberships(group).groups) == count
    return [Figure("join of a group below 10,000 ancestors, p50", statistics.median(times) * 1e3, 20, "ms")]
