"""One server's whole state as rows, read in pieces.

The state must stay as it is until the last piece was read: it is one that readers keep (`CommittedState.kept`), or that
of a core that takes no step. Each row comes once.

Ancestor sets that the server has not computed are computed here.

Source: docs/snapshots.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pyroaring import BitMap

from namegraph.graph.name_graph import ArcState
from namegraph.model.group_details import GroupDetails
from namegraph.model.names import NodeId, ServerId, Subnet
from namegraph.model.policies import Policy
from namegraph.model.priorities import Priority
from namegraph.model.rows import ArcKey, ArcRecord, NodeIndex, NodeKind
from namegraph.model.slices import in_slices
from namegraph.replication.ancestry_store import AncestryStore
from namegraph.state.context import NEVER, ServerContext
from namegraph.update.coordinator import Coordinator
from namegraph.update.order_queue import Entries
from namegraph.update.transaction import Phase
from namegraph.wire.message_parts import UpdateId

LOOKED_AT_ONCE = 1_000
"""Nodes of which owners, or ancestor sets, are looked up in one slice of a millisecond or two."""

PIECE_ROWS = 150
"""Approximate number of rows of a piece: a millisecond of work, after which other work may run."""

PIECE_ANCESTORS = 50_000
"""Numbers in the ancestor sets of a piece."""

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
    """One arc as in its parent's home, or in the record of its child, or in both if these are the same."""

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
    """One virtual node."""

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
    """The details of a group of this server that has some."""

    group: NodeId
    details: GroupDetails


class PolicyRow(NamedTuple):
    """The policy of a group of this server that has one."""

    group: NodeId
    policy: Policy


class Closing(NamedTuple):
    """Facts that a server reports about itself."""

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
    """Updates under way, in the first piece alone."""
    details: list[DetailsRow] = field(default_factory=list)
    policies: list[PolicyRow] = field(default_factory=list)

    def is_full(self) -> bool:
        """Return True if other work should run next."""
        rows = len(self.nodes) + len(self.arcs) + len(self.virtual_nodes) + len(self.ancestor_sets)
        return rows + len(self.details) + len(self.policies) >= PIECE_ROWS


