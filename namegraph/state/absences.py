"""Servers that are away: for how long, since when, and for whom nothing that was left is kept any more.

    in a view without it --> time is counted while this server runs --> past the limit: overdue
    in one healed view with this one --> nothing is kept here of it

Only time that this server has seen pass counts: what it was down for does not, nor what a clock was set by. So each
server comes to its own conclusion, at its own time. What it forgets because of that, it notes (`ForgottenArcs`), and
holds against what the other one says when it is back, which need not know. But both know since when they are apart, and
say so with the arcs that they have (`ArcDigest.apart_since`): what is newer, the other one cannot have left.

Source: protocol.md, *Forgetting*.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from namegraph.model.names import ServerId
from namegraph.state.durable_maps import SERVERS, DurableMap, DurableState, packed

AWAY = "away"
"""Rows: what is known of the absence of a server, by that."""

COUNTED_EVERY_SECONDS = 60.0
"""What a restart loses of the time at most, where steps are taken all the time."""


class _Absence(NamedTuple):
    seconds: float = 0.0
    """Counted so far."""
    since: int | None = None
    """What is known here of updates of this counter, or a higher one, that server cannot know until it is met again;
    None: nothing is known of any."""


class Absences:
    """The servers that one server misses."""

    def __init__(self, durable: DurableState) -> None:
        self.limit_seconds: float | None = None
        """After so long a server is overdue; None: never."""
        self._of = DurableMap(durable, AWAY, SERVERS, packed(_Absence))
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
                known = self._of.get(server, _Absence())
                self._of.put_off(server, known._replace(seconds=known.seconds + seconds))

    def begin(self, server: ServerId, *, since: int) -> None:
        """A server was in the view before, and in another since; `since`: the least counter in this one.

        Also where it is in this one again.
        """
        self._of[server] = self._of.get(server, _Absence())._replace(since=since)

    def heard_of(self, server: ServerId, counter: int) -> None:
        """Another one tells of an update of this counter, in which a server may have taken part."""
        since = self.since(server)
        if since is not None and since <= counter:
            self.begin(server, since=counter + 1)

    def go_back(self, *, counter: int) -> None:
        """This server has gone back to an older copy of its database: what it did up to this counter may be lost."""
        for server in list(self._of):
            self.begin(server, since=counter + 1)

    def is_due(self, now: float) -> bool:
        """Whether time is to be counted again."""
        return now >= self._due_at

    def is_over(self, server: ServerId) -> None:
        """A server has healed with this one, or was removed."""
        self._counted_at.pop(server, None)
        self._of.pop(server, None)

    def seconds(self, server: ServerId) -> float:
        """For how long a server has been away, as far as that was counted."""
        return self._of[server].seconds if server in self._of else 0.0

    def since(self, server: ServerId) -> int | None:
        """The counter from which on all updates were done without a server; None where that is not known."""
        return self._of[server].since if server in self._of else None

    def is_overdue(self, server: ServerId) -> bool:
        """Whether a server has been away for longer than the limit."""
        return self.limit_seconds is not None and self.seconds(server) >= self.limit_seconds
