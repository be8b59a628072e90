"""Events in a run of servers, senders and listeners, as the observer of the run records them.

`simulation.history.properties` judges them. The simulator and the chaos judge record the same events. An instant, `at`,
is an integer on one clock of the observer, in any unit, and never falls. Events with the same instant are in the order
in which they were recorded.

An observer that cannot see the exact instant records a bound that accuses no innocent server: `MessageAccepted` not
later than the message became durable at its origin, `SettledAt` not earlier than it settled, `StreamEnded` not later
than the stream broke. `Acknowledged` comes before the streams that began behind it, and not before other streams. An
observer that does not see a database learns of it from the beginning of the next stream.

Source: docs/protocol-messages.md, "What must hold of messages".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from delivery.model.words import EVERYTHING, Filter, Kept, Position
from namegraph import NodeId, ServerId, TargetSet


class SubscriptionId(NamedTuple):
    """A subscription of the mailbox that a process has at one server.

    Messages kept in memory have positions of their own. So a subscription is two subscriptions here, one for each
    `kept`.
    """

    server: ServerId
    process: NodeId
    name: str
    kept: Kept = Kept.DURABLE

    def __str__(self) -> str:
        return f"{self.process}/{self.name}@{self.server}{' in memory' if self.kept is Kept.MEMORY else ''}"


@dataclass(frozen=True, slots=True)
class MessageAccepted:
    """A message became durable at its origin, whether or not its sender was told. A repetition is not recorded again.

    A message kept in memory is accepted once its sender is told.
    """

    at: int
    message_id: str
    origin: ServerId
    sequence: str
    """Key of one sequence: origin, target set, quality, and the number of times that the origin went back.

    For messages kept in memory the key also has the start of the origin.
    """
    serial: int
    """Number in the sequence, rising by 1."""
    targets: TargetSet
    payload: bytes
    sender: str = ""
    number: int = 0
    """The sender's own number. 0 if the sender does not number its messages."""
    expires_at: int | None = None
    """Instant after which the message is no longer handed out. None: it has no deadline."""
    kept: Kept = Kept.DURABLE
    """Place where the message is kept, as its sender was told."""


@dataclass(frozen=True, slots=True)
class DatagramLetOut:
    """A datagram was let out. No member is owed it."""

    at: int
    message_id: str
    targets: TargetSet
    payload: bytes
    expires_at: int | None = None
    """Instant after which the datagram is no longer handed out, as in `MessageAccepted`."""


@dataclass(frozen=True, slots=True)
class DatagramHanded:
    """An endpoint got a datagram."""

    at: int
    subscription: SubscriptionId
    message_id: str
    payload: bytes


@dataclass(frozen=True, slots=True)
class SettledAt:
    """The origin says that all servers below the target set have a message in their logs."""

    at: int
    message_id: str
    mailboxes: int
    """Number of mailboxes that get it, as the origin says."""


@dataclass(frozen=True, slots=True)
class DeadLettered:
    """A server gives a message up, for some or all of its members, with a reason."""

    at: int
    message_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class MailboxBegins:
    """A server keeps the messages for a process from now on. A repetition while the mailbox is open has no effect."""

    at: int
    server: ServerId
    process: NodeId
    mailbox: int


@dataclass(frozen=True, slots=True)
class MailboxEnds:
    """A server keeps no more messages for a process. The subscriptions of the mailbox end."""

    at: int
    server: ServerId
    process: NodeId
    mailbox: int
    unread: int = 0
    """Lower bound of the number of its messages that some subscription had not acknowledged."""
    counted: int = 0
    """Number of these messages that the server counts as lost."""


@dataclass(frozen=True, slots=True)
class MembershipChanged:
    """The process of a mailbox came below a target set, or left it, in the graph of the mailbox's server.

    A membership is recorded before the first message to the target set is accepted, even if it is negative, and at each
    change. A process without a record is not below the target set. A repetition without a change has no effect.
    """

    at: int
    server: ServerId
    process: NodeId
    targets: TargetSet
    is_below: bool
    is_certain: bool = True
    """True if the homes of all groups on some path to the process know the arcs of that path too.

    An update is applied at one server after another. Until its caller is told that it is done, some servers may not
    have heard of it.
    """


