"""What the client returns: frozen values whose fields are the keys of the JSON that the command line prints.

Lists are sorted tuples. `revision` is opaque: hand it to a later read as `at_least_revision`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from shadowtree.errors import Unavailable
from shadowtree.updates import Target
from shadowtree.vocabulary import (
    Address,
    ArcState,
    ChangeKind,
    EffectKind,
    GroupId,
    MemberId,
    NodeKind,
    Revision,
    SubnetName,
)


@dataclass(frozen=True, slots=True)
class Effect:
    """One thing that an update did to what resolution walks.

    `formed`, `grown`, `changed`, `broken`: a virtual node (the groups of one loop, or of loops that share groups).
    `controlled`, `released`: groups that began or ceased to be reached in several ways, only one of which delivers.
    These are told where the caller asks for them.
    """

    kind: EffectKind
    groups: tuple[GroupId, ...]
    servers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """The answer to a write."""

    revision: Revision
    effects: tuple[Effect, ...] = ()
    unchanged: tuple[int, ...] = ()
    """Places, from 1, of the operations with `if_missing` or `if_there` for which there was nothing to do."""


@dataclass(frozen=True, slots=True)
class LeftGroups:
    """Result of `leave_everywhere`: a `Change`, and the groups that the member was a direct member of."""

    member: MemberId
    left: tuple[GroupId, ...]
    effects: tuple[Effect, ...]
    revision: Revision


@dataclass(frozen=True, slots=True)
class HiddenGroup:
    """A group whose members the caller may not see: how many there are."""

    group: GroupId
    count: int


@dataclass(frozen=True, slots=True)
class ServerCount:
    """How many processes a server has that are not named, and the first group that was asked for that has them."""

    server: str
    group: GroupId
    count: int


@dataclass(frozen=True, slots=True)
class WalkStep:
    """One arc that the walk crossed. A shadow arc is crossed either way, so `source` may be its child."""

    source: GroupId
    target: MemberId
    kind: NodeKind
    state: ArcState


@dataclass(frozen=True, slots=True)
class MemberOf:
    """Which group that was asked for is the first that has a member and does not except it."""

    member: MemberId
    group: GroupId


@dataclass(frozen=True, slots=True)
class Resolution:
    """Everybody in a group, or in several, each once.

    `groups` is empty unless it was asked for. Where direct members were asked for, there are no others. Where
    `unreachable` is not empty, these groups could not be entered: members may be missing, or be there though they are
    excepted; `why_unreachable` is for people. `walk`, in depth-first order, is there where it was asked for.

    Of several groups, or of one with exceptions, `targets` are what was asked for, and `group` is the first of them.
    """

    group: GroupId
    processes: tuple[MemberId, ...]
    groups: tuple[GroupId, ...]
    hidden: tuple[HiddenGroup, ...]
    unreachable: tuple[GroupId, ...]
    in_transition: bool
    revision: Revision
    walk: tuple[WalkStep, ...] = ()
    targets: tuple[Target, ...] = ()
    process_targets: tuple[int, ...] = ()
    """For each process the place of its first target, from 0; `members` names it."""
    group_targets: tuple[int, ...] = ()
    """The same for each group."""
    why_unreachable: tuple[str, ...] = ()
    counts: tuple[ServerCount, ...] = ()
    """Where some servers' processes were to be named alone: how many others there are."""
    elsewhere: tuple[MemberId, ...] = ()
    """The same: those of `processes` that other servers have as well; nobody owns them."""
    basis: str = ""
    """For `confirm`, which tells whether this still holds; empty where that cannot be told."""

    @property
    def members(self) -> tuple[MemberOf, ...]:
        """All processes and groups with the first target of each, sorted; empty where one group was asked for."""
        if not self.targets:
            return ()
        rows = zip((*self.processes, *self.groups), (*self.process_targets, *self.group_targets), strict=True)
        return tuple(MemberOf(member, self.targets[place].name) for member, place in sorted(rows))

    @property
    def is_complete(self) -> bool:
        """Whether nothing was out of reach and no update was under way."""
        return not self.unreachable and not self.in_transition


