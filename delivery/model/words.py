"""Vocabulary of delivery: target sets, qualities, messages, positions.

See docs/protocol-messages.md, "The way of a message", "Limits of messages" and "Log, audiences, mailboxes".
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from msgspec import Struct

from namegraph import NodeId, Reason, RefusedError, ServerId, Target, TargetSet, refuse

PAYLOAD_BYTES_LIMIT = 1024 * 1024
"""Largest payload of a message."""

DATAGRAM_BYTES_LIMIT = 64 * 1024
"""Largest payload of a datagram: a datagram never holds up other frames for long."""

HEADERS_BYTES_LIMIT = 8 * 1024
"""Largest headers of a message: names and values together."""

TARGETS_LIMIT = 64
"""Largest number of targets of one message. Each target may have as many exceptions."""


class Quality(IntEnum):
    """Delivery guarantee of a message for a member that stays a member throughout."""

    DATAGRAM = 0
    """At most once, to current listeners only. No server keeps a datagram or waits for it."""
    FIFO = 1
    """Once, also after crashes and partitions.

    Messages to one target set are one sequence, the same for all members.
    """


class Kept(IntEnum):
    """Storage of a message until it is handed over."""

    DURABLE = 0
    """Disk, at the origin and at each server below: a restart loses no message."""
    MEMORY = 1
    """Memory alone: no write is waited for. A restart of a server loses the messages that it has not handed over."""


EVERYBODY = "*"
"""Pattern of a gateway for all processes of a server."""


def is_pattern(name: str) -> bool:
    """True if a name is a pattern: all processes of this server (`*`), or those of a subnet (`*@debian.org`)."""
    return name == EVERYBODY or name.startswith("*@")


def serves(pattern: str, process: NodeId) -> bool:
    """True if a process matches a pattern."""
    return pattern in patterns_of(process)


def patterns_of(process: NodeId) -> tuple[NodeId, NodeId]:
    """Return the patterns that a process matches."""
    return NodeId(EVERYBODY), NodeId(f"*@{process.rpartition('@')[2]}")


def target_set(names: list[NodeId], excluding: list[NodeId] | None = None) -> TargetSet:
    """Return the target set of these targets, each less all exceptions.

    The first target is the addressed target, whose home is the origin. The other targets are sorted.
    """
    less = tuple(sorted(set(excluding or ())))
    first, *others = dict.fromkeys(names)
    return (Target(first, less), *(Target(name, less) for name in sorted(others)))


def target_not_found(name: NodeId, server: ServerId, renamed_to: NodeId | None = None) -> RefusedError:
    """Return the refusal of a message to a target that its home does not know, with the present name of a renamed
    group."""
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


class MessageContent(Struct, frozen=True, array_like=True):
    """A message as its receivers get it."""

    payload: bytes
    headers: tuple[tuple[str, str], ...] = ()
    sender: str = ""
    """Sender id under which the client numbers its messages. Empty if messages are not numbered."""
    sent_at_ms: int = 0
    """Milliseconds since 1970 on the clock of the server that accepted the message. 0 if it is not known."""
    deadline_ms: int = 0
    """Milliseconds after `sent_at_ms` within which the message may be handed over. 0 if there is no deadline."""

    @property
    def size(self) -> int:
        """Approximate size in bytes."""
        of_headers = sum(len(name) + len(value) for name, value in self.headers) if self.headers else 0
        return len(self.payload) + len(self.sender) + of_headers

    @property
    def expires_at_ms(self) -> int:
        """Milliseconds since 1970 after which the message is handed to nobody. 0 if it never expires."""
        return self.sent_at_ms + self.deadline_ms if self.deadline_ms else 0


class Filter(NamedTuple):
    """Filter of an endpoint for the messages that reach it. A message that it leaves out counts as handed over."""

    groups: frozenset[NodeId] = frozenset()
    """First targets to pass. Empty for any target."""
    senders: frozenset[str] = frozenset()
    """Sender ids to pass. Empty for any sender, numbered or not."""

    def passes(self, addressed: NodeId, sender: str) -> bool:
        """True if a message of this sender to this first target is handed over."""
        return (not self.groups or addressed in self.groups) and (not self.senders or sender in self.senders)


EVERYTHING = Filter()


class Position(NamedTuple):
    """A message of an entry in the log of a server. As a cursor: every message through this one is handled."""

    entry: int
    item: int
    """Index within the entry, from 0. -1 for the place before its first message."""

    @classmethod
    def before(cls, entry: int) -> Position:
        """Return the place after which an entry begins."""
        return cls(entry, -1)


class PositionToken(NamedTuple):
    """A position in the form that clients keep, with the log in which its numbers are valid."""

    server: ServerId
    incarnation: int
    """Incarnation of that server: a server restored from an old backup begins a new log."""
    position: Position
    kept: Kept = Kept.DURABLE
    """Storage of the messages. Those kept in memory have positions of their own."""

    def __str__(self) -> str:
        before, after = self.around_item()
        return f"{before}{self.position.item}{after}"

    def around_item(self) -> tuple[str, str]:
        """Return the text before and after the item, which is the same for all messages of an entry."""
        mark = "m" if self.kept is Kept.MEMORY else ""
        return f"{mark}{self.position.entry}.", f"@{self.server}#{self.incarnation}"
