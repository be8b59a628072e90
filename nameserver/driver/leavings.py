"""Frees what large steps leave behind, so that no turn of the event loop takes long."""

from __future__ import annotations

import asyncio

from namegraph import LeftBehind

FREED_AT_ONCE = 5_000
"""Small objects, such as the arcs of a node: a millisecond or two."""


class Leavings:
    """What nobody needs any more: some of it is freed in each turn of the loop."""

    def __init__(self) -> None:
        self._waiting: list[LeftBehind] = []

    def add(self, left: LeftBehind) -> None:
        """Free this too. Both lists are emptied; the caller drops all else that holds what is in them."""
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
