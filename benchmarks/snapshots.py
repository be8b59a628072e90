"""A snapshot of the example graph on one server while updates go on: its duration, and the latency of the updates.

The snapshot is taken in a process of its own, as an auditor would. Otherwise the updaters would wait for its Python.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from itertools import count
from multiprocessing import get_context
from pathlib import Path

from benchmarks.report import Figure
from benchmarks.servers import EXAMPLE, connected, example_subnets
from shadowtree import Client, aio

UPDATERS = 4
"""Clients with one update at a time each. They never pause, so the server has no idle time for reading."""

_NEWCOMERS = count()


def measure(*, quick: bool) -> list[Figure]:
    """Measure updates alone, then updates beside a snapshot, in turns."""
    rounds = 1 if quick else 3
    alone: list[float] = []
    beside: list[float] = []
    durations = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with (
            connected(folder, subnets=example_subnets()) as (server, client),
            ProcessPoolExecutor(1, mp_context=get_context("spawn")) as auditor,
        ):
            client.import_file(EXAMPLE)
            groups = random.Random(1).sample(client.groups().groups, 2_000)
            auditor.submit(_take, server.address, folder).result()
            for _ in range(rounds):
                taken, latencies = asyncio.run(_snapshot_beside_updates(auditor, server.address, groups, folder))
                durations.append(taken)
                beside += latencies
                alone += asyncio.run(_updates(server.address, groups, seconds=max(taken, 3.0)))
    note = f"{_p99(beside) * 1e3:.1f} ms against {_p99(alone) * 1e3:.1f} ms, {len(beside):,} and {len(alone):,} updates"
    rates = len(beside) / sum(durations), len(alone) / sum(max(taken, 3.0) for taken in durations)
    return [
        Figure("snapshot of the example graph (454,565 arcs) beside updates", statistics.median(durations), 10, "s"),
        Figure("  updates meanwhile, p99, to those without it", _p99(beside) / _p99(alone), 2, "x", note=note),
        Figure(
            "  updates a second meanwhile, to those without it", rates[0] / rates[1], 0.3, "x", lower_is_better=False
        ),
    ]


def _take(address: str, folder: Path) -> float:
    begin = time.perf_counter()
    with Client(address) as client:
        client.snapshot(folder)
    return time.perf_counter() - begin


async def _snapshot_beside_updates(
    auditor: Executor, address: str, groups: Sequence[str], folder: Path
) -> tuple[float, list[float]]:
    """Return the seconds of the snapshot, and of each update that began meanwhile."""
    over = asyncio.Event()
    updaters = [asyncio.ensure_future(_update_until(over, address, groups, number)) for number in range(UPDATERS)]
    taken = await asyncio.get_running_loop().run_in_executor(auditor, _take, address, folder)
    over.set()
    return taken, [seconds for each in updaters for seconds in await each]


async def _updates(address: str, groups: Sequence[str], *, seconds: float) -> list[float]:
    over = asyncio.Event()
    asyncio.get_running_loop().call_later(seconds, over.set)
    each = await asyncio.gather(*(_update_until(over, address, groups, number) for number in range(UPDATERS)))
    return [seconds for latencies in each for seconds in latencies]


async def _update_until(over: asyncio.Event, address: str, groups: Sequence[str], number: int) -> list[float]:
    """Let new members join a group and leave it, again and again."""
    found = []
    chance = random.Random(number)
    async with aio.Client(address) as names:
        for each in _NEWCOMERS:
            group, member = chance.choice(groups), f"u-{each}@people.example"
            for change in (names.join, names.leave):
                begin = time.perf_counter()
                await change(group, member, kind="process")
                found.append(time.perf_counter() - begin)
                if over.is_set():
                    return found
    raise AssertionError("there are always more")


def _p99(latencies: Sequence[float]) -> float:
    return statistics.quantiles(latencies, n=100)[98]
