"""Outcomes that this server applied and that another participant may miss, kept in case the coordinator is lost.

A participant that is ready never decides alone. A participant that has applied an update knows that it was decided.
With the whole outcome it can let the others finish when a view ends. It keeps the outcome until the coordinator says
that all are done, or until a later view is open: all members of that view have finished the update, and all other
servers settle it by arc versions.

Source: protocol.md sections 6 and 7.
"""

from __future__ import annotations

from collections.abc import Iterable

from namegraph.message_parts import UpdateId
from namegraph.names import ServerId
from namegraph.ordering import row_key
from namegraph.records import ProtocolRow

DECIDED = "decided"
"""Rows: an outcome by update."""


class DecidedUpdates:
    """The outcomes one server keeps for others."""

    def __init__(self) -> None:
        self._kept: dict[UpdateId, bytes] = {}
        self._before_view: dict[UpdateId, None] = {}
        """Those that were kept when the present view was installed."""
        self._changed: dict[UpdateId, None] = {}

    def keep(self, update_id: UpdateId, everything: bytes) -> None:
        """Keep an outcome."""
        self._kept[update_id] = everything
        self._changed[update_id] = None

    def over(self, coordinator: ServerId, below: int) -> None:
        """A coordinator's updates with numbers below this are done everywhere."""
        for update_id in [one for one in self._kept if one.coordinator == coordinator and one.number < below]:
            self._forget(update_id)

    def all_kept(self) -> list[tuple[UpdateId, bytes]]:
        """What is kept, sorted by update."""
        return sorted(self._kept.items())

    def installed(self) -> None:
        """A view was installed: what is kept is from before it."""
        self._before_view = dict.fromkeys(self._kept)

    def opened(self) -> None:
        """All members of the view have installed it."""
        for update_id in self._before_view:
            self._forget(update_id)
        self._before_view = {}

    def take_rows(self) -> list[ProtocolRow]:
        """The rows that changed since this was last asked."""
        rows = [ProtocolRow(DECIDED, row_key(update_id), self._kept.get(update_id)) for update_id in self._changed]
        self._changed = {}
        return rows

    def restore(self, rows: Iterable[ProtocolRow]) -> None:
        """Take up what was kept."""
        for row in rows:
            if row.part == DECIDED:
                assert row.value is not None
                number, _, coordinator = row.key.partition(" ")
                self._kept[UpdateId(ServerId(coordinator), int(number))] = row.value

    def _forget(self, update_id: UpdateId) -> None:
        if self._kept.pop(update_id, None) is not None:
            self._changed[update_id] = None
