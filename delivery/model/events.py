"""Events: input of the delivery half of a step, and its output beside records and posts.

    Send ---------> Accepted, durable ---------> Settled          Subscribe --> Subscribed --> Acknowledge ...
      '-> Refusal     CloseParcels before it                        '-> Refusal

The shell chooses `ticket`; each answer repeats the ticket of its request. See docs/protocol-messages.md, "The way of a
message",
and docs/grpc.md, "Messages".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from msgspec import Struct

from delivery.model.policy import DeliveryPolicy
from delivery.model.words import Kept, MessageContent, Position, Quality
from namegraph import NO_ORIGIN, NodeId, Origin, Refusal, ServerId, TargetSet

BEGINNING = Position(0, -1)
"""The position before all messages that are kept in memory."""


class Send(Struct, frozen=True):
    """A client sends a message. This server must be the home of the addressed target, or that is a foreign process.

    The answer is `Accepted` once the parcel with the message is closed. With `wants_settled`, `Settled` follows later.
    If the policy of the addressed group keeps messages in memory, the parcel closes in the same step, or with a `Tick`
    shortly after it. A datagram is answered with `DatagramSent` at once.
    """

    ticket: int
    targets: TargetSet
    message: MessageContent
    quality: Quality | None = None
    """Requested quality. None for the quality of the addressed group."""
    number: int = 0
    """Number of the message among those of `message.sender` to the first target: 1 more than the number before.

    0 if the sender does not number its messages.
    """
    request_id: str = ""
    """Idempotency key of a message without a number: a repeated send gets the first answer.

    Empty if each send is a new message.
    """
    wants_settled: bool = False
    objection: Refusal | None = None
    """The refusal that the shell found, if any. A message that was accepted before is answered as then."""
    source: str = ""
    """Network of the client, as the shell counts callers. Empty if the network is not known."""


@dataclass(frozen=True, slots=True)
class DatagramCame:
    """Another server has sent a frame that belongs to no lane."""

    sender: ServerId
    encoded: bytes


@dataclass(frozen=True, slots=True)
class PeerStarted:
    """Another server has started again. Its posts that this server has not handled come again, if it still has them.

    The shell reports this event before any later post of that server.
    """

    peer: ServerId


@dataclass(frozen=True, slots=True)
class SendAll:
    """Messages that came together, each handled as if alone, in this order.

    One step for several messages saves time.
    """

    sends: tuple[Send, ...]


@dataclass(frozen=True, slots=True)
class QueueMessage:
    """A client sends a message whose origin is away.

    This server keeps it until that is back. Answered with `Queued`.
    """

    ticket: int
    addressed: NodeId
    """First target of the message."""
    encoded: bytes
    """The message in the form in which the shell passes it on."""
    sender: str
    number: int
    """Number of the message, as in `Send`. 0 if the message has a request id."""
    request_id: str
    deadline_ms: int = 0
    """Milliseconds after `queued_at_ms` within which the message may be handed over. 0 if there is no deadline."""
    queued_at_ms: int = 0
    """Time at which the message was queued, in milliseconds since 1970."""


@dataclass(frozen=True, slots=True)
class QueuedEnded:
    """A queued message was passed on to its origin. The event has no answer."""

    number: int
    """Number of the message in the queue."""
    refusal: Refusal | None = None
    """The refusal by the origin. None if the origin accepted the message."""


@dataclass(frozen=True, slots=True)
class CloseParcels:
    """Records are about to be written.

    Messages accepted since the last write become parcels, and are written with them.
    """


@dataclass(frozen=True, slots=True)
class OpenMailbox:
    """Open a mailbox: from now on keep the messages for a process, or the messages addressed to a group.

    Messages are kept while nobody listens, too. Answered with `MailboxOpened`.
    """

    ticket: int
    process: NodeId
    origin: Origin = NO_ORIGIN


@dataclass(frozen=True, slots=True)
class CloseMailbox:
    """Close the mailbox of a process and end its subscriptions. Answered with `MailboxClosed`."""

    ticket: int
    process: NodeId
    origin: Origin = NO_ORIGIN


class Start(Enum):
    """Position at which a new subscription begins."""

    START = "start"
    """The oldest message in the mailbox."""
    NOW = "now"


@dataclass(frozen=True, slots=True)
class Subscribe:
    """An endpoint begins to listen for a process. It takes over from the endpoint that used the same subscription.

    An existing subscription goes on behind its acknowledged position. `start` is for a new subscription, or names a
    position to go to. A missing mailbox is opened, except for that of a group. Answered with `Subscribed`.
    """

    ticket: int
    process: NodeId
    subscription: str = ""
    start: Start | Position = Start.START
    is_ephemeral: bool = False
    """True if the subscription begins now, and has no name and no mailbox.

    Its state is gone after `StopListening` or a restart.
    """
    in_memory: Position | None = None
    """Position through which the endpoint has handled messages that are kept in memory, as the endpoint remembers
    it."""
    caller: str = ""
    """Caller whose subscriptions of a mailbox are counted together. Empty if the caller is not known."""
    origin: Origin = NO_ORIGIN


@dataclass(frozen=True, slots=True)
class StopListening:
    """End an ephemeral subscription, if it exists. The event has no answer."""

    ticket: int
    """Ticket of the `Subscribe` that began the subscription."""


@dataclass(frozen=True, slots=True)
class Acknowledge:
    """An endpoint has handled all messages that its subscription received, through a position. The event has no answer.

    An ephemeral endpoint has handled the messages that it received.
    """

    mailbox: int
    subscription: str
    epoch: int
    """Epoch from `Subscribed`. An acknowledgement from an endpoint that was taken over has no effect."""
    through: Position
    in_memory: Position | None = None
    """Position through which messages kept in memory are handled. None if it is unchanged."""


@dataclass(frozen=True, slots=True)
class AcknowledgeAll:
    """Acknowledgements of several endpoints, in one step."""

    acknowledged: tuple[Acknowledge, ...]


@dataclass(frozen=True, slots=True)
class ReplayDeadLetters:
    """Post dead letters again to the servers that lack them. Answered with `DeadLettersReplayed`."""

    ticket: int
    numbers: tuple[int, ...] | None
    """Numbers of the dead letters. None for all of them."""


@dataclass(frozen=True, slots=True)
class DropDeadLetters:
    """Forget dead letters. Answered with `DeadLettersDropped`."""

    ticket: int
    numbers: tuple[int, ...] | None
    """Numbers of the dead letters. None for all of them."""


@dataclass(frozen=True, slots=True)
class SetDelivery:
    """Change the policy of a group of this server. A field that is None stays. Answered with `PolicySet`."""

    ticket: int
    group: NodeId
    quality: Quality | None = None
    senders: str | None = None
    """Senders, as in `DeliveryPolicy`. The shell has asked the home of a group of another server whether that group
    exists."""
    kept: Kept | None = None
    origin: Origin = NO_ORIGIN


OwnRequest = QueueMessage | OpenMailbox | CloseMailbox | Subscribe | ReplayDeadLetters | DropDeadLetters | SetDelivery
"""Requests with an answer, each of which is a step of its own."""

Request = Send | OwnRequest

Notice = Acknowledge | AcknowledgeAll | StopListening | QueuedEnded
"""Events without an answer."""

DeliveryEvent = Request | SendAll | CloseParcels | Notice | DatagramCame | PeerStarted


class Accepted(Struct, frozen=True):
    """A message is durable at its origin, or in memory there if `kept` says `MEMORY`.

    It may have been accepted before.
    """

    ticket: int
    message_id: str
    is_repeated: bool = False
    kept: Kept = Kept.DURABLE


@dataclass(frozen=True, slots=True)
class Queued:
    """A message is durable at this server, and goes to its origin when that is back."""

    ticket: int
    is_repeated: bool = False
    """True if the message was queued before."""


@dataclass(frozen=True, slots=True)
class DatagramSent:
    """A datagram is on its way to all servers that could be reached. No further answer follows."""

    ticket: int
    message_id: str
    sent_to: tuple[ServerId, ...]
    """Other servers to which the datagram is sent, sorted."""
    unknown: tuple[ServerId, ...]
    """Downstream servers that a peer named and that the origin does not know, sorted."""


@dataclass(frozen=True, slots=True)
class Settled:
    """All servers below the target set have a message in their logs."""

    ticket: int
    message_id: str
    mailboxes: int | None
    """Number of mailboxes that get the message.

    None for a retried message that was settled before: the number is not known any more.
    """
    servers: int | None
    """Number of servers that have such mailboxes."""
    unreachable: tuple[ServerId, ...] = ()
    """Servers that do not get the message, sorted.

    A peer named them as downstream and the origin does not know them, or they were removed before they had the message.
    """


@dataclass(frozen=True, slots=True)
class MailboxOpened:
    """The mailbox of a process is open."""

    ticket: int
    mailbox: int
    is_new: bool


@dataclass(frozen=True, slots=True)
class MailboxClosed:
    """The mailbox of a process is closed."""

    ticket: int
    mailbox: int
    """Number of the mailbox."""
    subscriptions: Mapping[str, Position]
    """Acknowledged position of each of its subscriptions, by name."""
    unread: int = 0
    """Number of its messages that some subscription has not acknowledged, at most: they are counted as lost.

    The true number may be lower: see `delivery.log.log.Log.behind`.
    """


@dataclass(frozen=True, slots=True)
class Subscribed:
    """An endpoint listens. It receives the messages of its mailbox behind `cursor`."""

    ticket: int
    mailbox: int
    """Number of the mailbox in audiences."""
    cursor: Position
    epoch: int
    """Epoch of the subscription. For an ephemeral subscription, its ticket."""
    in_memory: Position = BEGINNING
    """Cursor for messages that are kept in memory."""


@dataclass(frozen=True, slots=True)
class DeadLettersReplayed:
    """Dead letters are under way to those servers that lack them and are known."""

    ticket: int
    replayed: int
    """Number of dead letters that were posted."""
    left: int
    """Number of dead letters that were not posted, or not to all servers.

    A server that lacks them is not known, or too much is under way already.
    """


@dataclass(frozen=True, slots=True)
class DeadLettersDropped:
    """Dead letters are gone."""

    ticket: int
    dropped: int
    """Number of dead letters that were dropped."""


@dataclass(frozen=True, slots=True)
class PolicySet:
    """The policy of a group from now on."""

    ticket: int
    policy: DeliveryPolicy


@dataclass(frozen=True, slots=True)
class DeliveryRefused:
    """A command is refused, and had no effect."""

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
