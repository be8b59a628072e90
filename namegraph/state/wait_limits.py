"""Limits of the waits for another server that is connected and does not answer, and the clock that measures them.

    who waits       for                                      longest wait    then
    participant     the coordinator's word before `Ready`    before_ready    gives the entry up, and says so (`Refuse`)
    participant     the decision after `Ready`               after_ready     mistrusts the coordinator
    participant     the end of an entry, in all              entry           as above, by the phase of the entry
    participant     a view that ends the entry               install         the coordinator does not decide
    coordinator     votes and answers of one attempt         attempt         begins again, or refuses
    coordinator     answers to a suspension of arcs          answer          the participant does not answer
    leader          `Accept` of its proposal                 accept          the member does not agree
    member          `Install` of an accepted view            install         passes the leader over, for ever longer
    leader          `IncomingSuspended` of an origin         settle          that server does not suspend its arcs
    member          `Open` of an installed view              open            the leader does not open its view

Each wait for another server is longer than the waits that this server may have in turn for a third one. A correct
server that a third one keeps waiting therefore gives up first, and stays.

Large updates may take longer, by the number of their operations (`WaitLimits.allowance`).

Source: docs/protocol-updates.md, "Bounded waits"; docs/decisions/0050-bounded-waits.md.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

ALLOWANCE_LIMIT_SECONDS = 600.0
"""Longest allowance of one update: the time within which an import must have been sent."""

OPERATIONS_A_SECOND = 5_000
"""Operations of a large update that are computed and written in a second by a slow server."""

MOST_ALLOWED_OPERATIONS = int(ALLOWANCE_LIMIT_SECONDS * OPERATIONS_A_SECOND)
"""Operations with the longest allowance."""

LARGE_FROM_OPERATIONS = 5_000
"""Operations from which an update has an allowance. Smaller updates take less than a second."""


@dataclass(frozen=True, slots=True)
class WaitLimits:
    """Longest waits of one server, in seconds of the clock of `step`'s `now`."""

    look: float = 0.5
    """Interval at which waits are looked at. No interval counts for longer, so a pause of this server counts little."""
    before_ready: float = 10.0
    after_ready: float = 30.0
    entry: float = 34.0
    """Life of an entry: 40 s, less the time in which a view ends it."""
    attempt: float = 20.0
    answer: float = 45.0
    """Time from the installation of a view: a participant may have to wait for an entry of another coordinator."""
    accept: float = 5.0
    install: float = 10.0
    settle: float = 60.0
    open: float = 75.0
    away: float = 60.0
    """Time for which a server that was given up is not taken back."""
    longest_away: float = 3600.0
    remembered: float = 3600.0
    """Time after which an earlier failure does not count any more."""
    scale: float = 1.0
    """Units of the clock in a second. Simulations have other units."""

    def in_units(self, scale: float) -> WaitLimits:
        """Return the same limits for a clock with `scale` units a second."""
        seconds = {each.name: getattr(self, each.name) * scale for each in fields(self)}
        return WaitLimits(**seconds)

    def allowance(self, operations: int) -> float:
        """Return the additional time for an update that has so many operations."""
        if operations < LARGE_FROM_OPERATIONS:
            return 0.0
        return min(operations / OPERATIONS_A_SECOND, ALLOWANCE_LIMIT_SECONDS) * self.scale


class AttentiveClock:
    """Seconds in which this server took the letters of other servers.

    A step of many seconds counts for one look, and so does a pause of the process. The shell leaves out the time in
    which it takes no letters (`Tick.is_deaf`).
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self.looked_at: float | None = None
        """Time of the last look. None if nothing waits."""

    def due(self, limits: WaitLimits) -> float | None:
        """Return the time of the next look. None if nothing waits."""
        return None if self.looked_at is None else self.looked_at + limits.look

    def run(self, now: float, *, waits: bool) -> None:
        """Let the clock run while something waits."""
        if not waits:
            self.looked_at = None
        elif self.looked_at is None:
            self.looked_at = now

    def look(self, now: float, limits: WaitLimits, *, is_deaf: bool) -> bool:
        """Count the time since the last look. Return False if no look is due."""
        if self.looked_at is None or now < self.looked_at + limits.look:
            return False
        if not is_deaf:
            self.seconds += min(now - self.looked_at, 2 * limits.look)
        self.looked_at = now
        return True
