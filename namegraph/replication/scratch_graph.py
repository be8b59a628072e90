"""Ancestry records from several servers, as a separate graph on which an outcome is computed.

The graph is built for each update, from the records of the nodes above its parents, and thrown away afterwards.
Graphs built from the same records number nodes alike.
"""

from __future__ import annotations

from collections.abc import Iterable

from namegraph.graph.ancestor_sets import AncestorSets
from namegraph.graph.apply_delta import commit
from namegraph.graph.delta import GraphDelta
from namegraph.graph.name_graph import NameGraph, VirtualNode
from namegraph.graph.virtual_node_changes import Topology, compute_topology
from namegraph.model.priorities import Priority
from namegraph.model.rows import ArcRecord, NodeIndex, NodeKind
from namegraph.wire.message_parts import AncestryRecord, Vnid


class ScratchGraph:
    """A graph of ancestry records, and its ancestor sets."""

    def __init__(self, records: Iterable[AncestryRecord]) -> None:
        """`records` come in an order on which all builders of the graph agree."""
        self.graph = graph = NameGraph()
        self.ancestors = AncestorSets(graph)
        components: dict[Vnid, list[NodeIndex]] = {}
        for record in records:
            node = graph.intern(record.node)
            graph.kinds[node] = NodeKind.GROUP
            for name, cost, version, writer in record.in_arcs:
                parent = graph.intern(name)
                graph.kinds[parent] = NodeKind.GROUP
                arc = ArcRecord(parent, node, cost, version, writer, present=True, suspended=False)
                graph.children[parent][node] = graph.parents[node][parent] = arc
            if record.vnid is not None:
                components.setdefault(record.vnid, []).append(node)
        for number, (vnid, inside) in enumerate(components.items()):
            virtual_node = VirtualNode(number, vnid.smallest, vnid.made_at, tuple(sorted(inside)))
            graph.virtual_nodes[number] = virtual_node
            for component in inside:
                graph.virtual_node_of[component] = virtual_node
        graph.next_virtual_node = len(components)

    def topology(self, changes: GraphDelta, *, final: Priority) -> Topology:
        """Return the effect of an update on virtual nodes."""
        return compute_topology(self.graph, self.ancestors, changes, final_priority=final)

    def apply(self, changes: GraphDelta, topology: Topology, *, final: Priority) -> None:
        """Apply the update to the graph."""
        commit(
            self.graph,
            self.ancestors,
            changes,
            topology,
            final_priority=final,
            since=self.graph.mark(),
            reports_control=False,
        )
