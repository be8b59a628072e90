"""Many seeds, on as many processor cores as wanted; each seed is a run of its own and replays alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial

from simulation.cluster.failures import FAULTS
from simulation.run import SeedRun, Tally

SEEDS_OF_A_TASK = 4
"""Handed to a process at once: few, so that all are busy until the end."""


@dataclass(frozen=True, slots=True)
class SeedResult:
    """What became of one seed: its tally, or what failed."""

    seed: int
    tally: Tally | None
    failure: str = ""


def sweep(
    seeds: Iterable[int],
    *,
    servers: int | None,
    updates: int | None,
    faults: bool,
    jobs: int,
    messages: bool = False,
) -> Iterator[SeedResult]:
    """Run seeds, `jobs` at a time; yield their results in order."""
    run = partial(_run, servers=servers, updates=updates, faults=faults, messages=messages)
    if jobs == 1:
        yield from map(run, seeds)
        return
    with ProcessPoolExecutor(jobs) as processes:
        yield from processes.map(run, seeds, chunksize=SEEDS_OF_A_TASK)


def _run(seed: int, *, servers: int | None, updates: int | None, faults: bool, messages: bool) -> SeedResult:
    try:
        run = SeedRun(seed, servers=servers, updates=updates, faults=faults, messages=messages)
        return SeedResult(seed, run.run())
    except FAULTS as error:
        return SeedResult(seed, None, f"{type(error).__name__}: {error}")
