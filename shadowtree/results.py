"""Results of the client: frozen values, whose fields are the keys of the JSON that the command line prints.

Lists are sorted tuples. `revision` is opaque: pass it to a later read as `at_least_revision`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

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
    """One effect of an update on the graph that resolution walks.

    `formed`, `grown`, `changed`, `broken`: a virtual node (the groups of one loop, or of loops that share groups).
    `controlled`, `released`: groups that began or ceased to be reached over several paths, only one of which delivers.
    The last two are reported only if the caller asks for them.
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
    """Places, from 1, of the operations with `if_missing` or `if_there` that changed nothing."""


@dataclass(frozen=True, slots=True)
class LeftGroups:
    """Result of `leave_everywhere`: a `Change`, and the groups that the member was a direct member of."""

    member: MemberId
    left: tuple[GroupId, ...]
    effects: tuple[Effect, ...]
    revision: Revision


@dataclass(frozen=True, slots=True)
class HiddenGroup:
    """A group whose members the caller may not see, and their number."""

    group: GroupId
    count: int


@dataclass(frozen=True, slots=True)
class ServerCount:
    """Number of a server's processes that are not named, for the first requested group that has them."""

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
    """The first requested group that has a member and does not except it."""

    member: MemberId
    group: GroupId


@dataclass(frozen=True, slots=True)
class Resolution:
    """All members of a group, or of several, each once.

    `groups` is empty unless it was asked for. A request for direct members returns no others. Groups in `unreachable`
    could not be entered: members may be missing, or be listed although they are excepted; `why_unreachable` is for
    people. `walk`, in depth-first order, is present if it was asked for.

    For several groups, or one with exceptions, `targets` are the requested targets, and `group` is the first of them.
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
    """For each group the place of its first target, from 0."""
    why_unreachable: tuple[str, ...] = ()
    counts: tuple[ServerCount, ...] = ()
    """Counts of the other processes, if only the processes of some servers were to be named."""
    elsewhere: tuple[MemberId, ...] = ()
    """If only some servers' processes were to be named: those of `processes` that other servers have as well.

    No server owns them.
    """
    basis: str = ""
    """Token for `confirm`, which tells whether this answer is still valid. Empty if that cannot be told."""

    @property
    def members(self) -> tuple[MemberOf, ...]:
        """All processes and groups with the first target of each, sorted. Empty if one group was asked for."""
        if not self.targets:
            return ()
        rows = zip((*self.processes, *self.groups), (*self.process_targets, *self.group_targets), strict=True)
        return tuple(MemberOf(member, self.targets[place].name) for member, place in sorted(rows))

    @property
    def is_complete(self) -> bool:
        """True if nothing was out of reach and no update was under way."""
        return not self.unreachable and not self.in_transition


@dataclass(frozen=True, slots=True)
class Check:
    """The membership of a member in a group, direct or not; its truth value is `is_member`.

    `is_member` is None if a part out of reach could turn a "no" into a "yes"; `unreachable` names the servers (or
    subnets, of servers never met). `pathname` runs from the group to the member; each name is an immediate member of
    the one before. It is present if it was asked for and the answer is "yes".
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
    """Return the error for a check that could not be answered, with the part out of reach."""
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
    """The groups of a member, direct or not; or only direct ones, if that was asked for.

    The servers in `unreachable` (or subnets, of servers never met) may know more groups.
    """

    member: MemberId
    groups: tuple[GroupId, ...]
    unreachable: tuple[str, ...]
    revision: Revision


@dataclass(frozen=True, slots=True)
class Spellings:
    """Names in use that equal `names` but for letter case.

    Each of `names` has a tuple, which may contain the name itself.

    The servers in `unreachable` (or subnets, of servers never met) may know more spellings.
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
    """Duplication-control record of the arc parent -> child.

    Messages and walks with an originator in `ancestors` must not cross the arc.
    """

    source: str
    sink: str
    parent: GroupId
    child: MemberId
    ancestors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """One group and its place in the graph.

    `home` is the server that owns the group. `pathnames` lead from a root to it, over virtual nodes by their vnids.
    There can be very many, so the list may be cut off; `pathnames_truncated` is then true. `rd_records` are those of
    the arcs to its own children. In the rare case that there are too many, `rd_records_truncated` is true. The records
    of arcs into the nodes of `unreachable` servers are missing. `description` is a text for people; empty if there is
    none.
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
    description: str = ""


