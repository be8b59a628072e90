"""Running time of this server, over restarts. It measures the age of messages.

The time of day may be set, and the clock of `step` begins anew with the machine. The running time counts how long a
server was there to deliver messages. A crash loses a short part of it, and time that the machine slept does not count.

See docs/protocol-messages.md, "Log, audiences, mailboxes".
"""

from __future__ import annotations

from namegraph import TEXTS, DurableMap, DurableState, packed

LONGEST_PAUSE_SECONDS = 600.0
"""Longest time that counts between two steps: a machine that slept, or whose clock leapt, delivered no message."""

WRITTEN_EVERY_SECONDS = 600.0


class Uptime:
    """Seconds of running time, which rise with each step."""

    def __init__(self, durable: DurableState) -> None:
        self._written = DurableMap(durable, "running time", TEXTS, packed(float))
        """Running time in seconds: one value, without a key."""
        self.seconds = self._written.get("", 0.0)
        self._stepped_at: float | None = None

    def step(self, now: float) -> None:
        """Count a step that is taken at time `now` on the clock of steps."""
        if self._stepped_at is not None:
            self.seconds += min(max(0.0, now - self._stepped_at), LONGEST_PAUSE_SECONDS)
        self._stepped_at = now

    def write(self) -> None:
        """Store the running time, unless it was stored less than `WRITTEN_EVERY_SECONDS` ago."""
        if self.seconds - self._written.get("", 0.0) >= WRITTEN_EVERY_SECONDS:
            self._written[""] = self.seconds
