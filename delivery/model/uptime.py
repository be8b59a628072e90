"""Running time of this server, over restarts. It measures the age of messages.

The time of day may be set, and the clock of `step` begins anew with the machine. The running time counts how long a
server was there to deliver messages. A crash loses a short part of it, and time that the machine slept does not count.

See docs/protocol-messages.md, "Log, audiences, mailboxes".
"""

from __future__ import annotations

from delivery.model.agenda import Agenda, Work
from namegraph import TEXTS, DurableMap, DurableState, packed

LONGEST_PAUSE_SECONDS = 600.0
"""Longest time that counts between two steps: a machine that slept, or whose clock leapt, delivered no message."""

WRITTEN_EVERY_SECONDS = 600.0


class Uptime:
    """Seconds of running time, which rise with each step."""

    def __init__(self, durable: DurableState, agenda: Agenda) -> None:
        self._agenda = agenda
        self._written = DurableMap(durable, "running time", TEXTS, packed(float))
        """Running time in seconds: one value, without a key."""
        self.seconds = self._written.get("", 0.0)
        self.step_count = 0
        """Number of steps since the start."""
        self.now = 0.0
        """Time of the present step, on the clock of steps."""

    def step(self, now: float) -> None:
        """Count a step that is taken at time `now` on the clock of steps."""
        if self.step_count and now > self.now:
            self.seconds += min(now - self.now, LONGEST_PAUSE_SECONDS)
        self.step_count += 1
        self.now = now

    def write(self) -> None:
        """Store the running time, unless it was stored less than `WRITTEN_EVERY_SECONDS` ago, and mark the next time.

        The caller has state whose age counts over restarts.
        """
        if self.seconds - self._written.get("", 0.0) >= WRITTEN_EVERY_SECONDS:
            self._written[""] = self.seconds
        self._agenda.mark_from(Work.UPTIME, self._written.get("", 0.0) + WRITTEN_EVERY_SECONDS)
