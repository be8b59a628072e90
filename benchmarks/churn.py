"""Memory and database of two servers while people join and leave a group of one of them, new people each time.

    the first server    has the group, and coordinates
    the second server   owns the people's names

State with a limit in updates is full before the count begins: answers to request ids, and the record of changes, which
the servers are told to keep short. So state that grows during the count grows for ever.

`python -m benchmarks.churn 10000000` makes that many joins and leaves, and prints the sizes as it goes.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks.report import Figure
from benchmarks.servers import CALL_SECONDS, ServerProcess, name_servers
from shadowtree import Client, Join, Leave, aio

BEGIN = 10_000
"""Joins and leaves before the sizes with which later sizes are compared."""
MANY = 1_000_000
MANY_QUICKLY = 50_000

PEOPLE = 250
"""People who join in one update. The people of the update before leave in it."""
UNCOUNTED_UPDATES = 200
"""Updates before the count begins."""

SUBNETS = ("crowd.example", "people.example")
GROUP = f"crowd@{SUBNETS[0]}"
SETTINGS = "changes_kept = 100\n"
ANSWERS = 100_000
"""Number of answers that a server remembers."""
CALLERS = 32
GROWTH_TARGET = 1.05


class Size(NamedTuple):
    """Sizes of one server."""

    memory: int
    """Resident memory in bytes."""
    database: int
    """Size of the file in bytes, without the log beside it, which is cut at 4 MiB."""


class Found(NamedTuple):
    """Sizes of both servers after some joins and leaves, and the joins and leaves a second."""

    changes: int
    sizes: tuple[Size, Size]
    rate: float


def measure(*, quick: bool) -> list[Figure]:
    """Compare the sizes of both servers with those after 10,000 joins and leaves."""
    found = list(sizes_after(MANY_QUICKLY if quick else MANY, answers=0 if quick else ANSWERS))
    first, last = found[0], found[-1]
    figures = []
    for number, who in enumerate(("that coordinates", "of the people")):
        for what in Size._fields:
            before, after = (getattr(each.sizes[number], what) / 1e6 for each in (first, last))
            about = (
                f"{what} of the server {who} after {last.changes:,} joins and leaves, to that after {first.changes:,}"
            )
            note = f"{before:.1f} MB, then {after:.1f} MB; {last.rate:,.0f} a second"
            figures.append(Figure(about, after / before, GROWTH_TARGET, "times", note=note))
    return figures


def sizes_after(last: int, *, answers: int) -> Iterator[Found]:
    """Yield the sizes after 10,000 joins and leaves, after every tenfold, and after the last."""
    with _servers() as (servers, folder), Client(servers[0].address, timeout=CALL_SECONDS) as client:
        client.create_group(GROUP)
        asyncio.run(_remembered(servers[0].address, answers))
        arrivals = itertools.count()
        for _ in range(UNCOUNTED_UPDATES):
            _arrive(client, next(arrivals))
        begun, changes, goal = time.monotonic(), 0, BEGIN
        while changes < last:
            _arrive(client, next(arrivals))
            changes += 2 * PEOPLE
            if changes >= min(goal, last):
                goal *= 10
                first, second = (
                    Size(server.resident_bytes(), (folder / f"{number}.db").stat().st_size)
                    for number, server in enumerate(servers)
                )
                yield Found(changes, (first, second), changes / (time.monotonic() - begun))


def _arrive(client: Client, arrival: int) -> None:
    """Let people join, and the people of the arrival before leave."""
    coming, leaving = (
        [f"{number}-{each}@{SUBNETS[1]}" for each in range(PEOPLE)] if number >= 0 else []
        for number in (arrival, arrival - 1)
    )
    client.apply([*(Leave(GROUP, name) for name in leaving), *(Join(GROUP, name) for name in coming)])


@contextmanager
def _servers() -> Iterator[tuple[list[ServerProcess], Path]]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with name_servers(folder, [[subnet] for subnet in SUBNETS], settings=SETTINGS) as servers:
            yield servers, folder


async def _remembered(address: str, answers: int) -> None:
    """Have a server answer `answers` updates."""

    async def ask(client: aio.Client, resident: str) -> None:
        for _ in range(answers // CALLERS // 2):
            await client.join(GROUP, resident)
            await client.leave(GROUP, resident)

    async with aio.Client(address, timeout=CALL_SECONDS) as client:
        await asyncio.gather(*(ask(client, f"{number}@{SUBNETS[0]}") for number in range(CALLERS)))


def main() -> None:
    """Print the sizes as they are found."""
    for changes, sizes, rate in sizes_after(int(sys.argv[1]), answers=ANSWERS):
        told = "; ".join(f"{size.memory / 1e6:.1f} MB, on disk {size.database / 1e6:.2f} MB" for size in sizes)
        print(f"{changes:>10,} joins and leaves: {told} ({rate:,.0f} a second)", flush=True)


if __name__ == "__main__":
    main()
