"""The log of a server: parcels in the order in which they arrived, each with the audience that gets it.

    append --> position n --> durable --> read by subscriptions, in the order of positions --> cut

An entry is one row, however many members it has. Contents of entries are read from the database. This module keeps only
the ends of the log and its *segments*: the begin, writers and audiences of each (`segments.py`).

The log is cut behind all cursors, and before the oldest parcel of this server that is not settled. If the oldest
segment is kept for too long, it goes. If the log exceeds its limit, the oldest entries of a writer go (`holders.py`),
and leave holes. A subscription that had not read an entry that went is told a gap.

See docs/protocol-messages.md, "Log, audiences, mailboxes".
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import NamedTuple

from delivery.log.holders import QUARTER, Holders
from delivery.log.segments import ForAudience, Going, Segment, SegmentShare, Writer, number_of
from delivery.model.agenda import Agenda, Work
from delivery.model.words import Position
from namegraph import NUMBERS, TEXTS, DurableMap, DurableState, LogRecord, packed

LOG_BYTES_LIMIT = 4 * 1024 * 1024 * 1024

LOG_SECONDS_LIMIT = 7 * 24 * 3600.0
"""Longest retention of an entry, in running time."""

SEGMENT_ENTRIES = 1_000
SEGMENT_SECONDS = 600.0
"""Longest running time between the first and the last entry of a segment."""

SEGMENTS_OF_LOG = 64
"""Inverse of the part of the log limit that a segment holds at most, besides its last entry.