@dataclass(frozen=True, slots=True)
class Check:
    """Whether a member is in a group, directly or not; its truth value is `is_member`.

    `is_member` is None where a part out of reach could turn a "no" into a "yes"; `unreachable` names the servers (or
    subnets, of servers never met). `pathname` runs from the group to the
    member, each an immediate member of the one before; it is there where it was asked for and the answer is "yes".
    """

    group: GroupId
    member: MemberId
    is_member: bool | None
    pathname: tuple[MemberId, ...] = ()
    unreachable: tuple[str, ...] = ()
    revision: Revision = ""

    def __bool__(self) -> bool:
        if self.is_member is None:
            raise uncertain(self)
        return self.is_member


def uncertain(check: Check) -> Unavailable:
    """The error for a check that could not be answered; names the part out of reach."""
    return Unavailable(
        f"cannot tell whether {check.member} is in {check.group}: out of reach: {', '.join(check.unreachable)}",
        {
            "group": check.group,
            "member": check.member,
            "unreachable": "\n".join(check.unreachable),
            "revision": check.revision,
        },
    )


@dataclass(frozen=True, slots=True)
class Memberships:
    """Every group that a member is in, directly or not; or only directly, where that was asked for.

    Where `unreachable` is not empty, these servers (or subnets, of servers never met) may know of more.
    """

    member: MemberId
    groups: tuple[GroupId, ...]
    unreachable: tuple[str, ...]
    revision: Revision


@dataclass(frozen=True, slots=True)
class Spellings:
    """Names in use that equal `names` but for letter case, a tuple for each of `names`, which may be in it itself.

    Where `unreachable` is not empty, these servers (or subnets, of servers never met) may know of more.
    """

    names: tuple[MemberId, ...]
    groups: tuple[tuple[GroupId, ...], ...]
    """Spellings that are groups."""
    processes: tuple[tuple[MemberId, ...], ...]
    """Spellings of processes that are members of a group."""
    unreachable: tuple[str, ...]
    revision: Revision


@dataclass(frozen=True, slots=True)
class VirtualNode:
    """The groups of one loop, or of loops that share groups: each is a member of every other."""

    vnid: str
    components: tuple[GroupId, ...]


@dataclass(frozen=True, slots=True)
class Parent:
    """A group that a group is an immediate member of, and the state of the arc."""

    id: GroupId
    state: ArcState


@dataclass(frozen=True, slots=True)
class Child:
    """An immediate member of a group, and the state of the arc."""

    id: MemberId
    kind: NodeKind
    state: ArcState


@dataclass(frozen=True, slots=True)
class RdRecord:
    """For the arc parent -> child: what is first sent to one of `ancestors` must not cross it."""

    source: str
    sink: str
    parent: GroupId
    child: MemberId
    ancestors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """One group and its place in the graph.

    `home` is the server that owns it. `pathnames` lead from a root to it, over virtual nodes by their vnids; there
    can be very many, so they are cut off somewhere and `pathnames_truncated` says so. `rd_records` are those of its own
    arcs to its children; in the rare case that they are too many, `rd_records_truncated` says so. The records of arcs
    into the nodes of `unreachable` servers are missing.
    """

    group: GroupId
    home: str
    virtual_node: VirtualNode | None
    parents: tuple[Parent, ...]
    children: tuple[Child, ...]
    rd_records: tuple[RdRecord, ...]
    pathnames: tuple[tuple[str, ...], ...]
    pathnames_truncated: bool
    revision: Revision
    rd_records_truncated: bool = False
    unreachable: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupList:
    """Ids of groups, sorted; iterates over them.

    Where `unreachable` is not empty, the groups of these servers (or subnets, of servers never met) are missing.
    """

    groups: tuple[GroupId, ...]
    unreachable: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[GroupId]:
        return iter(self.groups)

    def __len__(self) -> int:
        return len(self.groups)

    def __contains__(self, group: object) -> bool:
        return group in self.groups


@dataclass(frozen=True, slots=True)
class SkippedLine:
    """A line of a file that was left out, and why."""

    line: int
    reason: str


