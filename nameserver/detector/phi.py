"""How unlikely it is that another server is still there, given how long it has been silent: phi accrual.

    signs of life --> window of the longest silences --> mean, deviation --> phi of the silence that lasts now

Phi is -log10 of the chance that a silence as long as this one still ends, so 1 is wrong once in ten times, 8 once in a
hundred million. It adapts: where signs of life come late now and then, it takes a longer silence to reach the same phi.

All frames count as signs of life, but a server only promises one for each interval. So a gap shorter than the interval
says nothing of how late the next sign may be: it counts as the interval, and the window has one entry for each interval
at most, the longest gap in it. Else a busy second would make an idle one look like death.

Nothing here reads a clock. Times are seconds on one clock that does not go back.

Source: Hayashibara, Défago, Yared and Katayama, The phi accrual failure detector (SRDS 2004); the acceptable pause, the
first estimate and the approximation of the normal distribution are those of Akka (PhiAccrualFailureDetector.scala).
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

WINDOW_LIMIT = 100
"""Silences that are remembered: 50 seconds of an idle connection at the least."""

FIRST_DEVIATION_SHARE = 0.25
"""Of the interval: how far the first estimate lies to either side of it, before anything was seen."""

LEAST_DEVIATION_SHARE = 0.2
"""Of the interval: signs of life that come like clockwork must not make one that is a little late look like death."""


@dataclass(frozen=True, slots=True)
class DetectorLimits:
    """What operators set."""

    heartbeat_seconds: float = 0.5
    """After how long without anything else to send a heartbeat is sent."""
    acceptable_pause_seconds: float = 5.0
    """For how much longer a server may be silent, because it is busy or paused."""
    threshold: float = 8.0
    """The phi at which a server is lost."""
    restart_grace_seconds: float = 0.0
    """For how long others wait for this server after it was told to end, and so for how long after its start it loses
    none that it has not heard of yet: they may still count on it."""


HIGHEST_PHI = 100.0
"""Higher values say no more: the highest threshold is the same."""


class PhiAccrual:
    """The silences of one server."""

    def __init__(self, limits: DetectorLimits, now: float) -> None:
        """The silence begins now, and is judged by the first estimate."""
        self._interval = limits.heartbeat_seconds
        self._heard_at = self._entered_at = now
        self._longest = 0.0
        """The longest gap since the last entry."""
        spread = FIRST_DEVIATION_SHARE * self._interval
        self._window = deque((self._interval - spread, self._interval + spread), maxlen=WINDOW_LIMIT)
        self._estimate()

    @property
    def window_size(self) -> int:
        """How many silences are remembered."""
        return len(self._window)

    def arrived(self, now: float) -> None:
        """A sign of life came."""
        self._longest = max(self._longest, now - self._heard_at)
        self._heard_at = max(self._heard_at, now)
        if now - self._entered_at >= self._interval:
            self._window.append(max(self._longest, self._interval))
            self._entered_at, self._longest = now, 0.0
            self._estimate()

    def resume(self, now: float) -> None:
        """A sign of life came after a time in which none could: the gap tells nothing."""
        self._heard_at = self._entered_at = max(self._heard_at, now)
        self._longest = 0.0

    def silence(self, now: float) -> float:
        """For how long nothing was heard."""
        return max(0.0, now - self._heard_at)

    def phi(self, now: float, *, pause: float = 0.0) -> float:
        """How unlikely it is that the silence still ends, if the server may have paused for so many seconds.

        From 0, never falling while nothing is heard; below 1/3 as long as the silence is no longer than the pause.
        """
        deviations = (self.silence(now) - self._mean - pause) / self._deviation
        # A logistic approximation of the normal distribution, kept as a logarithm.
        exponent = deviations * (1.5976 + 0.070566 * deviations * deviations)
        return min(HIGHEST_PHI, (max(exponent, 0.0) + math.log1p(math.exp(-abs(exponent)))) / math.log(10))

    def _estimate(self) -> None:
        self._mean = math.fsum(self._window) / len(self._window)
        variance = math.fsum((silence - self._mean) ** 2 for silence in self._window) / len(self._window)
        self._deviation = max(math.sqrt(variance), LEAST_DEVIATION_SHARE * self._interval)
