"""Runs of inputs in processes of their own, so that no fault of a library in C ends the whole run."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import NamedTuple

from tests.fuzzing.engine import Failure, Tally, input_of, kept_inputs, run, shortened
from tests.fuzzing.targets import TARGETS

INPUTS_OF_A_CHUNK = 20_000
"""Inputs that one process gets at once. A process starts in a second or two, and a slow leak has time to show."""


class Chunk(NamedTuple):
    """Consecutive inputs of one target."""

    target: str
    seed: int
    first: int
    inputs: int


def tallies_of(chunks: list[Chunk], jobs: int) -> Iterator[tuple[Chunk, Tally]]:
    """Yield the chunks as they are done. A chunk that ends its process is divided until the input is found."""
    # A process for each chunk: what one target leaves behind is not counted for another one.
    spawning = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=spawning, max_tasks_per_child=1) as processes:
        futures = [(chunk, processes.submit(fuzzed, chunk)) for chunk in chunks]
        broken = []
        for chunk, future in futures:
            try:
                yield chunk, future.result()
            except BrokenProcessPool:
                broken.append(chunk)
    for chunk in broken:
        yield from _divided(chunk)


def _divided(chunk: Chunk) -> Iterator[tuple[Chunk, Tally]]:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
        future = process.submit(fuzzed, chunk)
        if not isinstance(future.exception(), BrokenProcessPool):
            yield chunk, future.result()
            return
    if chunk.inputs > 1:
        half = chunk.inputs // 2
        yield from _divided(chunk._replace(inputs=half))
        yield from _divided(chunk._replace(first=chunk.first + half, inputs=chunk.inputs - half))
        return
    target = TARGETS[chunk.target]
    data = input_of(target, kept_inputs(target), chunk.seed, chunk.first)
    what = "the process ended (a fault of a library in C, or no memory)"
    yield chunk, Tally(1, failures=[Failure(chunk.target, what, "", data, chunk.seed, chunk.first)])


def fuzzed(chunk: Chunk) -> Tally:
    """Run a chunk, and shorten the inputs that failed."""
    target = TARGETS[chunk.target]
    tally = run(target, seed=chunk.seed, inputs=chunk.inputs, first=chunk.first)
    tally.failures = [shortened(target, failure) if failure.data else failure for failure in tally.failures]
    return tally
