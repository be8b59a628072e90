"""How long this server has run, over restarts: by this the age of messages is told.

The time of day may be set, and the clock of `step` begins anew with the machine. How long a server was there to deliver
something can be counted all the same. A crash loses a short part of it, and what a machine slept does not count.

Source: delivery.md section 11.
"""

from __future__ import annotations

from namegraph import TEXTS, DurableMap, DurableState, packed

LONGEST_PAUSE_SECONDS = 600.0
"""Between two steps no more counts: a machine that slept, or whose clock leapt, delivered nothing meanwhile."""

WRITTEN_EVERY_SECONDS = 600.0


class RunningTime:
    """Seconds that rise while steps are taken."""

    def __init__(self, durable: DurableState) -> None:
        self._written = DurableMap(durable, "running time", TEXTS, packed(float))
        """One value, without a key."""
        self.seconds = self._written.get("", 0.0)
        self._stepped_at: float | None = None

    def step(self, now: float) -> None:
        """A step is taken, at a time on the clock of steps."""
        if self._stepped_at is not None:
            self.seconds += min(max(0.0, now - self._stepped_at), LONGEST_PAUSE_SECONDS)
        self._stepped_at = now

    def write(self) -> None:
        """Remember it over a restart, unless that was done lately."""
        if self.seconds - self._written.get("", 0.0) >= WRITTEN_EVERY_SECONDS:
            self._written[""] = self.seconds
