"""Which server serves each process that no server owns, of those that have it below the targets of one sequence.

    claimed by one server ----------------------------> that one serves it, from the parcel on with which it came there
    claimed by another one, too ----------------------> the first one goes on; the other one serves what was before
    a server has it no more, or is out of reach ------> another one serves what that has not confirmed

So each process has turns: from one serial on a server serves it, from a later one on another. Who has had a turn keeps
what it has confirmed, also where it has the process no more. Turns are forgotten as parcels are settled.
All of this is in memory, of one start of the origin.

Source: delivery.md section 4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache, partial
from itertools import chain, pairwise, takewhile
from typing import NamedTuple

from delivery.origin.unsettled import Ranges
from delivery.wire.posts import NUMBER_LIMIT, Claims, Version, hashes_of
from namegraph import ServerId

LEFT_LIMIT = 100_000
"""Processes that nobody claims any more, and that were served of parcels which are not settled."""


ALL: Ranges = ((0, NUMBER_LIMIT),)


class Known(NamedTuple):
    """What the origin knows of servers, and of the parcels of a sequence."""

    here: ServerId
    """The origin. It serves whom it has itself."""
    is_present: Callable[[ServerId], bool]
    """Whether a server is in reach."""
    next_number: Callable[[ServerId], int]
    """Of the next `Elsewhere` to a server."""
    unserved: Callable[[ServerId, int], Ranges]
    """Of which parcels a server has not confirmed that it followed the `Elsewhere` of a number, or a later one."""
    unsettled_since: int
    """The serial of the first parcel that is not settled."""
    next_serial: int
    """That of the next message."""


class Told(NamedTuple):
    """What a server is to be told."""

    server: ServerId
    version: Version
    """Of what it has claimed last."""
    first_serial: int
    """From which on others serve those who are added, and it serves those who are removed."""
    added: tuple[bytes, ...]
    removed: tuple[bytes, ...]


class _Turn(NamedTuple):
    """From a serial on a server serves a process. None: nobody has it, or whoever has it serves it."""

    since: int
    server: ServerId | None
    number: int
    """Of the `Elsewhere` by which the server knows that."""


_Turns = tuple[_Turn, ...]
"""In the order of serials."""

NEVER: _Turns = (_Turn(0, None, 0),)


class Assignments:
    """Those of one sequence."""

    def __init__(self) -> None:
        self._claims: dict[ServerId, dict[bytes, int]] = {}
        """By server, whom it has below, with the serial of the parcel with which it said so."""
        self._versions: dict[ServerId, Version] = {}
        self._turns: dict[bytes, _Turns] = {}
        self._left: dict[bytes, None] = {}
        """Those of these whom nobody claims."""

    def claimants(self) -> list[ServerId]:
        """The servers that have claimed somebody."""
        return [server for server, claimed in self._claims.items() if claimed]

    def count(self, server: ServerId) -> int:
        """How many a server has claimed."""
        return len(self._claims.get(server, ()))

    def claim(self, server: ServerId, claims: Claims, known: Known, *, room: int) -> list[Told]:
        """A server has told what is different below; returns what servers are to be told, itself the first.

        `room`: so many more it may claim. It serves those beyond that, whoever else does.
        """
        own = self._claims.setdefault(server, {})
        added, removed = hashes_of(claims.added), hashes_of(claims.removed)
        if claims.is_whole:
            removed = sorted(own.keys() - {*added})
        self._versions[server] = claims.version
        told = _Told(self._versions, known)
        for each in removed:
            if own.pop(each, None) is not None:
                self._pass_on(each, server, told)
        since = min(claims.first_serial, known.next_serial)
        alone = (*NEVER, _Turn(since, server, known.next_number(server)))
        for each in added[: max(room, 0)]:
            own.setdefault(each, since)
            self._left.pop(each, None)
            before = self._turns.setdefault(each, alone)
            if before is alone:
                continue
            if server == known.here and before[-1].server != server:
                self._take_over(each, server, told, known)
                before = self._turns[each]
            told.of(server, each, NEVER, before)
            for other in [None, *(turn.server for turn in before if turn.server is not None)]:
                if other is None or not known.is_present(other):
                    self._pass_on(each, other, told)
        self._forget_settled(known)
        return told.all_of(server)

    def move(self, server: ServerId, known: Known) -> list[Told]:
        """A server is out of reach: others serve what it has not confirmed, as far as they have claimed whom it has.

        Returns what servers are to be told, that one among them.
        """
        told = _Told(self._versions, known)
        for each in self._claims.get(server, {}):
            self._pass_on(each, server, told)
        return told.all_of(None)

    def forget(self, server: ServerId, known: Known) -> list[Told]:
        """A server has nobody below, as far as is known; returns what others are to be told."""
        told = _Told(self._versions, known)
        self._versions.pop(server, None)
        for each in self._claims.pop(server, {}):
            self._pass_on(each, server, told)
        self._forget_settled(known)
        return told.all_of(None)

    def _take_over(self, each: bytes, server: ServerId, told: _Told, known: Known) -> None:
        """Let the origin serve a process that it has itself, of all messages that nobody was posted yet."""
        before, since = self._turns[each], known.next_serial
        kept = tuple(turn for turn in before if turn.since < since)
        after = self._turns[each] = (*kept, _Turn(since, server, known.next_number(server)))
        for other, claimed in self._claims.items():
            if other != server and each in claimed:
                told.of(other, each, before, after)

    def _pass_on(self, each: bytes, server: ServerId | None, told: _Told) -> None:
        """Of what a server was to serve and has not, each parcel is for whoever has claimed one with it, or before."""
        others = tuple((claimed[each], other) for other, claimed in self._claims.items() if each in claimed)
        if not others:
            self._left[each] = None
        before, after = told.passed_on(self._turns[each], server, others)
        self._turns[each] = after
        for _, other in others:
            told.of(other, each, before, after)

    def _forget_settled(self, known: Known) -> None:
        """Forget whom nobody claims, once all is settled of which somebody was served."""
        while self._left:
            each = next(iter(self._left))
            if self._turns[each][-1].since > known.unsettled_since and len(self._left) <= LEFT_LIMIT:
                return
            del self._left[each]
            del self._turns[each]


def _passed_on(
    known: Known, turns: _Turns, server: ServerId | None, others: tuple[tuple[int, ServerId], ...]
) -> tuple[_Turns, _Turns]:
    """The turns of one, without what is settled: as they are, and where others serve what a server has not.

    `others`: who has claimed one, from which serial on. Those in reach come first, then who has done so longest.
    """
    before = _unsettled(turns, known.unsettled_since)
    in_order = sorted(others, key=lambda other: (other[1] != known.here, not known.is_present(other[1]), *other))
    after: list[_Turn] = []
    for turn, next_turn in pairwise((*before, _Turn(NUMBER_LIMIT, None, 0))):
        if turn.server != server:
            after.append(turn)
            continue
        free = ALL if server is None else known.unserved(server, turn.number)
        bounds = chain((claimed for claimed, _ in others), *free)
        for cut in sorted({turn.since, *(bound for bound in bounds if turn.since < bound < next_turn.since)}):
            found = server
            if any(begin <= cut < end for begin, end in free):
                found = next((other for claimed, other in in_order if claimed <= cut), None)
            number = turn.number if found in (None, server) else known.next_number(found)
            after.append(_Turn(cut, found, number))
    return before, _unsettled(_merged(after), known.unsettled_since)


def _unsettled(turns: _Turns, since: int) -> _Turns:
    """Without those that ended before a serial."""
    first = sum(turn.since <= since for turn in turns[1:])
    return turns[first:]


def _merged(turns: Iterable[_Turn]) -> _Turns:
    found: list[_Turn] = []
    for turn in turns:
        if not found or found[-1][1:] != turn[1:]:
            found.append(turn)
    return tuple(found)


def _elsewhere(turns: _Turns, server: ServerId) -> list[tuple[int, bool]]:
    """From which serials on others serve a process than a server that has claimed it, and from which not."""
    found = [(0, False)]
    for turn in turns:
        is_so = turn.server not in (None, server)
        if is_so != found[-1][1]:
            found.append((turn.since, is_so))
    return found


class _Told:
    """What servers are to be told, as far as it was found."""

    def __init__(self, versions: dict[ServerId, Version], known: Known) -> None:
        self._versions = versions
        self.passed_on = cache(partial(_passed_on, known))
        """Thousands are passed on alike."""
        self._found: dict[ServerId, dict[bytes, tuple[_Turns, _Turns]]] = {}
        """By server, whom it has claimed: the turns of before, and those of now."""

    def of(self, server: ServerId, each: bytes, before: _Turns, after: _Turns) -> None:
        """The turns of one may have changed, whom a server has claimed."""
        found = self._found.setdefault(server, {})
        found[each] = (found[each][0] if each in found else before, after)

    def all_of(self, claimant: ServerId | None) -> list[Told]:
        """All of it, by serial. A server that has claimed some is told first, and if only that it is decided."""
        found: list[Told] = []
        for server in dict.fromkeys((*([] if claimant is None else [claimant]), *self._found)):
            by_serial: dict[int, tuple[list[bytes], list[bytes]]] = {}
            changes = cache(partial(_changes, server))
            for each, turns in self._found.get(server, {}).items():
                for since, is_elsewhere in changes(*turns):
                    by_serial.setdefault(since, ([], []))[0 if is_elsewhere else 1].append(each)
            if server == claimant:
                by_serial = by_serial or {0: ([], [])}
            found += [
                Told(server, self._versions[server], first_serial, tuple(added), tuple(removed))
                for first_serial, (added, removed) in sorted(by_serial.items())
            ]
        return found


def _changes(server: ServerId, turns_before: _Turns, turns: _Turns) -> list[tuple[int, bool]]:
    """What a server is to be told of who serves a process elsewhere: all from the first difference on."""
    before, after = _elsewhere(turns_before, server), _elsewhere(turns, server)
    same = sum(1 for _ in takewhile(lambda both: both[0] == both[1], zip(before, after, strict=False)))
    changed = after[same:]
    if same < len(before) and (not changed or before[same][0] < changed[0][0]):
        changed.insert(0, (before[same][0], after[same - 1][1]))
    return changed
