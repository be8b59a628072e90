"""Lanes in memory, for what is kept there: numbered, in order, nothing twice, from one start of a server to another.

    send --> waiting --a window at a time--> in flight --Carried--> joined --> taken in order --through--> forgotten
                                               '--nothing heard for a while: again

They travel as datagrams, which may be lost: in the order in which they were sent, and mostly all of them. What is not
confirmed is sent again. A server that has started again numbers anew, and so does everybody towards it: what was in
flight to the start before is never sent again, for it may have been handed out there. That is told to whoever uses the
lanes (`Broken`).

Source: delivery.md section 3.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from delivery.model.reach import Reach
from delivery.volatile.datagrams import PeerDatagram
from delivery.wire.post_lanes import ANSWER_BYTES
from delivery.wire.posts import Carried, Lost, Parcel, Stub, decode_stored_post, encode
from namegraph import Lane, PeerFault, PeerLetter, PeerMessage, ServerId, TargetSet

PIECE_BYTES = 48 * 1024
"""Of a post, in one datagram: what else is to leave waits for no more."""

WINDOW_BYTES = 512 * 1024
WINDOW_PIECES = 400
"""In flight to one server: less than a session holds of datagrams that wait for their turn."""

RESEND_SECONDS = 0.5
RESEND_SECONDS_LIMIT = 30.0
"""After so long what is in flight is sent again, and after twice as long the next time."""

CONFIRM_SECONDS = 0.05
"""So long a confirmation waits for something that goes the same way."""

ParcelKey = tuple[int, int, int]
"""What names a parcel of an origin: its sequence, the start, and the first serial."""


class _Answer(bytes):
    """A post that answers one of the receiver."""


class Broken(NamedTuple):
    """Another server has started again since it was last sent something."""

    server: ServerId
    waiting: frozenset[ParcelKey]
    """The parcels that were not sent yet: it gets them. What else was posted to it, it has forgotten, or never got."""
    lost: dict[int, ParcelKey]
    """By sequence: through which parcel it is still to be told that some are lost."""

    def is_to_be_told(self, key: ParcelKey) -> bool:
        """Whether it is still to be told that a parcel is lost."""
        return key[0] in self.lost and key <= self.lost[key[0]]


@dataclass(slots=True)
class _Out:
    """What goes to one server."""

    waiting: deque[bytes] = field(default_factory=deque)
    """Whole posts."""
    answers_bytes: int = 0
    """Memory of the answers among them."""
    begun: deque[tuple[bytes, bool]] = field(default_factory=deque)
    """The pieces of the first of them that are still to be sent."""
    in_flight: deque[tuple[bytes, bool]] = field(default_factory=deque)
    bytes_in_flight: int = 0
    forgotten: int = 0
    """The last piece that is confirmed."""
    pause: float = RESEND_SECONDS
    resend_at: float | None = None
    """None: nothing is in flight, or it is to be sent at once."""
    is_asking: bool = True
    """Whether that server is to say first whether it has started again: what it was not sent by then, it gets."""

    @property
    def has_some(self) -> bool:
        """Whether something is not confirmed."""
        return bool(self.in_flight or self.begun or self.waiting)


@dataclass(slots=True)
class _In:
    """What comes from one server."""

    start: int = 0
    """Of that server; 0: not known."""
    joined: bytearray = field(default_factory=bytearray)
    """The pieces of a post that is not whole yet."""
    received: int = 0
    """The last piece."""
    posts: int = 0
    """How many are whole."""
    handled_posts: int = 0
    handled: int = 0
    """The last piece of the last post that was handled."""
    told: int = 0
    """The last piece that was confirmed."""
    ends: deque[int] = field(default_factory=deque)
    """Of posts that were not handled: their last pieces."""
    confirm_at: float | None = None
    """When to say so, if nothing else says it before."""

    @property
    def through(self) -> int:
        """The last piece that can be confirmed: while posts wait here, no more is to come."""
        return self.handled if self.ends else self.received


class MemoryLanes:
    """Those to and from all other servers."""

    def __init__(self, faults: Counter[tuple[ServerId, PeerFault]]) -> None:
        self.start = 0
        """Of this server."""
        self.parcels: dict[int, bytes] = {}
        """The encoded parcels of this server that are not settled, by position."""
        self.faults = faults
        self._out: dict[ServerId, _Out] = {}
        self._in: dict[ServerId, _In] = {}

    # -- as a lane of posts is used

    def send_parcel(self, receiver: ServerId, position: int) -> PeerLetter:
        """Post a parcel of this server."""
        return self.send_inline(receiver, self.parcels[position])

    def send_inline(self, receiver: ServerId, encoded: bytes) -> PeerLetter:
        """Post anything. It leaves by `leaving`: what is returned has no number."""
        self._out.setdefault(receiver, _Out()).waiting.append(encoded)
        return PeerLetter(receiver, 0, encoded, Lane.POST)

    def send_answer(self, receiver: ServerId, encoded: bytes) -> PeerLetter:
        """Post an answer to what the receiver has posted."""
        letter = self.send_inline(receiver, _Answer(encoded))
        self._out[receiver].answers_bytes += len(encoded) + ANSWER_BYTES
        return letter

    def answers_bytes(self, receiver: ServerId) -> int:
        """Return the memory of the answers that wait for a receiver."""
        out = self._out.get(receiver)
        return 0 if out is None else out.answers_bytes

    def positions_kept(self) -> set[int]:
        """None: what is under way is kept by the lanes themselves."""
        return set()

    def refers_to(self, _position: int) -> bool:
        """Never."""
        return False

    def receivers_of(self, _position: int) -> Collection[ServerId]:
        """None."""
        return ()

    def take_dropped(self) -> list[tuple[ServerId, int]]:
        """None."""
        return []

    def handled_through(self, sender: ServerId) -> int:
        """The number of the last post of a sender's present start that was handled."""
        found = self._in.get(sender)
        return 0 if found is None else found.handled_posts

    def take(self, sender: ServerId, _number: int) -> bool:
        """The next post of a sender is handled."""
        found = self._in[sender]
        found.handled_posts += 1
        found.handled = found.ends.popleft()
        return True

    # -- what comes

    def came(self, sender: ServerId, carried: Carried, now: float) -> tuple[list[PeerMessage], Broken | None]:
        """Take what another server sent: the posts that are whole now, and whether that one has started again."""
        found = self._in.setdefault(sender, _In())
        if carried.start < found.start:
            # Of before it started.
            return [], None
        broken = self._begin_again(sender, carried.start) if carried.start > found.start else None
        found = self._in[sender]
        if carried.to_start != self.start:
            found.confirm_at = now
            return [], broken
        out = self._out.get(sender)
        if out is not None and out.is_asking:
            out.is_asking, out.resend_at = False, None
        self._confirmed(sender, carried.through, now)
        whole = []
        for number, (piece, is_last) in enumerate(carried.pieces, start=carried.first):
            if number != found.received + 1:
                # It came before, or something before it is lost.
                found.confirm_at = now
                continue
            found.received = number
            found.joined += piece
            if is_last:
                found.posts += 1
                found.ends.append(number)
                whole.append(PeerMessage(sender, found.posts, bytes(found.joined), Lane.POST))
                found.joined.clear()
        return whole, broken

    def _begin_again(self, sender: ServerId, start: int) -> Broken | None:
        is_again = self._in[sender].start != 0
        self._in[sender] = _In(start)
        out = self._out.get(sender)
        if not is_again:
            # It was sent nothing but the question which its start is.
            return None
        kept, keys, lost = deque[bytes](), set[ParcelKey](), dict[int, ParcelKey]()
        for encoded in () if out is None else out.waiting:
            post = decode_stored_post(encoded)
            # What was in answer to the start before is of no use to it.
            if isinstance(post, Lost | Stub | Parcel):
                kept.append(encoded)
            if isinstance(post, Stub | Parcel):
                keys.add(_key_of(post))
            elif isinstance(post, Lost):
                lost[post.sequence] = max(_key_of(post), lost.get(post.sequence, _key_of(post)))
        self._out[sender] = _Out(kept)
        return Broken(sender, frozenset(keys), lost)

    def _confirmed(self, sender: ServerId, through: int, now: float) -> None:
        out = self._out.get(sender)
        forgotten = 0 if out is None else out.forgotten
        if through > forgotten + (0 if out is None else len(out.in_flight)):
            self.faults[sender, PeerFault.UNEARNED_RECEIPT] += 1
            return
        if out is None or through <= forgotten:
            return
        for _ in range(through - forgotten):
            out.bytes_in_flight -= len(out.in_flight.popleft()[0])
        out.forgotten = through
        out.pause = RESEND_SECONDS
        out.resend_at = now + out.pause if out.in_flight else None

    # -- what leaves

    def leaving(self, reach: Reach, now: float) -> Iterator[PeerDatagram]:
        """What is to be sent now."""
        for server in list(dict.fromkeys((*self._out, *self._in))):
            out, found = self._out.setdefault(server, _Out()), self._in.setdefault(server, _In())
            # What it has, it may have forgotten before it answered.
            if not out.has_some and not (out.is_asking and out.forgotten):
                out.resend_at = None
            elif reach.is_settled_with(server):
                yield from self._pieces(server, out, found, now)
            else:
                out.resend_at, out.is_asking = None, True
            if found.through > found.told and found.confirm_at is None:
                found.confirm_at = now + CONFIRM_SECONDS
            if found.confirm_at is not None and found.confirm_at <= now:
                yield self._datagram(server, 0, ())

    def _pieces(self, server: ServerId, out: _Out, found: _In, now: float) -> Iterator[PeerDatagram]:
        is_due = out.resend_at is None or out.resend_at <= now
        if out.is_asking:
            if is_due:
                self._put_off(out, now)
                yield PeerDatagram(server, encode(Carried(self.start, 0, found.through, 0, ())))
            return
        again = len(out.in_flight) if is_due else 0
        if again:
            self._put_off(out, now)
        new = 0
        while (out.begun or out.waiting) and (
            not out.in_flight or (out.bytes_in_flight < WINDOW_BYTES and len(out.in_flight) < WINDOW_PIECES)
        ):
            if not out.begun:
                post = out.waiting.popleft()
                if isinstance(post, _Answer):
                    out.answers_bytes -= len(post) + ANSWER_BYTES
                cuts = range(0, len(post), PIECE_BYTES)
                out.begun.extend((post[cut : cut + PIECE_BYTES], cut == cuts[-1]) for cut in cuts)
            piece = out.begun.popleft()
            out.in_flight.append(piece)
            out.bytes_in_flight += len(piece[0])
            new += 1
        if new and out.resend_at is None:
            out.resend_at = now + out.pause
        sent = list(out.in_flight)[len(out.in_flight) - new - again :]
        number = out.forgotten + len(out.in_flight) - len(sent) + 1
        together, size = list[tuple[bytes, bool]](), 0
        for piece in sent:
            if together and size + len(piece[0]) > PIECE_BYTES:
                yield self._datagram(server, number, tuple(together))
                number += len(together)
                together, size = [], 0
            together.append(piece)
            size += len(piece[0])
        if together:
            yield self._datagram(server, number, tuple(together))

    def _put_off(self, out: _Out, now: float) -> None:
        out.resend_at = now + out.pause
        out.pause = min(2 * out.pause, RESEND_SECONDS_LIMIT)

    def _datagram(self, server: ServerId, first: int, pieces: tuple[tuple[bytes, bool], ...]) -> PeerDatagram:
        found = self._in[server]
        found.confirm_at, found.told = None, found.through
        return PeerDatagram(server, encode(Carried(self.start, found.start, found.through, first, pieces)))

    def next_deadline(self) -> float | None:
        """When `leaving` is to be asked again, if nothing happens before."""
        again = [out.resend_at for out in self._out.values() if out.resend_at is not None]
        confirmed = [found.confirm_at for found in self._in.values() if found.confirm_at is not None]
        return min(again + confirmed, default=None)

    @property
    def is_unused(self) -> bool:
        """Return True if nothing went to any server, or came from one, since the start."""
        return not (self._out or self._in)

    def met(self, server: ServerId) -> None:
        """A server is there: what waits for it is sent at once."""
        out = self._out.get(server)
        if out is not None:
            out.pause, out.resend_at, out.is_asking = RESEND_SECONDS, None, True

    # -- what is not sent

    def withdraw(self, server: ServerId, keys: Collection[ParcelKey]) -> None:
        """Parcels that wait are not sent to a server: it had them before."""
        self._remove(server, keys)

    def drop(self, server: ServerId, keys: Collection[ParcelKey], targets: TargetSet) -> None:
        """Parcels of one sequence are not sent to a server, though none of them was; it is told how many."""
        newest = max(keys)
        first, told = self._remove(server, keys, newest[0])
        newest = max([newest, *map(_key_of, told)])
        parcels = len(keys) + sum(lost.parcels for lost in told)
        self._out[server].waiting.insert(first, encode(Lost(*newest, targets, parcels)))

    def lose(self, server: ServerId, keys: Collection[ParcelKey], targets: TargetSet) -> None:
        """Tell a server that it does not get some parcels of one sequence, before all that waits for it."""
        self._out.setdefault(server, _Out()).waiting.appendleft(encode(Lost(*max(keys), targets, len(keys))))

    def _remove(
        self, server: ServerId, keys: Collection[ParcelKey], sequence: int | None = None
    ) -> tuple[int, list[Lost]]:
        """Remove parcels, and what is told of lost ones of a sequence; returns from where on, and the latter."""
        out = self._out.setdefault(server, _Out())
        kept, told, first = deque[bytes](), list[Lost](), None
        for encoded in out.waiting:
            post = decode_stored_post(encoded)
            if isinstance(post, Lost) and post.sequence == sequence:
                told.append(post)
            elif not (isinstance(post, Parcel | Stub) and _key_of(post) in keys):
                kept.append(encoded)
                continue
            first = len(kept) if first is None else first
        out.waiting = kept
        return first or 0, told

    def waiting(self, server: ServerId) -> set[ParcelKey]:
        """The parcels, or stubs of them, of which nothing was sent to a server yet."""
        posts = map(decode_stored_post, self._out[server].waiting if server in self._out else ())
        return {_key_of(one) for one in posts if isinstance(one, Parcel | Stub)}

    def forget(self, server: ServerId) -> None:
        """A server is gone for good."""
        self._out.pop(server, None)
        self._in.pop(server, None)


def _key_of(post: Parcel | Stub | Lost) -> ParcelKey:
    return post.sequence, post.start, post.first_serial
