"""What goes into `ServerCore.step` and what comes out of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, StrEnum

from namegraph.messages import Message
from namegraph.names import NodeId, ServerId
from namegraph.priorities import Priority
from namegraph.records import Records, RequestId
from namegraph.refusals import Refusal


class ChildKind(Enum):
    """What a client says the child of an arc is; AUTO: a group if one of that id exists, else a process."""

    AUTO = 0
    GROUP = 1
    PROCESS = 2


@dataclass(frozen=True, slots=True)
class CreateGroup:
    """Make a group that has no members and is in no group."""

    group: NodeId


@dataclass(frozen=True, slots=True)
class DeleteGroup:
    """Remove a group; `force` leaves all its arcs first."""

    group: NodeId
    force: bool = False


@dataclass(frozen=True, slots=True)
class JoinArc:
    """Add the arc parent -> child."""

    parent: NodeId
    child: NodeId
    kind: ChildKind = ChildKind.AUTO
    cost: int = 0


@dataclass(frozen=True, slots=True)
class LeaveArc:
    """Remove the arc parent -> child."""

    parent: NodeId
    child: NodeId
    kind: ChildKind = ChildKind.AUTO


Operation = CreateGroup | DeleteGroup | JoinArc | LeaveArc


@dataclass(frozen=True, slots=True)
class UpdateCommand:
    """A client asks for these operations as one atomic update.

    `ticket` comes back in the reply. `deadline` is on the clock of `step`'s `now`, in seconds; None waits for ever.
    """

    ticket: int
    request_id: RequestId
    operations: tuple[Operation, ...]
    deadline: float | None = None


@dataclass(frozen=True, slots=True)
class ImportCommand:
    """A client brings a whole graph, in columns, as one atomic update.

    `names` are canonical and distinct. Arc i goes from names[parents[i]] to names[children[i]]; kinds[i] is 1 for a
    group and 2 for a process. `groups` index names to create where missing; so are all parents and children of kind
    group. Arcs that exist, or come twice, are counted and skipped.
    """

    ticket: int
    request_id: RequestId
    names: Sequence[NodeId]
    parents: Sequence[int]
    children: Sequence[int]
    kinds: bytes
    groups: Sequence[int]
    deadline: float | None = None


@dataclass(frozen=True, slots=True)
class PeerMessage:
    """A message of another server. Those of one sender come in the order in which they were sent."""

    sender: ServerId
    message: Message


Event = UpdateCommand | ImportCommand | PeerMessage


class EffectKind(StrEnum):
    """What an update did to the internal group view."""

    FORMED = "formed"
    GROWN = "grown"
    CHANGED = "changed"
    BROKEN = "broken"
    CONTROLLED = "controlled"
    RELEASED = "released"


@dataclass(frozen=True, slots=True)
class GraphEffect:
    """One thing an update did: ids sorted, and the servers that own them, sorted."""

    kind: EffectKind
    groups: tuple[NodeId, ...]
    servers: tuple[ServerId, ...]


@dataclass(frozen=True, slots=True)
class ImportCounts:
    """What an import did."""

    arcs: int
    groups_created: int
    already_there: int


@dataclass(frozen=True, slots=True)
class Committed:
    """The update is part of the graph. `counts` is set for an import alone."""

    revision: str
    effects: tuple[GraphEffect, ...] = ()
    counts: ImportCounts | None = None


Outcome = Committed | Refusal


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to the command that carried this ticket."""

    ticket: int
    outcome: Outcome
    place: Priority | None = None
    """Where in the one order of updates it was decided: a commit at this final priority, a refusal at it or right
    after it. None where it was not ordered."""


@dataclass(frozen=True, slots=True)
class Effects:
    """What the shell does after a step, in this order: make `records` durable, send the messages, then the replies."""

    records: Records
    replies: list[Reply] = field(default_factory=list)
    messages: list[tuple[ServerId, Message]] = field(default_factory=list)
    """(server to send to, message), in order."""
