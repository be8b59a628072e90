"""Incarnations: a server that comes back with an older copy of its database begins a fresh one.

    channel numbers do not fit: this server has gone back --> Restored: a fresh incarnation, channels begin again,
                                                              counters leap over all that it can have given since,
                                                              apart from everybody until a view heals it
    a hello of another incarnation -------------------------> PeerRestored: the same for one channel

Decisions that were made after the copy and that no other server knows are lost. Decisions that another server knows
come back by the ordinary heal.

Source: docs/protocol-partitions.md, "Older copies"; docs/decisions/0012-older-copies.md.
"""

from __future__ import annotations

import msgspec

from namegraph.model.names import ServerId
from namegraph.state.durable_maps import BYTES, TEXTS, DurableMap, DurableState

INCARNATION = "incarnation"
"""Rows: this server's incarnation and the left-out ranges (no key); the incarnations of other servers, by server."""

FIRST_INCARNATION = 0

LEAST_LEAP, GREATEST_LEAP = 2**32, 2**40
"""Bounds of a leap. A leap exceeds the number of decisions between two copies of a database, but is too small to
exhaust the counters."""


class Incarnations:
    """The incarnations of this server and of all others."""

    def __init__(self, durable: DurableState) -> None:
        self._rows = DurableMap(durable, INCARNATION, TEXTS, BYTES)
        self.own = FIRST_INCARNATION
        self._left_out: list[tuple[int, int]] = []
        """Ranges of counters that this server may have given in a lost life: above the first, up to the second."""
        self._of: dict[ServerId, list[int]] = {}
        """Incarnations of other servers, the newest last."""
        for server, encoded in self._rows.items():
            if server:
                self._of[ServerId(server)] = _HEARD.decode(encoded)
            else:
                self.own, self._left_out = _OWN.decode(encoded)

    def of(self, server: ServerId) -> int:
        """Return the newest incarnation of another server."""
        return self._of.get(server, [FIRST_INCARNATION])[-1]

    def is_over(self, server: ServerId, incarnation: int) -> bool:
        """Return True if another server has begun a later incarnation. A peer that names an older one has gone back."""
        return incarnation in self._of.get(server, [FIRST_INCARNATION])[:-1]

    def is_left_out(self, counter: int) -> bool:
        """Return True if an update of this server with such a counter was lost."""
        return any(after < counter <= through for after, through in self._left_out)

    def begin(self, incarnation: int, *, counter: int) -> int:
        """Begin a fresh incarnation. Return the counter from which this server goes on."""
        self.own = incarnation
        self._left_out.append((counter, counter + incarnation))
        self._rows[""] = _ENCODER.encode((self.own, self._left_out))
        return counter + incarnation

    def heard_of(self, server: ServerId, incarnation: int) -> None:
        """Record that another server has begun a fresh incarnation."""
        known = self._of.setdefault(server, [FIRST_INCARNATION])
        known.append(incarnation)
        self._rows[server] = _ENCODER.encode(known)


_ENCODER = msgspec.msgpack.Encoder()
_OWN = msgspec.msgpack.Decoder(tuple[int, list[tuple[int, int]]])
_HEARD = msgspec.msgpack.Decoder(list[int])
