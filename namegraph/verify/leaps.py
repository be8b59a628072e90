"""How far a message of another server may let numbers rise: counters of priorities and numbers of views only grow.

A correct server's numbers rise by one, but for the leap that begins a fresh incarnation (`state/incarnations.py`). What
is taken over cannot be taken back, so no message may bring numbers near their end.

    above all that is known here by    a number is
    up to 2^24                         taken
    up to 2^41                         a leap: taken, but only so many from one server
    more                               a fault of its sender, and its message is dropped
"""

from __future__ import annotations

from namegraph.model.names import ServerId
from namegraph.state.context import ServerContext

LEAP_FROM = 2**24
"""More than servers decide while one of them does not hear of it."""

LEAP_LIMIT = 2**41
"""Room for two fresh incarnations in a row (`GREATEST_LEAP`) that this server did not hear of."""

LEAPS_AT_ONCE = 16
"""Of one server: a database that is restored again and again until it is the right one."""

SECONDS_FOR_A_LEAP = 3600.0
"""After so long one server may bring another leap: two million of them, which end the numbers, take it centuries."""


class Leaps:
    """What one server lets others do to its numbers."""

    def __init__(self, context: ServerContext) -> None:
        self._context = context
        self._highest = 0
        """Of all numbers that were taken since this server started."""
        self._paid_until: dict[ServerId, float] = {}
        """By server: when all the leaps that it brought are paid for, by time."""

    def take(self, number: int, *, sender: ServerId, now: float) -> bool:
        """Whether the highest number of a message is taken; `now` is in seconds."""
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
