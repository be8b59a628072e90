"""Merge of sorted lists that come in pages from several servers.

It never holds more than a page of each.

    a  [ 1 4 9 ] [ ...           all items up to the smallest last one of the pages at hand (9, 7: so 7)
    b  [ 2 3 7 ] [ ...   ----->  can be given out: nothing smaller will come from anybody

An item that several servers give comes once.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import AsyncIterator, Sequence
from typing import Any, Protocol, TypeVar


class SortKey(Protocol):
    """Items that can be sorted."""

    def __lt__(self, other: Any, /) -> bool:
        """Return True if this item comes first."""


Item = TypeVar("Item", bound=SortKey)


class _ServerPages:
    """Pages of one server: the rest of the page at hand, and the end of the pages."""

    def __init__(self, pages: AsyncIterator[Sequence[Any]]) -> None:
        self._pages = pages
        self.items: Sequence[Any] = ()
        self.is_finished = False

    async def fill(self) -> None:
        """Get a page, or note the end of the pages."""
        while not self.items and not self.is_finished:
            try:
                self.items = await anext(self._pages)
            except StopAsyncIteration:
                self.is_finished = True

    def take_through(self, last: Any) -> Sequence[Any]:
        """Remove and return the items up to this one."""
        end = bisect_right(self.items, last)
        taken, self.items = self.items[:end], self.items[end:]
        return taken


async def merged(sources: Sequence[AsyncIterator[Sequence[Item]]]) -> AsyncIterator[list[Item]]:
    """Merge sorted pages into sorted lists without repetitions. Each source gives each item once."""
    going = [_ServerPages(pages) for pages in sources]
    while True:
        filling = (source.fill() for source in going if not source.items)
        for failure in await asyncio.gather(*filling, return_exceptions=True):
            if failure is not None:
                raise failure
        going = [source for source in going if not source.is_finished]
        if not going:
            return
        last = min(source.items[-1] for source in going)
        taken = [items for source in going if (items := source.take_through(last))]
        yield list(taken[0]) if len(taken) == 1 else sorted({item for items in taken for item in items})
