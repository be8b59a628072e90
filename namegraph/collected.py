"""Ancestry that was collected from several servers, as a graph of its own on which an outcome is computed.

Built anew for each update, from the records of what is above its parents; thrown away afterwards. Graphs that are built
from the same records number nodes alike.
"""

from __future__ import annotations

from collections.abc import Iterable

from namegraph.ancestry import AncestorSets
from namegraph.changes import Changes
from namegraph.commit import commit
from namegraph.graph import NameGraph, VirtualNode
from namegraph.message_parts import AncestryRecord, Vnid
from namegraph.priorities import Priority
from namegraph.records import ArcRecord, NodeIndex, NodeKind
from namegraph.virtual_nodes import Topology, compute_topology


class CollectedGraph:
    """A graph of ancestry records, and its ancestor sets."""

    def __init__(self, records: Iterable[AncestryRecord]) -> None:
        """`records` in an order that all who build it agree on."""
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

    def topology(self, changes: Changes, *, final: Priority) -> Topology:
        """What an update does to virtual nodes."""
        return compute_topology(self.graph, self.ancestors, changes, final_priority=final)

    def apply(self, changes: Changes, topology: Topology, *, final: Priority) -> None:
        """Make the update."""
        commit(
            self.graph,
            self.ancestors,
            changes,
            topology,
            final_priority=final,
            interned_from=len(self.graph.ids),
            reports_control=False,
        )
