"""What goes into the delivery half of a step, and what comes out of it beside records and posts.

    Send ---------> Accepted, durable ---------> Settled          Subscribe --> Subscribed --> Acknowledge ...
      '-> Refusal     CloseParcels before it                        '-> Refusal

`ticket` is chosen by the shell and comes back in each answer. Source: delivery.md sections 5, 9, 16.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from msgspec import Struct

from delivery.model.policy import Policy
from delivery.model.words import Kept, Message, Position, Quality
from namegraph import NodeId, Refusal, ServerId, TargetSet

BEGINNING = Position(0, -1)
"""Before all that is kept in memory."""


class Send(Struct, frozen=True):
    """A client sends a message. This server must be the home of the addressed target (or that is nobody's process).

    Answered `Accepted` once the parcel that takes it is closed, and, with `wants_settled`, `Settled` later. A
    parcel of what is kept in memory, as the policy of the addressed group says, is closed in the same step, or with a
    `Tick` shortly after it. A datagram is answered `DatagramSent` at once.
    """

    ticket: int
    targets: TargetSet
    message: Message
    quality: Quality | None = None
    """None: that of the addressed group."""
    number: int = 0
    """Of the messages of `message.sender` to the first target: 1 more than the one before; 0 where nobody numbers."""
    request_id: str = ""
    """Of a message that nobody numbers: repeated, it gets the first answer. Empty: it is sent anew each time."""
    wants_settled: bool = False
    objection: Refusal | None = None
    """Why it may not be sent, as far as the shell has asked: a message that was accepted before is answered as then."""
    source: str = ""
    """Network of the client, as the shell counts callers; empty if it is not known."""


@dataclass(frozen=True, slots=True)
class DatagramCame:
    """Another server has sent what is in no lane."""

    sender: ServerId
    encoded: bytes


@dataclass(frozen=True, slots=True)
class PeerStarted:
    """Another server has started again. What it posted before and was not taken here comes again, if it still has that.

    To be said before what is posted from then on.
    """

    peer: ServerId


@dataclass(frozen=True, slots=True)
class SendAll:
    """Messages that came together, each as if alone, in this order: one step costs as much as taking several."""

    sends: tuple[Send, ...]


@dataclass(frozen=True, slots=True)
class QueueMessage:
    """A client sends a message whose origin is away: it is kept here until that is met again. Answered `Queued`."""

    ticket: int
    addressed: NodeId
    """Its first target."""
    encoded: bytes
    """The message, as the shell passes it on."""
    sender: str
    number: int
    """As of a `Send`; 0: it has a request id."""
    request_id: str
    deadline_ms: int = 0
    """It is handed to nobody later than so long after `queued_at_ms`; 0: whenever."""
    queued_at_ms: int = 0
    """Milliseconds since 1970."""


@dataclass(frozen=True, slots=True)
class QueuedEnded:
    """A message that was queued was passed on to its origin. Nobody is answered."""

    number: int
    """In the queue."""
    refusal: Refusal | None = None
    """None: it is accepted there."""


@dataclass(frozen=True, slots=True)
class CloseParcels:
    """Records are about to be written: messages that were accepted since become parcels, and go with them."""


@dataclass(frozen=True, slots=True)
class OpenMailbox:
    """Keep from now on what reaches a process, whether or not it listens; or what is addressed to a group.

    Answered `MailboxOpened`.
    """

    ticket: int
    process: NodeId


@dataclass(frozen=True, slots=True)
class CloseMailbox:
    """Keep nothing any more for a process; its subscriptions end. Answered `MailboxClosed`."""

    ticket: int
    process: NodeId


class Start(Enum):
    """Where a new subscription begins."""

    START = "start"
    """With the oldest message that its mailbox has."""
    NOW = "now"


@dataclass(frozen=True, slots=True)
class Subscribe:
    """An endpoint begins to listen for a process; whoever listened on the same subscription before is taken over.

    A subscription that exists goes on behind what it acknowledged; `start` is for a new one, or a position to go to.
    Opens the mailbox where there is none, but for that of a group. Answered `Subscribed`.
    """

    ticket: int
    process: NodeId
    subscription: str = ""
    start: Start | Position = Start.START
    is_ephemeral: bool = False
    """It begins now, has no name and no mailbox, and nothing is left of it after `StopListening`, or a restart."""
    in_memory: Position | None = None
    """Through where it has handled what is kept in memory, as it remembers itself."""
    caller: str = ""
    """Caller whose subscriptions of a mailbox are counted together; empty if it is not known."""


@dataclass(frozen=True, slots=True)
class StopListening:
    """An ephemeral subscription ends, if it is there. Nobody is answered."""

    ticket: int
    """Of the `Subscribe` that began it."""


@dataclass(frozen=True, slots=True)
class Acknowledge:
    """An endpoint has handled all that its subscription was handed through a position. Nobody is answered.

    An ephemeral one has handled what it was handed.
    """

    mailbox: int
    subscription: str
    epoch: int
    """Of its `Subscribed`: one that was taken over acknowledges nothing."""
    through: Position
    in_memory: Position | None = None
    """The same of what is kept in memory; None: nothing new."""


@dataclass(frozen=True, slots=True)
class AcknowledgeAll:
    """What several endpoints acknowledge, in one step."""

    acknowledged: tuple[Acknowledge, ...]


@dataclass(frozen=True, slots=True)
class ReplayDeadLetters:
    """Post dead letters again to the servers that lack them. Answered `DeadLettersReplayed`."""

    ticket: int
    numbers: tuple[int, ...] | None
    """None: all of them."""


@dataclass(frozen=True, slots=True)
class DropDeadLetters:
    """Forget dead letters. Answered `DeadLettersDropped`."""

    ticket: int
    numbers: tuple[int, ...] | None
    """None: all of them."""


@dataclass(frozen=True, slots=True)
class SetPolicy:
    """Lay down what holds for messages to a group of this server; what is None stays. Answered `PolicySet`."""

    ticket: int
    group: NodeId
    quality: Quality | None = None
    senders: str | None = None
    """As in `Policy`. Of a group of another server, that one was asked whether it exists."""
    kept: Kept | None = None


OwnRequest = QueueMessage | OpenMailbox | CloseMailbox | Subscribe | ReplayDeadLetters | DropDeadLetters | SetPolicy
"""What a caller is answered, and a step takes by itself."""

Request = Send | OwnRequest

Notice = Acknowledge | AcknowledgeAll | StopListening | QueuedEnded
"""What nobody is answered."""

DeliveryEvent = Request | SendAll | CloseParcels | Notice | DatagramCame | PeerStarted


class Accepted(Struct, frozen=True):
    """A message is durable at its origin, or was before; or is in memory there, where `kept` says so."""

    ticket: int
    message_id: str
    is_repeated: bool = False
    kept: Kept = Kept.DURABLE


@dataclass(frozen=True, slots=True)
class Queued:
    """A message is durable here, and goes to its origin when that is met again."""

    ticket: int
    is_repeated: bool = False
    """Whether it was queued before."""


@dataclass(frozen=True, slots=True)
class DatagramSent:
    """A datagram is on its way, as far as there are ways. Nothing more will be known of it."""

    ticket: int
    message_id: str
    sent_to: tuple[ServerId, ...]
    """The other servers to which it is sent; sorted."""
    unknown: tuple[ServerId, ...]
    """Servers that others name as further below and that are not known at the origin; sorted."""


@dataclass(frozen=True, slots=True)
class Settled:
    """All servers below the target set have a message in their logs."""

    ticket: int
    message_id: str
    mailboxes: int | None
    """How many get it; None of a message that was settled before it was sent again: that is not known any more."""
    servers: int | None
    """How many servers have some of them."""
    unreachable: tuple[ServerId, ...] = ()
    """Servers that others name as further below and that are not known at the origin, or were removed before they had
    it. Sorted."""


@dataclass(frozen=True, slots=True)
class MailboxOpened:
    """The mailbox of a process."""

    ticket: int
    mailbox: int
    is_new: bool


@dataclass(frozen=True, slots=True)
class MailboxClosed:
    """There is no mailbox of the process any more."""

    ticket: int
    mailbox: int
    """Its number."""
    subscriptions: Mapping[str, Position]
    """How far each of its subscriptions had acknowledged, by name."""
    unread: int = 0
    """How many messages it had that not all of its subscriptions have acknowledged; they are counted as lost. They may
    be fewer: see `delivery.log.log.Log.behind`."""


@dataclass(frozen=True, slots=True)
class Subscribed:
    """What an endpoint begins with: it is handed what its mailbox gets behind `cursor`."""

    ticket: int
    mailbox: int
    """The number in audiences of what is for it."""
    cursor: Position
    epoch: int
    """Of an ephemeral one: its ticket."""
    in_memory: Position = BEGINNING
    """The same as `cursor`, of what is kept in memory."""


@dataclass(frozen=True, slots=True)
class DeadLettersReplayed:
    """Dead letters are under way to the servers that lack them, as far as these are known."""

    ticket: int
    replayed: int
    """How many were posted."""
    left: int
    """How many were not, or not to all: a server that lacks them is not known, or too much is under way already."""


@dataclass(frozen=True, slots=True)
class DeadLettersDropped:
    """Dead letters are gone."""

    ticket: int
    dropped: int
    """How many there were."""


@dataclass(frozen=True, slots=True)
class PolicySet:
    """What holds for a group from now on."""

    ticket: int
    policy: Policy


@dataclass(frozen=True, slots=True)
class DeliveryRefused:
    """A command is refused, and nothing of it done."""

    ticket: int
    refusal: Refusal


Answer = (
    Accepted
    | Queued
    | DatagramSent
    | Settled
    | MailboxOpened
    | MailboxClosed
    | Subscribed
    | DeadLettersReplayed
    | DeadLettersDropped
    | PolicySet
    | DeliveryRefused
)
