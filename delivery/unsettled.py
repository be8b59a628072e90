"""What an origin keeps of parcels that are not settled: a row of each, and in memory what is known of their sequences.

Source: delivery.md section 4.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from msgspec import Struct

from delivery.snapshot import UnsettledParcel
from namegraph import ServerId

UNCONFIRMED = -1
UNCONFIRMED_AGAIN = -2
"""It has the parcel, and has not confirmed it in this round yet."""
STUB = -3
"""It was posted the stub alone, and has not confirmed it."""
LOST = -4
"""It does not get the parcel. It was told so, and has not said yet who is further below."""


class Progress(NamedTuple):
    """How far a message is."""

    mailboxes: int
    """How many get it, as far as servers have confirmed it."""
    servers: int
    """How many servers have some of these."""
    pending: tuple[ServerId, ...]
    """Servers that have not confirmed it; sorted."""


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
    """To whom it was posted, with how many get it there; negative where that one has not said so yet."""
    unknown: tuple[ServerId, ...] = ()
    """Servers that others name as further below and that are not known here, or not any more. Sorted."""
    round: int = 0
    """How often it was posted once more."""
    is_apart: bool = False
    """Whether something below was behind suspended arcs in this round: another one follows."""
    remembering: tuple[ServerId, ...] = ()
    """Servers that remember who got it there. Sorted."""
    view: str = ""
    """In which this round was begun."""
    accepted_at: float = 0.0
    """In running time."""
    is_of_copy: bool = False
    """This server has gone back to an older copy of its database, and the parcel is of that. It may have been settled
    since, and forgotten by those who have it: so it is posted once more to nobody."""
    lost: tuple[ServerId, ...] = ()
    """Servers that do not get it, or may have forgotten it: it is not posted to them again. Sorted."""

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
        posted = tuple(sorted(self.posted))
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
        served = [count for count in (self.mailboxes, *self.posted.values()) if count > 0]
        pending = sorted(server for server, count in self.posted.items() if count < 0)
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
    stubs: set[ServerId] = field(default_factory=set)
    """Servers that are posted stubs: they had nobody for a parcel, and have wanted none since."""

    def begin(self, position: int, servers: Iterable[ServerId]) -> None:
        """A parcel more, for which these servers are about to be found."""
        self.unsettled.append(position)
        self.posted.intersection_update(servers)
        self.named.intersection_update(servers)

    def lacking(self, server: ServerId, found: set[ServerId]) -> Iterable[int]:
        """The parcels for which a server may not have been found, sorted; all of them once it was not `found` before.

        Thousands may wait for a server that is away, and each is confirmed by all others.
        """
        newest = islice(reversed(self.unsettled), 1)
        candidates = newest if server in found else self.unsettled
        found.add(server)
        return [position for position in candidates if position not in self.settled]
