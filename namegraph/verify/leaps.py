"""Limits to the rise of numbers by messages of other servers: counters of priorities and numbers of views only grow.

A correct server's numbers rise by one, except for the leap that begins a fresh incarnation
(`state/incarnations.py`). A number that was taken over cannot be taken back, so no message may bring numbers near
their end.

    above all that is known here by    a number is
    up to 2^24                         taken
    up to 2^41                         a leap: taken, but only so many from one server
    more                               a fault of its sender, and its message is dropped
"""

from __future__ import annotations

from namegraph.model.names import ServerId
from namegraph.state.context import ServerContext

LEAP_FROM = 2**24
"""Largest rise that does not count as a leap. Servers decide fewer updates while one of them hears of none."""

LEAP_LIMIT = 2**41
"""Largest leap, with room for two fresh incarnations in a row (`GREATEST_LEAP`) that this server did not hear of."""

LEAPS_AT_ONCE = 16
"""Leaps that one server may bring at once: a database may be restored again and again until it is the right one."""

SECONDS_FOR_A_LEAP = 3600.0
"""Seconds until one server may bring another leap. Two million leaps, which exhaust the numbers, take it centuries."""


class Leaps:
    """Leaps that one server accepts from other servers."""

    def __init__(self, context: ServerContext) -> None:
        self._context = context
        self._highest = 0
        """Highest number that was taken since this server started."""
        self._paid_until: dict[ServerId, float] = {}
        """Time at which all leaps of a server are paid for, by server."""

    def take(self, number: int, *, sender: ServerId, now: float) -> bool:
        """Return True if the highest number of a message is accepted. `now` is in seconds."""
        leap = number - max(self._highest, self._context.counter, self._context.promised.number)
        if leap > LEAP_LIMIT:
            return False
        if leap > LEAP_FROM:
            paid_until = max(self._paid_until.get(sender, now), now) + SECONDS_FOR_A_LEAP
            if paid_until > now + LEAPS_AT_ONCE * SECONDS_FOR_A_LEAP:
                return False
            self._paid_until[sender] = paid_until
        self._highest = max(self._highest, number)
        return True
