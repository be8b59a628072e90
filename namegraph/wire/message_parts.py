"""Parts of messages between name servers: ids, updates, ancestry records, arcs and states of arcs.

Nodes travel by id, because the numbers of nodes have a meaning on one server only. Source: docs/protocol-updates.md,
"Many servers".
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from namegraph.model.names import NodeId, ServerId
from namegraph.model.operations import Operation
from namegraph.model.policies import Principal
from namegraph.model.priorities import Priority
from namegraph.model.rows import NodeKind


class UpdateId(NamedTuple):
    """Id of an update among all servers."""

    coordinator: ServerId
    number: int


class ArcId(NamedTuple):
    """One arc of the external group view."""

    parent: NodeId
    child: NodeId


class ViewId(NamedTuple):
    """Id of a view: its number, and the leader that proposed it. Later views are higher."""

    number: int
    leader: ServerId


class Cohort(NamedTuple):
    """Origin of a server's state. Servers of one origin hold states that fit together.

    An open view is one origin. A view that never opened keeps the origins that its members had before it, each
    named by its smallest server.
    """

    view: ViewId
    group: ServerId


FIRST_VIEW = ViewId(0, ServerId(""))
"""The view of servers that never lost one another. Each server that is met is in it."""


class SuspendArc(Struct, frozen=True, array_like=True, tag=True):
    """Take an arc out of resolution, and remember it, because the home of its parent is out of reach."""

    parent: NodeId
    child: NodeId


class ReconcileArc(Struct, frozen=True, array_like=True, tag="SettleArc"):
    """Give both ends of an arc the state that one end reached while apart, unless an end knows a newer one."""

    parent: NodeId
    child: NodeId
    is_present: bool
    kind: NodeKind
    cost: int
    version: int
    writer: int
    is_offered: bool = False
    """True if the asking server did not know the arc itself, and was told by an offer (`HintedOutcome`)."""


Step = Operation | SuspendArc | ReconcileArc
"""A step of an update: an operation of a client, or a step that servers take by themselves when they part and meet."""


class OperationColumns(NamedTuple):
    """The operations of an import, in columns as in `RecordColumns`: groups that must exist, then arcs.

    Each has its place in the whole import, from 1. Other numbers stand for the names.
    """

    names: tuple[NodeId, ...]
    group_places: bytes
    groups: bytes
    arc_places: bytes
    parents: bytes
    children: bytes
    kinds: bytes
    """Kinds of the children, as `ChildKind`, one byte each."""


class Update(NamedTuple):
    """The part of an update that one server must know."""

    update_id: UpdateId
    operations: tuple[tuple[int, Step], ...]
    """Operations that concern a node of that server, each with its place in the whole update, from 1."""
    size: int
    """Number of operations of the whole update."""
    leaves: tuple[ArcId, ...]
    """All arcs that the whole update leaves."""
    read: NodeId | None
    """Group whose members are to be read at the update's turn. The update then has no operations."""
    is_of_client: bool = False
    """True if a client asked for the update. False if a server settles changes made while servers were apart."""
    reports_control: bool = False
    """True if `Done` reports nodes that became controlled or released, because the client wants to know."""
    cut: str | None = None
    """Name of a cut, which affects everything at its turn. The update then has no operations."""
    brought: OperationColumns | None = None
    """Operations of an import, in place of `operations`."""


class CallerWord(NamedTuple):
    """Word of a coordinator, to a participant, on the caller of an update.

    The receiver believes it about principals and groups of the coordinator. For all others, the caller is the guest of
    the coordinator.
    """

    principal: Principal
    groups: tuple[NodeId, ...] = ()
    """Groups of the coordinator that contain the principal and have a parent at the receiver."""
    vouched: tuple[ArcId, ...] = ()
    """Arcs that the caller may leave as an admin of their child, whose home is the coordinator."""
    replaces: tuple[tuple[NodeId, NodeId], ...] = ()
    """Names of the coordinator, and the groups that take their place in the arcs of the update."""
    privileges: tuple[str, ...] | None = None
    """Privileges that the credential of the caller is good for. None for all."""


class Cover(NamedTuple):
    """The part of an update's affected nodes at one server: `ends` alone, and all nodes below `entry_nodes`."""

    ends: frozenset[NodeId]
    entry_nodes: frozenset[NodeId]

    def extended(self, other: Cover) -> Cover:
        """Return the union of both covers."""
        return Cover(self.ends | other.ends, self.entry_nodes | other.entry_nodes)

    def contains(self, other: Cover) -> bool:
        """Return True if this cover includes the whole of another one."""
        return other.ends <= self.ends and other.entry_nodes <= self.entry_nodes


