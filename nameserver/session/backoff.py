"""How long to wait before a server is dialled again."""

from __future__ import annotations

from collections.abc import Callable

FIRST_PAUSE_SECONDS = 0.1
"""A server that was restarted is found again at once."""

LONGEST_PAUSE_SECONDS = 2.0
"""One that is back after hours is found within this time, and a thousand servers that look for it do little harm."""


class Backoff:
    """Pauses that double, each shortened by chance to half at most, so that many servers do not dial in step."""

    def __init__(self, chance: Callable[[], float]) -> None:
        """`chance` gives numbers from 0 to 1."""
        self._chance = chance
        self._pause_seconds = FIRST_PAUSE_SECONDS

    def next_pause_seconds(self) -> float:
        """The pause before the next attempt."""
        pause_seconds = self._pause_seconds
        self._pause_seconds = min(2 * pause_seconds, LONGEST_PAUSE_SECONDS)
        return pause_seconds * (1 - self._chance() / 2)

    def reset(self) -> None:
        """Begin anew: an attempt has led somewhere."""
        self._pause_seconds = FIRST_PAUSE_SECONDS
