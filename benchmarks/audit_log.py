"""What the audit log costs a join: a server beside one whose rows have no hashes, and beside an earlier build."""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import count
from pathlib import Path

from benchmarks.builds import NOW, Build
from benchmarks.report import Figure, timed
from benchmarks.servers import SHADOWTREE, ServerProcess, name_servers
from shadowtree import Client, aio

SUBNET = "bench.example"
CLIENTS = 16
TARGET = 1.05

WITHOUT_HASHES = "import namegraph.state.change_log as log; log.chained = lambda row, before: row; "
UNCHAINED = (sys.executable, "-c", f"{WITHOUT_HASHES}from shadowtree.cli.main import run; run()")
"""Command line of a server whose rows have no hashes."""


def measure(*, quick: bool, builds: Sequence[Build]) -> list[Figure]:
    """Join members from many clients at once, at all servers in turns."""
    rounds, each = (3, 20) if quick else (15, 200)
    numbers = count()
    with ExitStack() as stack:
        servers = {"without hashes": _server(stack, NOW, program=UNCHAINED)}
        servers |= {build.name: _server(stack, build) for build in builds}
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in servers}
        for _ in range(rounds):
            for name, server in servers.items():
                found[name].append(_round(server, next(numbers), each))
    figures = []
    here = found.pop(NOW.name)
    for name, others in found.items():
        for place, what in enumerate(("processor time", "time")):
            ratio = statistics.median(now[place] / other[place] for now, other in zip(here, others, strict=True))
            target = TARGET if what == "processor time" else None
            micros = statistics.median(now[place] for now in here) * 1e6
            note = f"{micros:,.0f} us a join, {CLIENTS} clients"
            figures.append(Figure(f"{what} of a join against {name}", ratio, target, "x", note=note))
    return figures


def _server(stack: ExitStack, build: Build, *, program: Sequence[str] = SHADOWTREE) -> ServerProcess:
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    (server,) = stack.enter_context(name_servers(folder, [[SUBNET]], build=build, program=program))
    with Client(server.address) as client:
        for number in range(CLIENTS):
            client.create_group(f"busy-{number}@{SUBNET}")
    return server


def _round(server: ServerProcess, number: int, each: int) -> tuple[float, float]:
    """Return the processor time of the server and the time of a join, in seconds."""

    async def one_client(client: int) -> None:
        async with aio.Client(server.address) as names:
            for member in range(each):
                await names.join(f"busy-{client}@{SUBNET}", f"m-{number}-{member}@people.example", kind="process")

    async def all_clients() -> None:
        await asyncio.gather(*map(one_client, range(CLIENTS)))

    before = server.processor_seconds()
    seconds = timed(lambda: asyncio.run(all_clients()))
    joins = CLIENTS * each
    return (server.processor_seconds() - before) / joins, seconds / joins