class SharedDoubt(NamedTuple):
    """An update that a member of a view is in doubt of, for the other members."""

    update_id: UpdateId
    nodes: tuple[NodeId, ...]
    """Nodes that the update was to change there, sorted. Empty if there are too many to tell."""


OnwardServers = tuple[tuple[ServerId, tuple[NodeId, ...]], ...]
"""Servers to which a part of the affected nodes leads, each with its entry nodes, sorted."""


class Vnid(NamedTuple):
    """The id of a virtual node."""

    smallest: NodeId
    made_at: Priority


class InArc(NamedTuple):
    """An arc as the ancestry record of its child holds it."""

    parent: NodeId
    cost: int
    version: int
    writer: int


class AncestryRecord(NamedTuple):
    """One node's whole ancestry record. `version`: the final priority of the last update that changed it."""

    node: NodeId
    in_arcs: tuple[InArc, ...]
    vnid: Vnid | None
    version: Priority
    suspended: tuple[InArc, ...] = ()
    """Suspended in-arcs."""


class PendingEntry(NamedTuple):
    """An entry handed on. `bound` is a vote or an earlier bound, below which its final priority cannot fall."""

    update_id: UpdateId
    bound: Priority
    final: Priority | None


class RecordColumns(NamedTuple):
    """Many ancestry records, as `columns` packs them. Numbers stand for names, vnids and priorities listed here.

    Each column is the bytes of its numbers. Half a million numbers as objects would be tens of megabytes.
    """

    names: tuple[NodeId, ...]
    nodes: bytes
    degrees: bytes
    """Number of in-arcs of each record."""
    vnids: tuple[Vnid, ...]
    vnid_numbers: bytes
    """Number of each record's vnid, from 1. 0 for a node that is in no virtual node."""
    priorities: tuple[Priority, ...]
    version_numbers: bytes
    parents: bytes
    """Parents of the in-arcs of all records, one record after another. The next three columns have the same order."""
    costs: bytes
    versions: bytes
    writers: bytes
    suspended: tuple[tuple[int, int, int, int, int], ...] = ()
    """Suspended in-arcs: record (from 0), parent, cost, version, writer."""


class KnownArc(NamedTuple):
    """State of an arc, as one of its ends knows it, or as an update leaves it."""

    arc: ArcId
    is_present: bool | None
    """False if the arc was left, or never joined. None if an update suspends the arc: the arc is kept, and in no
    answer."""
    kind: NodeKind
    """Kind of the child. In a `Ready`: the kind before the update, as far as the parent's home knows it."""
    cost: int
    version: int
    writer: int = 0
    """Counter of the final priority of the update that wrote the state. 0 in the messages of that update itself."""

    @property
    def is_suspended(self) -> bool:
        """True if an update suspends the arc."""
        return self.is_present is None


class ArcColumns(NamedTuple):
    """States of many arcs, as `columns` packs them. Numbers stand for the names. Columns are as in `RecordColumns`."""

    names: tuple[NodeId, ...]
    parents: bytes
    children: bytes
    present: bytes
    """State of each arc: 0 absent, 1 present, 2 suspended."""
    kinds: bytes
    costs: bytes
    versions: bytes


class ArcList(Struct, frozen=True):
    """States of fewer arcs than `arc_sets.FEW`, one by one. A message has it as a map, which no columns are."""

    arcs: tuple[KnownArc, ...]


class RecordList(Struct, frozen=True):
    """Few ancestry records, one by one. A message has it as a map, which no columns are."""

    records: tuple[AncestryRecord, ...]


Arcs = ArcList | ArcColumns
"""States of arcs, as `arc_sets` makes and reads them."""

Ancestry = RecordList | RecordColumns
"""Ancestry records, as `arc_sets` makes and reads them."""


class ChildTruth(NamedTuple):
    """Report of an arc's child by its home: its kind after the update, and the version of its ancestry record."""

    child: NodeId
    kind: NodeKind
    version: Priority


class GroupChange(NamedTuple):
    """A group that an update creates or deletes."""

    group: NodeId
    is_present: bool


class ArcVersion(NamedTuple):
    """The version at which one end of an arc knows it."""

    arc: ArcId
    version: int


class LeftArc(NamedTuple):
    """An arc that was left, as its tombstone has it."""

    arc: ArcId
    version: int
    writer: int
