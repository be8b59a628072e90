"""Which server serves each process that no server owns, of those that have it below the targets of one sequence.

    claimed by one server ----------------------------> that one serves it: its holder
    claimed by another one, too ----------------------> the holder goes on; the other one leaves it out
    the holder has it no more, or is out of reach ----> the one of the others that has claimed it longest is the holder

A server leaves it out from the parcel on with which the holder has claimed it: so of each parcel one of them serves it.
Where others have claimed it with an earlier parcel than the holder, the first of these to do so serves what was before.
All of this is in memory, of one start of the origin.

Source: delivery.md section 4.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from delivery.wire import Claims, Version, hashes_of
from namegraph import ServerId

IsPresent = Callable[[ServerId], bool]
"""Whether a server is in reach."""


class Told(NamedTuple):
    """What a server is to be told."""

    server: ServerId
    version: Version
    """Of what it has claimed last."""
    first_serial: int
    """From which on others serve those who are added, and it serves those who are removed."""
    added: tuple[bytes, ...]
    removed: tuple[bytes, ...]
    is_more: bool
    """Whether it serves somebody of something that another one was to serve."""


class _Earlier(NamedTuple):
    """Another server than the holder, with the serial from which on it serves one."""

    server: ServerId
    since: int


class Assignments:
    """Those of one sequence."""

    def __init__(self) -> None:
        self._claims: dict[ServerId, dict[bytes, int]] = {}
        """By server, whom it has below, with the serial of the parcel with which it said so."""
        self._versions: dict[ServerId, Version] = {}
        self._holders: dict[bytes, ServerId] = {}
        """Of each who is claimed, one of those that claim it."""
        self._earlier: dict[bytes, _Earlier] = {}
        """Of some of them, who serves what was before the holder has claimed it, or has served that."""

    def claimants(self) -> list[ServerId]:
        """The servers that have claimed somebody."""
        return [server for server, claimed in self._claims.items() if claimed]

    def count(self, server: ServerId) -> int:
        """How many a server has claimed."""
        return len(self._claims.get(server, ()))

    def claim(self, server: ServerId, claims: Claims, is_present: IsPresent, *, until: int, room: int) -> list[Told]:
        """A server has told what is different below; returns what servers are to be told, itself the first.

        `until`: it has served whom it has no more until before this serial. `room`: so many more it may claim. It
        serves those beyond that, whoever else does.
        """
        own = self._claims.setdefault(server, {})
        added, removed = hashes_of(claims.added), hashes_of(claims.removed)
        if claims.is_whole:
            removed = sorted(own.keys() - {*added})
        self._versions[server] = claims.version
        told = _Told(self._versions)
        for each in removed:
            if own.pop(each, None) is not None:
                self._lose(each, server, until, is_present, told)
        for each in added[: max(room, 0)]:
            own.setdefault(each, claims.first_serial)
            holder = self._holders.setdefault(each, server)
            if holder != server and is_present(holder):
                told.add(server, each, self._elsewhere_from(each, server))
            elif holder != server:
                self._hand_over(each, server, claims.first_serial, told)
        return told.all_of(server)

    def move(self, server: ServerId, first_serial: int, is_present: IsPresent) -> list[Told]:
        """A server is out of reach: others serve whom it holds, as far as they claim them; returns who is told what.

        `first_serial`: of the first parcel that it has not confirmed.
        """
        told = _Told(self._versions)
        for each in [each for each, holder in self._holders.items() if holder == server]:
            others = self._others(each, server, is_present)
            if others and is_present(others[0]):
                self._hand_over(each, others[0], first_serial, told)
        for each in [each for each, earlier in self._earlier.items() if earlier.server == server]:
            self._lose_earlier(each, server, first_serial, is_present, told)
        return told.all_of(None)

    def forget(self, server: ServerId, first_serial: int, is_present: IsPresent) -> list[Told]:
        """A server has nobody below, as far as is known; returns what others are to be told.

        `first_serial`: of the first parcel that it has not confirmed.
        """
        told = _Told(self._versions)
        self._versions.pop(server, None)
        for each in self._claims.pop(server, {}):
            self._lose(each, server, first_serial, is_present, told)
        return told.all_of(None)

    def _lose(self, each: bytes, server: ServerId, first_serial: int, is_present: IsPresent, told: _Told) -> None:
        """A server has somebody below no more, from a parcel on."""
        if self._holders[each] == server:
            others = self._others(each, server, is_present)
            if not others:
                del self._holders[each]
                self._earlier.pop(each, None)
                return
            self._holders[each] = others[0]
            told.remove(others[0], each, first_serial)
        self._lose_earlier(each, server, first_serial, is_present, told)

    def _elsewhere_from(self, each: bytes, server: ServerId) -> int:
        """The serial from which on others serve one that a server has claimed, and does not hold."""
        since = self._claims[self._holders[each]][each]
        if self._claims[server][each] >= since:
            return since
        earlier = self._earlier.setdefault(each, _Earlier(server, self._claims[server][each]))
        return since if earlier.server == server else earlier.since

    def _lose_earlier(
        self, each: bytes, server: ServerId, first_serial: int, is_present: IsPresent, told: _Told
    ) -> None:
        """A server does not serve one from a parcel on of what was before the holder has claimed it, if it was to."""
        since = self._claims[self._holders[each]][each]
        if each not in self._earlier or self._earlier[each].server != server or first_serial >= since:
            return
        del self._earlier[each]
        others = [other for other in self._others(each, server, is_present) if self._claims[other][each] < since]
        if others:
            self._earlier[each] = _Earlier(others[0], self._claims[others[0]][each])
            told.add(others[0], each, since, is_more=True)

    def _hand_over(self, each: bytes, server: ServerId, first_serial: int, told: _Told) -> None:
        """Another server holds one from now on, and the holder of before, which has it still, leaves it out."""
        told.add(self._holders[each], each, 0)
        told.remove(server, each, first_serial)
        self._holders[each] = server

    def _others(self, each: bytes, server: ServerId, is_present: IsPresent) -> list[ServerId]:
        """The other servers that have one below: who is to serve it first, first."""
        others = [other for other, claimed in self._claims.items() if other != server and each in claimed]
        return sorted(others, key=lambda other: (not is_present(other), self._claims[other][each], other))


class _Told:
    """What servers are to be told, as far as it was found."""

    def __init__(self, versions: dict[ServerId, Version]) -> None:
        self._versions = versions
        self._found: dict[ServerId, dict[int, tuple[list[bytes], list[bytes]]]] = {}
        """By server and serial: who is added, and who is removed."""
        self._more: set[ServerId] = set()
        """Those that serve somebody of something that another one was to serve."""

    def add(self, server: ServerId, each: bytes, first_serial: int, *, is_more: bool = False) -> None:
        """A server leaves one out, from a parcel on; `is_more`: it did so from an earlier one on."""
        self._at(server, first_serial)[0].append(each)
        if is_more:
            self._more.add(server)

    def remove(self, server: ServerId, each: bytes, first_serial: int) -> None:
        """A server serves one, from a parcel on."""
        self._at(server, first_serial)[1].append(each)
        self._more.add(server)

    def _at(self, server: ServerId, first_serial: int) -> tuple[list[bytes], list[bytes]]:
        return self._found.setdefault(server, {}).setdefault(first_serial, ([], []))

    def all_of(self, claimant: ServerId | None) -> list[Told]:
        """All of it. A server that has claimed some is told first, and if only that it is decided."""
        first = {} if claimant is None else {claimant: self._found.get(claimant, {0: ([], [])})}
        return [
            Told(server, self._versions[server], first_serial, tuple(added), tuple(removed), server in self._more)
            for server, by_serial in (first | self._found).items()
            for first_serial, (added, removed) in by_serial.items()
        ]
