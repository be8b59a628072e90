"""Claims of foreign processes: their origin decides which of them this server serves.

    parcel --somebody whom the origin was not told of--> left out; Claims, then the Confirm, go to the origin
    Elsewhere --> all who were claimed by then are decided: others serve those whom it names, this server all else
    parcel once more --> logged for those who are decided since, and have not got it

A server with a foreign process below a target does not know which other servers have the process, too. The claims
contain hashes of names. The state is in memory alone: a server that starts again claims anew, and an origin that starts
again is told anew.

See docs/protocol-messages.md, "Who is below" (processes that nobody owns).
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
"""Most changes of the server of one process that are kept. Older changes are of settled parcels, as a rule."""


class _Claim(NamedTuple):
    """A claim of a process that the origin was told."""

    version: Version
    first_serial: int
    """Serial of the first known parcel for which the process was below this server.

    0 if it may be an earlier parcel.
    """


class _Change(NamedTuple):
    """Change of a process: from a serial on, another server serves it, or does not any more."""

    since: int
    is_elsewhere: bool


@dataclass(slots=True)
class _Claimed:
    """Claims of one sequence at its origin, and the decisions of the origin."""

    start: int
    """Start of the origin."""
    before: Mapping[NodeId, _Claim] | None
    """Claims at an earlier start of the origin. None if they are not known."""
    foreign: Foreign = field(default_factory=dict)
    """Foreign processes below this server, as of the last check."""
    claims: dict[NodeId, _Claim] = field(default_factory=dict)
    claimed_from: int = 0
    """Serial from which on all of these were below this server."""
    names: dict[bytes, NodeId] = field(default_factory=dict)
    """Names by hash."""
    undecided: dict[NodeId, None] = field(default_factory=dict)
    """Processes without a decision of the origin, in the order of their versions."""
    elsewhere: dict[NodeId, tuple[_Change, ...]] = field(default_factory=dict)
    """Changes of each process that another server serves, or served, in the order of serials."""
    number: int = 0
    """Number of the last `Elsewhere`."""
    _left_out: BitMap | None = None
    """Numbers of the processes that are left out of new parcels. None if they must be computed again."""
    _since: int = 0
    """Serial from which on `_left_out` holds."""

    def changed(self) -> None:
        """Discard the cached `_left_out`."""
        self._left_out = None

    def forget(self, gone: Iterable[NodeId], hashes: Iterable[bytes]) -> None:
        """Forget processes that are not below this server any more."""
        for name in gone:
            del self.claims[name]
            self.undecided.pop(name, None)
            self.elsewhere.pop(name, None)
        for each in hashes:
            self.names.pop(each, None)

    def came_with(self, name: NodeId, first_serial: int) -> int:
        """Return the serial of the first parcel for which a process was below this server, or a lower serial.

        `first_serial` is that of the parcel with which the process is claimed.
        """
        if self.before is None:
            return 0
        return self.before[name].first_serial if name in self.before else first_serial

    def left_out_of(self, first_serial: int, *, is_first_round: bool) -> BitMap:
        """Return the processes that are left out of a parcel. The caller must not change the bitmap."""
        if self._left_out is None:
            self._left_out = self._numbers_of([*self.undecided, *self._elsewhere_at(NUMBER_LIMIT)])
            self._since = max(self.claimed_from, *(changes[-1].since for changes in self.elsewhere.values()), 0)
        if first_serial >= self._since:
            return self._left_out
        found = [*self.undecided, *self._elsewhere_at(first_serial)]
        if is_first_round:
            # The parcel was not for processes that came since. In a later round they may have been behind suspended
            # arcs before.
            found += [name for name, claim in self.claims.items() if claim.first_serial > first_serial]
        return self._numbers_of(found)

    def _elsewhere_at(self, serial: int) -> Iterator[NodeId]:
        """Yield the processes that another server serves, for the parcel of a serial."""
        for name, changes in self.elsewhere.items():
            before = [change for change in changes if change.since <= serial]
            if before and before[-1].is_elsewhere:
                yield name

    def change(self, each: bytes, elsewhere: Elsewhere, *, is_elsewhere: bool) -> None:
        """Store the decision of the origin on a claimed process: whether another server serves it from a serial on."""
        name = self.names.get(each)
        if name is None or self.claims[name].version > elsewhere.version:
            # The decision answers an earlier claim.
            return
        before = [change for change in self.elsewhere.get(name, ()) if change.since < elsewhere.first_serial]
        if is_elsewhere != (bool(before) and before[-1].is_elsewhere):
            before.append(_Change(elsewhere.first_serial, is_elsewhere))
        self.elsewhere[name] = tuple(before[-CHANGES_KEPT:])
        if not before:
            del self.elsewhere[name]

    def _numbers_of(self, names: Iterable[NodeId]) -> BitMap:
        return BitMap([number for name in names for number in self.foreign.get(name, ())])


class RecipientClaims:
    """Claims of all sequences, including those of this server as origin."""

    def __init__(self) -> None:
        self.start = 0
        """Start of this server."""
        self._version = 0
        self._claimed: dict[tuple[ServerId, int], _Claimed] = {}
        """Claims by origin and sequence."""
        self._taken: dict[tuple[ServerId, int], int] = {}
        """Highest serial of a handled parcel, by origin and sequence."""
        self._to_tell: list[tuple[ServerId, Claims]] = []
        self.is_believed: Callable[[ServerId], bool] = lambda _server: True
        """True if another server is believed about foreign processes: its claims, and its `Elsewhere`."""

    def left_out(self, origin: ServerId, taken: Parcel | Stub, foreign: Foreign) -> BitMap:
        """Return the processes to leave out of a parcel or stub of an origin. The caller must not change the bitmap.

        `foreign`: foreign processes that it reaches.
        """
        key = (origin, taken.sequence)
        # A new process came after all parcels that were handled before this one.
        last = self._taken.get(key)
        first_serial = taken.first_serial if last is None or last <= taken.first_serial else last + 1
        if isinstance(taken, Parcel):
            self.take(origin, taken)
        claimed = self._claimed.get(key)
        # A stub is decided as the parcel before it, if that had a decision.
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
        """Note that a parcel was handled, or a stub without recipients at this server."""
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
            # No other server leaves these processes out of earlier parcels.
            claims = Claims(sequence, claimed.start, max(first_serial, came), version, is_whole, *joined)
            self._to_tell.append((origin, claims))
            is_whole = False
        claimed.before = {}

    def take_claims(self) -> list[tuple[ServerId, Claims]]:
        """Return the claims to post to origins, before the confirmations that depend on them."""
        to_tell, self._to_tell = self._to_tell, []
        return to_tell

    def decide(self, origin: ServerId, elsewhere: Elsewhere) -> None:
        """Apply the decision of an origin about the processes that other servers serve."""
        claimed = self._claimed.get((origin, elsewhere.sequence))
        # An answer to claims before this server's start has no effect. Neither has an answer of an earlier start of the
        # origin.
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
        """Return the start of the origin whose decisions are followed in a sequence, and the number of the last one.

        Both are 0 if there is none.
        """
        claimed = self._claimed.get((origin, sequence))
        return (0, 0) if claimed is None else (claimed.start, claimed.number)

    def origins(self) -> set[ServerId]:
        """Return the origins whose parcels were handled."""
        return {origin for origin, _ in self._taken}

    def forget_sequence(self, origin: ServerId, sequence: int) -> None:
        """Forget a sequence that its origin has forgotten."""
        self._taken.pop((origin, sequence), None)
        self._claimed.pop((origin, sequence), None)

    def forget(self, origin: ServerId) -> None:
        """Forget the claims at an origin, to claim anew: the lanes to and from the origin begin again."""
        for key in [key for key in self._taken if key[0] == origin]:
            del self._taken[key]
            self._claimed.pop(key, None)


def hash_of(name: NodeId, origin: ServerId) -> bytes:
    """Return the hash that stands for a name in claims. The origin can compare the hash, but not read the name."""
    return blake2b(f"{name} {origin}".encode(), digest_size=HASH_BYTES).digest()
