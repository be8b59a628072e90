"""The log of a server: parcels in the order in which they came, each with the audience that gets it.

    append --> position n --> durable --> read by subscriptions, in the order of positions --> cut

An entry is one row, whatever the number of its members. What is in the log is read from the database; here is only how
far it goes. It is cut where nobody needs it any more: behind all cursors, and before the oldest parcel of this server
that is not settled. Where it grows beyond its limit, its oldest part goes, and whoever had not read that is told a gap.

Source: delivery.md sections 3, 9, 11.
"""

from __future__ import annotations

from delivery.model import Position
from namegraph import NUMBERS, TEXTS, DurableMap, DurableState, LogRecord, packed

LOG_BYTES_LIMIT = 4 * 1024 * 1024 * 1024

SEGMENT_ENTRIES = 1_000
"""The sizes of so many entries are remembered together."""

CUT_AT_MOST = 10_000
"""The next step goes on: what is deleted at once holds up whatever else is to be written."""

CUT_AT_LEAST = 100
CUT_AT_LEAST_BYTES = 1024 * 1024
"""Entries that are cut together, or bytes of them: each cut is a row, and a deletion."""


class Log:
    """How far the log goes, and what this step appends to it."""

    def __init__(self, durable: DurableState) -> None:
        self._ends = DurableMap(durable, "log ends", TEXTS, packed(tuple[int, int]))
        """One value, without a key: the last position that was given, and the last one that was cut."""
        self._bytes = DurableMap(durable, "log segments", NUMBERS, packed(int))
        """How large each segment is."""
        self.last, self.cut = self._ends.get("", (0, 0))
        self._segments_size = sum(self._bytes.values())
        self.limit_bytes = LOG_BYTES_LIMIT
        self.cut_at_least = CUT_AT_LEAST
        self._new: list[LogRecord] = []
        self._cut_now = False

    def append(self, audience: int, encoded: bytes) -> int:
        """Give a parcel the next position."""
        self.last += 1
        self._new.append(LogRecord(self.last, audience, encoded))
        segment = self.last // SEGMENT_ENTRIES
        self._bytes[segment] = self._bytes.get(segment, 0) + len(encoded)
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
        for segment in [segment for segment in self._bytes if (segment + 1) * SEGMENT_ENTRIES <= position + 1]:
            self._segments_size -= self._bytes.pop(segment)
        self._ends[""] = (self.last, self.cut)
        self._cut_now = True

    @property
    def size(self) -> int:
        """Bytes of parcels in it; of a segment of which a part was cut, the share of its entries that are left."""
        segment = self.cut // SEGMENT_ENTRIES
        first, last = self._range_of(segment)
        if last < first:
            return self._segments_size
        return self._segments_size - self._bytes.get(segment, 0) * (self.cut - first + 1) // (last - first + 1)

    def _is_much(self, position: int) -> bool:
        """Whether there is much at a position and before, about: as if all entries of a segment had one size."""
        found = 0
        for segment in range((self.cut + 1) // SEGMENT_ENTRIES, position // SEGMENT_ENTRIES + 1):
            first, last = self._range_of(segment)
            part = min(position, last) - max(self.cut + 1, first) + 1
            found += self._bytes.get(segment, 0) * part // (last - first + 1)
        return found >= CUT_AT_LEAST_BYTES

    def _range_of(self, segment: int) -> tuple[int, int]:
        """The first and the last position of a segment that were given."""
        return max(1, segment * SEGMENT_ENTRIES), min(self.last, (segment + 1) * SEGMENT_ENTRIES - 1)

    def overrun_through(self) -> int | None:
        """Through which position the oldest part is to go, because the log is larger than it may be; else None."""
        if self.size <= self.limit_bytes or len(self._bytes) < 2:
            return None
        return (min(self._bytes) + 1) * SEGMENT_ENTRIES - 1

    def take_rows(self) -> tuple[list[LogRecord], int | None]:
        """What this step has appended, and through which position it has cut; None: it has not."""
        new, self._new = self._new, []
        cut, self._cut_now = (self.cut if self._cut_now else None), False
        return new, cut

    def end(self) -> Position:
        """The place behind all that is in the log."""
        return Position.before(self.last + 1)
