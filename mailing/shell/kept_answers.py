"""Answers of the name service that are kept while they hold: the members of lists, as the maps tell them.

    asked for --> kept, fresh for a moment --> confirmed, fresh again ... --> something has changed: gone
                                               all with one basis at once

An answer is *fresh* if it was true at some instant of the last moment. Each answer has a basis, which the name server
confirms. One question confirms all answers with the same basis, that is, all answers that rest on the same servers.
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
"""Age up to which an answer is fresh, in seconds.

Postfix asks twice for each message: when it is told of a recipient, and when it puts the message into its queue.
"""
CONFIRMED_AGAIN_SECONDS = 0.05
"""Age at which a fresh basis is confirmed again, in seconds. Frequent lookups therefore never wait for that."""
ANSWERS_LIMIT = 2_000
BYTES_LIMIT = 20_000_000
"""Most bytes of all answers. The answers that were asked for least lately go."""


Confirm = Callable[[str], Awaitable[bool]]
"""Function that asks the name server if the answers of a basis hold. Raises `ShadowtreeError`."""


class FreshAnswer(NamedTuple):
    """An answer that was just found."""

    content: bytes
    basis: str
    """Basis of the answer. Empty if nobody can tell if the answer goes on holding."""


class _Basis:
    """Basis of some answers."""

    def __init__(self, text: str, held_at: float, confirm: Confirm) -> None:
        """`text`: name of the basis. Empty if nobody can tell if its answers go on holding."""
        self._text = text
        self.held_at = held_at
        """Time not later than the last known instant at which the answers were true."""
        self.has_ended = False
        self._confirm = confirm
        self._confirming: asyncio.Task[None] | None = None

    def is_fresh(self) -> bool:
        """Return True if its answers may be given now. Starts a confirmation before they become too old."""
        age = time.monotonic() - self.held_at
        if self.has_ended or age > FRESH_SECONDS:
            return False
        if age > CONFIRMED_AGAIN_SECONDS and self._text:
            self._begin()
        return True

    async def becomes_fresh(self) -> bool:
        """Return True if its answers may be given to a caller who asks now. Waits for a confirmation if needed."""
        since = time.monotonic()
        while not self.has_ended and not self.is_fresh() and self.held_at < since:
            if not self._text:
                return False
            # A confirmation under way began before this call, perhaps too early.
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


class _KeptAnswer(NamedTuple):
    content: bytes
    basis: _Basis


class _AskedQuestion(NamedTuple):
    begun_at: float
    answer: asyncio.Task[bytes]


class KeptAnswers:
    """Answers by target."""

    def __init__(self, confirm: Confirm) -> None:
        self._confirm = confirm
        self._kept: OrderedDict[Target, _KeptAnswer] = OrderedDict()
        """Kept answers. The answers that were asked for least lately come first."""
        self._size = 0
        self._bases: dict[str, _Basis] = {}
        """Bases by text, for which some answers were kept."""
        self._asking: dict[Target, _AskedQuestion] = {}

    def fresh(self, target: Target) -> bytes | None:
        """Return the answer for a target if it may be given at once. None otherwise."""
        kept = self._kept.get(target)
        if kept is None or not kept.basis.is_fresh():
            return None
        self._kept.move_to_end(target)
        return kept.content

    async def answer(self, target: Target, ask: Callable[[], Coroutine[Any, Any, FreshAnswer]]) -> bytes:
        """Return the answer for a target: the kept answer once it is confirmed, or the result of `ask`, which never
        raises.
        """
        kept = self._kept.get(target)
        if kept is not None and await kept.basis.becomes_fresh() and self._kept.get(target) is kept:
            self._kept.move_to_end(target)
            return kept.content
        asking = self._asking.get(target)
        if asking is None or time.monotonic() > asking.begun_at + FRESH_SECONDS:
            begun_at = time.monotonic()
            asking = _AskedQuestion(begun_at, asyncio.create_task(self._ask(target, ask, begun_at)))
            self._asking[target] = asking
        return await asyncio.shield(asking.answer)

    def clear(self) -> None:
        """Forget all answers, and do not keep the answers of questions under way."""
        self._kept.clear()
        self._bases.clear()
        self._asking.clear()
        self._size = 0

    async def _ask(self, target: Target, ask: Callable[[], Coroutine[Any, Any, FreshAnswer]], begun_at: float) -> bytes:
        found = await ask()
        asking = self._asking.get(target)
        if asking is not None and asking.begun_at == begun_at:
            del self._asking[target]
            self._keep(target, found, begun_at)
        return found.content

    def _keep(self, target: Target, found: FreshAnswer, begun_at: float) -> None:
        self._forget(target)
        self._kept[target] = _KeptAnswer(found.content, self._basis(found.basis, begun_at))
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
        # All answers with this basis held at that instant, too.
        basis.held_at = max(basis.held_at, begun_at)
        return basis
