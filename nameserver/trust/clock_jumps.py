"""Jumps of the time of day: for a while after one, no session ends because a certificate seems to have expired.

A wrong clock of one machine must not cut it off at once. An operator, or the clock's own correction, has ten minutes.
"""

from __future__ import annotations

from collections.abc import Callable

JUMP_SECONDS = 300.0
"""Least change of the time of day against the monotonic clock that counts as a jump."""

DOUBT_SECONDS = 600.0
"""Time for which sessions stay after a jump, by the monotonic clock."""


class ClockJumps:
    """Watch over the time of day."""

    def __init__(self, *, clock: Callable[[], float], wall_clock: Callable[[], float]) -> None:
        """`clock`: seconds that never jump. `wall_clock`: seconds since 1970."""
        self._clock = clock
        self._wall_clock = wall_clock
        self._offset = wall_clock() - clock()
        self._doubted_until = float("-inf")

    def look(self) -> float | None:
        """Compare the clocks. Return the seconds of a jump since the last look. None if there was none."""
        offset = self._wall_clock() - self._clock()
        jump, self._offset = offset - self._offset, offset
        if abs(jump) <= JUMP_SECONDS:
            return None
        self._doubted_until = self._clock() + DOUBT_SECONDS
        return jump

    @property
    def is_in_doubt(self) -> bool:
        """True for a while after a jump."""
        return self._clock() < self._doubted_until
