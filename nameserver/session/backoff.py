"""Pauses between attempts to dial a server."""

from __future__ import annotations

from collections.abc import Callable

FIRST_PAUSE_SECONDS = 0.1
"""First pause. A restarted server is found again at once."""

LONGEST_PAUSE_SECONDS = 2.0
"""Longest pause.

A server that is back after hours is found within this time.

A thousand servers that dial it at this rate do little harm.
"""


class Backoff:
    """Pauses that double. Chance shortens each by up to half, so that many servers do not dial in step."""

    def __init__(self, chance: Callable[[], float]) -> None:
        """`chance` returns numbers from 0 to 1."""
        self._chance = chance
        self._pause_seconds = FIRST_PAUSE_SECONDS

    def next_pause_seconds(self) -> float:
        """Return the pause before the next attempt."""
        pause_seconds = self._pause_seconds
        self._pause_seconds = min(2 * pause_seconds, LONGEST_PAUSE_SECONDS)
        return pause_seconds * (1 - self._chance() / 2)

    def reset(self) -> None:
        """Begin with the first pause again, because an attempt succeeded."""
        self._pause_seconds = FIRST_PAUSE_SECONDS
