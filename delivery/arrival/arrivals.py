"""Posts of other servers: each waits for its turn, and a parcel is logged here once.

    post --> waits --in the order of its lane, a parcel once this server is settled with its origin--> taken
    parcel --> log, for the mailboxes that it reaches and that have not got it --> Confirm
    stub --nobody here gets it--> Confirm, as of a parcel
         '-somebody does--> Want: the parcel comes
    sender takes no answers --> its posts wait

A parcel that was logged while servers were away is remembered, with who got it, until its origin says that it is over:
it may be posted once more, for those who could not be reached. So is one that somebody was left out of, whom no server
owns: it may come once more for that one.

Source: delivery.md sections 4 and 8.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field

from msgspec import Struct
from pyroaring import BitMap

from delivery.arrival.log_writer import LogWriter
from delivery.arrival.recent_downstream import LostWays
from delivery.arrival.recipient_claims import ForeignRecipients
from delivery.log.segments import Writer
from delivery.mailboxes.audiences import NOBODY
from delivery.model.reach import Reach
from delivery.origin.servers_below import is_home, onward, servers_apart
from delivery.wire.post_lanes import ANSWERS_BYTES_LIMIT, Postage
from delivery.wire.posts import (
    LARGEST_PARCEL_BYTES,
    NUMBER_LIMIT,
    REMEMBERED_LIMIT,
    Confirm,
    Lost,
    NotAPostError,
    Over,
    Parcel,
    PostMessage,
    Remembered,
    Stub,
    Want,
    decode,
)
from namegraph import DurableMap, DurableState, KeyForm, PeerFault, PeerMessage, ServerId, packed

NONE = BitMap()

WAITING_BYTES_LIMIT = 8 * 1024 * 1024 + 2 * LARGEST_PARCEL_BYTES
"""Of posts of one server that wait here for a view, or for its healing: more than its window lets it send."""

_Heard = tuple[ServerId, int]
"""An origin, and the number that it gave a sequence."""


class _HeardRow(Struct, array_like=True):
    """The last parcel of a sequence that was logged here."""

    start: int
    first_serial: int


def _read_heard(text: str) -> _Heard:
    number, _, server = text.partition(" ")
    return ServerId(server), int(number)


_ParcelKey = tuple[ServerId, int, int, int]
"""An origin, the number of a sequence, the start, and the first serial."""


def _read_parcel(text: str) -> _ParcelKey:
    sequence, start, serial, server = text.split(" ")
    return ServerId(server), int(sequence), int(start), int(serial)


_PARCELS = KeyForm[_ParcelKey](lambda key: f"{key[1]} {key[2]} {key[3]} {key[0]}", _read_parcel)
_HEARD = KeyForm[_Heard](lambda key: f"{key[1]} {key[0]}", _read_heard)


@dataclass(slots=True)
class _Waiting:
    """Posts of one sender: many, while a view is made or healed."""

    posts: dict[int, bytes] = field(default_factory=dict)
    """By number."""
    size: int = 0
    """Of all of them, in bytes."""

    def add(self, number: int, encoded: bytes) -> None:
        self.posts[number] = encoded
        self.size += len(encoded)

    def remove(self, number: int) -> None:
        self.size -= len(self.posts.pop(number))


class Arrivals:
    """All that has come from other servers and was not taken yet, and what is known of the parcels that were."""

    def __init__(
        self, durable: DurableState, server: ServerId, post: Postage, writer: LogWriter, lost_ways: LostWays
    ) -> None:
        self._server = server
        self._post = post
        self._writer = writer
        self.foreign = ForeignRecipients()
        self._heard = DurableMap(durable, "heard", _HEARD, packed(_HeardRow))
        self._remembered = DurableMap(durable, "logged apart", _PARCELS, packed(int))
        """Parcels that may come once more, with the number of their audience, until they are over."""
        self._lost_ways = lost_ways
        self._named_lost: dict[_Heard, int] = {}
        """For each sequence, through which count its origin was told of lost ways."""
        self._waiting: defaultdict[ServerId, _Waiting] = defaultdict(_Waiting)
        """Posts that came and were not taken yet, by sender."""
        self.has_more = False
        """Whether a post waits for nothing but another step."""
        self.answers_limit_bytes = ANSWERS_BYTES_LIMIT
        self.held: set[ServerId] = set()
        """Senders whose posts wait until they take the answers to earlier ones."""

    def keep(self, post: PeerMessage) -> None:
        """A post has come; the step that follows takes it, if it can."""
        sender, number, encoded = post.sender, post.number, post.encoded
        waiting = self._waiting[sender]
        if number <= self._post.handled_through(sender):
            self._post.faults[sender, PeerFault.REPEATED] += 1
        elif number not in waiting.posts:
            if waiting.size + len(encoded) > WAITING_BYTES_LIMIT:
                self._post.faults[sender, PeerFault.TOO_MUCH_POST] += 1
            else:
                waiting.add(number, encoded)

    def take(
        self, reach: Reach, is_ready: Callable[[ServerId, PostMessage, Reach], bool]
    ) -> Iterator[tuple[ServerId, PostMessage, bytes]]:
        """The posts whose turn has come, in order, with their bytes; each counts as handled when it is told.

        A parcel or a stub waits while servers part or heal: the graph here is to be such that it finds its members. So
        it does for the view in which it was accepted, if this server is in an earlier one still. It waits, too, for the
        steps in which very many are found.

        Any other post waits while `is_ready` says that taking it takes too long.

        All posts of a sender wait that takes no answers: each causes more of them.
        """
        self.has_more = False
        if self.held:
            self.held.clear()
        for sender in [sender for sender, waiting in self._waiting.items() if waiting.posts]:
            waiting = self._waiting[sender].posts
            while (number := self._post.handled_through(sender) + 1) in waiting:
                if self._post.answers_bytes(sender) >= self.answers_limit_bytes:
                    self.held.add(sender)
                    break
                encoded = waiting[number]
                try:
                    message = decode(encoded)
                except NotAPostError:
                    self._post.faults[sender, PeerFault.UNREADABLE] += 1
                    self._pass(sender, number)
                    continue
                if isinstance(message, Parcel | Stub):
                    accepted_in = message.accepted_in if isinstance(message, Parcel) else 0
                    if not reach.is_settled_with(sender) or accepted_in > reach.view_number():
                        break
                    if not self._writer.is_ready(message.targets, reach):
                        self.has_more = True
                        break
                elif not is_ready(sender, message, reach):
                    self.has_more = True
                    break
                self._pass(sender, number)
                yield sender, message, encoded

    def _pass(self, sender: ServerId, number: int) -> None:
        self._post.take(sender, number)
        self._waiting[sender].remove(number)

    def log(self, sender: ServerId, parcel: Parcel, encoded: bytes, reach: Reach) -> Confirm | None:
        """Log a parcel for those who have not got it; returns what its origin is to be told, None if it is none."""
        if not is_home(sender, parcel.targets, reach):
            self._post.faults[sender, PeerFault.NOT_ITS_TARGET] += 1
            return None
        key = (sender, parcel.sequence, parcel.start, parcel.first_serial)
        left_out = NONE if parcel.is_replayed else self._left_out(sender, parcel, reach)
        log = self._log_again if key in self._remembered else self._log_first
        audience = log(key, parcel, encoded, reach, left_out)
        lacks_some = bool(self._writer.audience(parcel.targets, reach) & left_out - audience)
        return self._confirm(sender, parcel, self._writer.count(audience), reach, has_left_out=lacks_some)

    def answer_stub(self, sender: ServerId, stub: Stub, reach: Reach) -> Confirm | Want | None:
        """What the origin of a stub is to be told, None if it is none."""
        if not is_home(sender, stub.targets, reach):
            self._post.faults[sender, PeerFault.NOT_ITS_TARGET] += 1
            return None
        left_out = self._left_out(sender, stub, reach)
        audience = self._writer.audience(stub.targets, reach)
        if audience - left_out:
            return Want(stub.sequence, stub.start, stub.first_serial)
        self.foreign.take(sender, stub)
        if reach.is_parted() or audience:
            self._remembered[sender, stub.sequence, stub.start, stub.first_serial] = NOBODY
        return self._confirm(sender, stub, 0, reach, has_left_out=bool(audience))

    def _left_out(self, sender: ServerId, taken: Parcel | Stub, reach: Reach) -> BitMap:
        return self.foreign.left_out(sender, taken, self._writer.foreign(taken.targets, reach))

    def _confirm(
        self, sender: ServerId, taken: Parcel | Stub | Lost, mailboxes: int, reach: Reach, *, has_left_out: bool
    ) -> Confirm:
        assigner, number = self.foreign.followed(sender, taken.sequence)
        now_onward = tuple(server for server in onward(taken.targets, reach) if server != self._server)
        return Confirm(
            taken.sequence,
            taken.start,
            taken.first_serial,
            mailboxes,
            now_onward,
            taken.round if isinstance(taken, Parcel) else 0,
            servers_apart(taken.targets, reach),
            (sender, taken.sequence, taken.start, taken.first_serial) in self._remembered,
            takes_stubs=True,
            is_of_stub=isinstance(taken, Stub),
            has_left_out=has_left_out,
            assigner=assigner,
            number=number,
            onward_before=tuple(
                server for server in self._take_lost(sender, taken.sequence) if server not in (sender, *now_onward)
            ),
        )

    def _take_lost(self, origin: ServerId, sequence: int) -> list[ServerId]:
        """The servers to which ways were lost of which an origin was not told for a sequence; it is now."""
        lost = self._lost_ways.since(self._named_lost.get((origin, sequence), 0))
        if lost:
            self._named_lost[origin, sequence] = self._lost_ways.count
        return lost

    def _log_first(self, key: _ParcelKey, parcel: Parcel, encoded: bytes, reach: Reach, left_out: BitMap) -> BitMap:
        """Log a parcel, unless it was; returns who gets it."""
        everybody = self._writer.audience(parcel.targets, reach)
        if not self._hear(key, parcel, is_for_some=bool(everybody)) and not parcel.is_replayed:
            # Posted again after the lane began anew.
            return everybody
        audience = everybody - left_out
        if audience:
            self._writer.append(audience, encoded, len(parcel.messages), Writer(key[0], parcel.targets[0].name))
        if reach.is_parted() or audience != everybody:
            self._remembered[key] = self._writer.number_of(audience)
        return audience

    def _log_again(self, key: _ParcelKey, parcel: Parcel, _encoded: bytes, reach: Reach, left_out: BitMap) -> BitMap:
        """Log a parcel for those who get it only now; returns who has got it."""
        audience = self._writer.append_late(parcel, self._remembered[key], reach, left_out, source=key[0])
        self._hear(key, parcel, is_for_some=bool(audience))
        self._remembered[key] = self._writer.number_of(audience)
        return audience

    def _hear(self, key: _ParcelKey, parcel: Parcel, *, is_for_some: bool) -> bool:
        """Note a parcel of a sequence as the last one, where it is for somebody here; whether it is behind all others.

        Serials go on over starts, unless the origin went back: then they are of a later start than what was heard.
        """
        heard = self._heard.get(key[:2])
        if heard is not None and parcel.start <= heard.start and parcel.first_serial <= heard.first_serial:
            return False
        if is_for_some:
            self._heard[key[:2]] = _HeardRow(parcel.start, parcel.first_serial)
        return True

    def lose(self, sender: ServerId, _lost: Lost, _reach: Reach) -> Confirm | None:
        """Nothing that is durable is lost on the way."""
        self._post.faults[sender, PeerFault.UNREADABLE] += 1
        return None

    def over(self, sender: ServerId, over: Over) -> None:
        """An origin does not post a parcel once more, or nothing of a sequence, which it forgets."""
        self._remembered.pop((sender, over.sequence, over.start, over.first_serial), None)
        key = (sender, over.sequence)
        heard = self._heard.get(key)
        if over.first_serial == NUMBER_LIMIT and (heard is None or heard.start <= over.start):
            self._heard.pop(key, None)
            self._named_lost.pop(key, None)
            self.foreign.forget_sequence(*key)

    def remembered(self) -> Collection[_ParcelKey]:
        """The parcels of which it is remembered who got them."""
        return self._remembered.keys()

    def audiences(self) -> Collection[int]:
        """The numbers of the audiences of all that is remembered."""
        return self._remembered.values()

    def come_again(self, peer: ServerId) -> None:
        """A server posts again what was not taken here; where its database is an older one, that is something else."""
        self._waiting.pop(peer, None)

    def begin_again(self, peer: ServerId) -> list[Remembered]:
        """The lanes from and to a server begin anew: it posts again what was not handled here.

        Returns what to post to it: what it said to be over may have been lost.
        """
        self.come_again(peer)
        self.foreign.forget(peer)
        # It may not have got what it was told.
        for key in [key for key in self._named_lost if key[0] == peer]:
            del self._named_lost[key]
        serials = defaultdict[tuple[int, int], list[int]](list)
        for origin, sequence, start, first_serial in self._remembered:
            if origin == peer:
                serials[sequence, start].append(first_serial)
        return [
            Remembered(sequence, start, tuple(of_start[begin : begin + REMEMBERED_LIMIT]))
            for (sequence, start), of_start in serials.items()
            for begin in range(0, len(of_start), REMEMBERED_LIMIT)
        ]

    def forget_removed(self, reach: Reach) -> None:
        """Of servers that are not known any more nothing waits; they keep what was not handled here.

        What was logged last of each of their sequences stays, for nothing may come twice if they are back after all.
        """
        for server in [server for server in self._waiting if not reach.is_known(server)]:
            del self._waiting[server]
        for origin in self.foreign.origins() - {self._server}:
            if not reach.is_known(origin):
                self.foreign.forget(origin)
        for key in [key for key in self._remembered if not reach.is_known(key[0])]:
            del self._remembered[key]

    @property
    def has_some(self) -> bool:
        """Return True if a post waits."""
        return any(waiting.posts for waiting in self._waiting.values())

    def waiting(self, sender: ServerId) -> int:
        """How many posts of a server wait."""
        return len(self._waiting[sender].posts) if sender in self._waiting else 0