@dataclass(frozen=True, slots=True)
class PolicyEntry:
    """Subjects that have one privilege of a group. Empty for nobody."""

    privilege: str
    subjects: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GroupPolicy:
    """Policy of a group: the subjects that have each privilege.

    `preset`: the preset that the policy was made from. `is_judged`: false if the server judges no callers, so that the
    policy is kept without effect.
    """

    group: GroupId
    preset: str
    privileges: tuple[PolicyEntry, ...]
    is_judged: bool

    def subjects(self, privilege: str) -> tuple[str, ...]:
        """Return the subjects that have a privilege. Empty for an unknown one."""
        return next((entry.subjects for entry in self.privileges if entry.privilege == privilege), ())


@dataclass(frozen=True, slots=True)
class AdoptedPolicy:
    """Number of groups that an update gave a policy, and the revision of that update."""

    groups: int
    revision: Revision


@dataclass(frozen=True, slots=True)
class GroupList:
    """Ids of groups, sorted; iterates over them.

    The groups of servers in `unreachable` (or subnets, of servers never met) are missing.
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
    """A line of a file that was left out, and the reason."""

    line: int
    reason: str


@dataclass(frozen=True, slots=True)
class ImportSummary:
    """Counts of an import: arcs added, groups created, arcs that existed before; and lines left out."""

    arcs: int
    groups_created: int
    already_there: int
    skipped: tuple[SkippedLine, ...]
    """The first thousand lines that were left out."""
    revision: Revision
    skipped_count: int = 0
    """Number of all lines that were left out."""


@dataclass(frozen=True, slots=True)
class ExportSummary:
    """Counts of an export. The groups of servers in `unreachable` (or subnets, of servers never met) are missing."""

    lines: int
    unreachable: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RecordedChange:
    """One change of an update: to a group, or to a direct member of it."""

    kind: ChangeKind
    group: GroupId
    member: MemberId | None
    """Member that joined or left."""
    member_kind: NodeKind | None


@dataclass(frozen=True, slots=True)
class RecordedUpdate:
    """The changes of one update to the groups of one server, and the origin of the update."""

    revision: Revision
    told_at: str
    """Time at which `server` was asked, on its clock: ``2026-03-01T08:30:00.000Z``. Empty if it is not known."""
    caller: str
    """Address of the caller, as far as known; not authenticated."""
    server: str
    """Server that was asked. Empty if servers made the change by themselves, as when they met again."""
    request_id: str
    changes: tuple[RecordedChange, ...]
    """Groups first, then members that left, then members that joined: of the requested group, or of all groups."""
    is_listed: bool
    """False if the update made more than 1,000 changes: only counts are reported, over all groups of the server."""
    created: int
    deleted: int
    joined: int
    left: int


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One row of the audit log of a server: an update of its groups, or another event."""

    number: int
    """Place of the row, from 1, without gaps."""
    counter: int
    revision: Revision
    """Revision of the update. Empty for another event."""
    request_id: str
    told_at: int
    """Time at which `server` was asked, on its clock, in milliseconds since 1970. 0 if it is not known."""
    caller: str
    """Address of the caller, as far as known."""
    server: str
    """Server that was asked."""
    changes: Any
    """Changes or facts, as JSON has them. ``{"undecodable": HEX}`` if the server's row is damaged."""
    kind: str
    """``update``, or the kind of the event."""
    principal: str
    how: str
    credential: str
    via: str
    decision: str
    """``allowed``, ``refused`` or empty."""
    rule: str
    previous: str
    """Hash of the row before this one, in hexadecimal. Empty in rows before the chain."""
    hash: str
    """Hash of this row, in hexadecimal. Empty in rows before the chain."""


@dataclass(frozen=True, slots=True)
class AuditExport:
    """A file of rows of the audit log of one server."""

    server: str
    rows: int
    first: int
    """Number of the first row. 0 if there is none."""
    last: int


