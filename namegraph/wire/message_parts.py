"""What messages between name servers are made of: ids, updates, ancestry records, arcs and what is known of them.

Nodes travel by id: the numbers of nodes mean something on one server only. Source: protocol.md sections 4 and 5.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from namegraph.model.names import NodeId, ServerId
from namegraph.model.operations import Operation
from namegraph.model.priorities import Priority
from namegraph.model.rows import NodeKind


class UpdateId(NamedTuple):
    """Names an update among all servers."""

    coordinator: ServerId
    number: int


class ArcId(NamedTuple):
    """One arc of the external group view."""

    parent: NodeId
    child: NodeId


class ViewId(NamedTuple):
    """Names a view: its number, and the leader that proposed it. Later views are higher."""

    number: int
    leader: ServerId


class Cohort(NamedTuple):
    """Where a server's state comes from. Servers of one origin hold states that fit together.

    An open view is one origin. A view that never opened keeps the origins that its members had before it, each named
    by its smallest server.
    """

    view: ViewId
    group: ServerId


FIRST_VIEW = ViewId(0, ServerId(""))
"""The view of servers that never lost one another: each server that is met is in it."""


class SuspendArc(Struct, frozen=True, array_like=True, tag=True):
    """Take an arc out of what is resolved, and remember it: the home of its parent is out of reach."""

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
    """Whether who asks for it did not know it, and was told by an offer (`HintedOutcome`)."""


Step = Operation | SuspendArc | ReconcileArc
"""What an update is made of: what clients ask for, or what servers do by themselves when they part and meet."""


class OperationColumns(NamedTuple):
    """The operations of an import, in columns as in `RecordColumns`: groups that shall be there, then arcs.

    Each has its place in the whole import, from 1; other numbers stand for the names.
    """

    names: tuple[NodeId, ...]
    group_places: bytes
    groups: bytes
    arc_places: bytes
    parents: bytes
    children: bytes
    kinds: bytes
    """Of the children, as `ChildKind`: a byte each."""


class Update(NamedTuple):
    """What one server must know of an update."""

    update_id: UpdateId
    operations: tuple[tuple[int, Step], ...]
    """Those that concern a node of that server, each with its place in the whole update, from 1."""
    size: int
    """Operations of the whole update."""
    leaves: tuple[ArcId, ...]
    """All arcs that the whole update leaves."""
    read: NodeId | None
    """A group whose members are to be read at the update's turn; there is no operation then."""
    is_of_client: bool = False
    """Whether a client asked for it, and not a server that settles what was done while servers were apart."""
    reports_control: bool = False
    """Whether `Done` says what became controlled or released: where the client wants to know."""
    cut: str | None = None
    """The name of a cut, which affects everything at its turn; there is no operation then."""
    brought: OperationColumns | None = None
    """The operations of an import, in place of those above."""


class Cover(NamedTuple):
    """The part of an update's affected nodes at one server: `ends` alone, and all that lies below `entry_nodes`."""

    ends: frozenset[NodeId]
    entry_nodes: frozenset[NodeId]

    def extended(self, other: Cover) -> Cover:
        """Both together."""
        return Cover(self.ends | other.ends, self.entry_nodes | other.entry_nodes)

    def contains(self, other: Cover) -> bool:
        """Whether all of the other is covered too."""
        return other.ends <= self.ends and other.entry_nodes <= self.entry_nodes


class SharedDoubt(NamedTuple):
    """What a member of a view does not know, as the others have to know."""

    update_id: UpdateId
    nodes: tuple[NodeId, ...]
    """What the update was to change there; sorted. None: more than is told."""


OnwardServers = tuple[tuple[ServerId, tuple[NodeId, ...]], ...]
"""The servers that a part of the affected nodes leads to, each with its entry nodes; sorted."""


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
    """One node's ancestry record, whole. `version`: the final priority of the last update that changed it."""

    node: NodeId
    in_arcs: tuple[InArc, ...]
    vnid: Vnid | None
    version: Priority
    suspended: tuple[InArc, ...] = ()
    """In-arcs that are suspended."""


class PendingEntry(NamedTuple):
    """An entry handed on: `bound` is a vote or an earlier bound, below which its final priority cannot fall."""

    update_id: UpdateId
    bound: Priority
    final: Priority | None


class RecordColumns(NamedTuple):
    """Many ancestry records, as `columns` packs them: numbers stand for names, vnids and priorities listed here.

    Each column is the bytes of its numbers: half a million of them as objects would be tens of megabytes.
    """

    names: tuple[NodeId, ...]
    nodes: bytes
    degrees: bytes
    """How many in-arcs each record has."""
    vnids: tuple[Vnid, ...]
    vnid_numbers: bytes
    """From 1; 0 for a node that is in no virtual node."""
    priorities: tuple[Priority, ...]
    version_numbers: bytes
    parents: bytes
    """Of the in-arcs of all records, one record after another; so are the next three."""
    costs: bytes
    versions: bytes
    writers: bytes
    suspended: tuple[tuple[int, int, int, int, int], ...] = ()
    """Of the in-arcs that are suspended: record (from 0), parent, cost, version, writer."""


class ArcChange(NamedTuple):
    """What an update makes of an arc.

    `kind` is that of the child: before the update and as far as the parent's home knows it in a `Ready`, after it in a
    `Commit`.
    """

    arc: ArcId
    is_present: bool
    kind: NodeKind
    cost: int
    version: int
    is_suspended: bool = False
    """Remembered, and left out of resolution."""


class ArcColumns(NamedTuple):
    """Many arc changes, as `columns` packs them: numbers stand for the names; columns as in `RecordColumns`."""

    names: tuple[NodeId, ...]
    parents: bytes
    children: bytes
    present: bytes
    """0: it is not there; 1: it is; 2: it is suspended."""
    kinds: bytes
    costs: bytes
    versions: bytes


class ChildTruth(NamedTuple):
    """What the child's home knows of the child of an arc: its kind after the update, its ancestry record's version."""

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


class KnownArc(NamedTuple):
    """What one end of an arc knows of it."""

    arc: ArcId
    is_present: bool
    kind: NodeKind
    cost: int
    version: int
    writer: int
