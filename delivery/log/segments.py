"""Segments of the log: sizes, writers and audiences of their entries. A segment is a row; it holds no message.

    segment = entries that follow one another = shares, one for each writer and audience
    a share goes: its entries are deleted; it is still known for whom they were --all shares gone--> one hole

See docs/protocol-messages.md, "Log, audiences, mailboxes".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

from msgspec import Struct

from delivery.model.words import Position

_KNOWN_NUMBERS = 20_000


class Writer(NamedTuple):
    """Writer of an entry of the log."""

    source: str
    """Network of the client that sent the messages, or the server that posted them."""
    addressed: str
    """First target of the entry."""


class ForAudience(NamedTuple):
    """Messages of a segment for one audience."""

    messages: int
    last: Position
    """Position of the last of these messages."""


NO_WRITER = 0
"""Number of an unknown writer: of entries of an earlier version, and of entries that are gone."""


@lru_cache(_KNOWN_NUMBERS)
def number_of(name: str) -> int:
    """Return the number that stands for a source, or for a target, in shares."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest()) >> 1


class SegmentShare(Struct, array_like=True):
    """Entries of a segment of one writer for one audience."""

    source: int
    addressed: int
    """Number of the first target. `source` and `addressed` are values of `number_of`."""
    audience: int
    """Number of the audience."""
    messages: int
    last: Position
    """Position of the last message."""
    size: int = 0
    """Bytes of parcels."""
    runs: list[int] = []
    """First and last entry of each run, counted from the first entry of the segment. Empty in a hole."""
    is_gone: bool = False

    def add(self, at: int, size: int, messages: int, last: Position) -> None:
        """Add the entry with number `at` in the segment."""
        if self.runs and self.runs[-1] == at - 1:
            self.runs[-1] = at
        else:
            self.runs += (at, at)
        self.size += size
        self.messages += messages
        self.last = last


class Segment(Struct, array_like=True):
    """Entries that follow one another, up to the next segment."""

    began_at: float
    """Running time in seconds."""
    size: int
    """Bytes of parcels that are left."""
    audiences: dict[str, ForAudience] = {}
    """Audiences by number, written by an earlier version alone."""
    shares: list[SegmentShare] = []
    is_hole: bool = False
    """True if all of its entries are gone. A hole has one share for each audience."""

    def read_old(self, entries: int) -> None:
        """Build the shares of a segment of an earlier version: one with all entries, and one for each audience."""
        if self.shares:
            return
        first = SegmentShare(NO_WRITER, NO_WRITER, 0, 0, Position(0, 0), self.size, [0, entries - 1])
        others = [SegmentShare(NO_WRITER, NO_WRITER, int(number), *found) for number, found in self.audiences.items()]
        self.shares, self.audiences = [first, *others], {}

    def left(self) -> Iterator[SegmentShare]:
        """Return the shares that are not gone."""
        return (share for share in self.shares if not share.is_gone)

    def for_audiences(self) -> dict[int, ForAudience]:
        """Return the messages that are left, by number of their audience. Messages without an audience are left out."""
        return united(self.left())

    def make_hole(self, more: Iterable[SegmentShare] = ()) -> None:
        """Make the segment a hole that also covers the shares `more` of the hole behind it."""
        found = united([*self.shares, *more])
        self.shares = [
            SegmentShare(NO_WRITER, NO_WRITER, number, *each, is_gone=True) for number, each in found.items()
        ]
        self.size, self.is_hole = 0, True

    def gone(self, begin: int, end: int, *, within: Iterable[SegmentShare] | None = None) -> int:
        """Count the entries that are gone, from number `begin` in the segment up to but without `end`.

        `within` limits the count to these shares.
        """
        if self.is_hole:
            return max(0, end - begin)
        shares = self.shares if within is None else within
        return sum(
            max(0, min(end, last + 1) - max(begin, first))
            for share in shares
            if share.is_gone
            for first, last in zip(share.runs[::2], share.runs[1::2], strict=True)
        )

    def lost(self, first: int, begin: int, end: int, is_for: Callable[[int], bool]) -> int:
        """Count the entries that `gone` counts and that may have been for a reader.

        `first` is the segment's first position.
        """
        concerned = [
            share
            for share in self.shares
            if share.is_gone and share.audience and share.last.entry >= first + begin and is_for(share.audience)
        ]
        if not concerned:
            return 0
        return self.gone(begin, end, within=concerned if all(share.runs for share in concerned) else None)


def united(shares: Iterable[SegmentShare]) -> dict[int, ForAudience]:
    """Return the messages of several shares, by number of their audience. Messages without an audience are left out."""
    found: dict[int, ForAudience] = {}
    for share in shares:
        if share.audience:
            before = found.get(share.audience)
            messages, last = (0, share.last) if before is None else before
            found[share.audience] = ForAudience(messages + share.messages, max(last, share.last))
    return found


class Going(NamedTuple):
    """Shares of one segment that are to go together."""

    first: int
    """Position at which the segment begins."""
    shares: list[SegmentShare]

    def positions(self) -> Iterator[int]:
        """Yield the positions of all entries."""
        for share in self.shares:
            for first, last in zip(share.runs[::2], share.runs[1::2], strict=True):
                yield from range(self.first + first, self.first + last + 1)
