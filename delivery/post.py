"""The post: a numbered lane of parcels and confirmations from this server to each other one.

It is a channel like that of letters (`namegraph.state.reliable_channels`): durable, resumed by number, sent again where
nothing is known of it. A parcel is kept once, whoever it is for: the lane holds a reference, and what leaves is the
parcel.

Source: delivery.md sections 3 and 4.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from delivery.wire import Over, Parcel, decode_stored_post, encode
from namegraph import Channels, DurableState, Lane, PeerLetter, ServerId

_PARCEL, _INLINE = b"p", b"i"

_BLANK = _INLINE + encode(Over(0, 0, 0))
"""Says nothing, for no sequence has the number 0. It keeps the numbers of a lane without a gap."""


class Post(Channels):
    """The lanes to and from all other servers."""

    def __init__(self, durable: DurableState) -> None:
        super().__init__(durable, Lane.POST)
        self.parcels: dict[int, bytes] = {}
        """The encoded parcels of this server that are not settled, or in some lane, by position in its log."""
        self._references = Counter(map(int, self._parcels_among(self._outbox.values())))
        """How many posts of all lanes refer to each parcel."""

    def send_parcel(self, receiver: ServerId, position: int) -> PeerLetter:
        """Post a parcel of this server's log."""
        self._references[position] += 1
        return self._whole(self.send(receiver, _PARCEL + str(position).encode()))

    def send_inline(self, receiver: ServerId, encoded: bytes) -> PeerLetter:
        """Post what is in no log."""
        return self._whole(self.send(receiver, _INLINE + encoded))

    def kept(self, receiver: ServerId, *, after: int = 0) -> Iterator[PeerLetter]:
        """As of any channel; parcels are whole."""
        return map(self._whole, super().kept(receiver, after=after))

    def received(self, peer: ServerId, through: int) -> None:
        """As of any channel."""
        before = self.forgotten_through(peer)
        kept = [] if through > self.sent_through(peer) else range(before + 1, through + 1)
        forgotten = [self._outbox[peer, number] for number in kept]
        super().received(peer, through)
        self._drop_references(forgotten)

    def begin_again(self, server: ServerId) -> list[bytes]:
        """As of any channel."""
        kept = super().begin_again(server)
        self._drop_references(kept)
        return kept

    def receivers(self) -> set[ServerId]:
        """The servers for which anything is kept."""
        return {receiver for receiver, _ in self._outbox}

    def blank_parcels(self, receiver: ServerId) -> None:
        """Keep no parcel for a server; what else was posted to it keeps its number, should it ever be there again."""
        for letter in super().kept(receiver):
            kind, rest = letter.encoded[:1], letter.encoded[1:]
            if kind == _PARCEL or isinstance(decode_stored_post(rest), Parcel):
                self._drop_references([letter.encoded])
                self._outbox[receiver, letter.number] = _BLANK

    def positions_kept(self) -> set[int]:
        """The parcels that some lane still refers to."""
        return set(self._references)

    def refers_to(self, position: int) -> bool:
        """Whether some lane still refers to a parcel."""
        return position in self._references

    def _drop_references(self, posts: Iterable[bytes]) -> None:
        for position in map(int, self._parcels_among(posts)):
            self._references[position] -= 1
            if not self._references[position]:
                del self._references[position]

    @staticmethod
    def _parcels_among(posts: Iterable[bytes]) -> Iterator[bytes]:
        return (encoded[1:] for encoded in posts if encoded[:1] == _PARCEL)

    def _whole(self, letter: PeerLetter) -> PeerLetter:
        kind, rest = letter.encoded[:1], letter.encoded[1:]
        return letter._replace(encoded=self.parcels[int(rest)] if kind == _PARCEL else rest)
