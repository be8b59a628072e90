"""Servers that are connected, did not do what this server waits for, and were given up for a time.

Times are in memory alone: a restart takes every server back.

Source: docs/protocol-updates.md, "Bounded waits".
"""

from __future__ import annotations

from typing import NamedTuple

from namegraph.model.names import ServerId
from namegraph.state.wait_limits import WaitLimits


class GivenUp(NamedTuple):
    """A server that is not taken back yet."""

    why: str
    """Reason in one line."""
    until: float
    """Time from which the server is taken back, on the clock of `step`'s `now`."""


class GivenUpServers:
    """Servers that one server has given up."""

    def __init__(self) -> None:
        self._now: dict[ServerId, GivenUp] = {}
        self._failures: dict[ServerId, tuple[int, float]] = {}
        """Number of failures in a row, and the time of the last return, by server."""

    def give_up(self, server: ServerId, why: str, now: float, limits: WaitLimits) -> None:
        """Give a server up. The time doubles with each failure soon after the last return."""
        failures, back_at = self._failures.get(server, (0, now))
        if now - back_at > limits.remembered:
            failures = 0
        until = now + min(limits.away * 2.0**failures, limits.longest_away)
        self._failures[server] = (min(failures + 1, 32), until)
        self._now[server] = GivenUp(why, until)

    def at(self, server: ServerId, now: float) -> GivenUp | None:
        """Return why a server is not taken back. None if it may be met."""
        found = self._now.get(server)
        if found is not None and found.until <= now:
            del self._now[server]
            return None
        return found

    def all(self, now: float) -> dict[ServerId, GivenUp]:
        """Return the servers that are not taken back yet, sorted."""
        return {server: given_up for server in sorted(self._now) if (given_up := self.at(server, now)) is not None}
