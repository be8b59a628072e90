"""The log of a server: parcels in the order in which they came, each with the audience that gets it.

    append --> position n --> durable --> read by subscriptions, in the order of positions --> cut

An entry is one row, whatever the number of its members. What is in the log is read from the database; here is only how
far it goes, and of each *segment* of it, when it began, of whom it is and what it is for (`log_segments.py`). It is cut
where nobody needs it any more: behind all cursors, and before the oldest parcel of this server that is not settled.
Where it is kept for too long, its oldest segment goes. Where it grows beyond its limit, the oldest entries of a writer
go (`log_holders.py`), which leaves holes. Whoever had not read what went is told a gap.

Source: delivery.md sections 3, 9, 11.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import NamedTuple

from delivery.log.holders import QUARTER, Holders
from delivery.log.segments import ForAudience, Going, Segment, Share, Writer, number_of
from delivery.model.words import Position
from namegraph import NUMBERS, TEXTS, DurableMap, DurableState, LogRecord, packed

LOG_BYTES_LIMIT = 4 * 1024 * 1024 * 1024

LOG_SECONDS_LIMIT = 7 * 24 * 3600.0
"""Of running time."""

SEGMENT_ENTRIES = 1_000
SEGMENT_SECONDS = 600.0
"""Entries of one segment come within so much running time."""

SEGMENTS_OF_LOG = 64
"""A segment has this part of the largest log at most, and the entry that ends it: what goes together is no more."""

SEGMENT_BYTES_AT_LEAST = 64 * 1024
"""A segment of a very small log may have so much."""

CUT_AT_MOST = 10_000
"""The next step goes on: what is deleted at once holds up whatever else is to be written."""

CUT_AT_LEAST = 100
CUT_AT_LEAST_BYTES = 1024 * 1024
"""Entries that are cut together, or bytes of them: each cut is a row, and a deletion."""


class _Entry(NamedTuple):
    """What is remembered of an entry of the newest segment."""

    position: int
    audience: int
    """Its number."""
    messages: int


NOBODY_KNOWN = Writer("", "")


class Log:
    """How far the log goes, and what this step appends to it."""

    def __init__(self, durable: DurableState) -> None:
        self._ends = DurableMap(durable, "log ends", TEXTS, packed(tuple[int, int]))
        """One value, without a key: the last position that was given, and the last one that was cut."""
        self._segments = DurableMap(durable, "log segments", NUMBERS, packed(Segment))
        """By their first positions, in order."""
        self.last, self.cut = self._ends.get("", (0, 0))
        self._segments_size = sum(segment.size for segment in self._segments.values())
        self._firsts = list(self._segments)
        """Their first positions."""
        self._newest = max(self._segments, default=0)
        self._holders = Holders()
        self._gone_in: dict[int, int] = {}
        """Entries that are gone, of the segments in which there are some."""
        self._growing: dict[tuple[int, int, int], Share] = {}
        """Shares of the newest segment, by the numbers of their sources, targets and audiences."""
        self._names: dict[int, str] = {}
        """Names of sources in the newest segment, by number; those from before the start of this server are lacking."""
        self._names_before: dict[int, str] = {}
        """Names of sources in the segment before, in the same way."""
        for first, last in self._through(self.last):
            self._take_up(first, last)
        self._recent: list[_Entry] = []
        """Those of the newest segment that were appended since this server started."""
        self._recent_behind = self.last
        """All of that segment behind this are among these."""
        self.limit_bytes = LOG_BYTES_LIMIT
        self.limit_seconds = LOG_SECONDS_LIMIT
        self.cut_at_least = CUT_AT_LEAST
        self._new: list[LogRecord] = []
        self._cut_now = False
        self._gone: list[int] = []
        """Positions that this step has forgotten, also behind the cut."""

    def _take_up(self, first: int, last: int) -> None:
        """Learn of a stored segment what is in memory of it."""
        segment = self._segments[first]
        segment.read_old(last - first + 1)
        for share in segment.left():
            self._holders.add(share, first=first)
            self._holders.grow(share, share.size)
        if gone := segment.gone(0, last - first + 1):
            self._gone_in[first] = gone
        if first == self._newest:
            self._growing = {(share.source, share.addressed, share.audience): share for share in segment.left()}

    def append(self, audience: int, encoded: bytes, *, messages: int, at: float, writer: Writer = NOBODY_KNOWN) -> int:
        """Give a parcel the next position; `at`: the running time."""
        self.last += 1
        self._new.append(LogRecord(self.last, audience, encoded))
        newest, size = self._segments.get(self._newest), len(encoded)
        if newest is None or self._is_full(newest, at):
            newest = self._begin_segment(at)
        self._recent.append(_Entry(self.last, audience, messages))
        source, addressed = number_of(writer.source), number_of(writer.addressed)
        share = self._growing.get((source, addressed, audience))
        if share is None:
            share = Share(source, addressed, audience, 0, Position(self.last, 0))
            self._growing[source, addressed, audience] = share
            newest.shares.append(share)
            self._names[source] = writer.source
            self._holders.add(share, first=self._newest)
        share.add(self.last - self._newest, size, messages, Position(self.last, messages - 1))
        self._holders.grow(share, size)
        newest.size += size
        self._segments.touch(self._newest)
        self._segments_size += size
        self._ends[""] = (self.last, self.cut)
        return self.last

    def _is_full(self, newest: Segment, at: float) -> bool:
        return (
            self.last - self._newest >= SEGMENT_ENTRIES
            or at - newest.began_at >= min(SEGMENT_SECONDS, self.limit_seconds)
            or newest.size >= max(self.limit_bytes // SEGMENTS_OF_LOG, SEGMENT_BYTES_AT_LEAST)
        )

    def _begin_segment(self, at: float) -> Segment:
        self._newest = self.last
        segment = self._segments[self._newest] = Segment(at, 0)
        self._firsts.append(self._newest)
        self._growing = {}
        self._names, self._names_before = {}, self._names
        self._recent, self._recent_behind = [], self.last - 1
        return segment

    def cut_through(self, position: int, *, at_least: int | None = None) -> None:
        """Forget the entries at a position and before, once they are so many; None: as many as is usual."""
        position = min(position, self.last, self.cut + CUT_AT_MOST)
        at_least = self.cut_at_least if at_least is None else at_least
        if position <= self.cut or (position - self.cut < at_least and not self._is_much(position)):
            return
        self.cut = position
        for first in [first for first, last in self._through(position) if last <= position]:
            segment = self._segments.pop(first)
            self._segments_size -= segment.size
            self._holders.remove(segment.left(), first=first)
            self._gone_in.pop(first, None)
            del self._firsts[0]
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
        firsts = self._firsts
        return (firsts[0], firsts[1] - 1 if len(firsts) > 1 else self.last) if firsts else None

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
            for number, there in self._segments[first].for_audiences().items():
                if there.last > position and is_for(number):
                    found += there.messages
        return found

    def oldest_for(self) -> dict[int, ForAudience]:
        """What the oldest segment has, by the number of an audience."""
        oldest = next(iter(self._segments.values()), None)
        return {} if oldest is None else oldest.for_audiences()

    @property
    def is_empty(self) -> bool:
        """Return True if there is no entry."""
        return self.last == self.cut

    @property
    def is_too_large(self) -> bool:
        """Whether some of it is to go, because it is larger than it may be."""
        return self._segments_size > self.limit_bytes and len(self._segments) > 1 and self.size > self.limit_bytes

    def next_to_go(self) -> Going | None:
        """Return the shares that go first if the log is too large; None if none may."""
        recent = [share for first in self._firsts[-2:] for share in self._segments[first].left()]
        found = self._holders.who_gives_way(recent, limit=self.limit_bytes, newest=self._newest)
        if found is None:
            return None
        first, source, addressed = found
        shares = self._segments[first].left()
        return Going(first, [each for each in shares if each.source == source and each.addressed in addressed])

    def drop(self, going: Going) -> None:
        """Forget shares of a segment: their entries are gone."""
        first, segment = going.first, self._segments[going.first]
        last = self._last_of(first)
        self._holders.remove(going.shares, first=first)
        for share in going.shares:
            share.is_gone = True
            segment.size -= share.size
            self._segments_size -= share.size
        self._gone += going.positions()
        if not any(segment.left()):
            segment.make_hole()
        self._gone_in[first] = segment.gone(0, last - first + 1)
        self._segments.touch(first)
        self._unite_holes(self._firsts.index(first))

    def _last_of(self, first: int) -> int:
        at = bisect_right(self._firsts, first)
        return self._firsts[at] - 1 if at < len(self._firsts) else self.last

    def _unite_holes(self, at: int) -> None:
        """Make one of a segment and those next to it, as far as they are holes: many of them take no room."""
        for left in (at, at - 1):
            pair = self._firsts[left : left + 2] if left >= 0 else []
            if len(pair) == 2 and all(self._segments[first].is_hole for first in pair):
                first, second = pair
                self._segments[first].make_hole(self._segments.pop(second).shares)
                self._segments.touch(first)
                self._gone_in[first] += self._gone_in.pop(second)
                del self._firsts[left + 1]

    def cut_holes(self) -> None:
        """Cut what is gone and has nothing before it."""
        if self._gone_in and self._segments[self._firsts[0]].is_hole:
            self.cut_through(self._last_of(self._firsts[0]), at_least=1)

    def lost(self, first: int, last: int, is_for: Callable[[int], bool]) -> int:
        """Count entries that may have been for a reader, from one position through another one, all of which are gone.

        `is_for` gets numbers of audiences.
        """
        found, at = 0, max(0, bisect_right(self._firsts, first) - 1)
        while at < len(self._firsts) and (begin := self._firsts[at]) <= last:
            end = min(last, self._last_of(begin)) + 1
            found += self._segments[begin].lost(begin, max(first - begin, 0), end - begin, is_for)
            at += 1
        return found

    @property
    def gone(self) -> int:
        """How many entries behind the cut are gone."""
        gone, oldest = sum(self._gone_in.values()), self._oldest()
        if oldest is not None and oldest[0] in self._gone_in:
            gone -= self._segments[oldest[0]].gone(0, self.cut - oldest[0] + 1)
        return gone

    def is_heavy(self, source: str) -> bool:
        """Whether a source holds more than a quarter of what there is room for."""
        return self._holders.sources.get(number_of(source), 0) * QUARTER > self.limit_bytes

    def source_of(self, going: Going) -> str:
        """Return the source of shares that go; empty if it has written nothing lately."""
        number = going.shares[0].source
        return self._names.get(number, "") or self._names_before.get(number, "")

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

    def take_gone(self) -> list[int]:
        """Behind all that is cut, which entries this step has forgotten."""
        gone, self._gone = self._gone, []
        return [position for position in gone if position > self.cut]

    def end(self) -> Position:
        """The place behind all that is in the log."""
        return Position.before(self.last + 1)