It bounds the entries that go together.
"""

SEGMENT_BYTES_AT_LEAST = 64 * 1024
"""Smallest size limit of a segment, for a very small log."""

CUT_AT_MOST = 10_000
"""Most entries cut in one step. The next step goes on: a large deletion delays all other writes."""

CUT_AT_LEAST = 100
CUT_AT_LEAST_BYTES = 1024 * 1024
"""Fewest entries, or bytes of entries, that are cut together: each cut writes a row and deletes rows."""


class _LoggedEntry(NamedTuple):
    """Entry of the newest segment, in memory."""

    position: int
    audience: int
    """Number of the audience."""
    messages: int


NOBODY_KNOWN = Writer("", "")


class Log:
    """Ends of the log, its segments, and the entries that this step appends."""

    def __init__(self, durable: DurableState, agenda: Agenda) -> None:
        self._agenda = agenda
        self._ends = DurableMap(durable, "log ends", TEXTS, packed(tuple[int, int]))
        """Last position that was given, and last position that was cut: one value, without a key."""
        self._segments = DurableMap(durable, "log segments", NUMBERS, packed(Segment))
        """Segments by first position, in order."""
        self.last, self.cut = self._ends.get("", (0, 0))
        self._segments_size = sum(segment.size for segment in self._segments.values())
        self._firsts = list(self._segments)
        """First positions of the segments."""
        self._newest = max(self._segments, default=0)
        self._holders = Holders()
        self._gone_in: dict[int, int] = {}
        """Number of entries that are gone, by first position of a segment.

        Segments without such entries are not in it.
        """
        self._growing: dict[tuple[int, int, int], SegmentShare] = {}
        """Shares of the newest segment, by the numbers of their sources, targets and audiences."""
        self._names: dict[int, str] = {}
        """Names of sources in the newest segment, by number.

        Names from before the start of this server are not in it.
        """
        self._names_before: dict[int, str] = {}
        """Names of sources in the segment before the newest, by number, with the same exception."""
        for first, last in self._through(self.last):
            self._take_up(first, last)
        self._recent: list[_LoggedEntry] = []
        """Entries of the newest segment that were appended since this server started."""
        self._recent_behind = self.last
        """Last position before the entries of `_recent`: every later entry is among them."""
        self._limit_bytes = LOG_BYTES_LIMIT
        self._limit_seconds = LOG_SECONDS_LIMIT
        self._agenda.mark(Work.RETENTION)
        self.cut_at_least = CUT_AT_LEAST
        self._new: list[LogRecord] = []
        self._cut_now = False
        self._gone: list[int] = []
        """Positions that this step has forgotten, including those behind the cut."""

    def _take_up(self, first: int, last: int) -> None:
        """Load the in-memory state of a stored segment."""
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
        """Append a parcel and return its position. `at` is the running time."""
        self.last += 1
        self._new.append(LogRecord(self.last, audience, encoded))
        newest, size = self._segments.get(self._newest), len(encoded)
        if newest is None or self._is_full(newest, at):
            newest = self._begin_segment(at)
        self._recent.append(_LoggedEntry(self.last, audience, messages))
        source, addressed = number_of(writer.source), number_of(writer.addressed)
        share = self._growing.get((source, addressed, audience))
        if share is None:
            share = SegmentShare(source, addressed, audience, 0, Position(self.last, 0))
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
        self._agenda.mark(Work.ENTRIES)
        self._mark_retention()
        return self.last

    def _mark_retention(self) -> None:
        self._agenda.mark(Work.RETENTION)
        if self._segments_size > self._limit_bytes:
            # Parcels that servers have not confirmed may have to give way first.
            self._agenda.mark(Work.EXPIRY)

    @property
    def limit_bytes(self) -> int:
        """Most bytes of the log."""
        return self._limit_bytes

    @limit_bytes.setter
    def limit_bytes(self, limit: int) -> None:
        self._limit_bytes = limit
        self._mark_retention()

    @property
    def limit_seconds(self) -> float:
        """Longest retention of an entry, in seconds of running time."""
        return self._limit_seconds

    @limit_seconds.setter
    def limit_seconds(self, seconds: float) -> None:
        self._limit_seconds = seconds
        self._mark_retention()

    def _is_full(self, newest: Segment, at: float) -> bool:
        return (
            self.last - self._newest >= SEGMENT_ENTRIES
            or at - newest.began_at >= min(SEGMENT_SECONDS, self._limit_seconds)
            or newest.size >= max(self._limit_bytes // SEGMENTS_OF_LOG, SEGMENT_BYTES_AT_LEAST)
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
        """Forget the entries through a position, once there are enough of them to cut together.

        `at_least` is the number of entries that is enough. None for the usual number.
        """
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
        self._agenda.mark(Work.ENTRIES)
        # A step cuts no more than `CUT_AT_MOST`.
        self._agenda.mark(Work.RETENTION)

    @property
    def size(self) -> int:
        """Bytes of parcels in the log. A segment that is partly cut counts in proportion to its remaining entries."""
        oldest = self._oldest()
        if oldest is None:
            return 0
        first, last = oldest
        return self._segments_size - self._share(first, last, max(0, self.cut - first + 1))

    def _is_much(self, position: int) -> bool:
        """True if the entries through a position have `CUT_AT_LEAST_BYTES` or more, with the mean size of each
        segment."""
        found = 0
        for first, last in self._through(position):
            found += self._share(first, last, min(position, last) - max(self.cut + 1, first) + 1)
            if found >= CUT_AT_LEAST_BYTES:
                return True
        return False

    def _share(self, first: int, last: int, entries: int) -> int:
        """Return the approximate bytes of so many entries of a segment."""
        return self._segments[first].size * entries // (last - first + 1)

    def _through(self, position: int) -> Iterator[tuple[int, int]]:
        """Yield the first and the last position of each segment that begins at a position or before, in order."""
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
        """Last position of the oldest segment. None if the log is empty."""
        oldest = self._oldest()
        return None if oldest is None else oldest[1]

    def _oldest(self) -> tuple[int, int] | None:
        firsts = self._firsts
        return (firsts[0], firsts[1] - 1 if len(firsts) > 1 else self.last) if firsts else None

    def behind(self, position: Position, is_for: Callable[[int], bool]) -> int:
        """Count the messages behind a position in entries for which `is_for` holds. `is_for` gets numbers of audiences.

        The count may be too high: all messages of a segment may count although the reader has read a part of them. That
        happens in every segment but the newest, and there if the position is from before the start of this server.
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
        """Return the messages of the oldest segment, by number of their audience."""
        oldest = next(iter(self._segments.values()), None)
        return {} if oldest is None else oldest.for_audiences()

    @property
    def is_empty(self) -> bool:
        """Return True if there is no entry."""
        return self.last == self.cut

    @property
    def is_too_large(self) -> bool:
        """True if the log exceeds its size limit and entries must go."""
        return self._segments_size > self._limit_bytes and len(self._segments) > 1 and self.size > self._limit_bytes

    def next_to_go(self) -> Going | None:
        """Return the shares that go first if the log is too large. None if no share may go."""
        recent = [share for first in self._firsts[-2:] for share in self._segments[first].left()]
        found = self._holders.who_gives_way(recent, limit=self._limit_bytes, newest=self._newest)
        if found is None:
            return None
        first, source, addressed = found
        shares = self._segments[first].left()
        return Going(first, [each for each in shares if each.source == source and each.addressed in addressed])

    def drop(self, going: Going) -> None:
        """Forget shares of a segment, whose entries are gone."""
        first, segment = going.first, self._segments[going.first]
        last = self._last_of(first)
        self._holders.remove(going.shares, first=first)
        for share in going.shares:
            share.is_gone = True
            segment.size -= share.size
            self._segments_size -= share.size
        self._gone += going.positions()
        self._agenda.mark(Work.ENTRIES)
        if not any(segment.left()):
            segment.make_hole()
        self._gone_in[first] = segment.gone(0, last - first + 1)
        self._segments.touch(first)
        self._unite_holes(self._firsts.index(first))

    def _last_of(self, first: int) -> int:
        at = bisect_right(self._firsts, first)
        return self._firsts[at] - 1 if at < len(self._firsts) else self.last

    def _unite_holes(self, at: int) -> None:
        """Merge a segment with adjacent holes if it is a hole: many holes together take no room."""
        for left in (at, at - 1):
            pair = self._firsts[left : left + 2] if left >= 0 else []
            if len(pair) == 2 and all(self._segments[first].is_hole for first in pair):
                first, second = pair
                self._segments[first].make_hole(self._segments.pop(second).shares)
                self._segments.touch(first)
                self._gone_in[first] += self._gone_in.pop(second)
                del self._firsts[left + 1]

    def cut_holes(self) -> None:
        """Cut the hole at the begin of the log, if there is one."""
        if self._gone_in and self._segments[self._firsts[0]].is_hole:
            self.cut_through(self._last_of(self._firsts[0]), at_least=1)

    def lost(self, first: int, last: int, is_for: Callable[[int], bool]) -> int:
        """Count the gone entries from position `first` through `last` that may have been for a reader.

        Every entry between these positions is gone. `is_for` gets numbers of audiences.
        """
        found, at = 0, max(0, bisect_right(self._firsts, first) - 1)
        while at < len(self._firsts) and (begin := self._firsts[at]) <= last:
            end = min(last, self._last_of(begin)) + 1
            found += self._segments[begin].lost(begin, max(first - begin, 0), end - begin, is_for)
            at += 1
        return found

    @property
    def gone(self) -> int:
        """Number of entries behind the cut that are gone."""
        gone, oldest = sum(self._gone_in.values()), self._oldest()
        if oldest is not None and oldest[0] in self._gone_in:
            gone -= self._segments[oldest[0]].gone(0, self.cut - oldest[0] + 1)
        return gone

    def is_heavy(self, source: str) -> bool:
        """True if a source holds more than a quarter of the size limit."""
        return self._holders.sources.get(number_of(source), 0) * QUARTER > self._limit_bytes

    def source_of(self, going: Going) -> str:
        """Return the source of shares that go. Empty if the source has written no entry lately."""
        number = going.shares[0].source
        return self._names.get(number, "") or self._names_before.get(number, "")

    def is_too_old(self, at: float) -> bool:
        """True if the oldest segment must go, because every entry of it was kept longer than the limit."""
        oldest = self._oldest()
        if oldest is None:
            return False
        kept_seconds = at - self._segments[oldest[0]].began_at
        return kept_seconds >= self._oldest_kept_seconds

    @property
    def _oldest_kept_seconds(self) -> float:
        """Running time after the begin of a segment from which on all its entries are older than the limit."""
        return self._limit_seconds + min(SEGMENT_SECONDS, self._limit_seconds)

    def mark_next_retention(self) -> None:
        """Mark the time from which on the oldest segment is too old, and a log that is still too large."""
        if self._firsts:
            began_at = self._segments[self._firsts[0]].began_at
            self._agenda.mark_from(Work.RETENTION, began_at + self._oldest_kept_seconds)
        if self.is_too_large:
            self._mark_retention()

    def take_rows(self) -> tuple[list[LogRecord], int | None]:
        """Return the entries that this step appended, and the position through which it cut. None if it has not cut."""
        new, self._new = self._new, []
        cut, self._cut_now = (self.cut if self._cut_now else None), False
        return new, cut

    def take_gone(self) -> list[int]:
        """Return the entries that this step has forgotten and that are not cut."""
        gone, self._gone = self._gone, []
        return [position for position in gone if position > self.cut]

    def end(self) -> Position:
        """Return the place behind the last entry."""
        return Position.before(self.last + 1)
