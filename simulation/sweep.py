"""Runs many seeds on some processor cores. Each seed is a run of its own and replays alone."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial

from simulation.cluster.failures import FAULTS
from simulation.hostile import run_hostile_seed
from simulation.run import SeedRun, Tally

SEEDS_OF_A_TASK = 4
"""Number of seeds handed to a process at once. It is low, so that all processes are busy until the end."""

OBJECTS_BETWEEN_COLLECTIONS = 50_000
"""Threshold of the garbage collector. A seed leaves few objects in cycles.

A collection after every 700 objects, which is Python's default, takes 7 % of a plain seed's time.
"""


@dataclass(frozen=True, slots=True)
class SeedResult:
    """Result of one seed: its tally, or its failure."""

    seed: int
    tally: Tally | None
    failure: str = ""
    fingerprint: str = ""
    """Hash over all effects until the seed ended or failed, in 16 hexadecimal digits. Empty if not asked for."""


def sweep(
    seeds: Iterable[int],
    *,
    servers: int | None,
    updates: int | None,
    faults: bool,
    jobs: int,
    messages: bool = False,
    hostile: bool = False,
    has_fingerprint: bool = False,
) -> Iterator[SeedResult]:
    """Run seeds, `jobs` at a time. Yield their results in order.

    `hostile`: True if one server of each seed lies. `has_fingerprint`: True if the results have a fingerprint.
    """
    run = partial(
        _run, servers=servers, updates=updates, faults=faults, messages=messages, has_fingerprint=has_fingerprint
    )
    if hostile:
        run = partial(_run_hostile, updates=updates)
    if jobs == 1:
        yield from map(run, seeds)
        return
    with ProcessPoolExecutor(jobs, initializer=gc.set_threshold, initargs=(OBJECTS_BETWEEN_COLLECTIONS,)) as processes:
        yield from processes.map(run, seeds, chunksize=SEEDS_OF_A_TASK)


def has_composites(*, faults: bool, messages: bool) -> bool:
    """Return True if clients of such seeds rename groups, take names over and leave everywhere."""
    return not (faults or messages)


def _run(
    seed: int, *, servers: int | None, updates: int | None, faults: bool, messages: bool, has_fingerprint: bool
) -> SeedResult:
    composites = has_composites(faults=faults, messages=messages)
    run = SeedRun(seed, servers=servers, updates=updates, faults=faults, messages=messages, composites=composites)
    fingerprint = run.take_fingerprint() if has_fingerprint else None
    tally, failure = None, ""
    try:
        tally = run.run()
    except FAULTS as error:
        failure = f"{type(error).__name__}: {error}"
    return SeedResult(seed, tally, failure, fingerprint.hexdigest() if fingerprint is not None else "")


def _run_hostile(seed: int, *, updates: int | None) -> SeedResult:
    try:
        return SeedResult(seed, run_hostile_seed(seed, updates=updates))
    except FAULTS as error:
        return SeedResult(seed, None, f"{type(error).__name__}: {error}")
