"""Reading of long lists from one state of the graph while other calls are served."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from namegraph import Slices
from nameserver.driver.run_loop import RunLoop
from nameserver.wire.chunk_cache import chunks_of
from resolver.group_order import GroupOrder

UNDISTURBED_ATTEMPTS = 3
"""Most attempts that an update may interrupt. The next attempt runs without a pause."""

ROWS_OF_A_CHUNK = 4_000
"""Rows of two names in one chunk. Collecting as many takes some 5 ms, after which other calls are served."""

TURN_SECONDS = 0.002
"""Work after which other calls are served first. Most slices finish within this time, and then cost no turn."""

Item = TypeVar("Item")
Row = TypeVar("Row")
Made = TypeVar("Made")


async def groups_sorted(order: GroupOrder) -> None:
    """Sort the groups of this server, so that listing them takes no time. Other calls are served meanwhile."""
    await filled(order.fill())


async def filled(slices: Iterable[object]) -> None:
    """Do all slices. Other calls are served in between, once the slices have taken long enough."""
    since = time.perf_counter()
    for _ in slices:
        if time.perf_counter() - since > TURN_SECONDS:
            await asyncio.sleep(0)
            since = time.perf_counter()
    if time.perf_counter() - since > TURN_SECONDS / 2:
        await asyncio.sleep(0)  # The caller's next work takes its time, too.


async def made(slices: Slices[Made]) -> Made:
    """Do all slices, as `filled` does. Return their result."""
    found: list[Made] = []

    def to_the_end() -> Iterator[int]:
        found.append((yield from slices))

    await filled(to_the_end())
    return found[0]


async def steady_chunks(
    begin: Callable[[], Iterable[Row]], encode: Callable[[Sequence[Row]], bytes], run_loop: RunLoop
) -> list[bytes]:
    """Return all rows in serialized chunks, as `steady` does."""
    return await steady(lambda: chunks_of(begin(), encode, ROWS_OF_A_CHUNK), run_loop)


async def steady(begin: Callable[[], Iterable[Item]], run_loop: RunLoop) -> list[Item]:
    """Return all items.

    `begin` starts a reading, again whenever the graph changes. Other calls are served in between.
    """
    for _ in range(UNDISTURBED_ATTEMPTS):
        steps_before = run_loop.step_count
        collected: list[Item] = []
        for item in begin():
            collected.append(item)
            if len(collected) > 1:
                await asyncio.sleep(0)
                if run_loop.step_count != steps_before:
                    break
        else:
            return collected
    return list(begin())
