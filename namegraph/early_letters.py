"""Letters of a view that this server is not in yet: kept until it is, or forgotten when a later one is installed.

Each server installs a view when it hears of it from the leader; what another member says in it may be here before that.
Letters of views that are over are not kept at all: all that they spoke of has ended.

Source: protocol.md section 7, *Views*.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from namegraph.message_parts import ViewId
from namegraph.messages import Message, decode
from namegraph.names import ServerId
from namegraph.records import ProtocolRow
from namegraph.site import Site

EARLY = "early letter"
"""Rows: a letter by the order in which they came."""


class _Early(NamedTuple):
    view: ViewId
    sender: ServerId
    encoded: bytes


class EarlyLetters:
    """The letters that one server keeps."""

    def __init__(self) -> None:
        self._kept: dict[int, _Early] = {}
        self._next = 0
        self._changed: dict[int, None] = {}

    def keep(self, view: ViewId, sender: ServerId, encoded: bytes, *, site: Site) -> None:
        """Keep a letter, if its view may still be installed here."""
        if view > site.view and view >= site.promised:
            self._kept[self._next] = _Early(view, sender, encoded)
            self._changed[self._next] = None
            self._next += 1

    def has_come(self, site: Site) -> bool:
        """Whether there is something to take, or to forget."""
        return not site.is_frozen and any(early.view <= site.view for early in self._kept.values())

    def take(self, site: Site) -> list[tuple[ServerId, Message]]:
        """What was said in the present view, in the order in which it came."""
        if not self.has_come(site):
            return []
        found = []
        for number, early in list(self._kept.items()):
            if early.view <= site.view:
                del self._kept[number]
                self._changed[number] = None
            if early.view == site.view:
                found.append((early.sender, decode(early.encoded)))
        return found

    def take_rows(self) -> list[ProtocolRow]:
        """The rows that changed since this was last asked."""
        rows = []
        for number in self._changed:
            early = self._kept.get(number)
            rows.append(ProtocolRow(EARLY, str(number), None if early is None else _ENCODER.encode(early)))
        self._changed = {}
        return rows

    def restore(self, rows: Iterable[ProtocolRow]) -> None:
        """Take up what was kept."""
        found = {int(row.key): _DECODER.decode(row.value or b"") for row in rows if row.part == EARLY}
        self._kept = dict(sorted(found.items()))
        self._next = max(found, default=-1) + 1


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(_Early)
