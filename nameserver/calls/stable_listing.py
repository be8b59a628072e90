"""Reads long lists off one state of the graph while others are served."""

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
"""Collections that are begun again because an update came between; the next one is done without a pause."""

ROWS_OF_A_CHUNK = 4_000
"""Rows of two names; collecting so many takes some 5 ms, after which others are served."""

TURN_SECONDS = 0.002
"""From so long on others are served first. Most of what comes in slices is done within it, and then costs no turn."""

Item = TypeVar("Item")
Row = TypeVar("Row")
Made = TypeVar("Made")


async def groups_sorted(order: GroupOrder) -> None:
    """Sort the groups of this server, so that listing them takes no time; others are served meanwhile."""
    await filled(order.fill())


async def filled(slices: Iterable[object]) -> None:
    """Have all slices done; others are served between them, once some have taken long enough together."""
    since = time.perf_counter()
    for _ in slices:
        if time.perf_counter() - since > TURN_SECONDS:
            await asyncio.sleep(0)
            since = time.perf_counter()
    if time.perf_counter() - since > TURN_SECONDS / 2:
        await asyncio.sleep(0)  # What follows takes its time, too.


async def made(slices: Slices[Made]) -> Made:
    """The same; returns what they make."""
    found: list[Made] = []

    def to_the_end() -> Iterator[int]:
        found.append((yield from slices))

    await filled(to_the_end())
    return found[0]


async def steady_chunks(
    begin: Callable[[], Iterable[Row]], encode: Callable[[Sequence[Row]], bytes], run_loop: RunLoop
) -> list[bytes]:
    """As `steady`, for rows: all of them in serialized chunks."""
    return await steady(lambda: chunks_of(begin(), encode, ROWS_OF_A_CHUNK), run_loop)


async def steady(begin: Callable[[], Iterable[Item]], run_loop: RunLoop) -> list[Item]:
    """All items; `begin` starts a reading, which is begun again when the graph changes. Others are served between."""
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
