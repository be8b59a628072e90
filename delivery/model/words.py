"""The words of the delivery half: target sets, qualities, messages, positions.

Source: delivery.md sections 0, 1, 5, 9.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from msgspec import Struct

from namegraph import NodeId, Reason, RefusedError, ServerId, Target, TargetSet, refuse

PAYLOAD_BYTES_LIMIT = 1024 * 1024
"""Of one message."""

DATAGRAM_BYTES_LIMIT = 64 * 1024
"""Of the payload of one datagram: it never holds up what else is to leave for long."""

HEADERS_BYTES_LIMIT = 8 * 1024
"""Of one message: names and values together."""

TARGETS_LIMIT = 64
"""Groups and processes that one message is addressed to; each may have as many exceptions."""


class Quality(IntEnum):
    """What a member that is there throughout can rely on."""

    DATAGRAM = 0
    """At most once, if it listens now; nothing is kept, and nothing waits for it."""
    FIFO = 1
    """Once, also after crashes and partitions; what is sent to one target set is one sequence, the same for all."""


class Kept(IntEnum):
    """Where a message is until it is handed over."""

    DURABLE = 0
    """On disk, at its origin and at each server below: nothing is lost for a restart."""
    MEMORY = 1
    """In memory alone: nobody waits for a disk, and a restart of a server loses what it had not handed over yet."""


EVERYBODY = "*"
"""The pattern of a gateway for all processes of a server."""


def is_pattern(name: str) -> bool:
    """Whether a name stands for all processes here (`*`), or for those of a subnet (`*@debian.org`)."""
    return name == EVERYBODY or name.startswith("*@")


def serves(pattern: str, process: NodeId) -> bool:
    """Whether a process matches a pattern."""
    return pattern in patterns_of(process)


def patterns_of(process: NodeId) -> tuple[NodeId, NodeId]:
    """Return the patterns that a process matches."""
    return NodeId(EVERYBODY), NodeId(f"*@{process.rpartition('@')[2]}")


def target_set(names: list[NodeId], excluding: list[NodeId] | None = None) -> TargetSet:
    """The set of these targets, each less all of the exceptions.

    The first is the addressed one, whose home is the origin; the others are sorted.
    """
    less = tuple(sorted(set(excluding or ())))
    first, *others = dict.fromkeys(names)
    return (Target(first, less), *(Target(name, less) for name in sorted(others)))


def target_not_found(name: NodeId, server: ServerId, renamed_to: NodeId | None = None) -> RefusedError:
    """The refusal of a message to what its home does not know, with the name that the group has now."""
    if renamed_to is not None:
        return refuse(
            Reason.TARGET_NOT_FOUND,
            f"there is no group {name}: it was renamed to {renamed_to}",
            target=name,
            server=server,
            renamed_to=renamed_to,
        )
    return refuse(
        Reason.TARGET_NOT_FOUND,
        f"there is no group or member {name} at the server {server}",
        target=name,
        server=server,
    )


class Message(Struct, frozen=True, array_like=True):
    """What is sent, as its receivers get it."""

    payload: bytes
    headers: tuple[tuple[str, str], ...] = ()
    sender: str = ""
    """Who numbers its messages, as the client said; empty where nobody does."""
    sent_at_ms: int = 0
    """Milliseconds since 1970 on the clock of the server that accepted it; 0 where it is not known."""
    deadline_ms: int = 0
    """It is handed to nobody later than so long after `sent_at_ms`; 0: whenever."""

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        of_headers = sum(len(name) + len(value) for name, value in self.headers) if self.headers else 0
        return len(self.payload) + len(self.sender) + of_headers

    @property
    def expires_at_ms(self) -> int:
        """Milliseconds since 1970 after which it is handed to nobody; 0: never."""
        return self.sent_at_ms + self.deadline_ms if self.deadline_ms else 0


class Filter(NamedTuple):
    """Which of the messages that reach it an endpoint is handed; the others count as handed."""

    groups: frozenset[NodeId] = frozenset()
    """First targets; none: whatever it is."""
    senders: frozenset[str] = frozenset()
    """Who numbers its messages; none: whoever does, or nobody."""

    def passes(self, addressed: NodeId, sender: str) -> bool:
        """Whether a message to this first target, of this sender, is handed over."""
        return (not self.groups or addressed in self.groups) and (not self.senders or sender in self.senders)


EVERYTHING = Filter()


class Position(NamedTuple):
    """A place in the log of a server: a message of an entry. As a cursor: all through that message is handled."""

    entry: int
    item: int
    """Within the entry, from 0; -1: nothing of it."""

    @classmethod
    def before(cls, entry: int) -> Position:
        """The place after which an entry begins."""
        return cls(entry, -1)


class PositionToken(NamedTuple):
    """A position as clients keep it: a number means something only in the log it is of."""

    server: ServerId
    incarnation: int
    """Of that server: its log begins anew where it goes on from an older copy of its database."""
    position: Position
    kept: Kept = Kept.DURABLE
    """What is in memory has positions of its own."""

    def __str__(self) -> str:
        before, after = self.around_item()
        return f"{before}{self.position.item}{after}"

    def around_item(self) -> tuple[str, str]:
        """What comes before and after the item: the same of all messages of an entry."""
        mark = "m" if self.kept is Kept.MEMORY else ""
        return f"{mark}{self.position.entry}.", f"@{self.server}#{self.incarnation}"
