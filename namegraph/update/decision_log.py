"""Outcomes that this server decided or applied, and that another participant may miss.

A participant that is ready never decides alone. A server that has decided or applied an update knows that it was
decided. With the whole outcome it can let the others finish when a view ends. The coordinator keeps the outcome until
all are done, a participant until it hears of that, in case the coordinator is lost. Either forgets it when a later view
is open: all members of that view have finished the update, and all other servers settle it by arc versions.

Source: protocol.md sections 6 and 7.
"""

from __future__ import annotations

from namegraph.model.names import ServerId
from namegraph.state.durable_maps import BYTES, UPDATES, DurableMap, DurableState
from namegraph.wire.message_parts import UpdateId

DECIDED = "decided"
"""Rows: an outcome by update."""


class DecisionLog:
    """The outcomes one server keeps for others."""

    def __init__(self, durable: DurableState) -> None:
        self._kept = DurableMap(durable, DECIDED, UPDATES, BYTES)
        self._before_view: dict[UpdateId, None] = {}
        """Those that were kept when the present view was installed."""

    def keep(self, update_id: UpdateId, outcome: bytes) -> None:
        """Keep an encoded outcome."""
        self._kept[update_id] = outcome

    def outcome(self, update_id: UpdateId) -> bytes:
        """What is kept of an update."""
        return self._kept[update_id]

    def forget(self, update_id: UpdateId) -> None:
        """All participants are done with an update that this server coordinates."""
        self._kept.pop(update_id, None)

    def over(self, coordinator: ServerId, below: int) -> None:
        """A coordinator's updates with numbers below this are done everywhere."""
        for update_id in [one for one in self._kept if one.coordinator == coordinator and one.number < below]:
            del self._kept[update_id]

    def all_kept(self) -> list[tuple[UpdateId, bytes]]:
        """What is kept, sorted by update."""
        return sorted(self._kept.items())

    def installed(self) -> None:
        """A view was installed: what is kept is from before it."""
        self._before_view = dict.fromkeys(self._kept)

    def opened(self) -> None:
        """All members of the view have installed it."""
        for update_id in self._before_view:
            self._kept.pop(update_id, None)
        self._before_view = {}
