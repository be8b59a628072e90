"""State of unsettled parcels at their origin: a durable row for each parcel, and the state of sequences in memory.

See docs/protocol-messages.md, "Who is below".
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
"""A name that no view has."""


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
"""Most parcels for which unknown servers are noted in one step, and most unknown servers noted for a whole sequence."""

ParcelKey = tuple[int, int, int]
"""Key of a parcel of this server: sequence, start, and first serial."""

Ranges = tuple[tuple[int, int], ...]
"""Half-open ranges of serials, sorted."""


class Progress(NamedTuple):
    """Progress of a message."""

    mailboxes: int
    """Number of mailboxes that get the message, at the servers that have confirmed it."""
    servers: int
    """Number of servers with such mailboxes."""
    pending: tuple[ServerId, ...]
    """Servers that have not confirmed the message, sorted."""


class Here(NamedTuple):
    """Recipients of a parcel at its origin."""

    audience: int
    """Number of the audience."""
    mailboxes: int
    """Number of mailboxes in the audience."""
    leaves_out: bool
    """True if another server serves a foreign recipient of this server."""


class UnsettledParcel(NamedTuple):
    """A parcel of this server that is under way."""

    sequence: int
    start: int
    first_serial: int
    messages: int
    round: int
    posted: tuple[ServerId, ...]
    confirmed: tuple[ServerId, ...]
    delivered: tuple[ServerId, ...]
    """Servers that have confirmed the parcel and have it in their logs, because it has recipients there."""


class ParcelRow(Struct, array_like=True):
    """A parcel that is not settled, stored under its position in the log of this server."""

    sequence: int
    start: int
    first_serial: int
    messages: int
    audience: int
    """Number of the audience at this server."""
    mailboxes: int
    """Number of mailboxes in that audience."""
    posted: dict[ServerId, int]
    """Count of mailboxes that get the parcel, by server to which it was posted. Below 0 a `ParcelState`."""
    unknown: tuple[ServerId, ...] = ()
    """Downstream servers that a peer named and that this server does not know, or not any more. Sorted."""
    round: int = 0
    """Number of times that the parcel was posted again to all servers."""
    is_apart: bool = False
    """True if a member below may have been behind suspended arcs in this round: another round follows."""
    remembering: tuple[ServerId, ...] = ()
    """Servers that remember the recipients of the parcel. Sorted."""
    view: str = ""
    """View in which this round was begun. `NO_VIEW` if the view was not healed then, or a server was removed since."""
    accepted_at: float = 0.0
    """Running time of acceptance, in seconds."""
    is_of_copy: bool = False
    """True if this server was restored from an old backup, and the parcel comes from the backup.

    The parcel may have been settled since, and forgotten by the servers that have it. It gets no further round.
    """
    lost: tuple[ServerId, ...] = ()
    """Servers that do not get the parcel, or may have forgotten it. It is not posted to them again. Sorted."""
    leaving_out: tuple[ServerId, ...] = ()
    """Servers that leave out a foreign process, including this server. Sorted."""

    def note_leaving_out(self, server: ServerId, *, is_so: bool) -> None:
        """Note whether a server leaves out a foreign process."""
        if is_so != (server in self.leaving_out):
            self.leaving_out = tuple(sorted({*self.leaving_out} ^ {server}))

    @property
    def is_sent_apart(self) -> bool:
        """True if the parcel was posted while servers were apart, in this round or an earlier round."""
        return self.is_apart or self.round > 0

    @property
    def is_confirmed(self) -> bool:
        """True if all servers to which it was posted have confirmed it in this round."""
        return all(count >= 0 for count in self.posted.values())

    @property
    def is_settled(self) -> bool:
        """True if all servers that must have the parcel have it."""
        return self.is_confirmed and not self.is_apart

    def told(self) -> UnsettledParcel:
        """Return the parcel as snapshots show it."""
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
        """Progress of the messages of the parcel."""
        posted = list(self.posted.items())
        served = [count for count in (self.mailboxes, *(count for _, count in posted)) if count > 0]
        pending = sorted(server for server, count in posted if count < 0)
        return Progress(sum(served), len(served), tuple(pending))


@dataclass(slots=True)
class Sequence:
    """State of a sequence in memory."""

    unsettled: deque[int] = field(default_factory=deque)
    """Positions from the oldest unsettled parcel on. Later parcels among them may be settled."""
    settled: set[int] = field(default_factory=set)
    """Positions of these settled parcels. Callers were told, so a server that is found now does not get them."""
    onward: dict[ServerId, tuple[ServerId, ...]] = field(default_factory=dict)
    """Downstream servers that each server named last."""
    posted: set[ServerId] = field(default_factory=set)
    """Servers to which all unsettled parcels were posted."""
    named: set[ServerId] = field(default_factory=set)
    """Unknown servers that all unsettled parcels name."""
    receivers: set[ServerId] = field(default_factory=set)
    """Servers that were found to be below since the start, or for parcels that were unsettled at the start."""
    stubs: set[ServerId] = field(default_factory=set)
    """Servers that get stubs: they had no recipients for a parcel, and have wanted no parcel since."""
    catching_up: dict[ServerId, int] = field(default_factory=dict)
    """Position through which a server was posted the unsettled parcels, while steps post them in slices."""
    made_whole: dict[ServerId, int] = field(default_factory=dict)
    """Position through which a server was posted in full the parcels whose stub it has, while steps post them in
    slices."""
    followed: dict[int, dict[ServerId, int]] = field(default_factory=dict)
    """Number of the last `Elsewhere` of this start that a server followed, by position and server.

    Only unsettled parcels that the server has confirmed are in it.
    """

    @property
    def is_idle(self) -> bool:
        """True if the state may be dropped: all parcels are settled, and no server but the origin was ever below."""
        return not (self.unsettled or self.receivers or self.onward)

    def begin(self, position: int, servers: Iterable[ServerId]) -> None:
        """Add a parcel for which these servers are about to be found."""
        self.unsettled.append(position)
        self.posted.intersection_update(servers)
        self.named.intersection_update(servers)

    def lacking(self, server: ServerId) -> Iterable[int]:
        """Return the positions of parcels for which a known server may not have been found, sorted.

        These are all parcels if the server was never posted any, and else only the newest: thousands may wait for a
        server that is away, and each of them is confirmed by all other servers.
        """
        newest = islice(reversed(self.unsettled), 1)
        candidates = newest if server in self.posted else self.unsettled
        self.posted.add(server)
        return [position for position in candidates if position not in self.settled]

    def behind(self, position: int) -> Iterator[int]:
        """Return the positions of unsettled parcels behind a position, sorted."""
        following = islice(self.unsettled, bisect_right(self.unsettled, position), None)
        return (each for each in following if each not in self.settled)

    def not_naming(self, servers: Iterable[ServerId]) -> Iterable[int]:
        """Return the positions of parcels that may not name some unknown servers: the oldest and the newest.

        At most `NAMING_LIMIT` of the oldest are returned.
        """
        candidates = list(islice(reversed(self.unsettled), 1))
        if not self.named.issuperset(servers):
            candidates = [*islice(self.unsettled, NAMING_LIMIT), *candidates]
            if len(self.named) >= NAMING_LIMIT:
                self.named.clear()
            self.named.update(servers)
        return [position for position in dict.fromkeys(candidates) if position not in self.settled]


IDLE = Sequence()
"""State of any sequence that is not in memory. Callers must not change it."""


class Backlog:
    """Read access to all parcels of an origin that are not settled, or wait for an older parcel."""

    def __init__(self, parcels: Mapping[int, ParcelRow], sequences: Mapping[int, Sequence]) -> None:
        """Wrap the tables of an origin. `parcels`: by position. `sequences`: by number, without idle ones."""
        self._parcels, self._sequences = parcels, sequences

    @property
    def oldest_accepted_at(self) -> float | None:
        """Running time of acceptance of the oldest parcel, in seconds. None if there are no parcels."""
        oldest = next(iter(self._parcels.values()), None)
        return None if oldest is None else oldest.accepted_at

    def leaving_out(self, here: ServerId) -> list[tuple[int, ServerId]]:
        """Return the unsettled parcels, by position, with the servers that leave out a foreign process.

        `here`: the origin itself. Any other server must have confirmed the parcel.
        """
        return [
            (position, server)
            for position, row in self._parcels.items()
            if position not in self._sequences[row.sequence].settled
            for server in row.leaving_out
            if server == here or self.has_confirmed(position, server)
        ]

    def unsettled_from(self, number: int, first_serial: int) -> list[int]:
        """Return the positions of unsettled parcels of a sequence, from a serial on."""
        sequence = self._sequences.get(number, IDLE)
        return [
            position
            for position in sequence.unsettled
            if position not in sequence.settled and self._parcels[position].first_serial >= first_serial
        ]

    def note_followed(self, position: int, server: ServerId, number: int) -> None:
        """Note that a server has a parcel for the processes that it serves by the `Elsewhere` of a number."""
        if number:
            numbers = self._sequences[self._parcels[position].sequence].followed.setdefault(position, {})
            numbers[server] = max(number, numbers.get(server, 0))

    def unserved(self, number: int, server: ServerId, elsewhere: int, *, next_serial: int) -> Ranges:
        """Return the serials of a sequence that a server may not have served by the `Elsewhere` of a number, as ranges.

        `next_serial`: serial of the next message, which no server has.
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
        """Return the serial of the first unsettled parcel of a sequence. `next_serial` if all parcels are settled."""
        unsettled = self._sequences.get(number, IDLE).unsettled
        return self._parcels[unsettled[0]].first_serial if unsettled else next_serial

    def has_confirmed(self, position: int, server: ServerId) -> bool:
        """True if a server has confirmed an unsettled parcel and may be posted it again."""
        row = self._parcels[position]
        return server not in row.lost and row.posted.get(server, ParcelState.UNCONFIRMED) >= 0

    def is_receiver(self, number: int, server: ServerId) -> bool:
        """True if the sequence of a number is in memory, and a server was posted some parcel of it."""
        return number in self._sequences and server in self._sequences[number].receivers

    def posted_to_server(self, server: ServerId) -> list[tuple[int, ParcelKey]]:
        """Return the positions and keys of unsettled parcels that a server has, or that it has still to confirm."""
        return [
            (position, (row.sequence, row.start, row.first_serial))
            for position, row in self._parcels.items()
            if server in row.posted and (server not in row.lost or row.posted[server] == ParcelState.LOST)
        ]

    def is_lost(self, position: int, server: ServerId) -> bool:
        """True if a server does not get a parcel, and has not named its downstream servers yet."""
        return self._parcels[position].posted[server] == ParcelState.LOST

    def had_before(self, position: int, server: ServerId) -> bool:
        """True if a server that has not confirmed a parcel in this round had it in an earlier one."""
        return self._parcels[position].posted[server] == ParcelState.UNCONFIRMED_AGAIN

    def accepted_before(self, at: float, *, at_most: int, among: Iterable[int] | None = None) -> list[int]:
        """Return the positions of unsettled parcels accepted before running time `at`, sorted, at most `at_most`.

        `among`: sorted positions to which the search is limited. None for all.
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
        """Return the numbers of all audiences to which unsettled parcels refer."""
        return {row.audience for row in self._parcels.values()}
