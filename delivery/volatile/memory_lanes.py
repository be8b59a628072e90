"""Lanes in memory for messages kept there: numbered, in order, without repeats, from one start to another start.

    send --> waiting --a window at a time--> in flight --Carried--> joined --> taken in order --through--> forgotten
                                               '--nothing heard for a while: again

Lanes use datagrams, which may be lost. Datagrams arrive in the order in which they were sent, and mostly all of them.
Unconfirmed pieces are sent again. A server that has started again numbers its pieces anew, and all peers begin anew
with it. Pieces in flight to its earlier start are never sent again, because it may have handed them out there. The user
of the lanes is told about it (`Broken`).

See docs/protocol-messages.md, "Kept in memory".
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from delivery.model.agenda import Agenda, Work
from delivery.model.reach import Reach
from delivery.volatile.datagrams import PeerDatagram
from delivery.wire.post_lanes import ANSWER_BYTES
from delivery.wire.posts import Carried, Lost, Parcel, Stub, decode_stored_post, encode
from namegraph import Lane, PeerFault, PeerLetter, PeerMessage, ServerId, TargetSet

PIECE_BYTES = 48 * 1024
"""Most bytes of a post in one datagram: other frames wait for no more than that."""

WINDOW_BYTES = 512 * 1024
WINDOW_PIECES = 400
"""Limits of the pieces in flight to one server: fewer than a session holds of waiting datagrams."""

RESEND_SECONDS = 0.5
RESEND_SECONDS_LIMIT = 30.0
"""Pauses before pieces in flight are sent again: the first, which doubles each time, and the longest."""

CONFIRM_SECONDS = 0.05
"""Longest time for which a confirmation waits for pieces in the same direction."""

ParcelKey = tuple[int, int, int]
"""Key of a parcel of an origin: its sequence, the start, and the first serial."""


class _Answer(bytes):
    """A post that answers a post of the receiver."""


class Broken(NamedTuple):
    """Restart of another server since it was last sent a piece."""

    server: ServerId
    waiting: frozenset[ParcelKey]
    """Keys of the parcels that were not sent yet: the server gets them. All other posts to it are lost."""
    lost: dict[int, ParcelKey]
    """Key of the newest lost parcel that a waiting `Lost` reports, by sequence."""

    def is_to_be_told(self, key: ParcelKey) -> bool:
        """True if a waiting `Lost` reports a parcel."""
        return key[0] in self.lost and key <= self.lost[key[0]]


@dataclass(slots=True)
class _Out:
    """Outgoing lane to one server."""

    waiting: deque[bytes] = field(default_factory=deque)
    """Whole posts that are not begun."""
    answers_bytes: int = 0
    """Memory of the answers among them."""
    begun: deque[tuple[bytes, bool]] = field(default_factory=deque)
    """Pieces of the first post that are still to be sent."""
    in_flight: deque[tuple[bytes, bool]] = field(default_factory=deque)
    bytes_in_flight: int = 0
    forgotten: int = 0
    """Number of the last confirmed piece."""
    pause: float = RESEND_SECONDS
    resend_at: float | None = None
    """Time of the next repetition. None if no piece is in flight, or the pieces must be sent at once."""
    is_asking: bool = True
    """True if the server must first say whether it has started again. It gets all posts that were not sent by then."""

    @property
    def has_some(self) -> bool:
        """True if any post is unconfirmed."""
        return bool(self.in_flight or self.begun or self.waiting)


@dataclass(slots=True)
class _In:
    """Incoming lane from one server."""

    start: int = 0
    """Start of that server. 0 if it is not known."""
    joined: bytearray = field(default_factory=bytearray)
    """Pieces of a post that is not complete."""
    received: int = 0
    """Number of the last piece received."""
    posts: int = 0
    """Number of complete posts."""
    handled_posts: int = 0
    handled: int = 0
    """Number of the last piece of the last handled post."""
    told: int = 0
    """Number of the last confirmed piece."""
    ends: deque[int] = field(default_factory=deque)
    """Numbers of the last pieces of posts that are not handled."""
    confirm_at: float | None = None
    """Time of a separate confirmation, if no piece carries it before."""

    @property
    def through(self) -> int:
        """Number of the last piece to confirm. While posts wait here, further pieces must not come."""
        return self.handled if self.ends else self.received


class MemoryLanes:
    """Lanes to and from all other servers."""

    def __init__(self, faults: Counter[tuple[ServerId, PeerFault]], agenda: Agenda) -> None:
        self._agenda = agenda
        self.start = 0
        """Number of this server's start."""
        self.parcels: dict[int, bytes] = {}
        """Encoded parcels of this server that are not settled, by position."""
        self.faults = faults
        self._out: dict[ServerId, _Out] = {}
        self._in: dict[ServerId, _In] = {}

    # -- as a lane of posts is used

    def send_parcel(self, receiver: ServerId, position: int) -> PeerLetter:
        """Post a parcel of this server."""
        return self.send_inline(receiver, self.parcels[position])

    def send_inline(self, receiver: ServerId, encoded: bytes) -> PeerLetter:
        """Post a message. It is sent by `leaving`: the returned letter has no number."""
        self._out.setdefault(receiver, _Out()).waiting.append(encoded)
        self._agenda.mark(Work.FRAMES)
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
        """Return an empty set: the lanes keep posts themselves."""
        return set()

    def refers_to(self, _position: int) -> bool:
        """Return False: lanes in memory hold no references."""
        return False

    def receivers_of(self, _position: int) -> Collection[ServerId]:
        """Return no servers: lanes in memory hold no references."""
        return ()

    def take_dropped(self) -> list[tuple[ServerId, int]]:
        """Return no parcels: lanes in memory hold no references."""
        return []

    def handled_through(self, sender: ServerId) -> int:
        """Return the number of the last handled post of a sender's present start."""
        found = self._in.get(sender)
        return 0 if found is None else found.handled_posts

    def take(self, sender: ServerId, _number: int) -> bool:
        """Mark the next post of a sender as handled."""
        self._agenda.mark(Work.FRAMES)
        found = self._in[sender]
        found.handled_posts += 1
        found.handled = found.ends.popleft()
        return True

    # -- incoming pieces

    def came(self, sender: ServerId, carried: Carried, now: float) -> tuple[list[PeerMessage], Broken | None]:
        """Handle pieces of another server.

        Return the posts that are complete now, and its restart, if it has started again.
        """
        self._agenda.mark(Work.FRAMES)
        found = self._in.setdefault(sender, _In())
        if carried.start < found.start:
            # The pieces are from before the sender's present start.
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
                # The piece is a repetition, or an earlier piece is lost.
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
            # The server was only asked for its start.
            return None
        kept, keys, lost = deque[bytes](), set[ParcelKey](), dict[int, ParcelKey]()
        for encoded in () if out is None else out.waiting:
            post = decode_stored_post(encoded)
            # Answers to the earlier start are of no use to the server.
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

    # -- outgoing pieces

    def leaving(self, reach: Reach, now: float) -> Iterator[PeerDatagram]:
        """Yield the frames to send now."""
        for server in list(dict.fromkeys((*self._out, *self._in))):
            out, found = self._out.setdefault(server, _Out()), self._in.setdefault(server, _In())
            # The server may have lost posts before its answer was sent.
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
            if out.has_some or (out.is_asking and out.forgotten) or found.confirm_at is not None:
                # The time of a repetition comes, or the server comes back.
                self._agenda.mark(Work.FRAMES)

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
        """Return the time at which `leaving` must be called again. None if it need not."""
        if Work.FRAMES not in self._agenda.due:
            return None
        again = [out.resend_at for out in self._out.values() if out.resend_at is not None]
        confirmed = [found.confirm_at for found in self._in.values() if found.confirm_at is not None]
        return min(again + confirmed, default=None)

    def met(self, server: ServerId) -> None:
        """Send waiting posts at once to a server that was met."""
        out = self._out.get(server)
        if out is not None:
            out.pause, out.resend_at, out.is_asking = RESEND_SECONDS, None, True
            self._agenda.mark(Work.FRAMES)

    # -- posts that are not sent

    def withdraw(self, server: ServerId, keys: Collection[ParcelKey]) -> None:
        """Remove waiting parcels of a server that had them before."""
        self._remove(server, keys)

    def drop(self, server: ServerId, keys: Collection[ParcelKey], targets: TargetSet) -> None:
        """Replace waiting parcels of one sequence with a `Lost` that tells the server their number."""
        newest = max(keys)
        first, told = self._remove(server, keys, newest[0])
        newest = max([newest, *map(_key_of, told)])
        parcels = len(keys) + sum(lost.parcels for lost in told)
        self._out[server].waiting.insert(first, encode(Lost(*newest, targets, parcels)))
        self._agenda.mark(Work.FRAMES)

    def lose(self, server: ServerId, keys: Collection[ParcelKey], targets: TargetSet) -> None:
        """Put a `Lost` for parcels of one sequence before all posts that wait for a server."""
        self._out.setdefault(server, _Out()).waiting.appendleft(encode(Lost(*max(keys), targets, len(keys))))
        self._agenda.mark(Work.FRAMES)

    def _remove(
        self, server: ServerId, keys: Collection[ParcelKey], sequence: int | None = None
    ) -> tuple[int, list[Lost]]:
        """Remove parcels, and the `Lost` messages of a sequence. Return the place of the first one, and the latter."""
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
        """Return the keys of the parcels and stubs that wait whole for a server."""
        posts = map(decode_stored_post, self._out[server].waiting if server in self._out else ())
        return {_key_of(one) for one in posts if isinstance(one, Parcel | Stub)}

    def forget(self, server: ServerId) -> None:
        """Forget a server that was removed for good."""
        self._out.pop(server, None)
        self._in.pop(server, None)


def _key_of(post: Parcel | Stub | Lost) -> ParcelKey:
    return post.sequence, post.start, post.first_serial
