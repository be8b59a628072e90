"""Holders of the log: how much each writer has, and the writer whose oldest entries go when the log is full.

    who fills the log, and holds more than a quarter of it, or else who holds most: its oldest entries go
    sources first: networks of clients, and other servers; of the entries of one source the same by their first targets

So no writer takes more than a quarter of the log from others, and nobody loses anything while somebody else holds more.
Where nobody else writes, a writer has all of the log. A source counts as one whatever names and targets it gives: with
a thousand groups it has no more than with one. Names of senders do not count: each sender says its name itself.

Source: delivery.md section 9.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from delivery.log.segments import Share

QUARTER = 4
"""One writer takes this part of the log from others at most."""

ALIKE = 0.75
"""Targets of one source that have this part of what the largest has, or more, give way together."""


class Holders:
    """How many bytes each writer has in the log, and in which segments."""

    def __init__(self) -> None:
        self.sources: dict[int, int] = {}
        """Bytes of each source."""
        self._parts: dict[int, dict[int, int]] = {}
        """Bytes of each first target of a source."""
        self._segments: dict[tuple[int, int], list[int]] = defaultdict(list)
        """Positions at which the segments begin in which a writer has entries, in order."""

    def add(self, share: Share, *, first: int) -> None:
        """Take a share of the segment that begins at `first` in, as if it were empty."""
        source, addressed = share.source, share.addressed
        self.sources.setdefault(source, 0)
        self._parts.setdefault(source, {}).setdefault(addressed, 0)
        segments = self._segments[source, addressed]
        if not segments or segments[-1] != first:
            segments.append(first)

    def grow(self, share: Share, size: int) -> None:
        """A share has so many bytes more."""
        self.sources[share.source] += size
        self._parts[share.source][share.addressed] += size

    def remove(self, shares: Iterable[Share], *, first: int) -> None:
        """Forget shares of the segment that begins at `first`: all that it has of their writers."""
        writers = dict[tuple[int, int], None]()
        for share in shares:
            self.sources[share.source] -= share.size
            self._parts[share.source][share.addressed] -= share.size
            writers[share.source, share.addressed] = None
        for source, addressed in writers:
            segments = self._segments[source, addressed]
            segments.remove(first)
            if not segments:
                del self._segments[source, addressed], self._parts[source][addressed]
                if not self._parts[source]:
                    del self._parts[source], self.sources[source]

    def who_gives_way(
        self, recent: Iterable[Share], *, limit: int, newest: int
    ) -> tuple[int, int, frozenset[int]] | None:
        """Return the segment of which the oldest entries go, the source of these, and their targets.

        `recent`: shares of the last segments, by which it is seen who fills the log. `newest`: nothing of this segment
        goes. Returns None if all that may go is there.
        """
        recent = list(recent)
        first_choice = _choose(self.sources, _sizes((share.source, share) for share in recent), limit=limit)
        if first_choice is None:
            return None
        found = self._of_source(first_choice, recent, limit=limit, newest=newest)
        if found is None:
            for source in sorted(self.sources, key=self.sources.__getitem__, reverse=True):
                if (found := self._of_source(source, recent, limit=limit, newest=newest)) is not None:
                    break
        return found

    def _of_source(
        self, source: int, recent: Iterable[Share], *, limit: int, newest: int
    ) -> tuple[int, int, frozenset[int]] | None:
        parts = self._parts[source]
        sizes = _sizes((share.addressed, share) for share in recent if share.source == source)
        filling = _filling(parts, sizes, limit=limit)
        level = ALIKE * max(parts.values())
        chosen = [filling] if filling is not None else [each for each, size in parts.items() if size >= level]
        older = [each for each in chosen if self._segments[source, each][0] < newest]
        if not older:
            behind = [each for each in parts if self._segments[source, each][0] < newest]
            older = [max(behind, key=parts.__getitem__)] if behind else []
        if not older:
            return None
        first = min(self._segments[source, each][0] for each in older)
        return first, source, frozenset(older)


def _sizes(shares: Iterable[tuple[int, Share]]) -> Counter[int]:
    found = Counter[int]()
    for key, share in shares:
        found[key] += share.size
    return found


def _filling(held: Mapping[int, int], recent: Counter[int], *, limit: int) -> int | None:
    """Return who fills the log, if it holds more than a quarter."""
    found = max(recent, key=recent.__getitem__, default=None)
    return found if found is not None and held[found] * QUARTER > limit else None


def _choose(held: Mapping[int, int], recent: Counter[int], *, limit: int) -> int | None:
    filling = _filling(held, recent, limit=limit)
    return max(held, key=held.__getitem__, default=None) if filling is None else filling
