"""Deferred freeing of the objects that large steps leave behind, so that no turn of the event loop takes long."""

from __future__ import annotations

import asyncio

from namegraph import LeftBehind

FREED_AT_ONCE = 5_000
"""Small objects, such as the arcs of a node, that are freed in one turn: a millisecond or two."""


class Leavings:
    """Objects without users. Each turn of the event loop frees some of them."""

    def __init__(self) -> None:
        self._waiting: list[LeftBehind] = []

    def add(self, left: LeftBehind) -> None:
        """Free these objects too. Both lists are emptied. The caller drops all other references to their content."""
        is_idle = not self._waiting
        self._waiting.append(left)
        if is_idle:
            asyncio.get_running_loop().call_soon(self._free_some)

    def _free_some(self) -> None:
        large, small = self._waiting[-1]
        if large:
            large.pop()
        elif small:
            del small[-FREED_AT_ONCE:]
        else:
            self._waiting.pop()
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._free_some)
