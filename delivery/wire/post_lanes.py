"""Lanes of posts: a numbered lane of parcels and confirmations from this server to each other server.

A lane is a channel as that of letters is (`namegraph.state.reliable_channels`): durable, resumed by number, and sent
again if the receiver has not confirmed it. A parcel is stored once, whatever the number of its receivers: the lane
holds a reference to the parcel, and the session sends the parcel itself.

See docs/protocol-messages.md, "The way of a message" and "Who is below".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from itertools import islice
from typing import Protocol

from delivery.model.agenda import Agenda, Work
from delivery.wire.posts import Over, Parcel, Stub, decode_stored_post, encode
from namegraph import Channels, DurableState, Lane, PeerFault, PeerLetter, ServerId

_PARCEL, _INLINE, _ANSWER = b"p", b"i", b"a"
"""Kinds of posts in a lane. A server of the version before reads an answer as inline."""

ANSWERS_BYTES_LIMIT = 64 * 1024 * 1024
"""Memory limit of the answers that one server has not taken. Beyond it, posts of that server wait.

A correct server never reaches it: its own backlog holds some 30,000 unconfirmed parcels.
"""

ANSWER_BYTES = 256
"""Memory of an answer besides its bytes: its key, and its place in the lane."""

_BLANK = _INLINE + encode(Over(0, 0, 0))
"""A post without effect, since no sequence has the number 0. It keeps the numbers of a lane without a gap."""


class Postage(Protocol):
    """Channel for parcels and confirmations, as the posting side and the receiving side use it."""

    parcels: dict[int, bytes]
    """Encoded parcels of this server that are not settled, or are under way, by position in its log."""
    faults: Counter[tuple[ServerId, PeerFault]]
    """Peer faults of other servers in posts, by server and kind, for operators."""

    def send_parcel(self, receiver: ServerId, position: int) -> PeerLetter:
        """Post a parcel of this server's log."""

    def send_inline(self, receiver: ServerId, encoded: bytes) -> PeerLetter:
        """Post a message that is in no log."""

    def send_answer(self, receiver: ServerId, encoded: bytes) -> PeerLetter:
        """Post an answer to what the receiver has posted."""

    def answers_bytes(self, receiver: ServerId) -> int:
        """Return the memory of the answers that a receiver has not taken."""

    def positions_kept(self) -> set[int]:
        """Return the positions of parcels to which some lane still refers."""

    def refers_to(self, position: int) -> bool:
        """True if some lane still refers to a parcel."""

    def receivers_of(self, position: int) -> Collection[ServerId]:
        """Return the servers whose lanes still refer to a parcel."""

    def take_dropped(self) -> list[tuple[ServerId, int]]:
        """Return the parcels that left a lane since the last call, each with the receiver of the lane."""

    def handled_through(self, sender: ServerId) -> int:
        """Return the number of the last handled post of a sender. 0 if there was none."""

    def take(self, sender: ServerId, number: int) -> bool:
        """Mark the next post of a sender as handled."""


