"""Volatile output of a step: it waits for no write, except for a change of the graph on which it depends.

See docs/protocol-messages.md, "Kept in memory" and "Datagrams".
"""

from __future__ import annotations

from typing import NamedTuple, TypeGuard

from delivery.model.events import Accepted, Answer, DatagramSent, Settled
from delivery.volatile.datagrams import PeerDatagram, Shown


class RingGrew(NamedTuple):
    """Position through which entries of the ring may be handed out."""

    through: int


UnkeptAnswer = DatagramSent | Accepted | Settled
"""Answers to callers about messages that are not durable."""

VolatileOutput = PeerDatagram | Shown | RingGrew | UnkeptAnswer


def is_told_unkept(answer: Answer) -> TypeGuard[Accepted | Settled]:
    """True if an answer is of a kind that messages in memory have."""
    return isinstance(answer, Accepted | Settled)
