"""Bytes that each writer holds in the log, and the writer that loses its oldest entries when the log is full.

    1. the writer that fills the log, if it holds more than a quarter of it; else the writer that holds most
    2. first among sources (networks of clients, and other servers), then among the first targets of that source

No writer takes more than a quarter of the log from other writers. No writer loses entries while another holds more. A
writer that is alone has all of the log. A source counts as one, whatever names and targets it gives: with a thousand
groups it has no more than with one. Names of senders do not count, because each sender chooses its own.

See docs/protocol-messages.md, "Log, audiences, mailboxes" (a full log).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from delivery.log.segments import SegmentShare

QUARTER = 4
"""Inverse of the largest part of the log that one writer takes from other writers."""

ALIKE = 0.75
"""Targets of one source give way together if they hold at least this part of the bytes of its largest target."""


class Holders:
    """Bytes of each writer in the log, and the segments that have entries of it."""

    def __init__(self) -> None:
        self.sources: dict[int, int] = {}
        """Bytes of each source."""
        self._parts: dict[int, dict[int, int]] = {}
        """Bytes of each first target, by source."""
        self._segments: dict[tuple[int, int], list[int]] = defaultdict(list)
        """First positions of the segments that have entries of a writer, in order, by source and first target."""

    def add(self, share: SegmentShare, *, first: int) -> None:
        """Register a new share of the segment that begins at `first`. Its bytes are counted with `grow`."""
        source, addressed = share.source, share.addressed
        self.sources.setdefault(source, 0)
        self._parts.setdefault(source, {}).setdefault(addressed, 0)
        segments = self._segments[source, addressed]
        if not segments or segments[-1] != first:
            segments.append(first)

    def grow(self, share: SegmentShare, size: int) -> None:
        """Add `size` bytes to the writer of a share."""
        self.sources[share.source] += size
        self._parts[share.source][share.addressed] += size

    def remove(self, shares: Iterable[SegmentShare], *, first: int) -> None:
        """Forget shares of the segment that begins at `first`.

        They must be all shares of their writers in that segment.
        """
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
        self, recent: Iterable[SegmentShare], *, limit: int, newest: int
    ) -> tuple[int, int, frozenset[int]] | None:
        """Return the segment whose oldest entries go, the source of these entries, and their targets.

        `recent`: shares of the last segments, which show the writer that fills the log. `newest`: first position of the
        newest segment, from which no entry goes. Returns None if no older segment has entries.
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
        self, source: int, recent: Iterable[SegmentShare], *, limit: int, newest: int
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


def _sizes(shares: Iterable[tuple[int, SegmentShare]]) -> Counter[int]:
    found = Counter[int]()
    for key, share in shares:
        found[key] += share.size
    return found


def _filling(held: Mapping[int, int], recent: Counter[int], *, limit: int) -> int | None:
    """Return the writer with most recent bytes if it holds more than a quarter of the limit. None otherwise."""
    found = max(recent, key=recent.__getitem__, default=None)
    return found if found is not None and held[found] * QUARTER > limit else None


def _choose(held: Mapping[int, int], recent: Counter[int], *, limit: int) -> int | None:
    filling = _filling(held, recent, limit=limit)
    return max(held, key=held.__getitem__, default=None) if filling is None else filling
