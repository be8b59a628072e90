"""Asks servers at a steady pace, in a process of its own, and records the time of each answer.

A question is asked when it is due, even if earlier questions have no answer. A server that is silent for a second
delays all questions of that second, and each of them counts.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import cycle
from typing import NamedTuple

from shadowtree import aio


class Answer(NamedTuple):
    """Time of a question, on the clock that all processes share, and the seconds until its answer."""

    asked: float
    seconds: float
    is_check: bool
    """False for the answer of a resolve."""


class Probe:
    """The process that asks."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def end(self) -> list[Answer]:
        """End the process. Return all answers."""
        said, _ = self._process.communicate("", timeout=60)
        return [Answer(*each) for each in json.loads(said)]


@contextmanager
def probing(questions: Mapping[str, Sequence[tuple[str, str]]], *, seconds: float) -> Iterator[Probe]:
    """Check pairs (group, member) at the server of each address, one check every `seconds`.

    A group with an empty member is resolved.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.probe"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        process.stdin.write(json.dumps([dict(questions), seconds]) + "\n")
        process.stdin.flush()
        assert process.stdout.readline() == "asking\n"
        yield Probe(process)
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


async def _ask_all(questions: Mapping[str, Sequence[tuple[str, str]]], seconds: float) -> list[Answer]:
    over = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    print("asking", flush=True)
    found: list[Answer] = []
    await asyncio.gather(*(_ask(address, pairs, seconds, over, found) for address, pairs in questions.items()))
    return found


async def _ask(
    address: str,
    pairs: Sequence[tuple[str, str]],
    seconds: float,
    over: asyncio.Future[str],
    found: list[Answer],
) -> None:
    async with aio.Client(address, timeout=120) as names:

        async def one(group: str, member: str) -> None:
            asked = time.monotonic()
            await (names.check(group, member) if member else names.resolve(group))
            found.append(Answer(asked, time.monotonic() - asked, bool(member)))

        under_way: set[asyncio.Task[None]] = set()
        due = time.monotonic()
        for pair in cycle(pairs):
            if over.done():
                break
            due += seconds
            await asyncio.sleep(due - time.monotonic())
            task = asyncio.ensure_future(one(*pair))
            under_way.add(task)
            task.add_done_callback(under_way.discard)
        await asyncio.gather(*under_way)


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_ask_all(*json.loads(sys.stdin.readline())))))
