"""Watch for a stalled event loop and for a clock of the machine that was set.

A look is due every LOOK_SECONDS. The delay of a late look is the time for which the loop did nothing else. If the time
of day advanced by another amount than the monotonic clock, the time of day was set.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from nameserver.telemetry.log_lines import say

LOOK_SECONDS = 0.1
"""Interval of the looks. Each look costs some ten microseconds."""

STALL_SECONDS = 0.5
"""Shortest stall that is logged. A longer stall makes callers wait, and soon peers suspect this server."""

JUMP_SECONDS = 1.0
"""Smallest leap that is logged. A disciplined clock is moved by less."""

LOOKS_BETWEEN_TELLING = 10


class ClockWatch:
    """Watch of both clocks. Calls `each_second` between looks."""

    def __init__(
        self,
        *,
        each_second: Callable[[], None],
        stalled: Callable[[float], None] = lambda _seconds: None,
        jumped: Callable[[float], None] = lambda _seconds: None,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        """Create a watch.

        `stalled` receives the delay of each look in seconds, `jumped` the leap of the time of day in seconds.
        """
        self._each_second = each_second
        self._stalled = stalled
        self._jumped = jumped
        self._clock = clock
        self._wall_clock = wall_clock
        self._looked_at, self._wall_then = clock(), wall_clock()
        self._looks = 0

    async def watch_forever(self) -> None:
        """Look until this task is cancelled."""
        self._looked_at, self._wall_then = self._clock(), self._wall_clock()
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self.look()

    def look(self) -> None:
        """Compare both clocks with the previous look."""
        now, wall = self._clock(), self._wall_clock()
        passed, wall_passed = now - self._looked_at, wall - self._wall_then
        self._looked_at, self._wall_then = now, wall
        late = max(0.0, passed - LOOK_SECONDS)
        self._stalled(late)
        if late >= STALL_SECONDS:
            message = f"the event loop stood still for {late:.1f} s: a long computation, or the process was stopped"
            say(logging.WARNING, "loop_stalled", message, seconds=round(late, 3))
        leap = wall_passed - passed
        # While a machine sleeps, the time of day advances and the monotonic clock does not.
        if abs(leap) >= JUMP_SECONDS:
            self._jumped(leap)
            how = "forward" if leap > 0 else "back"
            message = f"the time of day leapt {how} by {abs(leap):.1f} s: the clock was set, or the machine slept"
            say(logging.WARNING, "clock_jumped", message, seconds=round(leap, 3))
        self._looks += 1
        if self._looks % LOOKS_BETWEEN_TELLING == 0:
            self._each_second()
