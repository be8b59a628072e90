"""The log of a server: parcels in the order in which they came, each with the audience that gets it.

    append --> position n --> durable --> read by subscriptions, in the order of positions --> cut

An entry is one row, whatever the number of its members. What is in the log is read from the database; here is only how
far it goes, and of each *segment* of it, when it began and what it is for. It is cut where nobody needs it any more:
behind all cursors, and before the oldest parcel of this server that is not settled. Where it grows beyond its limit, or
is kept for too long, its oldest segment goes, and whoever had not read that is told a gap.

Source: delivery.md sections 3, 9, 11.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from msgspec import Struct

from delivery.model import Position
from namegraph import NUMBERS, TEXTS, DurableMap, DurableState, LogRecord, packed

LOG_BYTES_LIMIT = 4 * 1024 * 1024 * 1024

LOG_SECONDS_LIMIT = 7 * 24 * 3600.0
"""Of running time."""

SEGMENT_ENTRIES = 1_000
SEGMENT_SECONDS = 600.0
"""Entries of one segment come within so much running time."""

CUT_AT_MOST = 10_000
"""The next step goes on: what is deleted at once holds up whatever else is to be written."""

CUT_AT_LEAST = 100
CUT_AT_LEAST_BYTES = 1024 * 1024
"""Entries that are cut together, or bytes of them: each cut is a row, and a deletion."""


class ForAudience(NamedTuple):
    """What a segment has for one audience."""

    messages: int
    last: Position
    """The last of these."""


class _Entry(NamedTuple):
    """What is remembered of an entry of the newest segment."""

    position: int
    audience: int
    """Its number."""
    messages: int


class _Segment(Struct, array_like=True):
    """Entries that follow one another, up to the next segment."""

    began_at: float
    """In running time."""
    size: int
    """Bytes of parcels."""
    audiences: dict[str, ForAudience]
    """By number, as a text; nobody's is not among them."""


