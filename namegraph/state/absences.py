"""Servers that are away: for how long, and for whom nothing that was left is kept any more.

    in a view without it --> time is counted while this server runs --> past the limit: overdue
    in one healed view with this one --> nothing is kept here of it

Only time that this server has seen pass counts: what it was down for does not, nor what a clock was set by. So each
server comes to its own conclusion, at its own time. What it forgets because of that, it notes (`ForgottenArcs`), and
holds against what the other one says when it is back, which need not know. But each says which of its arcs it joined
alone (`ArcDigest.unconfirmed`, `DigestReply.unconfirmed`): those the other one cannot have left.

Source: protocol.md, *Forgetting*.
"""

from __future__ import annotations

from collections.abc import Collection

from namegraph.model.names import ServerId
from namegraph.state.durable_maps import SERVERS, DurableMap, DurableState, packed

AWAY = "away"
"""Rows: for how many seconds a server has been away, by that."""

COUNTED_EVERY_SECONDS = 60.0
"""What a restart loses of the time at most, where steps are taken all the time."""


class Absences:
    """The servers that one server misses."""

    def __init__(self, durable: DurableState) -> None:
        self.limit_seconds: float | None = None
        """After so long a server is overdue; None: never."""
        self._of = DurableMap(durable, AWAY, SERVERS, packed(float))
        self._counted_at: dict[ServerId, float] = {}
        """Until when the time of those who are away is counted, on the clock of `step`'s `now`."""
        self._due_at = 0.0

    def count(self, absent: Collection[ServerId], now: float) -> None:
        """Add the time since this was last asked, to those who are away now; `now` is in seconds."""
        limit = self.limit_seconds
        self._due_at = now + (COUNTED_EVERY_SECONDS if limit is None else min(COUNTED_EVERY_SECONDS, limit / 10))
        for server in [server for server in self._counted_at if server not in absent]:
            del self._counted_at[server]
        for server in absent:
            seconds = now - self._counted_at.get(server, now)
            self._counted_at[server] = now
            if seconds > 0:
                self._of.put_off(server, self.seconds(server) + seconds)

    def is_due(self, now: float) -> bool:
        """Whether time is to be counted again."""
        return now >= self._due_at

    def is_over(self, server: ServerId) -> None:
        """A server has healed with this one, or was removed."""
        self._counted_at.pop(server, None)
        self._of.pop(server, None)

    def seconds(self, server: ServerId) -> float:
        """For how long a server has been away, as far as that was counted."""
        return self._of.get(server, 0.0)

    def is_overdue(self, server: ServerId) -> bool:
        """Whether a server has been away for longer than the limit."""
        return self.limit_seconds is not None and self.seconds(server) >= self.limit_seconds