@dataclass(frozen=True, slots=True)
class StreamBegan:
    """An endpoint listens on a subscription, and takes over from the stream that was open there before."""

    at: int
    subscription: SubscriptionId
    stream: int
    """Number that no other stream of the subscription has."""
    sought: Position | None = None
    """Position behind which the endpoint asked to go on, or the end of the log for a new subscription that begins now.

    The subscription then stands there, as if all through it were acknowledged and nothing behind it. A position that
    was acknowledged before is not recorded as sought. None: the stream goes on behind the acknowledged position, or
    begins with the oldest message.
    """
    wanted: Filter = EVERYTHING
    """Filter of the endpoint. Messages that do not pass are not for this endpoint."""


@dataclass(frozen=True, slots=True)
class StreamEnded:
    """A stream ended, by either side."""

    at: int
    subscription: SubscriptionId
    stream: int


@dataclass(frozen=True, slots=True)
class MessageHanded:
    """An endpoint got a message."""

    at: int
    subscription: SubscriptionId
    stream: int
    position: Position
    message_id: str
    payload: bytes
    is_late: bool = False


@dataclass(frozen=True, slots=True)
class Logged:
    """A message for a foreign process is durable in the log of a server that serves it."""

    at: int
    server: ServerId
    process: NodeId
    message_id: str
    readers: tuple[NodeId, ...]
    """Readers under which the process is recorded, at any server: itself, and one for each gateway that serves it."""
    is_late: bool = False
    """True if the message was logged behind a later message of its sequence."""


@dataclass(frozen=True, slots=True)
class FoundApart:
    """The origin says that members below the targets of a message may be behind suspended arcs."""

    at: int
    message_id: str


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The acknowledgement of a subscription through a position, or its beginning behind the position, is durable."""

    at: int
    subscription: SubscriptionId
    through: Position


@dataclass(frozen=True, slots=True)
class GapTold:
    """An endpoint is told of a gap: it cannot be handed the messages behind `after`, up to and including `through`."""

    at: int
    subscription: SubscriptionId
    stream: int
    after: Position
    through: Position


@dataclass(frozen=True, slots=True)
class Restarted:
    """A server stopped, in order or not, and began again from its own database.

    Only the loss of messages kept in memory is forgiven for it.
    """

    at: int
    server: ServerId


@dataclass(frozen=True, slots=True)
class WentBack:
    """A server began again from an older copy of its database.

    `simulation.history.timeline` lists what is forgiven for it.
    """

    at: int
    server: ServerId


@dataclass(frozen=True, slots=True)
class Sizes:
    """Number of items that a server holds: rows by kind, and lengths of queues."""

    at: int
    server: ServerId
    counts: Mapping[str, int]


Happening = (
    MessageAccepted
    | DatagramLetOut
    | DatagramHanded
    | SettledAt
    | DeadLettered
    | MailboxBegins
    | MailboxEnds
    | MembershipChanged
    | StreamBegan
    | StreamEnded
    | MessageHanded
    | Logged
    | FoundApart
    | Acknowledged
    | GapTold
    | Restarted
    | WentBack
    | Sizes
)


class History:
    """All recorded events of one run, in order."""

    def __init__(self) -> None:
        self._happenings: list[Happening] = []

    @classmethod
    def gathered(cls, happenings: Iterable[Happening]) -> History:
        """Merge the events that several observers recorded on one clock. Events of one instant keep their order."""
        history = cls()
        history._happenings = sorted(happenings, key=lambda happening: happening.at)
        return history

    def record(self, happening: Happening) -> None:
        """Add an event that happens now. No recorded event may be later."""
        assert not self._happenings or self._happenings[-1].at <= happening.at, f"an instant falls: {happening}"
        self._happenings.append(happening)

    def __iter__(self) -> Iterator[Happening]:
        return iter(self._happenings)

    def __len__(self) -> int:
        return len(self._happenings)
