"""Posts of other servers: each waits for its turn, and this server logs each parcel once.

    post --> waits --in the order of its lane, a parcel once this server is settled with its origin--> taken
    parcel --> log, for the mailboxes that it reaches and that have not got it --> Confirm
    stub --nobody here gets it--> Confirm, as of a parcel
         '-somebody does--> Want: the parcel comes
    sender takes no answers --> its posts wait

The server remembers the recipients of a parcel that was logged while servers were away, until its origin sends `Over`:
the parcel may be posted again, for members that were out of reach. The server also remembers the recipients of a parcel
that left out a foreign process: the parcel may come again for that process.

See docs/protocol-messages.md, "Who is below" and "Messages and servers that part".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field

from msgspec import Struct
from pyroaring import BitMap

from delivery.arrival.log_writer import LogWriter
from delivery.arrival.recent_downstream import RecentDownstream
from delivery.arrival.recipient_claims import RecipientClaims
from delivery.log.segments import Writer
from delivery.mailboxes.audiences import NOBODY
from delivery.model.agenda import Agenda, Work
from delivery.model.mail_stamps import are_vouched_for
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
"""Most bytes of posts of one server that wait here for a view, or for its healing: more than its window lets it
send."""

_Heard = tuple[ServerId, int]
"""An origin, and the number that it gave a sequence."""


class _HeardRow(Struct, array_like=True):
    """Last parcel of a sequence that was logged at this server."""

    start: int
    first_serial: int


def _read_heard(text: str) -> _Heard:
    number, _, server = text.partition(" ")
    return ServerId(server), int(number)


_ParcelKey = tuple[ServerId, int, int, int]
"""Origin, sequence number, start, and first serial."""


def _read_parcel(text: str) -> _ParcelKey:
    sequence, start, serial, server = text.split(" ")
    return ServerId(server), int(sequence), int(start), int(serial)


_PARCELS = KeyForm[_ParcelKey](lambda key: f"{key[1]} {key[2]} {key[3]} {key[0]}", _read_parcel)
_HEARD = KeyForm[_Heard](lambda key: f"{key[1]} {key[0]}", _read_heard)


@dataclass(slots=True)
class _Waiting:
    """Waiting posts of one sender: many, while servers agree on a view or heal it."""

    posts: dict[int, bytes] = field(default_factory=dict)
    """Posts by number."""
    size: int = 0
    """Bytes of all posts."""

    def add(self, number: int, encoded: bytes) -> None:
        self.posts[number] = encoded
        self.size += len(encoded)

    def remove(self, number: int) -> None:
        self.size -= len(self.posts.pop(number))


class Arrivals:
    """Posts of other servers that are not handled yet, and state of the parcels that were."""

    def __init__(
        self,
        durable: DurableState,
        server: ServerId,
        post: Postage,
        writer: LogWriter,
        lost_ways: RecentDownstream,
        agenda: Agenda,
    ) -> None:
        self._server, self._agenda = server, agenda
        self._post = post
        self._writer = writer
        self.foreign = RecipientClaims()
        self._heard = DurableMap(durable, "heard", _HEARD, packed(_HeardRow))
        self._remembered = DurableMap(durable, "logged apart", _PARCELS, packed(int))
        """Parcels that may come again, with the number of their audience, until they are over."""
        self._lost_ways = lost_ways
        self._named_lost: dict[_Heard, int] = {}
        """Count of lost paths that the origin was told, by origin and sequence."""
        self._waiting: defaultdict[ServerId, _Waiting] = defaultdict(_Waiting)
        """Posts that are not handled yet, by sender."""
        self.answers_limit_bytes = ANSWERS_BYTES_LIMIT
        self.held: set[ServerId] = set()
        """Senders whose posts wait until the sender takes the answers to earlier posts."""

    def keep(self, post: PeerMessage) -> None:
        """Keep a post that came. The following step handles the post if possible."""
        sender, number, encoded = post.sender, post.number, post.encoded
        waiting = self._waiting[sender]
        if number <= self._post.handled_through(sender):
            self._post.faults[sender, PeerFault.REPEATED] += 1
        elif number not in waiting.posts:
            if waiting.size + len(encoded) > WAITING_BYTES_LIMIT:
                self._post.faults[sender, PeerFault.TOO_MUCH_POST] += 1
            else:
                waiting.add(number, encoded)
                self._agenda.mark(Work.POSTS)

    def take(
        self, reach: Reach, is_ready: Callable[[ServerId, PostMessage, Reach], bool]
    ) -> Iterator[tuple[ServerId, PostMessage, bytes]]:
        """Yield the posts whose turn has come, in order, with their bytes. A yielded post counts as handled.

        A parcel or a stub waits while servers part or heal, because the graph must show the members of its targets. It
        also waits if this server is still in an earlier view than the one in which it was accepted. It waits, too, for
        the steps that compute a very large audience.

        Any other post waits while `is_ready` returns False: handling it would take too long.

        All posts of a sender that takes no answers wait, because each would cause further answers.
        """
        if self.held:
            self.held.clear()
            self._agenda.mark(Work.ANSWERS)
        senders = [sender for sender, waiting in self._waiting.items() if waiting.posts]
        for sender in senders:
            waiting = self._waiting[sender].posts
            while (number := self._post.handled_through(sender) + 1) in waiting:
                if self._post.answers_bytes(sender) >= self.answers_limit_bytes:
                    self.held.add(sender)
                    self._agenda.mark(Work.ANSWERS)
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
                        self._agenda.mark_at_once(Work.POSTS)
                        break
                elif not is_ready(sender, message, reach):
                    self._agenda.mark_at_once(Work.POSTS)
                    break
                self._pass(sender, number)
                yield sender, message, encoded
            if waiting:
                # The next post may wait for a view, for answers to leave, or for a lost one before it.
                self._agenda.mark(Work.POSTS)

    def _pass(self, sender: ServerId, number: int) -> None:
        self._post.take(sender, number)
        self._waiting[sender].remove(number)

    def log(self, sender: ServerId, parcel: Parcel, encoded: bytes, reach: Reach) -> Confirm | None:
        """Log a parcel for the recipients that do not have it.

        Return the confirmation. None if the sender cannot be the origin, or stamps mail of another server's subnet.
        """
        if not is_home(sender, parcel.targets, reach):
            self._post.faults[sender, PeerFault.NOT_ITS_TARGET] += 1
            return None
        if not are_vouched_for(parcel.messages, sender, reach):
            self._post.faults[sender, PeerFault.NOT_ITS_MAIL] += 1
            return None
        key = (sender, parcel.sequence, parcel.start, parcel.first_serial)
        left_out = NONE if parcel.is_replayed else self._left_out(sender, parcel, reach)
        log = self._log_again if key in self._remembered else self._log_first
        audience = log(key, parcel, encoded, reach, left_out)
        lacks_some = bool(self._writer.audience(parcel.targets, reach) & left_out - audience)
        return self._confirm(sender, parcel, self._writer.count(audience), reach, has_left_out=lacks_some)

    def answer_stub(self, sender: ServerId, stub: Stub, reach: Reach) -> Confirm | Want | None:
        """Return the answer to a stub. None if the sender cannot be the origin."""
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
        """Return the servers to which paths were lost, and that an origin was not told for a sequence.

        Mark them as told.
        """
        lost = self._lost_ways.since(self._named_lost.get((origin, sequence), 0))
        if lost:
            self._named_lost[origin, sequence] = self._lost_ways.count
        return lost

    def _log_first(self, key: _ParcelKey, parcel: Parcel, encoded: bytes, reach: Reach, left_out: BitMap) -> BitMap:
        """Log a parcel, unless it was logged before. Return its recipients."""
        everybody = self._writer.audience(parcel.targets, reach)
        if not self._hear(key, parcel, is_for_some=bool(everybody)) and not parcel.is_replayed:
            # The parcel was posted again after its lane began anew.
            return everybody
        audience = everybody - left_out
        if audience:
            self._writer.append(audience, encoded, len(parcel.messages), Writer(key[0], parcel.targets[0].name))
        if reach.is_parted() or audience != everybody:
            self._remembered[key] = self._writer.number_of(audience)
        return audience

    def _log_again(self, key: _ParcelKey, parcel: Parcel, _encoded: bytes, reach: Reach, left_out: BitMap) -> BitMap:
        """Log a parcel for new recipients. Return all recipients, old and new."""
        audience = self._writer.append_late(parcel, self._remembered[key], reach, left_out, source=key[0])
        self._hear(key, parcel, is_for_some=bool(audience))
        self._remembered[key] = self._writer.number_of(audience)
        return audience

    def _hear(self, key: _ParcelKey, parcel: Parcel, *, is_for_some: bool) -> bool:
        """Store a parcel as the last of its sequence, if it has recipients here. Return True if it is newer than all
        before.

        Serials continue over starts, unless the origin was restored from an old backup. Then the parcel has a later
        start than the last one.
        """
        heard = self._heard.get(key[:2])
        if heard is not None and parcel.start <= heard.start and parcel.first_serial <= heard.first_serial:
            return False
        if is_for_some:
            self._heard[key[:2]] = _HeardRow(parcel.start, parcel.first_serial)
        return True

    def lose(self, sender: ServerId, _lost: Lost, _reach: Reach) -> Confirm | None:
        """Refuse a `Lost`: no durable message is lost on the way."""
        self._post.faults[sender, PeerFault.UNREADABLE] += 1
        return None

    def over(self, sender: ServerId, over: Over) -> None:
        """Handle an `Over`: the origin will not post a parcel again, or forgets a whole sequence."""
        self._remembered.pop((sender, over.sequence, over.start, over.first_serial), None)
        key = (sender, over.sequence)
        heard = self._heard.get(key)
        if over.first_serial == NUMBER_LIMIT and (heard is None or heard.start <= over.start):
            self._heard.pop(key, None)
            self._named_lost.pop(key, None)
            self.foreign.forget_sequence(*key)

    def remembered(self) -> Collection[_ParcelKey]:
        """Return the keys of the parcels whose recipients are remembered."""
        return self._remembered.keys()

    def audiences(self) -> Collection[int]:
        """Return the numbers of the audiences that are remembered."""
        return self._remembered.values()

    def come_again(self, peer: ServerId) -> None:
        """Drop the waiting posts of a server, which posts them again.

        A server restored from a backup may post other ones.
        """
        self._waiting.pop(peer, None)

    def begin_again(self, peer: ServerId) -> list[Remembered]:
        """Begin the lanes from and to a server again: it posts again all posts that were not handled here.

        Return the messages to post to it: an `Over` from it may have been lost.
        """
        self.come_again(peer)
        self.foreign.forget(peer)
        # The confirmation that named these servers may be lost.
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
        """Drop the state of servers that are not known any more. They keep their posts that were not handled here.

        The last serial of each of their sequences stays, so that no message comes twice if they come back.
        """
        for server in [server for server in self._waiting if not reach.is_known(server)]:
            del self._waiting[server]
        for origin in self.foreign.origins() - {self._server}:
            if not reach.is_known(origin):
                self.foreign.forget(origin)
        for key in [key for key in self._remembered if not reach.is_known(key[0])]:
            del self._remembered[key]

    def waiting(self, sender: ServerId) -> int:
        """Return the number of waiting posts of a server."""
        return len(self._waiting[sender].posts) if sender in self._waiting else 0
