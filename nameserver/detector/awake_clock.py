"""Clock of the time in which this process was awake.

The silence of a peer counts only while this process listened.

A process that is stopped, collects garbage, or is busy with one long step hears no peer. It reads the peers' frames
only afterwards, so the pause must not count against them. The clock advances only when it is read, so its owner reads
it regularly. A gap between two readings counts as one step at most.
"""

from __future__ import annotations


class AwakeClock:
    """Clock of waking seconds. It never goes back, and never runs faster than the clock it is read from."""

    def __init__(self, now: float, *, longest_step_seconds: float) -> None:
        """`longest_step_seconds`: longer than the gap between two readings while this process is awake."""
        self._longest_step_seconds = longest_step_seconds
        self._read_at = now
        self._waking_seconds = 0.0

    def read(self, now: float) -> float:
        """Return the waking seconds until now."""
        step_seconds = max(0.0, now - self._read_at)
        self._read_at = max(self._read_at, now)
        self._waking_seconds += min(step_seconds, self._longest_step_seconds)
        return self._waking_seconds