class Post(Channels):
    """Lanes to and from all other servers."""

    def __init__(self, durable: DurableState, agenda: Agenda) -> None:
        super().__init__(durable, Lane.POST)
        self._agenda = agenda
        self.parcels: dict[int, bytes] = {}
        """Encoded parcels of this server that are not settled, or are in some lane, by position in its log."""
        self._references: dict[int, list[tuple[ServerId, int]]] = {}
        """Receiver and number of each post that refers to a parcel, by position of the parcel."""
        self._dropped: list[tuple[ServerId, int]] = []
        """Parcels that left a lane since `take_dropped`, each with the receiver of the lane."""
        self._answers_bytes: Counter[ServerId] = Counter()
        """Memory of the answers in each lane, by receiver."""
        for (receiver, number), encoded in self._outbox.items():
            self._refer(receiver, number, encoded)

    def send_parcel(self, receiver: ServerId, position: int) -> PeerLetter:
        """Post a parcel of this server's log."""
        letter = self.send(receiver, _PARCEL + str(position).encode())
        self._refer(receiver, letter.number, letter.encoded)
        return self._whole(letter)

    def send_inline(self, receiver: ServerId, encoded: bytes) -> PeerLetter:
        """Post a message that is in no log."""
        return self._whole(self.send(receiver, _INLINE + encoded))

    def send_answer(self, receiver: ServerId, encoded: bytes) -> PeerLetter:
        """Post an answer to what the receiver has posted."""
        letter = self.send(receiver, _ANSWER + encoded)
        self._answers_bytes[receiver] += len(letter.encoded) + ANSWER_BYTES
        return letter._replace(encoded=encoded)

    def answers_bytes(self, receiver: ServerId) -> int:
        """Return the memory of the answers that a receiver has not taken."""
        return self._answers_bytes.get(receiver, 0)

    def kept(self, receiver: ServerId, *, after: int = 0) -> Iterator[PeerLetter]:
        """Yield the kept posts, as any channel does, with parcels in full."""
        return map(self._whole, super().kept(receiver, after=after))

    def received(self, peer: ServerId, through: int) -> None:
        """Forget the posts that the peer has received, as any channel does."""
        before = self.forgotten_through(peer)
        kept = [] if through > self.sent_through(peer) else range(before + 1, through + 1)
        for number in kept:
            self._drop_reference(peer, number)
        super().received(peer, through)

    def begin_again(self, server: ServerId) -> list[bytes]:
        """Begin the lane again, as any channel does."""
        for number in range(self.forgotten_through(server) + 1, self.sent_through(server) + 1):
            self._drop_reference(server, number)
        return super().begin_again(server)

    def receivers(self) -> set[ServerId]:
        """Return the servers for which any post is kept."""
        return {receiver for receiver, last in self._last_sent.items() if last > self.forgotten_through(receiver)}

    def blank(self, receiver: ServerId, position: int) -> None:
        """Replace the posts of a parcel to a server with blank posts. All other posts keep their numbers."""
        for server, number in list(self._references.get(position, ())):
            if server == receiver:
                self._drop_reference(receiver, number)
                self._outbox[receiver, number] = _BLANK

    def blank_inline(self, receiver: ServerId, *, after: int, at_most: int) -> int | None:
        """Replace stubs, and parcels that are in no log, with blank posts, among `at_most` posts behind number `after`.

        Return the number of the last post that was looked at. None if no post follows it.
        """
        for letter in islice(super().kept(receiver, after=after), at_most):
            after = letter.number
            kind, rest = letter.encoded[:1], letter.encoded[1:]
            if kind == _INLINE and isinstance(decode_stored_post(rest), Parcel | Stub):
                self._outbox[receiver, letter.number] = _BLANK
        return after if max(after, self.forgotten_through(receiver)) < self.sent_through(receiver) else None

    def positions_kept(self) -> set[int]:
        """Return the positions of parcels to which some lane still refers."""
        return set(self._references)

    def refers_to(self, position: int) -> bool:
        """True if some lane still refers to a parcel."""
        return position in self._references

    def receivers_of(self, position: int) -> Collection[ServerId]:
        """Return the servers whose lanes still refer to a parcel."""
        references = self._references.get(position)
        return () if references is None else [server for server, _ in references]

    def take_dropped(self) -> list[tuple[ServerId, int]]:
        """Return the parcels that left a lane since the last call, each with the receiver of the lane."""
        dropped, self._dropped = self._dropped, []
        return dropped

    def _refer(self, receiver: ServerId, number: int, encoded: bytes) -> None:
        if encoded[:1] == _PARCEL:
            self._references.setdefault(int(encoded[1:]), []).append((receiver, number))
        elif encoded[:1] == _ANSWER:
            self._answers_bytes[receiver] += len(encoded) + ANSWER_BYTES

    def _drop_reference(self, receiver: ServerId, number: int) -> None:
        encoded = self._outbox[receiver, number]
        if encoded[:1] == _PARCEL:
            position = int(encoded[1:])
            self._references[position].remove((receiver, number))
            self._dropped.append((receiver, position))
            self._agenda.mark(Work.RELEASE)
            if not self._references[position]:
                del self._references[position]
        elif encoded[:1] == _ANSWER:
            self._answers_bytes[receiver] -= len(encoded) + ANSWER_BYTES

    def _whole(self, letter: PeerLetter) -> PeerLetter:
        kind, rest = letter.encoded[:1], letter.encoded[1:]
        return letter._replace(encoded=self.parcels[int(rest)] if kind == _PARCEL else rest)