@dataclass(frozen=True, slots=True)
class ImportSummary:
    """What an import did: arcs added, groups created, arcs that existed before, lines left out."""

    arcs: int
    groups_created: int
    already_there: int
    skipped: tuple[SkippedLine, ...]
    """The first thousand."""
    revision: Revision
    skipped_count: int = 0
    """Of all lines that were left out."""


@dataclass(frozen=True, slots=True)
class ExportSummary:
    """What was exported; of the servers in `unreachable` (or subnets, of servers never met) the groups are missing."""

    lines: int
    unreachable: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RecordedChange:
    """One thing that an update changed: a group, or a direct member of it."""

    kind: ChangeKind
    group: GroupId
    member: MemberId | None
    """Who joined or left."""
    member_kind: NodeKind | None


@dataclass(frozen=True, slots=True)
class RecordedUpdate:
    """What one update changed of the groups of one server, and where it came from."""

    revision: Revision
    told_at: str
    """When `server` was asked, on its clock: ``2026-03-01T08:30:00.000Z``; empty where it is not known."""
    caller: str
    """The address of who asked, as far as known; not authenticated."""
    server: str
    """The server that was asked; empty where servers did it by themselves, as when they met again."""
    request_id: str
    changes: tuple[RecordedChange, ...]
    """Groups first, then members that left, then those that joined; of the group that was asked for, or of all."""
    is_listed: bool
    """False: it changed more than 1,000 things, and only the counts are told, over all groups of that server."""
    created: int
    deleted: int
    joined: int
    left: int


@dataclass(frozen=True, slots=True)
class SuspendedArc:
    """An arc whose other end is out of reach."""

    parent: GroupId
    child: MemberId
    reason: str


@dataclass(frozen=True, slots=True)
class Peer:
    """Another name server, as the one that was asked sees it."""

    address: Address
    subnets: tuple[SubnetName, ...]
    state: str


@dataclass(frozen=True, slots=True)
class PeerFault:
    """Something that no correct server does, and how often it was done since the server that was asked started."""

    kind: str
    count: int


@dataclass(frozen=True, slots=True)
class PeerState:
    """Another name server, as the one that was asked sees it, with what its operator may want to know.

    `server` is the name of the server that was met at the address; empty before that. `state` is ``connecting``,
    ``connected``, ``connected, but cannot be dialled at HOST:PORT; WHAT FOLLOWS``,
    ``connected, but stuck since WHEN: WHY``, ``refused: WHY``, ``silent since WHEN: WHY`` or
    ``stopped since WHEN: WHY``. `letters_waiting` counts what the other server has not confirmed yet.

    `life` is the status of the server: ``up``, ``one way`` (it dials, and no call reaches it), ``suspected``,
    ``restarting``, ``lost``, ``stopped`` or ``never met``; `why` says why it is suspected, lost or stopped. `phi`
    says how unlikely its silence is (-log10 of the chance that it still ends). It was last heard `last_heard_seconds`
    ago; None where nothing was heard since the server that was asked started. `round_trip_ms` is None where it was
    not measured. `via` is the name of the server through which the two talk, empty where they do directly or not at
    all; `relayed` counts what the server sent to others through the one that was asked.
    """

    address: Address
    subnets: tuple[SubnetName, ...]
    server: str
    state: str
    letters_waiting: int
    faults: tuple[PeerFault, ...]
    life: str
    why: str
    phi: float
    last_heard_seconds: float | None
    round_trip_ms: float | None
    via: str
    relayed: int
    version: str = ""
    """Version of its program, as last said; empty if it did not say, or was not met since the server started."""
    protocol_version: int = 0
    """Version that the two speak; 0 if they have not met since the server started."""
    called_at: str = ""
    """Address to which calls go, if it is not `address`: the server announced it, and answers there alone."""
    backlog_bytes: int = 0
    """Memory, at the server that was asked, of messages that this one has not confirmed."""
    stuck_seconds: float | None = None
    """Time for which it has been connected and has confirmed no message; None if it is not stuck."""


