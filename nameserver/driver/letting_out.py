"""What leaves of which nothing is kept: datagrams to other servers and to who listens here, and what came into memory.

It leaves at once, or with the batch that it rests on. What cannot leave then is dropped and counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from delivery.volatile.datagrams import PeerDatagram, Shown
from delivery.volatile.output import RingGrew, Unkept
from namegraph import ServerId
from nameserver.driver.group_commit import Batch
from nameserver.driver.ports import DeliveryDesk

HELD_LIMIT: Final = 10_000
"""Datagrams that wait for a batch: a slow disk holds up no more of them."""


@dataclass(slots=True)
class DatagramCounts:
    """What became of datagrams since the server started."""

    sent: int = 0
    """Copies to other servers."""
    handed: int = 0
    """To endpoints."""
    dropped: int = 0
    """Copies and hand-overs for which there was no room, or no way, and those that came while the server was busy."""


class LettingOut:
    """Lets it out."""

    def __init__(self) -> None:
        self.desk: DeliveryDesk | None = None
        """None: no messages are taken."""
        self.counts = DatagramCounts()
        self.send_datagram: Callable[[ServerId, bytes], bool] = lambda _receiver, _encoded: False
        """Sends what nobody keeps to another server, if it can leave soon; whether it will."""

    def hold(self, unkept: Iterable[Unkept], batch: Batch) -> None:
        """Have it leave with a batch."""
        for each in unkept:
            # Somebody waits for an answer, or for what comes into memory.
            if not isinstance(each, PeerDatagram | Shown) or len(batch.unkept) < HELD_LIMIT:
                batch.unkept.append(each)
            else:
                self.counts.dropped += 1

    def let_out(self, unkept: Iterable[Unkept]) -> None:
        """Have it leave at once."""
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
