"""Processes that no server owns, at a server that has some below a target: whom of them it serves, the origin says.

    parcel --somebody whom the origin was not told of--> left out; Claims, then the Confirm, go to the origin
    Elsewhere --> all who were claimed by then are decided: others serve those whom it names, this server all else
    parcel once more --> logged for those who are decided since, and have not got it

A server that has such a process below a target knows nothing of others that have it, too. What the origin is told are
hashes of names. All of this is in memory: whoever starts again claims anew, and an origin that does is told anew.

Source: delivery.md section 4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import takewhile
from typing import NamedTuple

from pyroaring import BitMap

from delivery.mailboxes.audiences import Foreign
from delivery.wire.posts import (
    HASH_BYTES,
    HASHES_LIMIT,
    NUMBER_LIMIT,
    Claims,
    Elsewhere,
    Parcel,
    Stub,
    Version,
    hashes_of,
)
from namegraph import NodeId, ServerId

NOBODY = BitMap()

CHANGES_KEPT = 16
"""Of who serves one process elsewhere: those of before are of parcels that are settled, as a rule."""


class _Claim(NamedTuple):
    """That the origin was told of a process."""

    version: Version
    first_serial: int
    """Of the parcel with which it was below here first, as far as is known: 0 where that may be an earlier one."""


class _Change(NamedTuple):
    """From a serial on others serve a process, or do not any more."""

    since: int
    is_elsewhere: bool


@dataclass(slots=True)
class _Claimed:
    """What the origin of one sequence was told, and has said."""

    start: int
    """Of the origin."""
    before: Mapping[NodeId, _Claim] | None
    """What an earlier start of it was told; None: what it was told is not known."""
    foreign: Foreign = field(default_factory=dict)
    """Who is below, as far as it was looked."""
    claims: dict[NodeId, _Claim] = field(default_factory=dict)
    claimed_from: int = 0
    """The serial from which on all of these were below here."""
    names: dict[bytes, NodeId] = field(default_factory=dict)
    """By hash."""
    undecided: dict[NodeId, None] = field(default_factory=dict)
    """Those of whom the origin has said nothing; in the order of their versions."""
    elsewhere: dict[NodeId, tuple[_Change, ...]] = field(default_factory=dict)
    """Whom others serve, or did; in the order of serials, by turns."""
    number: int = 0
    """Of the last `Elsewhere`."""
    _left_out: BitMap | None = None
    """Numbers of those who are left out of new parcels; None: something has changed."""
    _since: int = 0
    """The serial from which on that is so."""

    def changed(self) -> None:
        """Somebody is left out, or is not any more."""
        self._left_out = None

    def forget(self, gone: Iterable[NodeId], hashes: Iterable[bytes]) -> None:
        """These are below no more."""
        for name in gone:
            del self.claims[name]
            self.undecided.pop(name, None)
            self.elsewhere.pop(name, None)
        for each in hashes:
            self.names.pop(each, None)

    def came_with(self, name: NodeId, first_serial: int) -> int:
        """The serial of the parcel with which one who is claimed with a parcel was below here first, or a lower one."""
        if self.before is None:
            return 0
        return self.before[name].first_serial if name in self.before else first_serial

    def left_out_of(self, first_serial: int, *, is_first_round: bool) -> BitMap:
        """Who is left out of a parcel. The caller must not change it."""
        if self._left_out is None:
            self._left_out = self._numbers_of([*self.undecided, *self._elsewhere_at(NUMBER_LIMIT)])
            self._since = max(self.claimed_from, *(changes[-1].since for changes in self.elsewhere.values()), 0)
        if first_serial >= self._since:
            return self._left_out
        found = [*self.undecided, *self._elsewhere_at(first_serial)]
        if is_first_round:
            # It was not for those who have come since. In later rounds they may have been behind suspended arcs.
            found += [name for name, claim in self.claims.items() if claim.first_serial > first_serial]
        return self._numbers_of(found)

    def _elsewhere_at(self, serial: int) -> Iterator[NodeId]:
        """Whom others serve of a parcel."""
        for name, changes in self.elsewhere.items():
            before = [change for change in changes if change.since <= serial]
            if before and before[-1].is_elsewhere:
                yield name

    def change(self, each: bytes, elsewhere: Elsewhere, *, is_elsewhere: bool) -> None:
        """The origin has said of one who was claimed whether others serve that one, from a serial on."""
        name = self.names.get(each)
        if name is None or self.claims[name].version > elsewhere.version:
            # It answers an earlier claim.
            return
        before = [change for change in self.elsewhere.get(name, ()) if change.since < elsewhere.first_serial]
        if is_elsewhere != (bool(before) and before[-1].is_elsewhere):
            before.append(_Change(elsewhere.first_serial, is_elsewhere))
        self.elsewhere[name] = tuple(before[-CHANGES_KEPT:])
        if not before:
            del self.elsewhere[name]

    def _numbers_of(self, names: Iterable[NodeId]) -> BitMap:
        return BitMap([number for name in names for number in self.foreign.get(name, ())])


class ForeignRecipients:
    """What is known of all sequences, also of this server's own."""

    def __init__(self) -> None:
        self.start = 0
        """Of this server."""
        self._version = 0
        self._claimed: dict[tuple[ServerId, int], _Claimed] = {}
        """By origin and sequence."""
        self._taken: dict[tuple[ServerId, int], int] = {}
        """By origin and sequence, the highest serial of a parcel that was taken."""
        self._to_tell: list[tuple[ServerId, Claims]] = []
        self.is_believed: Callable[[ServerId], bool] = lambda _server: True
        """True if another server's word counts about who serves a process: its claims, and its `Elsewhere`."""

    def left_out(self, origin: ServerId, taken: Parcel | Stub, foreign: Foreign) -> BitMap:
        """Whom to leave out of what an origin has posted. The caller must not change it.

        `foreign`: whom no server owns, of those whom it reaches.
        """
        key = (origin, taken.sequence)
        # Whoever is new came behind all that was taken before, but for this one.
        last = self._taken.get(key)
        first_serial = taken.first_serial if last is None or last <= taken.first_serial else last + 1
        if isinstance(taken, Parcel):
            self.take(origin, taken)
        claimed = self._claimed.get(key)
        # A stub is decided as the parcel before it, if anything was.
        assigner, number = (taken.assigner, taken.round) if isinstance(taken, Parcel) else (0, 0)
        if claimed is None or assigner > claimed.start:
            if not (foreign and assigner):
                self._claimed.pop(key, None)
                return NOBODY
            claims = None if last is None else {} if claimed is None else claimed.claims
            claimed = self._claimed[key] = _Claimed(assigner, claims)
        if foreign is not claimed.foreign:
            self._claim(origin, taken.sequence, first_serial, claimed, foreign)
        return claimed.left_out_of(taken.first_serial, is_first_round=not number)

    def take(self, origin: ServerId, taken: Parcel | Stub) -> None:
        """A parcel was taken, or the stub of one, for nobody here gets it."""
        key = (origin, taken.sequence)
        self._taken[key] = max(self._taken.get(key, 0), taken.first_serial)

    def _claim(self, origin: ServerId, sequence: int, first_serial: int, claimed: _Claimed, foreign: Foreign) -> None:
        is_whole = not claimed.claims and not claimed.number
        removed = [name for name in claimed.claims if name not in foreign]
        added = [name for name in foreign if name not in claimed.claims]
        gone = [hash_of(name, origin) for name in removed]
        claimed.foreign = foreign
        claimed.forget(removed, gone)
        claimed.changed()
        while added or gone:
            self._version += 1
            version = (self.start, self._version)
            some, added = added[:HASHES_LIMIT], added[HASHES_LIMIT:]
            leaving, gone = gone[:HASHES_LIMIT], gone[HASHES_LIMIT:]
            coming = [hash_of(name, origin) for name in some]
            claimed.names.update(zip(coming, some, strict=True))
            claimed.claims.update({name: _Claim(version, claimed.came_with(name, first_serial)) for name in some})
            came = max((claimed.claims[name].first_serial for name in some), default=0)
            claimed.claimed_from = max(claimed.claimed_from, came)
            claimed.undecided.update(dict.fromkeys(some))
            joined = (b"".join(coming), b"".join(leaving))
            # Nobody else leaves them out of what comes before.
            claims = Claims(sequence, claimed.start, max(first_serial, came), version, is_whole, *joined)
            self._to_tell.append((origin, claims))
            is_whole = False
        claimed.before = {}

    def take_claims(self) -> list[tuple[ServerId, Claims]]:
        """What origins are to be told, before what rests on it."""
        to_tell, self._to_tell = self._to_tell, []
        return to_tell

    def decide(self, origin: ServerId, elsewhere: Elsewhere) -> None:
        """The origin of a sequence says whom others serve."""
        claimed = self._claimed.get((origin, elsewhere.sequence))
        # What answers claims of before a start of this server, or says an earlier start of the origin, says nothing.
        if claimed is None or elsewhere.start != claimed.start or elsewhere.version[0] != self.start:
            return
        for each in hashes_of(elsewhere.added) if self.is_believed(origin) else ():
            claimed.change(each, elsewhere, is_elsewhere=True)
        for each in hashes_of(elsewhere.removed):
            claimed.change(each, elsewhere, is_elsewhere=False)
        decided = takewhile(lambda name: claimed.claims[name].version <= elsewhere.version, claimed.undecided)
        for name in list(decided):
            del claimed.undecided[name]
        claimed.number = elsewhere.number
        claimed.changed()

    def followed(self, origin: ServerId, sequence: int) -> tuple[int, int]:
        """The start of the origin whose word is followed in a sequence, and the number of the last one; zeros: none."""
        claimed = self._claimed.get((origin, sequence))
        return (0, 0) if claimed is None else (claimed.start, claimed.number)

    def origins(self) -> set[ServerId]:
        """Those of which parcels were taken."""
        return {origin for origin, _ in self._taken}

    def forget_sequence(self, origin: ServerId, sequence: int) -> None:
        """Forget a sequence that its origin remembers no more."""
        self._taken.pop((origin, sequence), None)
        self._claimed.pop((origin, sequence), None)

    def forget(self, origin: ServerId) -> None:
        """The lanes to and from an origin begin again: it is told anew."""
        for key in [key for key in self._taken if key[0] == origin]:
            del self._taken[key]
            self._claimed.pop(key, None)


def hash_of(name: NodeId, origin: ServerId) -> bytes:
    """What the origin is told in place of a name: it can compare it, and not read it."""
    return blake2b(f"{name} {origin}".encode(), digest_size=HASH_BYTES).digest()
