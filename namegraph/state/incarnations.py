"""Incarnations: a server that comes back with an older copy of its database begins a fresh one.

    channel numbers do not fit: this server has gone back --> Restored: a fresh incarnation, channels begin again,
                                                              counters leap over all that it can have given since,
                                                              apart from everybody until a view heals it
    a hello of another incarnation -------------------------> PeerRestored: the same for one channel

What was decided after the copy was made and is known to no other server is lost; what others know comes back by the
ordinary heal.

Source: protocol.md section 7, *Heal*; decision 0012.
"""

from __future__ import annotations

import msgspec

from namegraph.model.names import ServerId
from namegraph.state.durable_maps import BYTES, TEXTS, DurableMap, DurableState

INCARNATION = "incarnation"
"""Rows: this server's incarnation, and what each one left out (no key); the incarnations heard of, by server."""

FIRST_INCARNATION = 0

LEAST_LEAP, GREATEST_LEAP = 2**32, 2**40
"""More than a server decides between two copies of its database; little enough that leaps never end the counters."""


class Incarnations:
    """The incarnations of this server and of all others."""

    def __init__(self, durable: DurableState) -> None:
        self._rows = DurableMap(durable, INCARNATION, TEXTS, BYTES)
        self.own = FIRST_INCARNATION
        self._left_out: list[tuple[int, int]] = []
        """Ranges of counters that this server may have given in a lost life: after the first, up to the second."""
        self._of: dict[ServerId, list[int]] = {}
        """Of other servers, the newest last."""
        for server, encoded in self._rows.items():
            if server:
                self._of[ServerId(server)] = _HEARD.decode(encoded)
            else:
                self.own, self._left_out = _OWN.decode(encoded)

    def of(self, server: ServerId) -> int:
        """The newest incarnation of another server."""
        return self._of.get(server, [FIRST_INCARNATION])[-1]

    def is_over(self, server: ServerId, incarnation: int) -> bool:
        """Whether another server has begun a later incarnation; a peer that names an older one has gone back."""
        return incarnation in self._of.get(server, [FIRST_INCARNATION])[:-1]

    def is_left_out(self, counter: int) -> bool:
        """Whether an update of this server with such a counter was lost."""
        return any(after < counter <= through for after, through in self._left_out)

    def begin(self, incarnation: int, *, counter: int) -> int:
        """Begin a fresh incarnation; return the counter from which this server goes on."""
        self.own = incarnation
        self._left_out.append((counter, counter + incarnation))
        self._rows[""] = _ENCODER.encode((self.own, self._left_out))
        return counter + incarnation

    def heard_of(self, server: ServerId, incarnation: int) -> None:
        """Another server has begun a fresh incarnation."""
        known = self._of.setdefault(server, [FIRST_INCARNATION])
        known.append(incarnation)
        self._rows[server] = _ENCODER.encode(known)


_ENCODER = msgspec.msgpack.Encoder()
_OWN = msgspec.msgpack.Decoder(tuple[int, list[tuple[int, int]]])
_HEARD = msgspec.msgpack.Decoder(list[int])
