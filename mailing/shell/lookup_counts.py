"""How many lookups were answered since the start, by map and by how they ended, and how long that took."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from itertools import accumulate

from mailing.rules.lookups import MapName, Status

NO_MAP = "none"
"""In place of the map, where what was asked is no lookup, or names a map that is not there."""
MAPS = (*map(str, MapName), NO_MAP)
SECONDS = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 20.0)
"""Limits of the buckets; what took longer is in none of them."""


class LookupCounts:
    """Each is counted once its answer is known; one whose asker is gone by then is not."""

    def __init__(self) -> None:
        self.results: Counter[tuple[str, str]] = Counter()
        """By map and status."""
        self.seconds = dict.fromkeys(MAPS, 0.0)
        """That all of a map took."""
        self._taken = {name: [0] * (len(SECONDS) + 1) for name in MAPS}

    def add(self, name: str, answer: bytes, seconds: float) -> None:
        """The netstring that answers a lookup of a map is known."""
        begin = answer.index(b":") + 1
        self.results[name, answer[begin : answer.index(b" ", begin)].decode()] += 1
        self.seconds[name] += seconds
        self._taken[name][bisect_left(SECONDS, seconds)] += 1

    def of(self, name: str) -> dict[str, int]:
        """How many lookups of a map ended with each status."""
        return {str(status): self.results[name, status] for status in Status}

    def within(self, name: str) -> list[int]:
        """How many lookups of a map took at most so long, for each of `SECONDS`, and all of them."""
        return list(accumulate(self._taken[name]))