class Log:
    """How far the log goes, and what this step appends to it."""

    def __init__(self, durable: DurableState) -> None:
        self._ends = DurableMap(durable, "log ends", TEXTS, packed(tuple[int, int]))
        """One value, without a key: the last position that was given, and the last one that was cut."""
        self._segments = DurableMap(durable, "log segments", NUMBERS, packed(_Segment))
        """By their first positions, in order."""
        self.last, self.cut = self._ends.get("", (0, 0))
        self._segments_size = sum(segment.size for segment in self._segments.values())
        self._newest = max(self._segments, default=0)
        self._recent: list[_Entry] = []
        """Those of the newest segment that were appended since this server started."""
        self._recent_behind = self.last
        """All of that segment behind this are among these."""
        self.limit_bytes = LOG_BYTES_LIMIT
        self.limit_seconds = LOG_SECONDS_LIMIT
        self.cut_at_least = CUT_AT_LEAST
        self._new: list[LogRecord] = []
        self._cut_now = False

    def append(self, audience: int, encoded: bytes, *, messages: int, at: float) -> int:
        """Give a parcel the next position; `at`: the running time."""
        self.last += 1
        self._new.append(LogRecord(self.last, audience, encoded))
        newest = self._segments.get(self._newest)
        if (
            newest is None
            or self.last - self._newest >= SEGMENT_ENTRIES
            or at - newest.began_at >= min(SEGMENT_SECONDS, self.limit_seconds)
        ):
            self._newest = self.last
            newest = self._segments[self._newest] = _Segment(at, 0, {})
            self._recent, self._recent_behind = [], self.last - 1
        self._recent.append(_Entry(self.last, audience, messages))
        newest.size += len(encoded)
        if audience:
            before = newest.audiences.get(str(audience))
            so_far = 0 if before is None else before.messages
            newest.audiences[str(audience)] = ForAudience(so_far + messages, Position(self.last, messages - 1))
        self._segments.touch(self._newest)
        self._segments_size += len(encoded)
        self._ends[""] = (self.last, self.cut)
        return self.last

    def cut_through(self, position: int, *, at_least: int | None = None) -> None:
        """Forget the entries at a position and before, once they are so many; None: as many as is usual."""
        position = min(position, self.last, self.cut + CUT_AT_MOST)
        at_least = self.cut_at_least if at_least is None else at_least
        if position <= self.cut or (position - self.cut < at_least and not self._is_much(position)):
            return
        self.cut = position
        for first in [first for first, last in self._through(position) if last <= position]:
            self._segments_size -= self._segments.pop(first).size
        self._ends[""] = (self.last, self.cut)
        self._cut_now = True

    @property
    def size(self) -> int:
        """Bytes of parcels in it; of a segment of which a part was cut, the share of its entries that are left."""
        oldest = self._oldest()
        if oldest is None:
            return 0
        first, last = oldest
        return self._segments_size - self._share(first, last, max(0, self.cut - first + 1))

    def _is_much(self, position: int) -> bool:
        """Whether there is much at a position and before, about: as if all entries of a segment had one size."""
        found = 0
        for first, last in self._through(position):
            found += self._share(first, last, min(position, last) - max(self.cut + 1, first) + 1)
            if found >= CUT_AT_LEAST_BYTES:
                return True
        return False

    def _share(self, first: int, last: int, entries: int) -> int:
        """Bytes of so many entries of a segment, about."""
        return self._segments[first].size * entries // (last - first + 1)

    def _through(self, position: int) -> Iterator[tuple[int, int]]:
        """The first and the last position of each segment that begins at a position or before, in order."""
        before: int | None = None
        for first in self._segments:
            if before is not None:
                yield before, first - 1
            before = first
            if first > position:
                return
        if before is not None:
            yield before, self.last

    @property
    def oldest_through(self) -> int | None:
        """The last position of the oldest segment; None where the log is empty."""
        oldest = self._oldest()
        return None if oldest is None else oldest[1]

    def _oldest(self) -> tuple[int, int] | None:
        positions = iter(self._segments)
        first = next(positions, None)
        return None if first is None else (first, next(positions, self.last + 1) - 1)

    def behind(self, position: Position, is_for: Callable[[int], bool]) -> int:
        """How many messages behind a position are in entries of which `is_for` holds; it gets numbers of audiences.

        They are more, where somebody has read a part of a segment that is not the newest one, or was before the start
        of this server: then all of that segment count.
        """
        found = 0
        for first, last in self._through(self.last):
            if last < position.entry:
                continue
            if first == self._newest and position.entry > self._recent_behind:
                found += sum(
                    each.messages - (position.item + 1 if each.position == position.entry else 0)
                    for each in self._recent
                    if each.position >= position.entry and is_for(each.audience)
                )
                continue
            for number, there in self._segments[first].audiences.items():
                if there.last > position and is_for(int(number)):
                    found += there.messages
        return found

    def oldest_for(self) -> dict[int, ForAudience]:
        """What the oldest segment has, by the number of an audience."""
        oldest = next(iter(self._segments.values()), None)
        return {} if oldest is None else {int(number): found for number, found in oldest.audiences.items()}

    @property
    def is_too_large(self) -> bool:
        """Whether its oldest segment is to go, because it is larger than it may be."""
        return self._segments_size > self.limit_bytes and len(self._segments) > 1 and self.size > self.limit_bytes

    def is_too_old(self, at: float) -> bool:
        """Whether its oldest segment is to go, because all in it was kept for longer than it may be."""
        oldest = self._oldest()
        if oldest is None:
            return False
        kept_seconds = at - self._segments[oldest[0]].began_at
        return kept_seconds >= self.limit_seconds + min(SEGMENT_SECONDS, self.limit_seconds)

    def take_rows(self) -> tuple[list[LogRecord], int | None]:
        """What this step has appended, and through which position it has cut; None: it has not."""
        new, self._new = self._new, []
        cut, self._cut_now = (self.cut if self._cut_now else None), False
        return new, cut

    def end(self) -> Position:
        """The place behind all that is in the log."""
        return Position.before(self.last + 1)
