"""Outcomes that this server decided or applied, and that another participant may lack.

A participant that is ready never decides alone. A server that has decided or applied an update knows that it was
decided. With the whole outcome it can let the other servers finish when a view ends. The coordinator keeps the
outcome until all are done. A participant keeps it until it hears of that, in case the coordinator is lost. Both
forget it when a later view is open: all members of that view have then finished the update, and all other servers
settle it by arc versions.

Source: docs/protocol-updates.md, "The outcome"; docs/protocol-partitions.md, "Views".
"""

from __future__ import annotations

from namegraph.model.names import ServerId
from namegraph.state.durable_maps import BYTES, UPDATES, DurableMap, DurableState
from namegraph.wire.message_parts import UpdateId

DECIDED = "decided"
"""Rows: an outcome, by update."""


class DecisionLog:
    """The outcomes that one server keeps for other servers."""

    def __init__(self, durable: DurableState) -> None:
        self._kept = DurableMap(durable, DECIDED, UPDATES, BYTES)
        self._before_view: dict[UpdateId, None] = {}
        """Updates whose outcomes were kept when the present view was installed."""

    def keep(self, update_id: UpdateId, outcome: bytes) -> None:
        """Keep an encoded outcome."""
        self._kept[update_id] = outcome

    def outcome(self, update_id: UpdateId) -> bytes:
        """Return the kept outcome of an update."""
        return self._kept[update_id]

    def forget(self, update_id: UpdateId) -> None:
        """Forget the outcome of an update of this coordinator, because all participants are done."""
        self._kept.pop(update_id, None)

    def over(self, coordinator: ServerId, below: int) -> None:
        """Forget a coordinator's outcomes with numbers below this, because they are done everywhere."""
        for update_id in [one for one in self._kept if one.coordinator == coordinator and one.number < below]:
            del self._kept[update_id]

    def all_kept(self) -> list[tuple[UpdateId, bytes]]:
        """Return all kept outcomes, sorted by update."""
        return sorted(self._kept.items())

    def installed(self) -> None:
        """Record that a view was installed. All kept outcomes are from before it."""
        self._before_view = dict.fromkeys(self._kept)

    def opened(self) -> None:
        """Forget outcomes from before the view, because all its members have installed it."""
        for update_id in self._before_view:
            self._kept.pop(update_id, None)
        self._before_view = {}
