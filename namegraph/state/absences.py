"""Servers that are away: the time of their absence, and the servers for which no tombstones are kept any more.

    in a view without it --> time is counted while this server runs --> past the limit: overdue
    in one healed view with this one --> its absence is forgotten

Only time that passed while this server ran counts. Its own downtime and changes of a clock do not count. Each
server therefore decides for itself, at its own time. A server notes (`ForgottenArcs`) the bounds of what it forgets
because of an overdue server. After that server's return, reports of arcs within these bounds do not count. The
returning server need not know of it. But each server reports the arcs that it joined alone
(`ArcDigest.unconfirmed`, `DigestReply.unconfirmed`); the other one cannot have left these.

Source: docs/protocol-partitions.md, "Who stays away".
"""

from __future__ import annotations

from collections.abc import Collection

from namegraph.model.names import ServerId
from namegraph.state.durable_maps import SERVERS, DurableMap, DurableState, packed

AWAY = "away"
"""Rows: seconds that a server has been away, by server."""

COUNTED_EVERY_SECONDS = 60.0
"""Most time that a restart loses, if steps are taken all the time."""


class Absences:
    """The servers that are away from one server."""

    def __init__(self, durable: DurableState) -> None:
        self.limit_seconds: float | None = None
        """Time in seconds after which a server is overdue. None: never."""
        self._of = DurableMap(durable, AWAY, SERVERS, packed(float))
        self._counted_at: dict[ServerId, float] = {}
        """Time, on the clock of `step`'s `now`, up to which the absence of each absent server is counted."""
        self._due_at = 0.0

    def count(self, absent: Collection[ServerId], now: float) -> None:
        """Add the time since the last call to the absence of each server in `absent`. `now` is in seconds."""
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
        """Return True if time is to be counted again."""
        return now >= self._due_at

    def is_over(self, server: ServerId) -> None:
        """Forget the absence of a server that has healed with this one, or was removed."""
        self._counted_at.pop(server, None)
        self._of.pop(server, None)

    def seconds(self, server: ServerId) -> float:
        """Return the counted absence of a server, in seconds."""
        return self._of.get(server, 0.0)

    def is_overdue(self, server: ServerId) -> bool:
        """Return True if a server has been away for longer than the limit."""
        return self.limit_seconds is not None and self.seconds(server) >= self.limit_seconds
