"""One server's whole state as rows, read in pieces while updates go on, and completed in one step at the end.

    read: everything, piece by piece --> changes since --> changes since ... --> finish: the rest
          (steps in between are noted)

A piece may be out of date as soon as it is read. Each step names its changes in its records, which are noted here
and read again in a later piece. If pieces have rows of one key, the rows of the latest piece count. After `finish`,
which must not be interrupted, all pieces together are the state of that step. No server had to wait for a copy.

Ancestor sets are not in the records. `AncestorSets` reports which sets it keeps anew or drops.

Source: docs/snapshots.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from pyroaring import BitMap

from namegraph.graph.name_graph import ArcState
from namegraph.model.group_details import NO_DETAILS, GroupDetails
from namegraph.model.names import NodeId, ServerId, Subnet
from namegraph.model.priorities import Priority
from namegraph.model.rows import ArcKey, ArcRecord, NodeIndex, NodeKind, Records
from namegraph.replication.ancestry_store import AncestryStore
from namegraph.state.context import NEVER, ServerContext
from namegraph.update.coordinator import Coordinator
from namegraph.update.order_queue import Entries
from namegraph.update.transaction import Phase
from namegraph.wire.message_parts import UpdateId

LOOKED_AT_ONCE = 1_000
"""Nodes that are checked for ancestor sets in one slice of a millisecond or two."""

PIECE_ROWS = 150
"""Approximate number of rows of a piece: a millisecond of work, after which other work may run."""

PIECE_ANCESTORS = 50_000
"""Numbers in the ancestor sets of a piece."""

REST_LIMIT = 200
"""Changes that are left for `finish`, which delays other work about as long as an update does."""

ROUNDS_LIMIT = 12
"""Rounds in which changes are read one by one. After these, `finish` follows, however many changes are left."""

Key = TypeVar("Key")

_STATES = {
    Phase.WAITING: "waiting",
    Phase.QUEUED: "waiting",
    Phase.ORDER: "ordered",
    Phase.READY: "ready",
    Phase.DECIDED: "decided",
}


class NodeRow(NamedTuple):
    """One node. `home` is None for a foreign process. `representative` stands for its derived node."""

    node: NodeIndex
    node_id: NodeId
    kind: NodeKind
    home: ServerId | None
    is_owned: bool
    is_held: bool
    """True if its ancestry record is held here."""
    version: Priority | None
    virtual_node: int | None
    """Number of the virtual node that contains it. None if it is in none, or is not held."""
    representative: NodeIndex


class ArcRow(NamedTuple):
    """One arc as in its parent's home, or in the record of its child, or in both if these are the same.

    If neither has the arc any more, the row has both flags false.
    """

    parent: NodeIndex
    child: NodeIndex
    cost: int
    version: int
    writer: int
    is_present: bool
    is_suspended: bool
    state: ArcState | None
    is_truth: bool
    is_record: bool


class VirtualNodeRow(NamedTuple):
    """One virtual node. A virtual node that is gone has no components."""

    number: int
    vnid: str
    smallest: NodeId
    components: tuple[NodeIndex, ...]


class AncestorSetRow(NamedTuple):
    """The ancestor set of a derived node, the node itself included."""

    representative: NodeIndex
    ancestors: BitMap


class UpdateRow(NamedTuple):
    """An update under way, as this server knows it."""

    update: str
    coordinator: ServerId
    is_coordinator: bool
    state: str
    """`waiting`, `ordered`, `ready` or `decided`."""
    final: Priority | None
    waits_for: tuple[ServerId, ...]


class DetailsRow(NamedTuple):
    """The details of a group of this server. A group without details, or one that is gone, has none."""

    group: NodeId
    details: GroupDetails


class Closing(NamedTuple):
    """Facts that a server reports about itself at the step at which the snapshot was finished."""

    server: ServerId
    subnets: tuple[Subnet, ...]
    counter: int
    peers: tuple[tuple[ServerId, tuple[Subnet, ...]], ...]
    """All other servers that were met, with their subnets."""
    has_ancestor_sets: bool
    """True if all ancestor sets fitted into the memory limit. If False, the sets that were read do not count."""


@dataclass(slots=True)
class Piece:
    """Some rows. All rows of one arc (parent, child) are in one piece."""

    nodes: list[NodeRow] = field(default_factory=list)
    arcs: list[ArcRow] = field(default_factory=list)
    virtual_nodes: list[VirtualNodeRow] = field(default_factory=list)
    ancestor_sets: list[AncestorSetRow] = field(default_factory=list)
    updates: list[UpdateRow] = field(default_factory=list)
    """Updates under way, in the last piece alone."""
    details: list[DetailsRow] = field(default_factory=list)

    def is_full(self) -> bool:
        """Return True if other work should run next."""
        rows = len(self.nodes) + len(self.arcs) + len(self.virtual_nodes) + len(self.ancestor_sets) + len(self.details)
        return rows >= PIECE_ROWS


class SnapshotReading:
    """One reading of a server's state. The owner reports every step (`note`) until it is finished."""

    def __init__(
        self, *, context: ServerContext, records: AncestryStore, entries: Entries, coordinator: Coordinator
    ) -> None:
        self._context = context
        self._graph = context.graph
        self._records = records
        self._entries = entries
        self._coordinator = coordinator
        self._nodes: dict[NodeIndex, None] = {}
        self._arcs: dict[ArcKey, None] = {}
        self._virtual_nodes: dict[int, None] = {}
        self._details: dict[NodeId, None] = {}
        self._sets: dict[NodeIndex, None] = {}
        """Derived nodes whose ancestor set may have changed since it was read."""
        self._sets_read: dict[NodeIndex, BitMap] = {}
        context.ancestors.followers.append(self._sets)

    def close(self) -> None:
        """End the reading."""
        followers = self._context.ancestors.followers
        followers[:] = [follower for follower in followers if follower is not self._sets]

    def note(self, records: Records) -> None:
        """Note the changes of a step."""
        for node in records.nodes:
            self._nodes[node.node] = None
        for arc in records.arcs:
            self._arcs[arc.parent, arc.child] = None
        for virtual_node in records.virtual_nodes:
            self._virtual_nodes[virtual_node.number] = None
        details = self._context.details
        for row in records.protocol:
            if row.part == details.part:
                self._details[details.read(row)[0]] = None

    def read(self) -> Iterator[Piece]:
        """Yield everything, then in rounds the changes since, until few are left. Steps may come in between."""
        yield from self._everything()
        for _ in range(ROUNDS_LIMIT):
            if self._left() <= REST_LIMIT:
                return
            yield from self._changes()

    def keep_up(self) -> Iterator[Piece]:
        """Yield the changes since, if they are too many for `finish`. The caller may stop at any time; `finish` reads
        the rest."""
        if self._left() > REST_LIMIT:
            yield from self._changes()

    def finish(self) -> Iterator[Piece]:
        """Yield all remaining changes and the updates under way: the rows of this step. No step may come in between."""
        yield from self._changes()
        yield Piece(updates=list(self._updates()))

    def closing(self) -> Closing:
        """Return the server's facts. Call at the step of `finish`."""
        context = self._context
        return Closing(
            context.server,
            context.table.owned_by(context.server),
            context.counter,
            tuple(
                (server, context.table.owned_by(server))
                for server in context.table.servers()
                if server != context.server
            ),
            context.ancestors.are_all_kept,
        )

    def _left(self) -> int:
        return len(self._nodes) + len(self._arcs) + len(self._virtual_nodes) + len(self._details) + len(self._sets)

    def _everything(self) -> Iterator[Piece]:
        graph, piece = self._graph, Piece()
        for node in map(NodeIndex, range(len(graph.ids))):
            piece.nodes.append(self._node(node))
            owns_node = piece.nodes[-1].is_owned
            divergent_children = graph.divergent_children.get(node, {})
            for arc in list(graph.children[node].values()):
                if arc.child in divergent_children or graph.parents[arc.child].get(node) is not arc:
                    piece.arcs += self._arc_rows(node, arc.child)
                else:
                    state = graph.arc_state(arc) if node in graph.virtual_node_of else _plain_state(arc)
                    is_record = self._is_recorded(arc, owns_parent=owns_node)
                    piece.arcs.append(tuple.__new__(ArcRow, (*arc, state, owns_node, is_record)))
                if piece.is_full():
                    yield piece
                    piece = Piece()
            for child in list(divergent_children):
                piece.arcs += self._arc_rows(node, child)
            if piece.is_full():
                yield piece
                piece = Piece()
        for parent, child in [*graph.tombstones, *graph.suspended]:
            piece.arcs += self._arc_rows(parent, child)
            if piece.is_full():
                yield piece
                piece = Piece()
        piece.virtual_nodes += map(self._virtual_node, list(graph.virtual_nodes))
        yield piece
        yield from self._details_of(list(self._context.details))
        yield from self._ancestor_sets(self._from_the_roots())

    def _changes(self) -> Iterator[Piece]:
        """Yield the changes noted by now. The caller may stop early: changes that were not read stay noted."""
        self._note_arcs_within()
        piece = Piece(virtual_nodes=list(map(self._virtual_node, _taken_from(self._virtual_nodes))))
        for node in _taken_from(self._nodes):
            piece.nodes.append(self._node(node))
            self._sets[node] = None
            if piece.is_full():
                yield piece
                piece = Piece()
        for parent, child in _taken_from(self._arcs):
            piece.arcs += self._arc_rows(parent, child)
            if piece.is_full():
                yield piece
                piece = Piece()
        yield piece
        yield from self._details_of(_taken_from(self._details))
        yield from self._ancestor_sets(self._with_changed_sets())

    def _details_of(self, groups: Iterable[NodeId]) -> Iterator[Piece]:
        piece = Piece()
        for group in groups:
            piece.details.append(DetailsRow(group, self._context.details.get(group, NO_DETAILS)))
            if piece.is_full():
                yield piece
                piece = Piece()
        yield piece

    def _note_arcs_within(self) -> None:
        """Note arcs whose state may have changed because their virtual node formed, changed or broke."""
        graph = self._graph
        touched = {*self._nodes, *(end for arc in self._arcs for end in arc)}
        numbers = {graph.virtual_node_of[node].number: None for node in touched if node in graph.virtual_node_of}
        for number in [*numbers, *self._virtual_nodes]:
            virtual_node = graph.virtual_nodes.get(number)
            for component in () if virtual_node is None else virtual_node.components:
                for child in graph.children[component]:
                    if graph.virtual_node_of.get(child) is virtual_node:
                        self._arcs[component, child] = None
        # All components of a virtual node that broke were changed.
        for node in self._nodes:
            for child in graph.children[node].keys() & self._nodes.keys():
                self._arcs[node, child] = None

    def _ancestor_sets(self, nodes: Iterable[NodeIndex | None]) -> Iterator[Piece]:
        """Yield the sets of these derived nodes that were not read yet or have changed. For None, yield a piece, so
        that other work may run."""
        ancestors, read = self._context.ancestors, self._sets_read
        piece, members = Piece(), 0
        for node in nodes:
            if not ancestors.are_all_kept:
                return
            if node is None:
                yield piece
                piece, members = Piece(), 0
                continue
            found = ancestors.of(node)
            self._sets.pop(node, None)
            if found == read.get(node):
                continue
            read[node] = found
            piece.ancestor_sets.append(AncestorSetRow(node, found))
            members += len(found)
            if members > PIECE_ANCESTORS or piece.is_full():
                yield piece
                piece, members = Piece(), 0
        yield piece

    def _with_changed_sets(self) -> Iterator[NodeIndex | None]:
        """Yield derived nodes whose set may have changed. Nodes that represent no derived node any more are
        forgotten."""
        for looked_at, node in enumerate(list(self._sets), 1):
            if looked_at % LOOKED_AT_ONCE == 0:
                yield None
            has_set, stands_for = self._has_set(node), self._graph.representative(node)
            if not has_set or stands_for != node:
                self._sets.pop(node, None)
                self._sets_read.pop(node, None)
            if has_set:
                self._sets[stands_for] = None
                yield stands_for

    def _has_set(self, node: NodeIndex) -> bool:
        return self._graph.kinds[node] != NodeKind.ABSENT and self._records.is_held(node)

    def _from_the_roots(self) -> Iterator[NodeIndex | None]:
        """Yield the derived nodes that are held here, parents first, so that each set needs few other sets to be
        computed first.

        None is yielded when other work may run. If updates come in between, or arcs are ahead of virtual nodes, a
        node may come before its parents.
        """
        graph = self._graph
        opened: set[NodeIndex] = set()
        for node in map(NodeIndex, range(len(graph.ids))):
            if node % LOOKED_AT_ONCE == LOOKED_AT_ONCE - 1:
                yield None
            start = graph.representative(node)
            if start in opened or not self._has_set(node):
                continue
            opened.add(start)
            way = [(start, iter(graph.parent_representatives(start)))]
            while way:
                parent = next(way[-1][1], None)
                if parent is None:
                    yield way.pop()[0]
                elif parent not in opened:
                    opened.add(parent)
                    way.append((parent, iter(graph.parent_representatives(parent))))

    def _node(self, node: NodeIndex) -> NodeRow:
        graph, records = self._graph, self._records
        kind = graph.kind(node)
        name = graph.ids[node]
        home = self._context.table.home_of(name)
        is_there = kind is not NodeKind.ABSENT
        is_owned = is_there and (home is None or home == self._context.server)
        is_held = is_there and (is_owned or node in records.above)
        version = records.version_of(node)
        virtual_node = graph.virtual_node_of.get(node) if is_held else None
        return NodeRow(
            node,
            name,
            kind,
            home,
            is_owned,
            is_held,
            None if version == NEVER else version,
            None if virtual_node is None else virtual_node.number,
            graph.representative(node),
        )

    def _is_recorded(self, arc: ArcRecord, *, owns_parent: bool) -> bool:
        # Arcs of parents that are not owned are known from the record of their child alone.
        return not owns_parent or self._records.is_held(arc.child)

    def _arc_rows(self, parent: NodeIndex, child: NodeIndex) -> list[ArcRow]:
        graph = self._graph
        owns_parent = self._context.owns(parent)
        truth = graph.children[parent].get(child) if owns_parent else None
        is_held = self._records.is_held(child)
        record = graph.parents[child].get(parent) if is_held else None
        if truth is not None and truth == record:
            return [ArcRow(*truth, graph.arc_state(truth), is_truth=True, is_record=True)]
        found = []
        if truth is not None:
            found.append(ArcRow(*truth, graph.arc_state(truth), is_truth=True, is_record=False))
        if record is not None:
            found.append(ArcRow(*record, graph.arc_state(record), is_truth=False, is_record=True))
        if found:
            return found
        suspended = graph.suspended.get((parent, child))
        if suspended is not None:
            return [self._suspended(suspended, owns_parent=owns_parent)]
        tombstone = graph.tombstones.get((parent, child))
        if tombstone is None:
            return [ArcRow(parent, child, 0, 0, 0, False, False, None, is_truth=False, is_record=False)]
        return [ArcRow(*tombstone, None, is_truth=owns_parent, is_record=self._context.owns(child))]

    def _suspended(self, arc: ArcRecord, *, owns_parent: bool) -> ArcRow:
        return ArcRow(*arc, ArcState.SUSPENDED, is_truth=owns_parent, is_record=self._context.owns(arc.child))

    def _virtual_node(self, number: int) -> VirtualNodeRow:
        virtual_node = self._graph.virtual_nodes.get(number)
        if virtual_node is None:
            return VirtualNodeRow(number, "", NodeId(""), ())
        return VirtualNodeRow(number, virtual_node.vnid, virtual_node.smallest, virtual_node.components)

    def _updates(self) -> Iterator[UpdateRow]:
        here = self._context.server
        for update_id, entry in sorted(self._entries.by_update.items()):
            state = "ready" if entry.is_ready else "ordered"
            coordinator = update_id.coordinator
            yield UpdateRow(_name(update_id), coordinator, False, state, entry.final, (coordinator,))
        for running, waits_for in self._coordinator.all_running():
            state = _STATES[running.phase]
            yield UpdateRow(_name(running.update_id), here, True, state, running.known_final, waits_for)


def _taken_from(noted: dict[Key, None]) -> Iterator[Key]:
    """Yield as many noted items as there are at the start, the newest first. A yielded item is removed."""
    for _ in range(len(noted)):
        if noted:
            yield noted.popitem()[0]


def _plain_state(arc: ArcRecord) -> ArcState:
    """Return the state of an arc that is in no virtual node."""
    return ArcState.SUSPENDED if arc.suspended else ArcState.NORMAL


def _name(update_id: UpdateId) -> str:
    return f"{update_id.number}@{update_id.coordinator}"
