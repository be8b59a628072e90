"""The post: a numbered lane of parcels and confirmations from this server to each other one.

It is a channel like that of letters (`namegraph.state.reliable_channels`): durable, resumed by number, sent again where
nothing is known of it. A parcel is kept once, whoever it is for: the lane holds a reference, and what leaves is the
parcel.

Source: delivery.md sections 3 and 4.
"""

from __future__ import annotations

from collections.abc import Iterator

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
        """The encoded parcels of this server that are not settled, by position in its log."""

    def send_parcel(self, receiver: ServerId, position: int) -> PeerLetter:
        """Post a parcel of this server's log."""
        return self._whole(self.send(receiver, _PARCEL + str(position).encode()))

    def send_inline(self, receiver: ServerId, encoded: bytes) -> PeerLetter:
        """Post what is in no log."""
        return self._whole(self.send(receiver, _INLINE + encoded))

    def kept(self, receiver: ServerId, *, after: int = 0) -> Iterator[PeerLetter]:
        """As of any channel; parcels are whole."""
        return map(self._whole, super().kept(receiver, after=after))

    def receivers(self) -> set[ServerId]:
        """The servers for which anything is kept."""
        return {receiver for receiver, _ in self._outbox}

    def blank_parcels(self, receiver: ServerId) -> None:
        """Keep no parcel for a server; what else was posted to it keeps its number, should it ever be there again."""
        for letter in super().kept(receiver):
            kind, rest = letter.encoded[:1], letter.encoded[1:]
            if kind == _PARCEL or isinstance(decode_stored_post(rest), Parcel):
                self._outbox[receiver, letter.number] = _BLANK

    def positions_kept(self) -> set[int]:
        """The parcels that some lane still refers to."""
        return {int(encoded[1:]) for encoded in self._outbox.values() if encoded[:1] == _PARCEL}

    def _whole(self, letter: PeerLetter) -> PeerLetter:
        kind, rest = letter.encoded[:1], letter.encoded[1:]
        return letter._replace(encoded=self.parcels[int(rest)] if kind == _PARCEL else rest)