@dataclass(frozen=True, slots=True)
class UnknownServer:
    """A server that is not in the table of the one that was asked, though the servers `known_to` know it.

    What only that one knows is missing from answers, which name it as unreachable. `subnets` are what the others say.
    """

    server: str
    subnets: tuple[SubnetName, ...]
    known_to: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PeerList:
    """All other servers that a name server knows; iterates over them. `strangers`: refused ones.

    `unknown` are those that it should know, by what the others say. `memberships_ended`: how many were, where a server
    was removed that is gone for good. `server`, `version` and `protocol_version` are of the server that was asked.
    """

    peers: tuple[PeerState, ...]
    strangers: tuple[PeerFault, ...]
    unknown: tuple[UnknownServer, ...] = ()
    memberships_ended: int = 0
    server: str = ""
    version: str = ""
    protocol_version: int = 0

    def __iter__(self) -> Iterator[PeerState]:
        return iter(self.peers)

    def __len__(self) -> int:
        return len(self.peers)


@dataclass(frozen=True, slots=True)
class ParcelsPending:
    """A server that has not confirmed some parcels of messages, and how many."""

    server: str
    parcels: int


@dataclass(frozen=True, slots=True)
class Undelivered:
    """How many messages did not reach somebody, for one reason."""

    reason: str
    """``server removed``, ``expired``, ``refused``: kept as dead letters. ``no room``, ``overrun``, ``kept too
    long``: lost."""
    messages: int
    """Of the last two reasons, each counts once for every mailbox that lost it."""
    dead_letters: int
    """In how many of these they are kept; 0: they are lost."""


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """One name server: what it owns and how it is."""

    server: str
    subnets: tuple[SubnetName, ...]
    groups: int
    processes: int
    arcs: int
    virtual_nodes: int
    revision: Revision
    in_doubt: tuple[Revision, ...]
    suspended: tuple[SuspendedArc, ...]
    """At most 1,000 of them, first of all those that could not be joined."""
    peers: tuple[Peer, ...]
    database_failure: str
    """Why the database cannot be written, so that updates are refused; empty where it can."""
    view: tuple[str, ...]
    """The servers that agree on being within reach of one another; empty while none was ever lost to another."""
    tombstones: int = 0
    """Arcs that were left, and are remembered until no server can speak of them any more."""
    node_numbers: int = 0
    """Numbers that nodes have, those included that are free for new names: what memory and database grow by."""
    free_node_numbers: int = 0
    arcs_suspended: int = 0
    """How many are suspended, those included that are not listed."""
    mailboxes: int = 0
    """Processes for which it keeps messages."""
    log_entries: int = 0
    """Parcels in its log of messages."""
    log_bytes: int = 0
    parcels_unsettled: int = 0
    """Parcels that it accepted and that not all servers below have confirmed."""
    parcels_pending: tuple[ParcelsPending, ...] = ()
    """For which servers these wait, sorted."""
    messages_refused_by_rate: int = 0
    """Messages that it refused since its start because they came too fast."""
    datagrams_sent: int = 0
    """Since it started: copies of datagrams that left for other servers."""
    datagrams_handed: int = 0
    datagrams_dropped: int = 0
    """Copies and hand-overs that were dropped, since there was no room, or no way to the other server."""
    undelivered: tuple[Undelivered, ...] = ()
    """What did not reach somebody, by reason; reasons that there are none of are left out."""
    messages_queued: int = 0
    """Messages that wait here until the home of their first target is met again."""
    memory_entries: int = 0
    """Of messages that are kept in memory: parcels that it holds for listeners."""
    memory_bytes: int = 0
    memory_parcels_unsettled: int = 0
    """Parcels that it accepted in memory and that not all servers below have confirmed."""
    memory_parcels_lost: int = 0
    """Since it started: parcels in memory that were lost before they came here, as far as that is known."""
    version: str = ""
    """Version of its program; empty from a server that does not tell it."""
    protocol_version: int = 0
    """The newest version of the protocol between servers that it speaks; 0 from a server that does not tell it."""
    started: str = ""
    """When it started, on its clock: ``2026-03-01T08:30:00Z``; empty from a server that does not tell it."""
    uptime_seconds: float = 0.0
    """For how long it has run."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What was written of one server. `consistency`: ``cut``, one instant of all, or ``server``, one of its own."""

    server: str
    revision: Revision
    consistency: str
    folder: str
    nodes: int
    arcs: int
