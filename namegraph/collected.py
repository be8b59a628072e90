"""Ancestry that was collected from several servers, as a graph of its own on which an outcome is computed.

Built anew for each update, from the records of what is above its parents; thrown away afterwards. Graphs that are built
from the same records number nodes alike.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyroaring import BitMap

from namegraph.ancestry import AncestorSets
from namegraph.changes import Changes
from namegraph.commit import commit
from namegraph.duplication import controlled_arcs, sources, without_any_above
from namegraph.graph import NameGraph, VirtualNode
from namegraph.message_parts import AncestryRecord, ArcId, Vnid
from namegraph.names import NodeId
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

    def blocked(self, sinks: Iterable[NodeIndex]) -> dict[ArcId, BitMap]:
        """Who must not cross which arc into the derived nodes of these sinks; arcs that block nobody are left out."""
        found = {}
        for sink in dict.fromkeys(map(self.graph.representative, sinks)):
            for controlled in controlled_arcs(self.graph, self.ancestors, sink):
                found[self.name_arc(controlled.arc)] = controlled.blocked
        return found

    def name_arc(self, arc: ArcRecord) -> ArcId:
        """The ids of an arc's ends."""
        return ArcId(self.graph.ids[arc.parent], self.graph.ids[arc.child])

    def numbers(self, arc: ArcId) -> tuple[NodeIndex, NodeIndex] | None:
        """The numbers of an arc's ends, where both are here."""
        parent, child = self.graph.index.get(arc.parent), self.graph.index.get(arc.child)
        return None if parent is None or child is None else (parent, child)

    def keepable(self, blocked: BitMap, lost: BitMap) -> tuple[NodeId, ...]:
        """What may stay blocked, as minimal nodes: those that are not lost and have nothing lost above them."""
        return minimal_nodes(self.graph, self.ancestors, without_any_above(self.ancestors, blocked, lost))


def minimal_nodes(
    graph: NameGraph, ancestors: AncestorSets, blocked: BitMap, *, likely: Iterable[NodeId] = ()
) -> tuple[NodeId, ...]:
    """The minimal derived nodes of an ancestor-closed set, each by its smallest component; sorted.

    `likely`: any nodes; best those that were minimal before little changed.
    """
    index = graph.index
    numbers = [index[node] for node in likely if node in index]
    return names_of_derived(graph, sources(graph, ancestors, blocked, likely=numbers))


def names_of_derived(graph: NameGraph, nodes: Iterable[NodeIndex]) -> tuple[NodeId, ...]:
    """Derived nodes, each by its smallest component; sorted."""
    ids, owner = graph.ids, graph.virtual_node_of
    return tuple(
        sorted(min(ids[one] for one in owner[node].components) if node in owner else ids[node] for node in nodes)
    )


def lost_originators(before: BitMap, after: BitMap | None) -> BitMap:
    """Of the originators an arc blocks before an update, those that it must not block after it."""
    return before if after is None else before - after