@dataclass(frozen=True, slots=True)
class AuditCheckpoint:
    """State of the audit log of a server at one of its rows."""

    server: str
    """Server that wrote the log."""
    sequence: int
    """Number of the row."""
    hash: str
    """Hash of the row, in hexadecimal, as are key and signature."""
    at: int
    """Milliseconds since 1970 on the clock of that server."""
    before: int
    """Number of the row of that server's checkpoint before this one. 0 if there is none."""
    key: str
    """Ed25519 public key of that server. Empty if the checkpoint is not signed."""
    signature: str
    kept_by: str
    """Server that keeps the checkpoint."""


@dataclass(frozen=True, slots=True)
class AuditVerdict:
    """Result of the verification of a file of an audit log."""

    server: str
    is_whole: bool
    rows: int
    first: int
    """Number of the first row. 0 if there is none."""
    last: int
    before_chain: int
    """Number of rows before the chain, which no hash covers."""
    checkpoints: int
    """Number of checkpoints that fit a row of the file."""
    checkpoint_row: int
    """Number of the newest row that a checkpoint covers. 0 if none does."""
    wrong_row: int
    """Number of the first wrong row, or of the first missing one. 0 if the file is whole."""
    why: str
    """Fault of that row. Empty if the file is whole."""


@dataclass(frozen=True, slots=True)
class SuspendedArc:
    """An arc whose other end is out of reach."""

    parent: GroupId
    child: MemberId
    reason: str


@dataclass(frozen=True, slots=True)
class Peer:
    """Another name server, from the view of the server that was asked."""

    address: Address
    subnets: tuple[SubnetName, ...]
    state: str


@dataclass(frozen=True, slots=True)
class PeerFault:
    """An action that no correct server takes, and its count since the start of the server that was asked."""

    kind: str
    count: int


@dataclass(frozen=True, slots=True)
class PeerState:
    """Another name server, from the view of the server that was asked, with details for its operator.

    `server` is the name of the server that was met at the address; empty before that. `state` is ``connecting``,
    ``connected``, ``connected, but cannot be dialled at HOST:PORT; WHAT FOLLOWS``, ``connected, but stuck since WHEN:
    WHY``, ``refused: WHY``, ``silent since WHEN: WHY`` or ``stopped since WHEN: WHY``. `letters_waiting` counts the
    letters that the other server has not confirmed yet.

    `life` is the status of the server: ``up``, ``one way`` (it dials, and no call reaches it), ``suspected``,
    ``restarting``, ``lost``, ``stopped`` or ``never met``. `why` is the reason for suspected, lost or stopped. `phi` is
    the improbability of its silence (-log10 of the chance that the silence still ends). `last_heard_seconds` is the age
    of the last message; None if none came since the start of the server that was asked. `round_trip_ms` is None if it
    was not measured. `via` is the name of the server through which the two talk; empty if they talk directly or not at
    all. `relayed` counts the pieces (64 KiB at most) that the server sent to others through tunnels of the server that
    was asked, since the latter started.
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
    """Version of its program, as last reported; empty if not reported, or not met since the server started."""
    protocol_version: int = 0
    """Protocol version between the two; 0 if they have not met since the server started."""
    called_at: str = ""
    """Address for calls, if it is not `address`: the server announced it, and answers only there."""
    backlog_bytes: int = 0
    """Memory, at the server that was asked, of messages that the peer has not confirmed."""
    stuck_seconds: float | None = None
    """Time in seconds for which the peer has been connected and has confirmed no message; None if it is not stuck."""


@dataclass(frozen=True, slots=True)
class UnknownServer:
    """A server that is missing from the table of the server that was asked, though the servers `known_to` know it.

    Data that only this server has is missing from answers, which name it as unreachable. `subnets` come from the other
    servers.
    """

    server: str
    subnets: tuple[SubnetName, ...]
    known_to: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PeerList:
    """All other servers that a name server knows; iterates over them. `strangers`: refused connections.

    `unknown` are the servers that it should know, according to the others. `memberships_ended`: number of memberships
    ended by removing a server for good. `server`, `version` and `protocol_version` belong to the server that was asked.
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
    """A server that has not confirmed some parcels of messages, and their number."""

    server: str
    parcels: int


