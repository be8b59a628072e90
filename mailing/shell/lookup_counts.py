"""Counts of answered lookups since the start, by map and result, and the time that they took."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from itertools import accumulate

from mailing.rules.lookups import MapName, Status

NO_MAP = "none"
"""Name in place of a map, for a question that is no lookup or names an unknown map."""
MAPS = (*map(str, MapName), NO_MAP)
SECONDS = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 20.0)
"""Limits of the buckets. A lookup that took longer is in none of them."""


class LookupCounts:
    """Counts of lookups. A lookup is counted once its answer is known, unless its caller is gone by then."""

    def __init__(self) -> None:
        self.results: Counter[tuple[str, str]] = Counter()
        """Number of lookups, by map and status."""
        self.seconds = dict.fromkeys(MAPS, 0.0)
        """Time that all lookups of a map took, in seconds."""
        self._taken = {name: [0] * (len(SECONDS) + 1) for name in MAPS}

    def add(self, name: str, answer: bytes, seconds: float) -> None:
        """Count a lookup of a map. `answer`: the netstring that answers it."""
        begin = answer.index(b":") + 1
        self.results[name, answer[begin : answer.index(b" ", begin)].decode()] += 1
        self.seconds[name] += seconds
        self._taken[name][bisect_left(SECONDS, seconds)] += 1

    def of(self, name: str) -> dict[str, int]:
        """Return the number of lookups of a map, by status."""
        return {str(status): self.results[name, status] for status in Status}

    def within(self, name: str) -> list[int]:
        """Return the number of lookups of a map up to each of `SECONDS`, and the number of all its lookups."""
        return list(accumulate(self._taken[name]))
