"""Input and output of `ServerCore.step`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from namegraph.model.audit_chain import Checkpoint, Fact
from namegraph.model.changes import NO_ORIGIN, Origin
from namegraph.model.group_details import GroupDetails
from namegraph.model.names import NodeId, ServerId, Subnet
from namegraph.model.operations import Composite, Operation
from namegraph.model.outcomes import Outcome
from namegraph.model.priorities import Priority
from namegraph.model.protocol_versions import PROTOCOL_VERSION
from namegraph.model.rows import Records, RequestId
from namegraph.rights.callers import CallerFacts


@dataclass(frozen=True, slots=True)
class UpdateCommand:
    """Command of a client: carry out these operations as one atomic update.

    `ticket` comes back in the reply. `deadline` is on the clock of `step`'s `now`, in seconds. None: no deadline.
    """

    ticket: int
    request_id: RequestId
    operations: tuple[Operation, ...]
    deadline: float | None = None
    reports_control: bool = False
    """True if the outcome must report nodes that became controlled or released, at the cost of a look at all affected
    nodes."""
    origin: Origin = NO_ORIGIN
    composite: Composite | None = None
    """Request that stands in place of `operations`, which are then empty."""
    elsewhere: tuple[NodeId, ...] = ()
    """Groups at other servers that a foreign process leaves (`LeaveEverywhere`)."""
    details: Mapping[NodeId, GroupDetails] = field(default_factory=dict)
    """Details of groups of this server that the update creates. They are kept in the step that decides the update."""
    caller: CallerFacts | None = None
    """Caller of the client's call. None for an anonymous one. A server without a policy of its own ignores it."""


@dataclass(frozen=True, slots=True)
class ImportCommand:
    """Command of a client: import a whole graph, in columns, as one atomic update.

    `names` are canonical and distinct. Arc i goes from names[parents[i]] to names[children[i]]. kinds[i] is 1 for a
    group and 2 for a process. `groups` index names to create if missing; parents and children of kind group are
    created too. Arcs that exist, or come twice, are counted and skipped.
    """

    ticket: int
    request_id: RequestId
    names: Sequence[NodeId]
    parents: Sequence[int]
    children: Sequence[int]
    kinds: bytes
    groups: Sequence[int]
    deadline: float | None = None
    origin: Origin = NO_ORIGIN
    caller: CallerFacts | None = None


@dataclass(frozen=True, slots=True)
class SetDetails:
    """Command of a client: change details of groups of this server, all of them or none.

    The command is no update: no other server takes part, and it has no place in the order of updates.
    """

    ticket: int
    request_id: RequestId
    changes: Mapping[NodeId, Mapping[str, str]]
    """Valid new details of each group, by field. A detail that is missing stays; an empty text removes it."""
    deadline: float | None = None
    if_none: bool = False
    """True if only groups without details are changed. Groups that do not exist are then left out, too."""
    origin: Origin = NO_ORIGIN
    caller: CallerFacts | None = None


@dataclass(frozen=True, slots=True)
class ReadCommand:
    """Command of a client: return the members of a group as of one point in the order of updates."""

    ticket: int
    group: NodeId
    deadline: float | None = None


@dataclass(frozen=True, slots=True)
class CutCommand:
    """Command of a client: let the states of all servers be read as of one instant, under this name."""

    ticket: int
    name: str
    deadline: float | None = None


@dataclass(frozen=True, slots=True)
class AddPeer:
    """Command of an operator: set the address of a subnet's server, in place of any earlier address."""

    ticket: int
    subnet: Subnet
    address: str
    origin: Origin = NO_ORIGIN
    trust: str = ""
    """Authorities that may vouch for the server, kept unread. Empty to keep those that were given before."""


@dataclass(frozen=True, slots=True)
class RemovePeer:
    """Command of an operator: remove a subnet from the table. The subnet has no owner any more."""

    ticket: int
    subnet: Subnet
    origin: Origin = NO_ORIGIN


@dataclass(frozen=True, slots=True)
class ConfigurePeer:
    """Command from the configuration, read again: set the address of a subnet's server, or remove the subnet.

    The configuration takes precedence over `AddPeer`. A subnet that the configuration no longer names, and that is
    in use here, stays in the table as if `AddPeer` had named it.
    """

    ticket: int
    subnet: Subnet
    address: str | None
    """Address of the server. None if the configuration does not name the subnet."""


@dataclass(frozen=True, slots=True)
class RetirePeer:
    """Command of an operator: leave the arcs to nodes of a subnet, because its server is gone for good.

    One command leaves a limited number of arcs (`RETIRED_AT_ONCE`). Repeat it until none is left, then send
    `RemovePeer`.
    """

    ticket: int
    subnet: Subnet
    deadline: float | None = None


class Lane(IntEnum):
    """One of the two numbered channels from one server to another. Each counts from 1 by itself."""

    LETTERS = 0
    """Letters of the update protocol, which go before posts."""
    POST = 1
    """Messages to groups: parcels, and what servers tell one another about them."""


POST_BYTES_LIMIT = 2 * 1024 * 1024
"""Largest size of one letter of the lane `POST`: twice that of the largest possible message with its names.

Other servers refuse larger ones. Each is held in memory whole, at both ends, until it is durable.
"""