@dataclass(frozen=True, slots=True)
class Undelivered:
    """Number of messages that did not reach a recipient, for one reason."""

    reason: str
    """``server removed``, ``expired``, ``refused``: kept as dead letters.

    ``no room``, ``overrun``, ``kept too long``: lost.
    """
    messages: int
    """Number of messages. For the last two reasons, a message counts once for every mailbox that lost it."""
    dead_letters: int
    """Number of dead letters that keep them; 0 if they are lost."""


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """One name server: its data and its state."""

    server: str
    subnets: tuple[SubnetName, ...]
    groups: int
    processes: int
    arcs: int
    virtual_nodes: int
    revision: Revision
    in_doubt: tuple[Revision, ...]
    suspended: tuple[SuspendedArc, ...]
    """At most 1,000 suspended arcs. Arcs that could not be joined come first."""
    peers: tuple[Peer, ...]
    database_failure: str
    """Reason why the database cannot be written, so that updates are refused; empty if it can."""
    view: tuple[str, ...]
    """Servers that agree that they reach one another; empty while no server was ever lost to another."""
    tombstones: int = 0
    """Arcs that were left, and are remembered until no server can mention them any more."""
    node_numbers: int = 0
    """Node numbers, including numbers that are free for new names: memory and database grow with them."""
    free_node_numbers: int = 0
    arcs_suspended: int = 0
    """Number of suspended arcs, including those that are not listed."""
    mailboxes: int = 0
    """Number of processes for which it keeps messages."""
    log_entries: int = 0
    """Number of parcels in its log of messages."""
    log_bytes: int = 0
    parcels_unsettled: int = 0
    """Number of parcels that it accepted and that not all servers below have confirmed."""
    parcels_pending: tuple[ParcelsPending, ...] = ()
    """Servers for which these parcels wait, sorted."""
    messages_refused_by_rate: int = 0
    """Number of messages that it refused since its start because they came too fast."""
    datagrams_sent: int = 0
    """Number of copies of datagrams that left for other servers since its start."""
    datagrams_handed: int = 0
    datagrams_dropped: int = 0
    """Number of copies and hand-overs that were dropped, because of no room, or no path to the other server."""
    undelivered: tuple[Undelivered, ...] = ()
    """Messages that did not reach a recipient, by reason. Reasons without messages are left out."""
    messages_queued: int = 0
    """Number of messages that wait here until the home of their first target is met again."""
    memory_entries: int = 0
    """Number of parcels in memory that it holds for listeners."""
    memory_bytes: int = 0
    memory_parcels_unsettled: int = 0
    """Number of parcels that it accepted in memory and that not all servers below have confirmed."""
    memory_parcels_lost: int = 0
    """Number of parcels in memory that were lost before they came here, since its start, as far as known."""
    version: str = ""
    """Version of its program; empty if the server does not report it."""
    protocol_version: int = 0
    """Newest version of the protocol between servers that it speaks; 0 if the server does not report it."""
    started: str = ""
    """Time of its start, on its clock: ``2026-03-01T08:30:00Z``; empty if the server does not report it."""
    uptime_seconds: float = 0.0
    """Time in seconds since its start."""

    @property
    def is_public_part(self) -> bool:
        """True if the server told only who it is and if it works, because the caller does not operate it."""
        return not self.revision


@dataclass(frozen=True, slots=True)
class ApiKey:
    """An API key, without its secret. Times are like ``2026-03-01T08:30:00Z``; empty for never."""

    id: str
    principal: MemberId
    created: str
    expires: str
    privileges: tuple[str, ...]
    """Privileges that the key is good for; empty for all that its principal has."""
    networks: tuple[str, ...]
    """Networks that the key is taken from; empty for all."""
    note: str
    last_used: str


@dataclass(frozen=True, slots=True)
class NewApiKey:
    """A new API key. `secret` is the key as a caller sends it; no later call tells it again."""

    secret: str
    key: ApiKey


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A written snapshot of one server.

    `consistency`: ``cut``, one instant of all, or ``server``, an instant of its own.
    """

    server: str
    revision: Revision
    consistency: str
    folder: str
    nodes: int
    arcs: int
