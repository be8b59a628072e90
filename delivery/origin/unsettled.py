"""What an origin keeps of parcels that are not settled: a row of each, and in memory what is known of their sequences.

Source: delivery.md section 4.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import islice
from typing import NamedTuple

from msgspec import Struct

from delivery.wire.posts import NUMBER_LIMIT
from namegraph import ServerId

NO_VIEW = "-"
"""No view has this name."""


class ParcelState(IntEnum):
    """State of a parcel at a server from which no count of mailboxes is known. Rows keep the number.

    | state | the server has the parcel | next |
    |---|---|---|
    | `UNCONFIRMED` | perhaps: it was posted | a count; `LOST` |
    | `UNCONFIRMED_AGAIN` | yes, of an earlier round | a count; `LOST` |
    | `STUB` | no: the stub alone was posted | a count; `UNCONFIRMED`, whole; `LOST` |
    | `LOST` | no, and it was told so | 0, with the servers further below |
    | a count, 0 or more | yes, for so many mailboxes | `UNCONFIRMED_AGAIN`, in the next round |
    """

    UNCONFIRMED = -1
    UNCONFIRMED_AGAIN = -2
    STUB = -3
    LOST = -4


NEVER_CONFIRMED = (ParcelState.UNCONFIRMED, ParcelState.STUB)
"""States of a parcel that no confirmation shows at the server."""

NAMING_LIMIT = 1_000
"""Parcels for which unknown servers are noted in one step, and unknown servers that a sequence has noted for all."""

ParcelKey = tuple[int, int, int]
"""What names a parcel of this server: its sequence, the start, and the first serial."""

Ranges = tuple[tuple[int, int], ...]
"""Of serials: from one to before another; sorted."""


class Progress(NamedTuple):
    """How far a message is."""

    mailboxes: int
    """How many get it, as far as servers have confirmed it."""
    servers: int
    """How many servers have some of these."""
    pending: tuple[ServerId, ...]
    """Servers that have not confirmed it; sorted."""


class Here(NamedTuple):
    """Who gets a parcel at its origin itself."""

    audience: int
    """The number of these."""
    mailboxes: int
    """How many these are."""
    leaves_out: bool
    """Whether others serve somebody whom no server owns and who is below here."""


class UnsettledParcel(NamedTuple):
    """A parcel of this server on its way."""

    sequence: int
    start: int
    first_serial: int
    messages: int
    round: int
    posted: tuple[ServerId, ...]
    confirmed: tuple[ServerId, ...]
    delivered: tuple[ServerId, ...]
    """Who has confirmed it, and has it in the log because somebody there gets it."""


class ParcelRow(Struct, array_like=True):
    """A parcel that is not settled. Its row is its place in the log of this server."""

    sequence: int
    start: int
    first_serial: int
    messages: int
    audience: int
    """The number of the mailboxes that got it at this server."""
    mailboxes: int
    """How many these are."""
    posted: dict[ServerId, int]
    """Count of mailboxes that get it, by server to which it was posted; below 0 a `ParcelState`."""
    unknown: tuple[ServerId, ...] = ()
    """Servers that others name as further below and that are not known here, or not any more. Sorted."""
    round: int = 0
    """How often it was posted once more."""
    is_apart: bool = False
    """Whether something below was behind suspended arcs in this round: another one follows."""
    remembering: tuple[ServerId, ...] = ()
    """Servers that remember who got it there. Sorted."""
    view: str = ""
    """In which this round was begun; `NO_VIEW` where it was not healed then, or a server was removed since."""
    accepted_at: float = 0.0
    """In running time."""
    is_of_copy: bool = False
    """This server has gone back to an older copy of its database, and the parcel is of that. It may have been settled
    since, and forgotten by those who have it: so it is posted once more to nobody."""
    lost: tuple[ServerId, ...] = ()
    """Servers that do not get it, or may have forgotten it: it is not posted to them again. Sorted."""
    leaving_out: tuple[ServerId, ...] = ()
    """Servers, this one among them, that leave somebody out whom no server owns. Sorted."""

    def note_leaving_out(self, server: ServerId, *, is_so: bool) -> None:
        """A server leaves somebody out, or nobody."""
        if is_so != (server in self.leaving_out):
            self.leaving_out = tuple(sorted({*self.leaving_out} ^ {server}))

    @property
    def is_sent_apart(self) -> bool:
        """Whether it was posted while servers were apart, in this round or an earlier one."""
        return self.is_apart or self.round > 0

    @property
    def is_confirmed(self) -> bool:
        """Whether all to whom it was posted have confirmed it in this round."""
        return all(count >= 0 for count in self.posted.values())

    @property
    def is_settled(self) -> bool:
        """Whether all have it whom it is to reach."""
        return self.is_confirmed and not self.is_apart

    def told(self) -> UnsettledParcel:
        """As snapshots have it."""
        posted = tuple(sorted(server for server in self.posted if server not in self.lost))
        return UnsettledParcel(
            self.sequence,
            self.start,
            self.first_serial,
            self.messages,
            self.round,
            posted,
            tuple(server for server in posted if self.posted[server] >= 0),
            tuple(server for server in posted if self.posted[server] > 0),
        )

    @property
    def progress(self) -> Progress:
        """How far it is."""
        posted = list(self.posted.items())
        served = [count for count in (self.mailboxes, *(count for _, count in posted)) if count > 0]
        pending = sorted(server for server, count in posted if count < 0)
        return Progress(sum(served), len(served), tuple(pending))


@dataclass(slots=True)
class Sequence:
    """What is in memory of a sequence."""

    unsettled: deque[int] = field(default_factory=deque)
    """Positions, from the oldest parcel on that is not settled. Later ones may be."""
    settled: set[int] = field(default_factory=set)
    """These later ones: callers were told, so nobody gets them who is found only now."""
    onward: dict[ServerId, tuple[ServerId, ...]] = field(default_factory=dict)
    """What each server has said last of who is further below."""
    posted: set[ServerId] = field(default_factory=set)
    """Servers to which all that is not settled was posted."""
    named: set[ServerId] = field(default_factory=set)
    """Servers that all that is not settled names as unknown."""
    receivers: set[ServerId] = field(default_factory=set)
    """Servers that were found to be below since the start, or for what was not settled then."""
    stubs: set[ServerId] = field(default_factory=set)
    """Servers that are posted stubs: they had nobody for a parcel, and have wanted none since."""
    catching_up: dict[ServerId, int] = field(default_factory=dict)
    """Position through which a server was posted what is not settled, while steps do that in slices."""
    made_whole: dict[ServerId, int] = field(default_factory=dict)
    """Position through which a server was posted whole what it has the stub of, while steps do that in slices."""
    followed: dict[int, dict[ServerId, int]] = field(default_factory=dict)
    """Of parcels that are not settled, by position: the number of the last `Elsewhere` of this start that each server
    followed which has confirmed it."""

    @property
    def is_idle(self) -> bool:
        """Whether nothing is to be known of it: all is settled, and no server but the origin was ever below."""
        return not (self.unsettled or self.receivers or self.onward)

    def begin(self, position: int, servers: Iterable[ServerId]) -> None:
        """A parcel more, for which these servers are about to be found."""
        self.unsettled.append(position)
        self.posted.intersection_update(servers)
        self.named.intersection_update(servers)

    def lacking(self, server: ServerId) -> Iterable[int]:
        """The parcels for which a known server may not have been found, sorted; all of them where it has none of these.

        Thousands may wait for a server that is away, and each is confirmed by all others.
        """
        newest = islice(reversed(self.unsettled), 1)
        candidates = newest if server in self.posted else self.unsettled
        self.posted.add(server)
        return [position for position in candidates if position not in self.settled]

    def behind(self, position: int) -> Iterator[int]:
        """Return the parcels behind a position that are not settled, sorted."""
        following = islice(self.unsettled, bisect_right(self.unsettled, position), None)
        return (each for each in following if each not in self.settled)

    def not_naming(self, servers: Iterable[ServerId]) -> Iterable[int]:
        """Do the same for unknown servers: the oldest parcels and the newest one, so many at most."""
        candidates = list(islice(reversed(self.unsettled), 1))
        if not self.named.issuperset(servers):
            candidates = [*islice(self.unsettled, NAMING_LIMIT), *candidates]
            if len(self.named) >= NAMING_LIMIT:
                self.named.clear()
            self.named.update(servers)
        return [position for position in dict.fromkeys(candidates) if position not in self.settled]


IDLE = Sequence()
"""Any sequence that is not in memory: to be read alone."""


class Backlog:
    """All parcels of an origin that are not settled, or wait for one before them: what is to be known of them."""

    def __init__(self, parcels: Mapping[int, ParcelRow], sequences: Mapping[int, Sequence]) -> None:
        """`parcels`: by position. `sequences`: by number, without those that are idle."""
        self._parcels, self._sequences = parcels, sequences

    @property
    def is_empty(self) -> bool:
        """Whether there are none."""
        return not self._parcels

    def leaving_out(self, here: ServerId) -> list[tuple[int, ServerId]]:
        """The parcels that are not settled, by position, with the servers that leave somebody out of them.

        `here`: the origin itself.
        """
        return [
            (position, server)
            for position, row in self._parcels.items()
            if position not in self._sequences[row.sequence].settled
            for server in row.leaving_out
            if server == here or self.has_confirmed(position, server)
        ]

    def unsettled_from(self, number: int, first_serial: int) -> list[int]:
        """The parcels of a sequence that are not settled, from a serial on."""
        sequence = self._sequences.get(number, IDLE)
        return [
            position
            for position in sequence.unsettled
            if position not in sequence.settled and self._parcels[position].first_serial >= first_serial
        ]

    def note_followed(self, position: int, server: ServerId, number: int) -> None:
        """A server has a parcel for those whom it serves by the `Elsewhere` of a number."""
        if number:
            numbers = self._sequences[self._parcels[position].sequence].followed.setdefault(position, {})
            numbers[server] = max(number, numbers.get(server, 0))

    def unserved(self, number: int, server: ServerId, elsewhere: int, *, next_serial: int) -> Ranges:
        """Which parcels of a sequence a server is not known to have by the `Elsewhere` of a number: ranges of serials.

        `next_serial`: of the next message, which nobody has.
        """
        sequence = self._sequences.get(number, IDLE)
        found = [(next_serial, NUMBER_LIMIT)]
        for position in reversed(sequence.unsettled):
            row = self._parcels[position]
            if position in sequence.settled or sequence.followed.get(position, {}).get(server, 0) >= elsewhere:
                continue
            end = row.first_serial + row.messages
            if found[-1][0] == end:
                end = found.pop()[1]
            found.append((row.first_serial, end))
        return tuple(reversed(found))

    def unsettled_since(self, number: int, *, next_serial: int) -> int:
        """The serial of the first parcel of a sequence that is not settled; that of the next message, if all are."""
        unsettled = self._sequences.get(number, IDLE).unsettled
        return self._parcels[unsettled[0]].first_serial if unsettled else next_serial

    def has_confirmed(self, position: int, server: ServerId) -> bool:
        """Whether a parcel, which is not settled, was confirmed by a server that may be posted it again."""
        row = self._parcels[position]
        return server not in row.lost and row.posted.get(server, ParcelState.UNCONFIRMED) >= 0

    def is_receiver(self, number: int, server: ServerId) -> bool:
        """Whether there is a sequence of a number, and a server was posted some of it."""
        return number in self._sequences and server in self._sequences[number].receivers

    def posted_to_server(self, server: ServerId) -> list[tuple[int, ParcelKey]]:
        """The parcels that are not settled and that a server has, or is waited for: positions, and what names them."""
        return [
            (position, (row.sequence, row.start, row.first_serial))
            for position, row in self._parcels.items()
            if server in row.posted and (server not in row.lost or row.posted[server] == ParcelState.LOST)
        ]

    def is_lost(self, position: int, server: ServerId) -> bool:
        """Whether a server does not get a parcel, and has not said yet who is further below."""
        return self._parcels[position].posted[server] == ParcelState.LOST

    def had_before(self, position: int, server: ServerId) -> bool:
        """Whether a server that has not confirmed a parcel in this round had it before."""
        return self._parcels[position].posted[server] == ParcelState.UNCONFIRMED_AGAIN

    def accepted_before(self, at: float, *, at_most: int, among: Iterable[int] | None = None) -> list[int]:
        """The positions of parcels that are not settled and were accepted before a running time; sorted, so many.

        `among`: of these positions alone, which are sorted.
        """
        found: list[int] = []
        for position in self._parcels if among is None else among:
            row = self._parcels.get(position)
            if len(found) == at_most or (row is not None and row.accepted_at >= at):
                break
            if row is not None and not row.is_settled:
                found.append(position)
        return found

    def audiences(self) -> set[int]:
        """The numbers of all audiences that parcels which are not settled refer to."""
        return {row.audience for row in self._parcels.values()}
