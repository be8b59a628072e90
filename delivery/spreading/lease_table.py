"""Leases of one sequence: the server that serves each foreign process which several servers have below the targets.

    claimed by one server ----------------------------> that one serves it, from the parcel on with which it came there
    claimed by another one, too ----------------------> the first one goes on; the other one serves what was before
    a server has it no more, or is out of reach ------> another one serves what that has not confirmed

Each process has turns: from one serial on one server serves it, from a later serial on another server. A server keeps
its turn for the parcels that it has confirmed, even if it does not have the process any more. Turns are forgotten as
parcels are settled. The table is in memory alone, for one start of the origin.

See docs/protocol-messages.md, "Who is below" (processes that nobody owns).
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
"""Most processes without a claim that are kept because a server served them parcels which are not settled."""


ALL: Ranges = ((0, NUMBER_LIMIT),)


class SequenceView(NamedTuple):
    """State of servers, and of the parcels of a sequence, at the origin."""

    here: ServerId
    """The origin, which serves the processes that it has itself."""
    is_present: Callable[[ServerId], bool]
    """Function that is true of a server in reach."""
    next_number: Callable[[ServerId], int]
    """Function that returns the number of the next `Elsewhere` to a server."""
    unserved: Callable[[ServerId, int], Ranges]
    """Function that returns the serials for which a server has not confirmed that it followed an `Elsewhere`.

    A later `Elsewhere` than the given one counts, too.
    """
    unsettled_since: int
    """Serial of the first unsettled parcel."""
    next_serial: int
    """Serial of the next message."""


class LeaseNotice(NamedTuple):
    """Message to a server about its claimed processes."""

    server: ServerId
    version: Version
    """Version of the last claims of the server."""
    first_serial: int
    """Serial from which on other servers serve the added processes, and this server serves the removed ones."""
    added: tuple[bytes, ...]
    removed: tuple[bytes, ...]


class _Turn(NamedTuple):
    """Turn of a server: it serves a process from a serial on.

    None as server if no server has the process, or if any server that has it serves it.
    """

    since: int
    server: ServerId | None
    number: int
    """Number of the `Elsewhere` that told the server about the turn."""


_Turns = tuple[_Turn, ...]
"""Turns in the order of serials."""

NEVER: _Turns = (_Turn(0, None, 0),)


class LeaseTable:
    """Leases of one sequence."""

    def __init__(self) -> None:
        self._claims: dict[ServerId, dict[bytes, int]] = {}
        """Claimed processes by server, each with the serial of the parcel of its claim."""
        self._versions: dict[ServerId, Version] = {}
        self._turns: dict[bytes, _Turns] = {}
        self._left: dict[bytes, None] = {}
        """Processes in `_turns` without a claim."""

    def claimants(self) -> list[ServerId]:
        """Return the servers that have claimed a process."""
        return [server for server, claimed in self._claims.items() if claimed]

    def count(self, server: ServerId) -> int:
        """Return the number of processes that a server has claimed."""
        return len(self._claims.get(server, ()))

    def claim(self, server: ServerId, claims: Claims, known: SequenceView, *, room: int) -> list[LeaseNotice]:
        """Apply the claims of a server. Return the messages to servers, those to itself first.

        `room`: number of further processes that it may claim. It serves the processes beyond, whether or not other
        servers do.
        """
        own = self._claims.setdefault(server, {})
        added, removed = hashes_of(claims.added), hashes_of(claims.removed)
        if claims.is_whole:
            removed = sorted(own.keys() - {*added})
        self._versions[server] = claims.version
        told = _DueAnswers(self._versions, known)
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

    def move(self, server: ServerId, known: SequenceView) -> list[LeaseNotice]:
        """Let other servers serve the unconfirmed parcels of a server that is out of reach, if they claim its
        processes.

        Return the messages to servers, including that server.
        """
        told = _DueAnswers(self._versions, known)
        for each in self._claims.get(server, {}):
            self._pass_on(each, server, told)
        return told.all_of(None)

    def forget(self, server: ServerId, known: SequenceView) -> list[LeaseNotice]:
        """Forget all claims of a server. Return the messages to other servers."""
        told = _DueAnswers(self._versions, known)
        self._versions.pop(server, None)
        for each in self._claims.pop(server, {}):
            self._pass_on(each, server, told)
        self._forget_settled(known)
        return told.all_of(None)

    def _take_over(self, each: bytes, server: ServerId, told: _DueAnswers, known: SequenceView) -> None:
        """Let the origin serve a process of its own, from the next message on."""
        before, since = self._turns[each], known.next_serial
        kept = tuple(turn for turn in before if turn.since < since)
        after = self._turns[each] = (*kept, _Turn(since, server, known.next_number(server)))
        for other, claimed in self._claims.items():
            if other != server and each in claimed:
                told.of(other, each, before, after)

    def _pass_on(self, each: bytes, server: ServerId | None, told: _DueAnswers) -> None:
        """Give each parcel that a server has to serve and has not served to a server that claimed the process by
        then."""
        others = tuple((claimed[each], other) for other, claimed in self._claims.items() if each in claimed)
        if not others:
            self._left[each] = None
        before, after = told.passed_on(self._turns[each], server, others)
        self._turns[each] = after
        for _, other in others:
            told.of(other, each, before, after)

    def _forget_settled(self, known: SequenceView) -> None:
        """Forget processes without a claim, once all parcels served to them are settled."""
        while self._left:
            each = next(iter(self._left))
            if self._turns[each][-1].since > known.unsettled_since and len(self._left) <= LEFT_LIMIT:
                return
            del self._left[each]
            del self._turns[each]


def _passed_on(
    known: SequenceView, turns: _Turns, server: ServerId | None, others: tuple[tuple[int, ServerId], ...]
) -> tuple[_Turns, _Turns]:
    """Return the unsettled turns of a process, before and after other servers take unserved parcels from `server`.

    `others`: serial of the claim, and server, for each server that claims the process. Servers in reach come first,
    then the oldest claims.
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
    """Return the turns without those that ended before a serial."""
    first = sum(turn.since <= since for turn in turns[1:])
    return turns[first:]


