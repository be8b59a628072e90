"""Happenings in a run of servers, senders and listeners, as the observer of the run records them.

`simulation.history.properties` judges them. Simulator, chaos judge and laboratory record the same things. An instant,
`at`, is an integer on one clock of the observer, in any unit; it never falls. Happenings with the same instant are in
the order in which they were recorded.

Where a watcher cannot see the very instant, these choices accuse nobody who is innocent: `Accepted` not later than the
message became durable at its origin, `SettledAt` not earlier than it settled, `StreamEnded` not later than the stream
broke. `Acknowledged` comes before the streams that began behind it, and not before others: who does not see a database
knows it from where the next stream begins.
Source: delivery.md section 2.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from delivery.model.words import EVERYTHING, Filter, Kept, Position
from namegraph import NodeId, ServerId, TargetSet


class SubscriptionId(NamedTuple):
    """A subscription of the mailbox that a process has at one server.

    What is kept in memory has places of its own. So each subscription is two here.
    """

    server: ServerId
    process: NodeId
    name: str
    kept: Kept = Kept.DURABLE

    def __str__(self) -> str:
        return f"{self.process}/{self.name}@{self.server}{' in memory' if self.kept is Kept.MEMORY else ''}"


@dataclass(frozen=True, slots=True)
class Accepted:
    """A message is durable at its origin, whether or not its sender was told; a repeated one is not recorded again.

    One that is kept in memory is accepted once its sender is told.
    """

    at: int
    message_id: str
    origin: ServerId
    sequence: str
    """A key that names one sequence: origin, target set, quality, how often the origin went back. Of what is kept in
    memory: and the start of the origin."""
    serial: int
    """In the sequence, rising by 1."""
    targets: TargetSet
    payload: bytes
    sender: str = ""
    number: int = 0
    """The sender's own; 0 where nobody numbers."""
    expires_at: int | None = None
    """The instant after which it is handed to nobody; None: it has no deadline."""
    kept: Kept = Kept.DURABLE
    """As its sender was told."""


@dataclass(frozen=True, slots=True)
class DatagramSent:
    """A datagram was let out: nobody is owed it."""

    at: int
    message_id: str
    targets: TargetSet
    payload: bytes
    expires_at: int | None = None
    """As of `Accepted`."""


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
    """How many get it, as the origin says."""


@dataclass(frozen=True, slots=True)
class DeadLettered:
    """A server gives a message up, for all or some of those it was for, and says why."""

    at: int
    message_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class MailboxOpened:
    """From now on a server keeps what reaches a process. Repeated while it is open, it says nothing new."""

    at: int
    server: ServerId
    process: NodeId
    mailbox: int


@dataclass(frozen=True, slots=True)
class MailboxClosed:
    """A server keeps nothing more for a process; the subscriptions of the mailbox end."""

    at: int
    server: ServerId
    process: NodeId
    mailbox: int
    unread: int = 0
    """How many messages it had that not all of them had acknowledged, at least."""
    counted: int = 0
    """How many of these the server counts as lost."""


@dataclass(frozen=True, slots=True)
class Membership:
    """In the graph of a mailbox's server, the process is now below a target set, or is not any more.

    One is recorded before the first message to the target set is accepted, if only to say no, and one at each change:
    who has none is not below. Repeated without a change, it says nothing new.
    """

    at: int
    server: ServerId
    process: NodeId
    targets: TargetSet
    is_below: bool
    is_certain: bool = True
    """Whether the homes of all groups on some way to it know the arcs of that way, too. An update is applied at one
    server after another: until its caller is told that it is done, some servers may not have heard of it."""


@dataclass(frozen=True, slots=True)
class StreamBegan:
    """An endpoint listens on a subscription; the stream that was open there before is taken over."""

    at: int
    subscription: SubscriptionId
    stream: int
    """A number that no other stream of the subscription has."""
    sought: Position | None = None
    """Where the endpoint asked to go on behind, or where the log ends for a new subscription that begins now, unless
    that was acknowledged before. The subscription stands there from then on, as if all through it were acknowledged and
    nothing behind it. None: it goes on behind what is acknowledged, or begins with the oldest message."""
    wanted: Filter = EVERYTHING
    """What else comes is not for this endpoint."""


@dataclass(frozen=True, slots=True)
class StreamEnded:
    """Nothing more comes on a stream, whoever ended it."""

    at: int
    subscription: SubscriptionId
    stream: int


@dataclass(frozen=True, slots=True)
class Handed:
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
    """A server serves a process that no server owns: a message is in its log for it, durably."""

    at: int
    server: ServerId
    process: NodeId
    message_id: str
    readers: tuple[NodeId, ...]
    """As whom it is read, at any server: the process, and whoever has a history for each gateway that serves it."""
    is_late: bool = False
    """Whether it was logged behind what is later in its sequence."""


@dataclass(frozen=True, slots=True)
class FoundApart:
    """The origin says that something below the targets of a message may be behind suspended arcs."""

    at: int
    message_id: str


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """It is durable that a subscription has handled all through a position, or begins behind it."""

    at: int
    subscription: SubscriptionId
    through: Position


@dataclass(frozen=True, slots=True)
class GapTold:
    """An endpoint is told that it cannot be handed what lies behind `after`, as far as `through`."""

    at: int
    subscription: SubscriptionId
    stream: int
    after: Position
    through: Position


@dataclass(frozen=True, slots=True)
class Restarted:
    """A server stopped, in order or not, and began again from its own database.

    Nothing is forgiven for it but the loss of what is kept in memory.
    """

    at: int
    server: ServerId


@dataclass(frozen=True, slots=True)
class WentBack:
    """A server began again from an older copy of its database.

    `simulation.history.timeline` says what is forgiven for it.
    """

    at: int
    server: ServerId


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much a server holds: rows by kind, and lengths of queues."""

    at: int
    server: ServerId
    counts: Mapping[str, int]


Happening = (
    Accepted
    | DatagramSent
    | DatagramHanded
    | SettledAt
    | DeadLettered
    | MailboxOpened
    | MailboxClosed
    | Membership
    | StreamBegan
    | StreamEnded
    | Handed
    | Logged
    | FoundApart
    | Acknowledged
    | GapTold
    | Restarted
    | WentBack
    | Sizes
)


class History:
    """All that was recorded of one run, in order."""

    def __init__(self) -> None:
        self._happenings: list[Happening] = []

    @classmethod
    def gathered(cls, happenings: Iterable[Happening]) -> History:
        """What several watchers recorded on one clock; what has the same instant keeps the order it is given in."""
        history = cls()
        history._happenings = sorted(happenings, key=lambda happening: happening.at)
        return history

    def record(self, happening: Happening) -> None:
        """Add what happens now: nothing that was recorded before happened later."""
        assert not self._happenings or self._happenings[-1].at <= happening.at, f"an instant falls: {happening}"
        self._happenings.append(happening)

    def __iter__(self) -> Iterator[Happening]:
        return iter(self._happenings)

    def __len__(self) -> int:
        return len(self._happenings)
