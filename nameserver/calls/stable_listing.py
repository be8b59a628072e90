"""Reads long lists off one state of the graph while others are served."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from nameserver.driver.run_loop import RunLoop
from nameserver.wire.chunk_cache import chunks_of

UNDISTURBED_ATTEMPTS = 3
"""Collections that are begun again because an update came between; the next one is done without a pause."""

ROWS_OF_A_CHUNK = 8_000
"""Rows of two names; collecting so many takes some 10 ms, after which others are served."""

Row = TypeVar("Row")


async def steady_chunks(
    begin: Callable[[], Iterable[Row]], encode: Callable[[Sequence[Row]], bytes], run_loop: RunLoop
) -> list[bytes]:
    """All rows in serialized chunks; `begin` starts a reading, which is begun again when the graph changes."""
    for _ in range(UNDISTURBED_ATTEMPTS):
        steps_before = run_loop.step_count
        collected: list[bytes] = []
        for chunk in chunks_of(begin(), encode, ROWS_OF_A_CHUNK):
            collected.append(chunk)
            if len(collected) > 1:
                await asyncio.sleep(0)
                if run_loop.step_count != steps_before:
                    break
        else:
            return collected
    return list(chunks_of(begin(), encode, ROWS_OF_A_CHUNK))
