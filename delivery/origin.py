"""The origin of messages: it accepts them, numbers them, and has each of them reach every server that is below.

    Send --> open parcel --CloseParcels--> unsettled --all to whom it was posted have confirmed--> settled
                                             |   ^
                                             v   | a server that is found is posted everything from the oldest
                                            posted   parcel on that is not settled, before anything newer

Which servers are below, nobody knows at once: this server knows those of the members of its own groups, and each of
those tells the next ones as it confirms. On the way from the target to a member, the first server that was not posted
to has one before it that names it. So a parcel that is settled has reached all, whatever changes meanwhile.

The home of the addressed group is the origin, so all that is sent to one target set is one sequence: its serials rise
by one, and every lane is in order.

Source: delivery.md sections 4 and 5; K6 section 6.6.1 (a centralised algorithm, with the home as coordinator).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from msgspec import Struct

from delivery.events import Answer, Send, Settled
from delivery.model import Quality, TargetSet
from delivery.post import Post
from delivery.reach import Reach
from delivery.wire import PARCEL_BYTES_LIMIT, PARCEL_MESSAGES_LIMIT, Confirm, Parcel, message_id
from namegraph import NUMBERS, DurableMap, DurableState, PeerLetter, ServerId, packed

BACKLOG_BYTES_LIMIT = 256 * 1024 * 1024
"""Of parcels that are not settled: they are kept in memory, too."""

OPEN_BYTES_LIMIT = 8 * 1024 * 1024
"""Of messages that wait for the next parcels."""


UNCONFIRMED = -1


class _SequenceRow(Struct, array_like=True):
    """One target set at one quality."""

    targets: TargetSet
    quality: Quality
    next_serial: int
    """The serial of the next message."""


class Progress(NamedTuple):
    """How far a message is."""

    mailboxes: int
    """How many get it, as far as servers have confirmed it."""
    servers: int
    """How many servers have some of these."""
    pending: tuple[ServerId, ...]
    """Servers that have not confirmed it; sorted."""


class _ParcelRow(Struct, array_like=True):
    """A parcel that is not settled. Its row is its place in the log of this server."""

    sequence: int
    incarnation: int
    first_serial: int
    messages: int
    mailboxes: int
    """How many get it at this server."""
    posted: dict[ServerId, int]
    """To whom it was posted, with how many get it there; `UNCONFIRMED` where that one has not said so yet."""
    unknown: tuple[ServerId, ...] = ()
    """Servers that others name as further below, and that are not known here. Sorted."""

    @property
    def is_settled(self) -> bool:
        """Whether all to whom it was posted have confirmed it."""
        return UNCONFIRMED not in self.posted.values()

    @property
    def progress(self) -> Progress:
        """How far it is."""
        served = [count for count in (self.mailboxes, *self.posted.values()) if count > 0]
        pending = sorted(server for server, count in self.posted.items() if count == UNCONFIRMED)
        return Progress(sum(served), len(served), tuple(pending))


@dataclass(slots=True)
class _Sequence:
    """What is in memory of a sequence."""

    unsettled: deque[int] = field(default_factory=deque)
    """Positions, from the oldest parcel on that is not settled. Later ones may be."""
    onward: dict[ServerId, tuple[ServerId, ...]] = field(default_factory=dict)
    """What each server has said last of who is further below."""


@dataclass(slots=True)
class Waiting:
    """A message that waits for the next parcel, and who is to be told of it."""

    send: Send
    tickets: list[int]
    """Of the callers; more than one where it was sent again meanwhile."""
    settled_tickets: list[int]
    """Of those who want to know that it is settled."""

    def also_for(self, send: Send) -> None:
        """The same message was sent again."""
        self.tickets.append(send.ticket)
        if send.wants_settled:
            self.settled_tickets.append(send.ticket)


class Origin:
    """All sequences of this server."""

    def __init__(self, durable: DurableState, server: ServerId, post: Post) -> None:
        self._server = server
        self._post = post
        self._rows = DurableMap(durable, "sequence", NUMBERS, packed(_SequenceRow))
        self._parcels = DurableMap(durable, "parcel", NUMBERS, packed(_ParcelRow))
        self._numbers = {(row.targets, row.quality): number for number, row in self._rows.items()}
        self._sequences = {number: _Sequence() for number in self._rows}
        self._by_serial: dict[tuple[int, int, int], int] = {}
        """Positions by sequence, incarnation and first serial."""
        self._open: dict[tuple[TargetSet, Quality], list[Waiting]] = {}
        """Messages that are in no parcel yet."""
        self._waiting: dict[int, list[tuple[int, str]]] = {}
        """By position of a parcel: tickets of those who are to be told when it is settled, with the message's id."""
        self.incarnation = 0
        """Of this server."""
        self.backlog_bytes = 0
        self.open_bytes = 0
        for position in sorted(self._parcels):
            row = self._parcels[position]
            self._sequences[row.sequence].unsettled.append(position)
            self._by_serial[row.sequence, row.incarnation, row.first_serial] = position

    @property
    def unsettled(self) -> list[int]:
        """The positions of the parcels that are not settled, and of those that wait for one before them; sorted."""
        return sorted(self._parcels)

    def oldest_needed(self) -> int | None:
        """The position of the oldest parcel that is still to be posted to somebody, or may be."""
        return min(self._parcels, default=None)

    def keep(self, position: int, encoded: bytes) -> None:
        """Hold a parcel in memory until it is settled."""
        self._post.parcels[position] = encoded
        self.backlog_bytes += len(encoded)

    # -- messages become parcels

    def take(self, send: Send) -> Waiting:
        """Let a message wait for the next parcel."""
        waiting = Waiting(send, [], [])
        waiting.also_for(send)
        self._open.setdefault((send.targets, send.quality), []).append(waiting)
        self.open_bytes += send.message.size
        return waiting

    @property
    def has_open(self) -> bool:
        """Whether messages wait for the next parcel."""
        return bool(self._open)

    def close(self) -> Iterator[tuple[Parcel, list[Waiting]]]:
        """The parcels of all messages that wait, with what each message of them was."""
        opened, self._open, self.open_bytes = self._open, {}, 0
        for key, all_waiting in opened.items():
            number = self._numbers.get(key)
            if number is None:
                number = self._numbers[key] = max(self._rows, default=0) + 1
                self._rows[number] = _SequenceRow(*key, next_serial=1)
                self._sequences[number] = _Sequence()
            row = self._rows[number]
            for together in _cut_up(all_waiting):
                messages = tuple(waiting.send.message for waiting in together)
                yield (
                    Parcel(number, self.incarnation, row.next_serial, row.targets, row.quality, messages),
                    together,
                )
                row.next_serial += len(together)
            self._rows.touch(number)

    def servers_below(self, parcel: Parcel, reach: Reach) -> list[ServerId]:
        """The servers that are known to be below a new parcel's targets; this one is not among them.

        Those behind a server that is apart do not get it yet: the members whom they have through that one are not below
        the targets meanwhile. It names them when it confirms, and by then all is healed.
        """
        sequence = self._sequences[parcel.sequence]
        found: dict[ServerId, None] = {}
        pending = self._own_onward(parcel.targets, reach)
        while pending:
            server = pending.pop(0)
            if server not in found and server != self._server:
                found[server] = None
                if reach.is_settled_with(server):
                    pending += sequence.onward.get(server, ())
        return list(found)

    def begin(
        self,
        parcel: Parcel,
        together: list[Waiting],
        servers: list[ServerId],
        reach: Reach,
        *,
        position: int,
        mailboxes: int,
    ) -> list[PeerLetter]:
        """Post a parcel that is in the log; returns what is to leave."""
        row = _ParcelRow(parcel.sequence, parcel.incarnation, parcel.first_serial, len(together), mailboxes, {})
        self._parcels[position] = row
        self._by_serial[row.sequence, row.incarnation, row.first_serial] = position
        self._sequences[parcel.sequence].unsettled.append(position)
        if asked := _asked(parcel, together):
            self._waiting[position] = asked
        return self._found(parcel.sequence, servers, reach)

    def _own_onward(self, targets: TargetSet, reach: Reach) -> list[ServerId]:
        found: dict[ServerId, None] = {}
        for target in targets:
            home = reach.home_of(target.name)
            if home is not None:
                found[home] = None
            found.update(dict.fromkeys(reach.below(target.name).onward))
        return [server for server in found if server != self._server]

    # -- servers below

    def _found(self, number: int, servers: Iterable[ServerId], reach: Reach) -> list[PeerLetter]:
        """Post all that is not settled to servers that are below, as far as it was not."""
        leaving: list[PeerLetter] = []
        known: list[ServerId] = []
        unknown: list[ServerId] = []
        for server in servers:
            if server != self._server:
                (known if reach.is_known(server) else unknown).append(server)
        for position in self._sequences[number].unsettled:
            row = self._parcels[position]
            for server in known:
                if server not in row.posted:
                    row.posted[server] = UNCONFIRMED
                    self._parcels.touch(position)
                    leaving.append(self._post.send_parcel(server, position))
            if not set(unknown) <= set(row.unknown):
                row.unknown = tuple(sorted({*row.unknown, *unknown}))
                self._parcels.touch(position)
        return leaving

    def confirm(self, sender: ServerId, confirm: Confirm, reach: Reach) -> tuple[bool, list[PeerLetter], list[Answer]]:
        """A server has a parcel in its log.

        Returns whether that can be so, what is to leave now, and what callers are to be told.
        """
        sequence = self._sequences.get(confirm.sequence)
        if sequence is None:
            return False, [], []
        position = self._by_serial.get((confirm.sequence, confirm.incarnation, confirm.first_serial))
        if position is None:
            # Settled: it was posted again after a server began its lanes anew.
            return True, [], []
        row = self._parcels[position]
        if sender not in row.posted:
            return False, [], []
        if row.posted[sender] == UNCONFIRMED:
            row.posted[sender] = confirm.mailboxes
            self._parcels.touch(position)
        sequence.onward[sender] = confirm.onward
        targets = self._rows[confirm.sequence].targets
        letters = self._found(confirm.sequence, [*confirm.onward, *self._own_onward(targets, reach)], reach)
        return True, letters, self.settle(position)

    @staticmethod
    def settled_at_once(parcel: Parcel, together: list[Waiting]) -> list[Answer]:
        """What callers are to be told of a parcel that nobody gets."""
        return [Settled(ticket, name, 0, 0) for ticket, name in _asked(parcel, together)]

    def wait(self, ticket: int, name: str) -> list[Answer]:
        """Let one more caller wait until a message is settled; what to tell at once, where it was settled before."""
        position = self._position_of(name)
        if position is None:
            return [Settled(ticket, name, None, None)]
        self._waiting.setdefault(position, []).append((ticket, name))
        return self.settle(position)

    def progress(self, name: str) -> Progress | None:
        """How far a message is; None where it is settled, or was never accepted here."""
        position = self._position_of(name)
        return None if position is None else self._parcels[position].progress

    def pending(self) -> dict[ServerId, int]:
        """For how many parcels each server is waited for that has not confirmed all of them; sorted by server.

        May be asked while a step is carried out in another thread.
        """
        found: Counter[ServerId] = Counter()
        for row in list(self._parcels.values()):
            found.update(server for server, count in list(row.posted.items()) if count == UNCONFIRMED)
        return dict(sorted(found.items()))

    @property
    def parcels_unsettled(self) -> int:
        """How many parcels are not settled, or wait for one before them."""
        return len(self._parcels)

    def _position_of(self, name: str) -> int | None:
        serial = int(name.partition("@")[0])
        for position, row in self._parcels.items():
            if row.first_serial <= serial < row.first_serial + row.messages:
                targets = self._rows[row.sequence].targets
                if message_id(serial, targets, row.sequence, row.incarnation) == name:
                    return position
        return None

    def settle(self, position: int) -> list[Answer]:
        """What callers are to be told of a parcel, where it is settled; it is forgotten after all before it."""
        row = self._parcels[position]
        if not row.is_settled:
            return []
        progress = row.progress
        answers: list[Answer] = [
            Settled(ticket, name, progress.mailboxes, progress.servers, row.unknown)
            for ticket, name in self._waiting.pop(position, ())
        ]
        unsettled = self._sequences[row.sequence].unsettled
        while unsettled and self._parcels[unsettled[0]].is_settled:
            done = self._parcels.pop(unsettled.popleft())
            del self._by_serial[done.sequence, done.incarnation, done.first_serial]
        return answers

    def release(self) -> None:
        """Forget the parcels that no lane refers to any more and that are settled."""
        held = self._post.parcels
        if len(held) > len(self._parcels):
            needed = self._post.positions_kept()
            for position in [position for position in held if position not in self._parcels and position not in needed]:
                self.backlog_bytes -= len(held.pop(position))

    def posted_to(self) -> list[ServerId]:
        """The servers to which anything was posted that is not settled; sorted."""
        return sorted({server for row in self._parcels.values() for server in row.posted})

    def begin_again(self, server: ServerId) -> list[PeerLetter]:
        """The lane to a server begins anew: post all to it again that is not settled, in order."""
        leaving: list[PeerLetter] = []
        for position, row in sorted(self._parcels.items()):
            if server in row.posted:
                row.posted[server] = UNCONFIRMED
                self._parcels.touch(position)
                leaving.append(self._post.send_parcel(server, position))
        return leaving


def _asked(parcel: Parcel, together: list[Waiting]) -> list[tuple[int, str]]:
    return [
        (ticket, parcel.message_id(index))
        for index, waiting in enumerate(together)
        for ticket in waiting.settled_tickets
    ]


def _cut_up(all_waiting: list[Waiting]) -> Iterator[list[Waiting]]:
    """In parcels of no more messages and bytes than one takes."""
    together: list[Waiting] = []
    size = 0
    for waiting in all_waiting:
        more = waiting.send.message.size
        if together and (len(together) == PARCEL_MESSAGES_LIMIT or size + more > PARCEL_BYTES_LIMIT):
            yield together
            together, size = [], 0
        together.append(waiting)
        size += more
    yield together
