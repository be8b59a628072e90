"""Results of the client about messages: frozen values, whose fields are the keys of the JSON that commands print."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from shadowtree.vocabulary import GroupId, Kept, MemberId, MessageId, Position, Quality, SendState, SubscriptionName


@dataclass(frozen=True, slots=True)
class Sent:
    """The state of a sent message.

    `accepted`: the message is durable at the home of its first target and will be delivered; a datagram is on its way.
    `settled`: all servers below its targets have it, except those in `pending` and `unreachable`.
    """

    id: MessageId
    """Id of the message, the same at all servers. Empty if it was accepted and the answer lost."""
    state: SendState
    mailboxes: int = 0
    """Number of mailboxes that get the message, as far as it is settled."""
    servers: int = 0
    """Number of servers with these mailboxes.

    For a datagram: number of servers to which it was sent besides the home of its first target. Listeners of that home
    are not counted.
    """
    pending: tuple[str, ...] = ()
    """Servers below that have not confirmed the message yet. Each gets it when it is back.

    A server that restarts while a message in `memory` is on its way to it does not get it. For a queued message: its
    origin.
    """
    unreachable: tuple[str, ...] = ()
    """Servers that may be below the targets and do not get the message.

    They were never met, were removed before they had it, or restarted while a message in `memory` was on its way to
    them. For a datagram also servers that are out of reach.
    """
    quality: Quality = "fifo"
    """Delivery guarantee: the requested one, or that of the group of its first target."""
    kept: Kept = "durable"
    """Storage of the message until it is handed over. A message in `memory` is `accepted` once it is in memory."""

    @property
    def is_settled_everywhere(self) -> bool:
        """True if every server below its targets has the message."""
        return self.state == "settled" and not self.pending and not self.unreachable


@dataclass(frozen=True, slots=True)
class Message:
    """A message as it is handed over."""

    group: GroupId
    """Group, or process, to which the message was addressed: its first target."""
    payload: bytes
    sender: str
    """Id under which the sender numbers its messages, as the sender stated it. Empty if unnumbered.

    Not authenticated.
    """
    position: Position
    """Value of `from_` to continue after this message. Empty for a datagram, which has no position."""
    headers: dict[str, str] = field(default_factory=dict, hash=False)
    place: str = ""
    """Place in the single order of updates. Empty: messages of quality `fifo` have none."""
    late: bool = False
    """True if a later message of the sequence may have been handed over before: a server in between was away."""
    id: MessageId = ""
    sent_at: str = ""
    """Time of acceptance, on the clock of that server: ``2026-03-01T08:30:00.000Z``. Empty if it is not known."""
    gap: int = 0
    """Number of parcels, of one message or more, that the server deleted before this listener got its messages in them.

    Parcels in memory that a restart may have lost count as one.
    """
    quality: str = "fifo"
    """`fifo` or `datagram`. Acknowledging a datagram has no effect. Empty if this version does not know the quality."""
    recipients: tuple[MemberId, ...] = ()
    """Recipients of a message to a gateway, each once, in no order."""
    kept: Kept = "durable"
    """Storage of the message. Messages in `memory` are in one order, `durable` messages in another."""
    _acknowledge: Callable[[Message], Any] | None = field(default=None, repr=False, compare=False)
    _number: int = field(default=0, repr=False, compare=False)
    """Rank among the messages of its listener, which hands them out in rising ranks."""

    def acknowledge(self) -> Any:
        """Acknowledge this message and all before it: they do not come again. Does not wait.

        With the asynchronous client the result may be awaited, or not.
        """
        return None if self._acknowledge is None else self._acknowledge(self)


@dataclass(frozen=True, slots=True)
class Delivery:
    """The delivery options of a group."""

    group: GroupId
    quality: Quality
    """Delivery guarantee for receivers."""
    senders: str
    """Permitted senders: ``anyone``, ``members``, or the id of a group, whose members may send."""
    kept: Kept = "durable"
    """Storage of messages: on disk, or in memory alone."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """One reader of a mailbox, and the position through which it has acknowledged.

    The default subscription has no name.
    """

    name: SubscriptionName
    position: Position
    is_listening: bool


@dataclass(frozen=True, slots=True)
class Mailbox:
    """The mailbox of a process; iterates over its subscriptions. `is_new`: True if the call has opened it."""

    process: MemberId
    server: str
    is_new: bool
    subscriptions: tuple[Subscription, ...]
    messages_lost: int = 0
    """Upper bound of the unacknowledged messages of a mailbox that was closed. 0 if there were none."""

    def __iter__(self) -> Iterator[Subscription]:
        return iter(self.subscriptions)


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Consecutive messages of one sequence that some servers did not get."""

    number: int
    """Number of the dead letter at the server that keeps it."""
    id: MessageId
    """Id of the first of its messages; the others have the next serials. Empty if it was never accepted."""
    messages: int
    """Number of messages."""
    bytes: int
    group: GroupId
    """Group, or process, to which the messages were addressed: their first target."""
    reason: str
    """Reason, such as `server removed`. Empty if this version does not know the reason."""
    servers: tuple[str, ...]
    """Servers that lack the messages."""
    replayed_to: tuple[str, ...] = ()
    """Those of `servers` to which the messages are under way again."""
    sent_at: str = ""
    """Time at which the first message was accepted, as of a `Message`, or queued."""
    why: str = ""
    """For a refused message: the reason, and one line for a person."""


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """The dead letters of one server, the oldest first; iterates over them."""

    server: str
    dead_letters: tuple[DeadLetter, ...]
    messages_lost: int
    """Number of messages, since the beginning, for whose dead letters there was no room."""

    def __iter__(self) -> Iterator[DeadLetter]:
        return iter(self.dead_letters)


@dataclass(frozen=True, slots=True)
class Replayed:
    """Result of sending dead letters again."""

    replayed: int
    """Number of dead letters that are newly under way."""
    left: int
    """Number of dead letters that are not under way to all servers that lack them.

    These servers are not in reach, or too many dead letters are under way.
    """