class SnapshotReading:
    """Reading of one state. Updates under way are those of the time at which the reading begins."""

    def __init__(
        self, *, context: ServerContext, records: AncestryStore, entries: Entries, coordinator: Coordinator
    ) -> None:
        self._context = context
        self._graph = context.graph
        self._records = records
        self._updates = list(_updates_under_way(context.server, entries, coordinator))
        self._owned = bytearray()
        """1 for each node that lives here, else 0."""
        self._others: dict[ArcKey, None] = {}
        """Arcs that one end alone knows, or that the ends know differently, and tombstones."""

    def pieces(self) -> Iterator[Piece]:
        """Yield all rows. Some pieces are empty, so that other work may run."""
        yield Piece(updates=self._updates)
        for nodes in self._slices(LOOKED_AT_ONCE):
            self._owned += self._context.owned(nodes)
            yield Piece()
        yield from self._nodes_and_arcs()
        yield from self._other_arcs()
        yield from self._virtual_nodes()
        yield from self._details()
        yield from self._policies()
        yield from self._ancestor_sets()

    def closing(self) -> Closing:
        """Return the facts of the server. Call after the last piece."""
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

    def _slices(self, count: int) -> Iterator[range]:
        """Yield the numbers of all nodes, `count` at a time."""
        end = len(self._graph.ids)
        return (range(begin, min(begin + count, end)) for begin in range(0, end, count))

    def _nodes_and_arcs(self) -> Iterator[Piece]:
        """Yield all nodes, and all arcs that both ends know alike. Note the others."""
        graph, piece = self._graph, Piece()
        for nodes in self._slices(PIECE_ROWS):
            for row, arcs in zip(self._node_rows(nodes), graph.children.of(nodes), strict=True):
                piece.nodes.append(row)
                for some in in_slices(arcs.values(), PIECE_ROWS):
                    piece.arcs += self._alike(row, some)
                    if piece.is_full():
                        yield piece
                        piece = Piece()
            yield piece
            piece = Piece()

    def _node_rows(self, nodes: range) -> Iterator[NodeRow]:
        graph, context = self._graph, self._context
        names = graph.ids.of(nodes)
        on_loops = graph.virtual_node_of.among(set(map(NodeIndex, nodes)))
        columns = zip(
            nodes, names, graph.kinds.of(nodes), context.table.homes_of(names), graph.versions.of(nodes), strict=True
        )
        for number, name, kind, home, counter in columns:
            node, is_there = NodeIndex(number), kind != NodeKind.ABSENT
            is_owned = is_there and bool(self._owned[node])
            is_held = is_there and self._is_held(node)
            virtual_node = graph.virtual_node_of[node] if node in on_loops else None
            version = self._records.version_of(node) if counter else NEVER
            yield NodeRow(
                node,
                name,
                NodeKind(kind),
                home,
                is_owned,
                is_held,
                None if version == NEVER else version,
                None if virtual_node is None or not is_held else virtual_node.number,
                node if virtual_node is None else virtual_node.components[0],
            )

    def _alike(self, parent: NodeRow, arcs: Sequence[ArcRecord]) -> Iterator[ArcRow]:
        """Yield those of the arcs from a node that both ends know alike. Note the others."""
        graph, node = self._graph, parent.node
        is_on_loop = node in graph.virtual_node_of
        for arc, above in zip(arcs, graph.parents.of([arc.child for arc in arcs]), strict=True):
            if above.get(node) is arc:
                state = graph.arc_state(arc) if is_on_loop else _plain_state(arc)
                # Arcs of parents that are not owned are known from the record of their child alone.
                is_record = not parent.is_owned or self._is_held(arc.child)
                yield tuple.__new__(ArcRow, (*arc, state, parent.is_owned, is_record))
            else:
                self._others[node, arc.child] = None

    def _other_arcs(self) -> Iterator[Piece]:
        graph, piece = self._graph, Piece()
        divergent = ((parent, child) for parent, below in graph.divergent_children.items() for child in below)
        self._others.update(dict.fromkeys((*divergent, *graph.tombstones, *graph.suspended)))
        for parent, child in self._others:
            piece.arcs += self._arc_rows(parent, child)
            if piece.is_full():
                yield piece
                piece = Piece()
        yield piece

    def _virtual_nodes(self) -> Iterator[Piece]:
        for some in in_slices(self._graph.virtual_nodes.items(), PIECE_ROWS):
            rows = [VirtualNodeRow(number, loop.vnid, loop.smallest, loop.components) for number, loop in some]
            yield Piece(virtual_nodes=rows)

    def _details(self) -> Iterator[Piece]:
        for some in in_slices(self._context.details.items(), PIECE_ROWS):
            yield Piece(details=[DetailsRow(group, details) for group, details in some])

    def _policies(self) -> Iterator[Piece]:
        for some in in_slices(self._context.policies.items(), PIECE_ROWS):
            yield Piece(policies=[PolicyRow(group, policy) for group, policy in some])

    def _ancestor_sets(self) -> Iterator[Piece]:
        """Yield the sets of all derived nodes that are held here."""
        ancestors = self._context.ancestors
        piece, members = Piece(), 0
        for node in self._from_the_roots():
            if not ancestors.are_all_kept:
                return
            if node is not None:
                found = ancestors.of(node)
                piece.ancestor_sets.append(AncestorSetRow(node, found))
                members += len(found)
            if node is None or members > PIECE_ANCESTORS or piece.is_full():
                yield piece
                piece, members = Piece(), 0
        yield piece

    def _from_the_roots(self) -> Iterator[NodeIndex | None]:
        """Yield the derived nodes that are held here, parents first, so that each set needs few other sets to be
        computed first.

        None is yielded when other work may run. Where arcs are ahead of virtual nodes, a node may come before its
        parents.
        """
        graph = self._graph
        opened: set[NodeIndex] = set()
        for nodes in self._slices(LOOKED_AT_ONCE):
            yield None
            kinds = graph.kinds.of(nodes)
            held = [NodeIndex(node) for node, kind in zip(nodes, kinds, strict=True) if kind and self._is_held(node)]
            for start in graph.representatives(held):
                if start in opened:
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

    def _is_held(self, node: int) -> bool:
        """Return True if the whole record of a node is known here."""
        return bool(self._owned[node]) or node in self._records.above

    def _arc_rows(self, parent: NodeIndex, child: NodeIndex) -> list[ArcRow]:
        """Return the rows of an arc that is not known alike at its ends."""
        graph = self._graph
        owns_parent, owns_child = bool(self._owned[parent]), bool(self._owned[child])
        truth = graph.children[parent].get(child) if owns_parent else None
        record = graph.parents[child].get(parent) if self._is_held(child) else None
        if truth is not None and truth == record:
            if truth is record:
                return []  # It is known alike, and was read with its parent.
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
            return [ArcRow(*suspended, ArcState.SUSPENDED, is_truth=owns_parent, is_record=owns_child)]
        tombstone = graph.tombstones.get((parent, child))
        return [] if tombstone is None else [ArcRow(*tombstone, None, is_truth=owns_parent, is_record=owns_child)]


def _updates_under_way(server: ServerId, entries: Entries, coordinator: Coordinator) -> Iterator[UpdateRow]:
    for update_id, entry in sorted(entries.by_update.items()):
        state = "ready" if entry.is_ready else "ordered"
        yield UpdateRow(_name(update_id), update_id.coordinator, False, state, entry.final, (update_id.coordinator,))
    for running, waits_for in coordinator.all_running():
        state = _STATES[running.phase]
        yield UpdateRow(_name(running.update_id), server, True, state, running.known_final, waits_for)


def _plain_state(arc: ArcRecord) -> ArcState:
    """Return the state of an arc that is in no virtual node."""
    return ArcState.SUSPENDED if arc.suspended else ArcState.NORMAL


def _name(update_id: UpdateId) -> str:
    return f"{update_id.number}@{update_id.coordinator}"
