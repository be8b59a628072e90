"""Whether the event loop and the clock of the machine go on as they should.

A look is due every LOOK_SECONDS. One that comes late tells for how long the loop did nothing else; if meanwhile the
time of day went on by another amount than the clock that does not jump, somebody has set it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from nameserver.telemetry.log_lines import say

LOOK_SECONDS = 0.1
"""Costs some ten microseconds each."""

STALL_SECONDS = 0.5
"""A loop that stands still for longer makes callers wait, and soon peers doubt."""

JUMP_SECONDS = 1.0
"""Clocks that are disciplined are moved by less."""

LOOKS_BETWEEN_TELLING = 10


class ClockWatch:
    """Looks at both clocks, and calls `each_second` in between."""

    def __init__(
        self,
        *,
        each_second: Callable[[], None],
        stalled: Callable[[float], None] = lambda _seconds: None,
        jumped: Callable[[float], None] = lambda _seconds: None,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        """`stalled` is told of each look by how many seconds it was late, `jumped` by how far the time of day leapt."""
        self._each_second = each_second
        self._stalled = stalled
        self._jumped = jumped
        self._clock = clock
        self._wall_clock = wall_clock
        self._looked_at, self._wall_then = clock(), wall_clock()
        self._looks = 0

    async def watch_forever(self) -> None:
        """Look until it is cancelled."""
        self._looked_at, self._wall_then = self._clock(), self._wall_clock()
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self.look()

    def look(self) -> None:
        """Compare with the look before."""
        now, wall = self._clock(), self._wall_clock()
        passed, wall_passed = now - self._looked_at, wall - self._wall_then
        self._looked_at, self._wall_then = now, wall
        late = max(0.0, passed - LOOK_SECONDS)
        self._stalled(late)
        if late >= STALL_SECONDS:
            message = f"the event loop stood still for {late:.1f} s: a long computation, or the process was stopped"
            say(logging.WARNING, "loop_stalled", message, seconds=round(late, 3))
        leap = wall_passed - passed
        # While a machine sleeps the time of day goes on, and the other clock does not.
        if abs(leap) >= JUMP_SECONDS:
            self._jumped(leap)
            how = "forward" if leap > 0 else "back"
            message = f"the time of day leapt {how} by {abs(leap):.1f} s: the clock was set, or the machine slept"
            say(logging.WARNING, "clock_jumped", message, seconds=round(leap, 3))
        self._looks += 1
        if self._looks % LOOKS_BETWEEN_TELLING == 0:
            self._each_second()
