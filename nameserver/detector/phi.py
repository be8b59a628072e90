"""Phi accrual: the probability that a silent server is still there, from the length of its silence.

    signs of life --> window of the longest silences --> mean, deviation --> phi of the silence that lasts now

Phi is -log10 of the chance that a silence as long as the present one still ends. A threshold of 1 is wrong once in ten
times, and a threshold of 8 once in a hundred million. Phi adapts: if signs of life are late now and then, a longer
silence is needed for the same phi.

All frames count as signs of life, but a server only promises one in each interval. A gap shorter than the interval
therefore does not tell how late the next sign may be. It counts as the interval, and the window gets at most one entry
in each interval: the longest gap in it. Otherwise an idle second after a busy one would look like death.

This module reads no clock. Times are seconds on one clock that does not go back.

Source: Hayashibara, Défago, Yared and Katayama, The phi accrual failure detector (SRDS 2004). The acceptable pause, the
first estimate and the approximation of the normal distribution are those of Akka (PhiAccrualFailureDetector.scala).
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

WINDOW_LIMIT = 100
"""Most silences in the window: at least 50 seconds of an idle connection."""

FIRST_DEVIATION_SHARE = 0.25
"""Distance of the first estimate's two silences from the interval, as a share of the interval.

The first estimate holds before any sign of life was seen.
"""

LEAST_DEVIATION_SHARE = 0.2
"""Smallest deviation, as a share of the interval.

Without it, one late sign of life after very regular ones would look like death.
"""


@dataclass(frozen=True, slots=True)
class DetectorLimits:
    """Settings of the failure detector."""

    heartbeat_seconds: float = 0.5
    """Idle time after which a heartbeat is sent."""
    acceptable_pause_seconds: float = 5.0
    """Additional silence that is accepted of a busy or paused server."""
    threshold: float = 8.0
    """Phi at which a server is lost."""
    restart_grace_seconds: float = 0.0
    """Time that peers wait for this server after a planned stop.

    For as long after its start this server loses no peer that it has not heard yet: such peers may still count on it.
    """


HIGHEST_PHI = 100.0
"""Highest phi. Higher values carry no information: the highest threshold is the same."""


class PhiAccrual:
    """Silences of one server."""

    def __init__(self, limits: DetectorLimits, now: float) -> None:
        """Begin the silence now. The first estimate judges it."""
        self._interval = limits.heartbeat_seconds
        self._heard_at = self._entered_at = now
        self._longest = 0.0
        """Longest gap since the last entry."""
        spread = FIRST_DEVIATION_SHARE * self._interval
        self._window = deque((self._interval - spread, self._interval + spread), maxlen=WINDOW_LIMIT)
        self._estimate()

    @property
    def window_size(self) -> int:
        """Number of remembered silences."""
        return len(self._window)

    def arrived(self, now: float) -> None:
        """Note a sign of life."""
        self._longest = max(self._longest, now - self._heard_at)
        self._heard_at = max(self._heard_at, now)
        if now - self._entered_at >= self._interval:
            self._window.append(max(self._longest, self._interval))
            self._entered_at, self._longest = now, 0.0
            self._estimate()

    def resume(self, now: float) -> None:
        """Note a sign of life after a time in which none could come. The gap does not enter the window."""
        self._heard_at = self._entered_at = max(self._heard_at, now)
        self._longest = 0.0

    def silence(self, now: float) -> float:
        """Return the seconds since the last sign of life."""
        return max(0.0, now - self._heard_at)

    def phi(self, now: float, *, pause: float = 0.0) -> float:
        """Return the phi of the present silence, if the server may have paused for `pause` seconds.

        Phi begins at 0 and never falls during a silence. It is below 1/3 as long as the silence is not longer than the
        pause.
        """
        deviations = (self.silence(now) - self._mean - pause) / self._deviation
        # A logistic approximation of the normal distribution, kept as a logarithm.
        exponent = deviations * (1.5976 + 0.070566 * deviations * deviations)
        return min(HIGHEST_PHI, (max(exponent, 0.0) + math.log1p(math.exp(-abs(exponent)))) / math.log(10))

    def _estimate(self) -> None:
        self._mean = math.fsum(self._window) / len(self._window)
        variance = math.fsum((silence - self._mean) ** 2 for silence in self._window) / len(self._window)
        self._deviation = max(math.sqrt(variance), LEAST_DEVIATION_SHARE * self._interval)
