"""What a step lets out of which nothing is durable: it waits for no disk, but for the graph that it rests on.

Source: delivery.md section 3.
"""

from __future__ import annotations

from typing import NamedTuple, TypeGuard

from delivery.model.events import Accepted, Answer, DatagramSent, Settled
from delivery.volatile.datagrams import PeerDatagram, Shown


class RingGrew(NamedTuple):
    """What is kept in memory may be handed out through a position."""

    through: int


UnkeptAnswer = DatagramSent | Accepted | Settled
"""What callers are told of messages that are not durable."""

Unkept = PeerDatagram | Shown | RingGrew | UnkeptAnswer


def is_told_unkept(answer: Answer) -> TypeGuard[Accepted | Settled]:
    """Whether an answer is one of those that messages in memory have."""
    return isinstance(answer, Accepted | Settled)
