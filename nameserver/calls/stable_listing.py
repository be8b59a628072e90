"""Reading of long lists while other calls are served."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from namegraph import Slices
from nameserver.wire.chunk_cache import chunks_of
from resolver.group_order import GroupOrder

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


async def in_chunks(rows: Iterable[Row], encode: Callable[[Sequence[Row]], bytes]) -> list[bytes]:
    """Return all rows of a kept state in serialized chunks, as `collected` does."""
    return await collected(chunks_of(rows, encode, ROWS_OF_A_CHUNK))


async def collected(items: Iterable[Item]) -> list[Item]:
    """Return all items, of a kept state. Other calls are served in between."""
    found: list[Item] = []
    for item in items:
        if found:
            await asyncio.sleep(0)
        found.append(item)
    return found
