"""Deferred freeing of the objects that large steps leave behind, so that no turn of the event loop takes long."""

from __future__ import annotations

import asyncio
from typing import Any

FREED_AT_ONCE = 5_000
"""Objects, such as the arcs of a node, that are freed in one turn: a millisecond or two."""


class Leavings:
    """Objects without users. Each turn of the event loop frees some of them."""

    def __init__(self) -> None:
        self._waiting: list[list[Any]] = []

    def add(self, left: list[Any]) -> None:
        """Free these objects too, from the end. The list is emptied. The caller drops all other references to them."""
        is_idle = not self._waiting
        self._waiting.append(left)
        if is_idle:
            asyncio.get_running_loop().call_soon(self._free_some)

    def _free_some(self) -> None:
        left = self._waiting[-1]
        del left[-FREED_AT_ONCE:]
        if not left:
            self._waiting.pop()
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._free_some)
