"""Sender of volatile output: datagrams to other servers and to local listeners, and entries of the memory log.

Volatile output leaves at once, or with the batch that it rests on. Output that cannot leave then is dropped and
counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from delivery.volatile.datagrams import PeerDatagram, Shown
from delivery.volatile.output import RingGrew, VolatileOutput
from namegraph import ServerId
from nameserver.driver.group_commit import Batch
from nameserver.driver.ports import DeliveryDesk

HELD_LIMIT: Final = 10_000
"""Most datagrams that wait for a batch. A slow disk holds up no more of them."""


@dataclass(slots=True)
class DatagramCounts:
    """Outcomes of datagrams since the server started."""

    sent: int = 0
    """Copies to other servers."""
    handed: int = 0
    """Copies handed to endpoints."""
    dropped: int = 0
    """Dropped copies: no room, no connection, or the server was busy when they came."""


class LettingOut:
    """Sender of volatile output."""

    def __init__(self) -> None:
        self.desk: DeliveryDesk | None = None
        """Desk of messages. None if this server takes no messages."""
        self.counts = DatagramCounts()
        self.send_datagram: Callable[[ServerId, bytes], bool] = lambda _receiver, _encoded: False
        """Sender of a datagram to another server. Returns True if the datagram can leave soon and will."""

    def hold(self, unkept: Iterable[VolatileOutput], batch: Batch) -> None:
        """Let volatile output leave with a batch."""
        for each in unkept:
            # The limit is for datagrams alone. A caller waits for an answer, and a listener for entries in memory.
            if not isinstance(each, PeerDatagram | Shown) or len(batch.unkept) < HELD_LIMIT:
                batch.unkept.append(each)
            else:
                self.counts.dropped += 1

    def let_out(self, unkept: Iterable[VolatileOutput]) -> None:
        """Let volatile output leave at once."""
        for each in unkept:
            if isinstance(each, PeerDatagram):
                has_left = self.send_datagram(each.receiver, each.encoded)
                self.counts.sent += has_left
                self.counts.dropped += not has_left
            elif self.desk is None:
                continue
            elif isinstance(each, Shown):
                self.desk.show(each)
            elif isinstance(each, RingGrew):
                self.desk.in_memory_through(each.through)
            else:
                self.desk.answer([each])
