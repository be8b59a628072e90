"""What goes into `ServerCore.step` and what comes out of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from namegraph.model.changes import NO_ORIGIN, Origin
from namegraph.model.names import NodeId, ServerId, Subnet
from namegraph.model.operations import Composite, Operation
from namegraph.model.outcomes import Outcome
from namegraph.model.priorities import Priority
from namegraph.model.protocol_versions import PROTOCOL_VERSION
from namegraph.model.rows import Records, RequestId


@dataclass(frozen=True, slots=True)
class UpdateCommand:
    """A client asks for these operations as one atomic update.

    `ticket` comes back in the reply. `deadline` is on the clock of `step`'s `now`, in seconds; None waits for ever.
    """

    ticket: int
    request_id: RequestId
    operations: tuple[Operation, ...]
    deadline: float | None = None
    reports_control: bool = False
    """Whether the outcome is to say what became controlled or released: that costs a look at all that is affected."""
    origin: Origin = NO_ORIGIN
    composite: Composite | None = None
    """The request that stands in place of `operations`, which are then empty."""
    elsewhere: tuple[NodeId, ...] = ()
    """Groups at other servers that a foreign process leaves (`LeaveEverywhere`)."""


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
    origin: Origin = NO_ORIGIN


@dataclass(frozen=True, slots=True)
class ReadCommand:
    """A client asks for the members of a group as of one point in the order of updates."""

    ticket: int
    group: NodeId
    deadline: float | None = None


@dataclass(frozen=True, slots=True)
class CutCommand:
    """A client asks all servers to let their states be read as of one instant, under this name."""

    ticket: int
    name: str
    deadline: float | None = None


@dataclass(frozen=True, slots=True)
class AddPeer:
    """An operator says where the server of a subnet is reached; replaces what was said before."""

    ticket: int
    subnet: Subnet
    address: str


@dataclass(frozen=True, slots=True)
class RemovePeer:
    """An operator takes a subnet out of the table: it has no owner any more."""

    ticket: int
    subnet: Subnet


@dataclass(frozen=True, slots=True)
class ConfigurePeer:
    """The configuration, read again, says where the server of a subnet is reached, or names the subnet no longer.

    The configuration wins over `AddPeer`. A subnet that it names no longer, and that is in use here, stays in the table
    as if `AddPeer` had named it.
    """

    ticket: int
    subnet: Subnet
    address: str | None
    """None: the configuration does not name the subnet."""


@dataclass(frozen=True, slots=True)
class RetirePeer:
    """An operator says that the server of a subnet is gone for good: leave the arcs between its nodes and this server.

    At most so many at once; asked for again, it leaves more, until none is there. `RemovePeer` comes after that.
    """

    ticket: int
    subnet: Subnet
    deadline: float | None = None


class Lane(IntEnum):
    """Which of the two numbered channels from one server to another; each counts from 1 by itself."""

    LETTERS = 0
    """Of the update protocol. They go before the others."""
    POST = 1
    """Of messages to groups: parcels, and what servers tell one another of them."""


POST_BYTES_LIMIT = 2 * 1024 * 1024
"""Of one letter of the lane `POST`: a parcel of the largest message that can be, and what names it, twice over.

Other servers take no larger one. Each is held in memory whole, at both ends, until it is durable.
"""


@dataclass(frozen=True, slots=True)
class PeerMessage:
    """A message of another server, encoded. `number` is its place on the channel from that server to this one."""

    sender: ServerId
    number: int
    encoded: bytes
    lane: Lane = Lane.LETTERS
    received: int = 0
    """Number through which the sender has received the letters to it, as `PeerReceived` says; 0: not said."""


@dataclass(frozen=True, slots=True)
class PeerPosts:
    """Posts that came together, each as if alone, in this order: one step costs as much as taking several."""

    posts: tuple[PeerMessage, ...]


@dataclass(frozen=True, slots=True)
class PeerReceived:
    """Another server has made durable what it was sent, through this number: none of it is sent again."""

    peer: ServerId
    through: int
    lane: Lane = Lane.LETTERS


@dataclass(frozen=True, slots=True)
class PeerMet:
    """A server introduced itself as the owner of these subnets."""

    peer: ServerId
    subnets: tuple[Subnet, ...]
    version: int = PROTOCOL_VERSION
    """Of the protocol, as it is spoken with this server."""


@dataclass(frozen=True, slots=True)
class PeerLeaving:
    """Another server will be lost soon: updates under way go on, new ones that need it are refused."""

    server: ServerId
    why: str
    """In one line."""


@dataclass(frozen=True, slots=True)
class PeerLost:
    """A server is out of reach: updates that are not decided do not wait for it."""

    peer: ServerId
    why: str


@dataclass(frozen=True, slots=True)
class Restored:
    """This server's database is an older copy of itself: what other servers know of it shows that."""

    incarnation: int
    """Drawn by chance, and larger than the number of updates that can be lost: the server's counters leap by it."""


@dataclass(frozen=True, slots=True)
class PeerRestored:
    """Another server goes on from an older copy of its database: channels begin again, and it is lost until met."""

    peer: ServerId
    incarnation: int


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed: a deadline of the core may have come."""


Command = UpdateCommand | ImportCommand | ReadCommand | CutCommand | AddPeer | RemovePeer | ConfigurePeer | RetirePeer
"""What is answered by a reply of the same ticket."""

Said = PeerMessage | PeerPosts | PeerReceived
"""What another server says on one of the channels."""

Event = Command | Said | PeerMet | PeerLeaving | PeerLost | Restored | PeerRestored | Tick


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to the command that carried this ticket."""

    ticket: int
    outcome: Outcome
    place: Priority | None = None
    """Where in the one order of updates it was decided: a commit at this final priority, a refusal at it or right
    after it. None where it was not ordered."""
    is_confirmed: bool = False
    """Other servers have acted on the outcome, so it was durable before this step: the reply need not wait for it."""


class Cut(NamedTuple):
    """The state after this step is that of a cut over all servers."""

    name: str
    """As the client chose it."""
    update: str
    """The update that made it."""


class PeerLetter(NamedTuple):
    """An encoded message and its place, from 1, on the channel to the server it is for."""

    receiver: ServerId
    number: int
    encoded: bytes
    lane: Lane = Lane.LETTERS


@dataclass(frozen=True, slots=True)
class Effects:
    """What the shell does after a step, in this order: make `records` durable, send the messages, then the replies."""

    records: Records
    replies: list[Reply] = field(default_factory=list)
    messages: list[PeerLetter] = field(default_factory=list)
    """In order."""
    cuts: list[Cut] = field(default_factory=list)