@dataclass(frozen=True, slots=True)
class PeerMessage:
    """An encoded message of another server. `number` is its place on the channel from that server to this one."""

    sender: ServerId
    number: int
    encoded: bytes
    lane: Lane = Lane.LETTERS
    received: int = 0
    """Number through which the sender has received the letters to it, as in `PeerReceived`. 0 if not told."""


@dataclass(frozen=True, slots=True)
class PeerPosts:
    """Posts that arrived together, each handled as if alone, in this order. They share one step, because a step costs
    as much as taking several posts."""

    posts: tuple[PeerMessage, ...]


@dataclass(frozen=True, slots=True)
class PeerReceived:
    """Another server has made durable all letters to it through this number, so they are not sent again."""

    peer: ServerId
    through: int
    lane: Lane = Lane.LETTERS


@dataclass(frozen=True, slots=True)
class PeerMet:
    """A server introduced itself as the owner of these subnets."""

    peer: ServerId
    subnets: tuple[Subnet, ...]
    version: int = PROTOCOL_VERSION
    """Version of the protocol that is spoken with this server."""


@dataclass(frozen=True, slots=True)
class PeerLeaving:
    """Another server will be lost soon. Updates under way go on; new ones that need it are refused."""

    server: ServerId
    why: str
    """Reason, in one line."""


@dataclass(frozen=True, slots=True)
class PeerLost:
    """A server is out of reach. Undecided updates do not wait for it."""

    peer: ServerId
    why: str


@dataclass(frozen=True, slots=True)
class Restored:
    """This server's database is an older copy of itself, as other servers' knowledge of it shows."""

    incarnation: int
    """Random number, larger than the number of updates that can be lost. The server's counters leap by it."""


@dataclass(frozen=True, slots=True)
class PeerRestored:
    """Another server goes on from an older copy of its database. Channels begin again, and it is lost until met."""

    peer: ServerId
    incarnation: int


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """An event for the audit log."""

    kind: str
    facts: Mapping[str, Fact]
    origin: Origin = NO_ORIGIN
    decision: str = ""
    rule: str = ""


@dataclass(frozen=True, slots=True)
class NoteEvents:
    """Events outside the core, to be written to the audit log in this order."""

    entries: tuple[AuditEntry, ...]


@dataclass(frozen=True, slots=True)
class KeepCheckpoint:
    """A checkpoint of this server's audit log was made and signed. Rows that are older than `forget_before` go."""

    checkpoint: Checkpoint
    forget_before: int = 0
    """Milliseconds since 1970. 0: no row goes because of its age."""


@dataclass(frozen=True, slots=True)
class CheckpointCame:
    """Another server told the newest checkpoint of its audit log."""

    peer: ServerId
    checkpoint: Checkpoint


@dataclass(frozen=True, slots=True)
class KeepAccess:
    """Rows about callers changed, such as API keys. They become durable together with an entry of the audit log."""

    rows: Mapping[str, bytes | None]
    """New values by key. None deletes a row."""
    entry: AuditEntry | None = None
    """None for a change that the audit log does not tell."""


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed: a deadline of the core may have come."""

    is_deaf: bool = False
    """True if letters of other servers wait outside the core. The time until the next tick does not count against
    their senders."""


Write = UpdateCommand | ImportCommand | SetDetails
"""Commands that a request id names."""

Command = Write | ReadCommand | CutCommand | AddPeer | RemovePeer | ConfigurePeer | RetirePeer
"""Events that are answered by a reply of the same ticket."""

Said = PeerMessage | PeerPosts | PeerReceived
"""Events that another server sends on one of the channels."""

TurningEvent = Command | PeerMessage | PeerMet | PeerLeaving | PeerLost | Restored | PeerRestored | Tick
"""Events after which the turn of an update, or of a cut, may have come."""

AuditEvent = NoteEvents | KeepCheckpoint | CheckpointCame | KeepAccess
"""Events that concern no names: the audit log, and rows about callers."""

Event = TurningEvent | Said | AuditEvent


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to the command that carried this ticket."""

    ticket: int
    outcome: Outcome
    place: Priority | None = None
    """Place of the outcome in the order of updates: a commit at this final priority, a refusal at it or right after
    it.

    None if the update was not ordered.
    """
    is_confirmed: bool = False
    """True if other servers have acted on the outcome. The outcome was durable before this step, so the reply need not
    wait for the step."""


class Cut(NamedTuple):
    """The state after this step is that of a cut over all servers."""

    name: str
    """Name that the client chose."""
    update: str
    """The update that made it."""


class PeerLetter(NamedTuple):
    """An encoded message and its place, from 1, on the channel to its receiver."""

    receiver: ServerId
    number: int
    encoded: bytes
    lane: Lane = Lane.LETTERS


@dataclass(frozen=True, slots=True)
class Effects:
    """Actions of the shell after a step, in this order: make `records` durable, send the messages, then the replies."""

    records: Records
    replies: list[Reply] = field(default_factory=list)
    messages: list[PeerLetter] = field(default_factory=list)
    """Messages to other servers, in order."""
    cuts: list[Cut] = field(default_factory=list)
