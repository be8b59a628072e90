"""What the client returns of messages: frozen values, whose fields are the keys of the JSON that commands print."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from shadowtree.vocabulary import GroupId, Kept, MemberId, MessageId, Position, Quality, SendState, SubscriptionName


@dataclass(frozen=True, slots=True)
class Sent:
    """How far a message is.

    `accepted`: durable at the home of its first target, and will be delivered; a datagram is on its way. `settled`: all
    servers below its targets have it, those in `pending` and `unreachable` excepted.
    """

    id: MessageId
    """The same at all servers; empty where a message was accepted and the answer lost."""
    state: SendState
    mailboxes: int = 0
    """How many get it, as far as it is settled."""
    servers: int = 0
    """How many servers have some of these; of a datagram, to how many it was sent beside the home of its first target,
    whose own listeners are counted nowhere."""
    pending: tuple[str, ...] = ()
    """Servers below that have not confirmed it yet: each gets it when it is back, but for one that starts again while a
    message in `memory` is on its way. Of one that is queued: its origin."""
    unreachable: tuple[str, ...] = ()
    """Servers that are said to be below and do not get it: they were never met, or were removed before they had it, or
    had a message in `memory` on its way to them when they started again. Of a datagram also those that are out of
    reach."""
    quality: Quality = "fifo"
    """What its receivers can rely on: what was asked for, or what the group of its first target gives."""
    kept: Kept = "durable"
    """Where it is until it is handed over; of a message that is in `memory`, `accepted` says that it is there."""

    @property
    def is_settled_everywhere(self) -> bool:
        """Whether every server below its targets has it."""
        return self.state == "settled" and not self.pending and not self.unreachable


@dataclass(frozen=True, slots=True)
class Message:
    """A message as it is handed over."""

    group: GroupId
    """The group, or process, that it was addressed to: its first target."""
    payload: bytes
    sender: str
    """Who numbers its messages, as the sender said; empty where nobody does. Not authenticated."""
    position: Position
    """Give it as `from_` to go on after this message; empty of a datagram, which has none."""
    headers: dict[str, str] = field(default_factory=dict, hash=False)
    place: str = ""
    """In the one order of updates: empty, for messages of quality `fifo` have none."""
    late: bool = False
    """Whether a later message of the sequence may have been handed over before: a server in between was away."""
    id: MessageId = ""
    sent_at: str = ""
    """When it was accepted, on the clock of that server: ``2026-03-01T08:30:00.000Z``; empty where it is not known."""
    gap: int = 0
    """Parcels, of one message or more, that the server let go before this listener was handed what was its in them.
    Those in memory that a restart may have lost count as one."""
    quality: str = "fifo"
    """`fifo`, or `datagram`: acknowledging one says nothing. Empty where this version does not know it."""
    recipients: tuple[MemberId, ...] = ()
    """Of a gateway: who is to get it, each once, in no order."""
    kept: Kept = "durable"
    """What is in `memory` is in one order, and what is `durable` in another."""
    _acknowledge: Callable[[Message], Any] | None = field(default=None, repr=False, compare=False)
    _number: int = field(default=0, repr=False, compare=False)
    """Rank among the messages of its listener, which hands them out in rising ranks."""

    def acknowledge(self) -> Any:
        """Say that this message and all before it are handled: they do not come again. Does not wait.

        Of the asynchronous client it may be awaited, or not.
        """
        return None if self._acknowledge is None else self._acknowledge(self)


@dataclass(frozen=True, slots=True)
class Delivery:
    """What holds for messages to a group."""

    group: GroupId
    quality: Quality
    """What their receivers can rely on."""
    senders: str
    """Who may send: ``anyone``, ``members``, or the id of a group, whose members may."""
    kept: Kept = "durable"
    """Where messages are kept: on disk, or in memory alone."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """One reader of a mailbox, and through where it has acknowledged. The one that every mailbox has has no name."""

    name: SubscriptionName
    position: Position
    is_listening: bool


@dataclass(frozen=True, slots=True)
class Mailbox:
    """What is kept for a process; iterates over its subscriptions. `is_new`: the call has opened it."""

    process: MemberId
    server: str
    is_new: bool
    subscriptions: tuple[Subscription, ...]
    messages_lost: int = 0
    """Of one that was closed: at most so many messages that it had not acknowledged; 0: none."""

    def __iter__(self) -> Iterator[Subscription]:
        return iter(self.subscriptions)


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Consecutive messages of one sequence that some servers did not get."""

    number: int
    """Names it at the server that keeps it."""
    id: MessageId
    """Of the first of its messages; the others have the serials that follow. Empty of one that was never accepted."""
    messages: int
    """How many there are."""
    bytes: int
    group: GroupId
    """The group, or process, that they were addressed to: their first target."""
    reason: str
    """`server removed`; empty where this version does not know it."""
    servers: tuple[str, ...]
    """Which lack them."""
    replayed_to: tuple[str, ...] = ()
    """Of these, the ones to which they are under way again."""
    sent_at: str = ""
    """When the first of them was accepted, as of a `Message`; or queued."""
    why: str = ""
    """Of one that was refused: the reason, and one line for a person."""


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """The dead letters of one server, the oldest first; iterates over them."""

    server: str
    dead_letters: tuple[DeadLetter, ...]
    messages_lost: int
    """Messages, since the beginning, for whose dead letters there was no room."""

    def __iter__(self) -> Iterator[DeadLetter]:
        return iter(self.dead_letters)


@dataclass(frozen=True, slots=True)
class Replayed:
    """What became of dead letters that were to be sent again."""

    replayed: int
    """How many are under way now that were not."""
    left: int
    """How many are not, or not to all servers that lack them: these are not there, or too many are under way."""