def _merged(turns: Iterable[_Turn]) -> _Turns:
    found: list[_Turn] = []
    for turn in turns:
        if not found or found[-1][1:] != turn[1:]:
            found.append(turn)
    return tuple(found)


def _elsewhere(turns: _Turns, server: ServerId) -> list[tuple[int, bool]]:
    """Return the serials at which service by another server than `server`, which claims the process, begins or ends."""
    found = [(0, False)]
    for turn in turns:
        is_so = turn.server not in (None, server)
        if is_so != found[-1][1]:
            found.append((turn.since, is_so))
    return found


class _DueAnswers:
    """Messages to servers, as far as they are known."""

    def __init__(self, versions: dict[ServerId, Version], known: SequenceView) -> None:
        self._versions = versions
        self.passed_on = cache(partial(_passed_on, known))
        """Cached function, because thousands of processes change in the same way."""
        self._found: dict[ServerId, dict[bytes, tuple[_Turns, _Turns]]] = {}
        """Turns before and after, by server and claimed process."""

    def of(self, server: ServerId, each: bytes, before: _Turns, after: _Turns) -> None:
        """Note that the turns of a process that a server claims may have changed."""
        found = self._found.setdefault(server, {})
        found[each] = (found[each][0] if each in found else before, after)

    def all_of(self, claimant: ServerId | None) -> list[LeaseNotice]:
        """Return all messages, by serial. Those to the claimant come first, and are sent even without a change.

        A message without a change tells the claimant that its claims are decided.
        """
        found: list[LeaseNotice] = []
        for server in dict.fromkeys((*([] if claimant is None else [claimant]), *self._found)):
            by_serial: dict[int, tuple[list[bytes], list[bytes]]] = {}
            changes = cache(partial(_changes, server))
            for each, turns in self._found.get(server, {}).items():
                for since, is_elsewhere in changes(*turns):
                    by_serial.setdefault(since, ([], []))[0 if is_elsewhere else 1].append(each)
            if server == claimant:
                by_serial = by_serial or {0: ([], [])}
            found += [
                LeaseNotice(server, self._versions[server], first_serial, tuple(added), tuple(removed))
                for first_serial, (added, removed) in sorted(by_serial.items())
            ]
        return found


def _changes(server: ServerId, turns_before: _Turns, turns: _Turns) -> list[tuple[int, bool]]:
    """Return the changes of service elsewhere to report to a server: all changes from the first difference on."""
    before, after = _elsewhere(turns_before, server), _elsewhere(turns, server)
    same = sum(1 for _ in takewhile(lambda both: both[0] == both[1], zip(before, after, strict=False)))
    changed = after[same:]
    if same < len(before) and (not changed or before[same][0] < changed[0][0]):
        changed.insert(0, (before[same][0], after[same - 1][1]))
    return changed
