"""Letters of a view that this server is not in yet, kept until it is, or until a later view is installed.

Each server installs a view when its leader announces it. Letters of another member in that view may arrive here
before. Letters of ended views are not kept at all, because everything that they refer to has ended.

Source: docs/protocol-partitions.md, "Views".
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from namegraph.model.names import ServerId
from namegraph.state.context import ServerContext
from namegraph.state.durable_maps import NUMBERS, DurableMap, DurableState, packed
from namegraph.wire.codec import Message, decode
from namegraph.wire.message_parts import ViewId

EARLY = "early letter"
"""Rows: a letter, by order of arrival."""


LETTERS_LIMIT = 10_000
"""Letters kept of one sender: those that its clients and healing cause in the moments before the view is installed
here."""

BYTES_LIMIT = 32 * 1024 * 1024
"""Bytes of the kept letters of one sender, in memory and on disk."""


class _Early(NamedTuple):
    view: ViewId
    sender: ServerId
    encoded: bytes


class FutureViewBuffer:
    """The letters that one server keeps."""

    def __init__(self, durable: DurableState) -> None:
        self._kept = DurableMap(durable, EARLY, NUMBERS, packed(_Early))
        self._next = max(self._kept, default=-1) + 1
        self._letters: Counter[ServerId] = Counter(early.sender for early in self._kept.values())
        self._bytes: Counter[ServerId] = Counter()
        for early in self._kept.values():
            self._bytes[early.sender] += len(early.encoded)

    def keep(self, view: ViewId, sender: ServerId, encoded: bytes, *, context: ServerContext) -> bool:
        """Keep a letter, if its view may still be installed here. Return False if too many letters of its sender are
        kept."""
        if not (view > context.view and view >= context.promised):
            return True
        if self._letters[sender] >= LETTERS_LIMIT or self._bytes[sender] + len(encoded) > BYTES_LIMIT:
            return False
        self._letters[sender] += 1
        self._bytes[sender] += len(encoded)
        self._kept[self._next] = _Early(view, sender, encoded)
        self._next += 1
        return True

    def has_come(self, context: ServerContext) -> bool:
        """Return True if there are letters to take, or to forget."""
        return (
            bool(self._kept)
            and not context.view_change_in_progress
            and any(early.view <= context.view for early in self._kept.values())
        )

    def take(self, context: ServerContext) -> list[tuple[ServerId, Message]]:
        """Remove and return the letters of the present view, in order of arrival. Letters of ended views are
        forgotten."""
        if not self.has_come(context):
            return []
        found = []
        for number, early in list(self._kept.items()):
            if early.view <= context.view:
                del self._kept[number]
                self._letters[early.sender] -= 1
                self._bytes[early.sender] -= len(early.encoded)
            if early.view == context.view:
                found.append((early.sender, decode(early.encoded)))
        return found
