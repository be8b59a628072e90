"""Deferred freeing of the objects that large steps leave behind, so that no turn of the event loop takes long."""

from __future__ import annotations

import asyncio
from typing import Any

FREED_AT_ONCE = 5_000
"""Objects, such as the arcs of a node, that are freed in one turn: a millisecond or two."""

FEW = 100
"""Objects of a list that are freed at once: most updates replace fewer."""

MANY_ENTRIES = 1_000
"""Entries from which a dictionary is not freed as one object: freeing very many with their dictionary takes 20 ms."""


class Leavings:
    """Objects without users. Each turn of the event loop frees some of them."""

    def __init__(self) -> None:
        self._waiting: list[list[Any]] = []
        self._loop = asyncio.get_running_loop()

    def add(self, *lists: list[Any]) -> None:
        """Free the objects of these lists too, from the end. The lists are emptied.

        The caller drops all other references to the objects.
        """
        is_idle = not self._waiting
        self._waiting += [each for each in lists if len(each) > FEW]
        if is_idle and self._waiting and not self._loop.is_closed():
            self._loop.call_soon(self._free_some)

    def _free_some(self) -> None:
        left = self._waiting[-1]
        some = left[-FREED_AT_ONCE:]
        del left[-FREED_AT_ONCE:]
        if not left:
            self._waiting.pop()
        self._waiting += [list(each.values()) for each in some if type(each) is dict and len(each) > MANY_ENTRIES]
        if self._waiting:
            self._loop.call_soon(self._free_some)
