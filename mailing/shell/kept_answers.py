"""Answers of the name service that are kept while they hold: who is in lists, as the maps tell it.

    asked for --> kept, fresh for a moment --> confirmed, fresh again ... --> something has changed: gone
                                               all with one basis at once

An answer is *fresh* if it was the true one at some instant of the last moment. Each has a basis, which the name server
confirms: one question for all answers that have the same one, that is, for those that rest on the same servers.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, NamedTuple

from shadowtree.errors import ShadowtreeError
from shadowtree.updates import Target

FRESH_SECONDS = 0.1
"""Postfix asks twice for each message, when it is told of a recipient and when it puts the message into its queue."""
CONFIRMED_AGAIN_SECONDS = 0.05
"""After so long a basis is confirmed, while it is fresh: lookups that come all the time never wait for that."""
ANSWERS_LIMIT = 2_000
BYTES_LIMIT = 20_000_000
"""Of all answers; those that were asked for least lately go."""


Confirm = Callable[[str], Awaitable[bool]]
"""Asks the name server whether the answers of a basis hold; raises `ShadowtreeError`."""


class Asked(NamedTuple):
    """What was just found out."""

    content: bytes
    basis: str
    """Empty, where it cannot be told whether it goes on holding."""


class _Basis:
    """What some answers rest on."""

    def __init__(self, text: str, held_at: float, confirm: Confirm) -> None:
        """`text`: empty, where it cannot be told whether its answers go on holding."""
        self._text = text
        self.held_at = held_at
        """The answers were the true ones at some instant since; it is not later than that."""
        self.has_ended = False
        self._confirm = confirm
        self._confirming: asyncio.Task[None] | None = None

    def is_fresh(self) -> bool:
        """Whether its answers may be given now; has it confirmed again before they may not."""
        age = time.monotonic() - self.held_at
        if self.has_ended or age > FRESH_SECONDS:
            return False
        if age > CONFIRMED_AGAIN_SECONDS and self._text:
            self._begin()
        return True

    async def becomes_fresh(self) -> bool:
        """Find out whether its answers may be given to one who asks now."""
        since = time.monotonic()
        while not self.has_ended and not self.is_fresh() and self.held_at < since:
            if not self._text:
                return False
            # What was under way began before, perhaps too early.
            await asyncio.shield(self._begin())
        return not self.has_ended

    def _begin(self) -> asyncio.Task[None]:
        if self._confirming is None:
            self._confirming = asyncio.create_task(self._ask())
        return self._confirming

    async def _ask(self) -> None:
        asked_at = time.monotonic()
        try:
            holds = await self._confirm(self._text)
        except ShadowtreeError:
            holds = False
        self._confirming = None
        self.held_at, self.has_ended = asked_at if holds else self.held_at, not holds


class _Kept(NamedTuple):
    content: bytes
    basis: _Basis


class _Asking(NamedTuple):
    begun_at: float
    answer: asyncio.Task[bytes]


class KeptAnswers:
    """Answers by target."""

    def __init__(self, confirm: Confirm) -> None:
        self._confirm = confirm
        self._kept: OrderedDict[Target, _Kept] = OrderedDict()
        """Those that were asked for least lately come first."""
        self._size = 0
        self._bases: dict[str, _Basis] = {}
        """By text, those that some answers were kept for."""
        self._asking: dict[Target, _Asking] = {}

    def fresh(self, target: Target) -> bytes | None:
        """The answer for a target, where it may be given at once."""
        kept = self._kept.get(target)
        if kept is None or not kept.basis.is_fresh():
            return None
        self._kept.move_to_end(target)
        return kept.content

    async def answer(self, target: Target, ask: Callable[[], Coroutine[Any, Any, Asked]]) -> bytes:
        """The answer for a target: what is kept, once it is confirmed, or what `ask`, which never raises, finds."""
        kept = self._kept.get(target)
        if kept is not None and await kept.basis.becomes_fresh() and self._kept.get(target) is kept:
            self._kept.move_to_end(target)
            return kept.content
        asking = self._asking.get(target)
        if asking is None or time.monotonic() > asking.begun_at + FRESH_SECONDS:
            begun_at = time.monotonic()
            asking = _Asking(begun_at, asyncio.create_task(self._ask(target, ask, begun_at)))
            self._asking[target] = asking
        return await asyncio.shield(asking.answer)

    def clear(self) -> None:
        """Forget all of them, and do not keep what is asked for now."""
        self._kept.clear()
        self._bases.clear()
        self._asking.clear()
        self._size = 0

    async def _ask(self, target: Target, ask: Callable[[], Coroutine[Any, Any, Asked]], begun_at: float) -> bytes:
        found = await ask()
        asking = self._asking.get(target)
        if asking is not None and asking.begun_at == begun_at:
            del self._asking[target]
            self._keep(target, found, begun_at)
        return found.content

    def _keep(self, target: Target, found: Asked, begun_at: float) -> None:
        self._forget(target)
        self._kept[target] = _Kept(found.content, self._basis(found.basis, begun_at))
        self._size += len(found.content)
        while len(self._kept) > ANSWERS_LIMIT or self._size > BYTES_LIMIT:
            self._forget(next(iter(self._kept)))

    def _forget(self, target: Target) -> None:
        kept = self._kept.pop(target, None)
        if kept is not None:
            self._size -= len(kept.content)

    def _basis(self, text: str, begun_at: float) -> _Basis:
        if not text:
            return _Basis("", begun_at, self._confirm)
        basis = self._bases.get(text)
        if basis is None or basis.has_ended:
            if len(self._bases) > ANSWERS_LIMIT:
                used = {kept.basis for kept in self._kept.values()}
                self._bases = {one: each for one, each in self._bases.items() if each in used}
            basis = self._bases[text] = _Basis(text, begun_at, self._confirm)
        # All that rests on it held at that instant, too.
        basis.held_at = max(basis.held_at, begun_at)
        return basis
