"""Segments of the log: what each has, of whom, and for whom. A segment is a row; what was sent is not in it.

    segment = entries that follow one another = shares, one for each writer and audience
    a share goes: its entries are deleted; it is still known for whom they were --all shares gone--> one hole

Source: delivery.md section 9.
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
    """Network of the client that sent it, or the server that posted it."""
    addressed: str
    """First target of the entry."""


class ForAudience(NamedTuple):
    """Messages of a segment for one audience."""

    messages: int
    last: Position
    """The last of these."""


NO_WRITER = 0
"""Number of an unknown writer: of entries of an earlier version, and of entries that are gone."""


@lru_cache(_KNOWN_NUMBERS)
def number_of(name: str) -> int:
    """Return the number that stands for a source, or for a target, in shares."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest()) >> 1


class Share(Struct, array_like=True):
    """Entries of a segment of one writer for one audience."""

    source: int
    addressed: int
    """Numbers of these."""
    audience: int
    """Its number."""
    messages: int
    last: Position
    """The last of them."""
    size: int = 0
    """Bytes of parcels."""
    runs: list[int] = []
    """First and last entry of each run, counted from the first entry of the segment. Empty in a hole."""
    is_gone: bool = False

    def add(self, at: int, size: int, messages: int, last: Position) -> None:
        """Take an entry in, which is the one of this number in the segment."""
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
    shares: list[Share] = []
    is_hole: bool = False
    """Whether all of its entries are gone: it has one share for each audience then."""

    def read_old(self, entries: int) -> None:
        """Have the shares of a segment of an earlier version: one of all its entries, others to know for whom."""
        if self.shares:
            return
        first = Share(NO_WRITER, NO_WRITER, 0, 0, Position(0, 0), self.size, [0, entries - 1])
        others = [Share(NO_WRITER, NO_WRITER, int(number), *found) for number, found in self.audiences.items()]
        self.shares, self.audiences = [first, *others], {}

    def left(self) -> Iterator[Share]:
        """The shares that are not gone."""
        return (share for share in self.shares if not share.is_gone)

    def for_audiences(self) -> dict[int, ForAudience]:
        """Return the messages that are left by the number of their audience. Those for nobody are not among them."""
        return united(self.left())

    def make_hole(self, more: Iterable[Share] = ()) -> None:
        """Become a hole, which goes on over the shares of the hole behind it."""
        found = united([*self.shares, *more])
        self.shares = [Share(NO_WRITER, NO_WRITER, number, *each, is_gone=True) for number, each in found.items()]
        self.size, self.is_hole = 0, True

    def gone(self, begin: int, end: int, *, within: Iterable[Share] | None = None) -> int:
        """Count the entries that are gone of those from one number in the segment to another one, without that.

        `within`: of these shares alone.
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
        """Count those as `gone` that may have been for a reader. `first`: position of the first entry."""
        concerned = [
            share
            for share in self.shares
            if share.is_gone and share.audience and share.last.entry >= first + begin and is_for(share.audience)
        ]
        if not concerned:
            return 0
        return self.gone(begin, end, within=concerned if all(share.runs for share in concerned) else None)


def united(shares: Iterable[Share]) -> dict[int, ForAudience]:
    """Return what shares have together, by the number of an audience; nobody's is not among them."""
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
    shares: list[Share]

    def positions(self) -> Iterator[int]:
        """Those of all entries."""
        for share in self.shares:
            for first, last in zip(share.runs[::2], share.runs[1::2], strict=True):
                yield from range(self.first + first, self.first + last + 1)
