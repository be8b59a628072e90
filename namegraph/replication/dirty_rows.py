"""Graph rows changed by commits of updates over several servers: noted as they change, written once a step.

An arc has one row. If its parent is owned here, the row holds the truth about the arc. The ancestry record of its
child may be ahead of the truth (see `ancestry_store`); the record then has a row of its own.
"""

from __future__ import annotations

from namegraph.graph.name_graph import VirtualNode
from namegraph.model.rows import ArcKey, ArcRecord, NodeIndex, NodeRecord, Records, VirtualNodeRecord
from namegraph.state.context import ServerContext
from namegraph.state.durable_maps import DurableMap, KeyForm, packed

AHEAD = "record ahead"
"""Rows: an arc as its child's ancestry record has it, if that differs from the truth; by parent and child."""


class DirtyRows:
    """Rows of a graph that must be written."""

    def __init__(self, context: ServerContext) -> None:
        self._context = context
        self._graph = context.graph
        self.nodes: dict[NodeIndex, None] = {}
        self.arcs: dict[ArcKey, None] = {}
        self.records: dict[NodeIndex, None] = {}
        """Nodes whose ancestry record must be written with every arc."""
        self.virtual_nodes: dict[int, VirtualNode] = {}
        """Changed virtual nodes by number, including those that are gone."""
        self.recorded = 0
        """Number of nodes that have a row. All smaller node numbers have one."""
        self._ahead: DurableMap[ArcKey, ArcRecord | None] = DurableMap(
            context.durable, AHEAD, _ENDS, packed(ArcRecord | None)
        )

    def take(self, records: Records) -> None:
        """Add the rows of all noted changes."""
        graph = self._graph
        self.nodes.update(dict.fromkeys(graph.take_interned(self.recorded)))
        if not (self.nodes or self.arcs or self.records or self.virtual_nodes):
            return
        self.recorded = len(graph.ids)
        records.nodes += [self._node_row(node) for node in sorted(self.nodes)]
        for parent, child in self.arcs:
            self._add_arc_rows(parent, child, records)
        for child in self.records:
            for parent in graph.parents[child]:
                if (parent, child) not in self.arcs:
                    self._add_arc_rows(parent, child, records)
        for number, virtual_node in self.virtual_nodes.items():
            counter, server = virtual_node.made_at
            is_present = number in graph.virtual_nodes
            records.virtual_nodes.append(VirtualNodeRecord(number, virtual_node.smallest, counter, server, is_present))
        self.nodes, self.arcs, self.records, self.virtual_nodes = {}, {}, {}, {}

    def restore(self) -> None:
        """Put ancestry records that were ahead of the truth back into a restored graph."""
        graph = self._graph
        self.recorded = len(graph.ids)
        for (parent, child), arc in self._ahead.items():
            if arc is None:
                graph.parents[child].pop(parent, None)
            else:
                graph.parents[child][parent] = arc
            graph.compare(parent, child)

    def _node_row(self, node: NodeIndex) -> NodeRecord:
        graph = self._graph
        virtual_node = graph.virtual_node_of.get(node)
        return NodeRecord(
            node,
            graph.ids[node],
            graph.kind(node),
            None if virtual_node is None else virtual_node.number,
            graph.versions[node],
            graph.version_servers.get(node),
        )

    def _add_arc_rows(self, parent: NodeIndex, child: NodeIndex, records: Records) -> None:
        graph = self._graph
        in_record = graph.parents[child].get(parent)
        truth = graph.children[parent].get(child)
        # Truth and record are one object if they agree, whoever owns the parent.
        owns_parent = truth is not in_record and self._context.owns(parent)
        arc = truth if owns_parent else in_record
        if arc is None:
            ends = parent, child
            arc = graph.suspended.get(ends) or graph.tombstones.get(ends) or _unknown(parent, child)
            is_ahead = owns_parent and in_record is not None
        else:
            is_ahead = arc != in_record
        records.arcs.append(arc)
        if is_ahead:
            self._ahead[parent, child] = in_record
        elif (parent, child) in self._ahead:
            del self._ahead[parent, child]


def _unknown(parent: NodeIndex, child: NodeIndex) -> ArcRecord:
    """Return the row that deletes an arc's row."""
    return ArcRecord(parent, child, 0, 0, 0, present=False, suspended=False)


def _ends(key: str) -> ArcKey:
    parent, _, child = key.partition(" ")
    return NodeIndex(int(parent)), NodeIndex(int(child))


_ENDS = KeyForm[ArcKey](lambda ends: f"{ends[0]} {ends[1]}", _ends)
