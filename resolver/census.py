"""Counts what lives on one server: of a graph over several, each node and arc is counted by one of them."""

from __future__ import annotations

from dataclasses import dataclass

from namegraph.core_reads import CoreReads
from namegraph.records import NodeIndex, NodeKind


@dataclass(frozen=True, slots=True)
class Counts:
    """What one server owns. An arc is counted with its parent, a virtual node with its smallest component."""

    groups: int
    processes: int
    arcs: int
    virtual_nodes: int


class Census:
    """Reads a core; counts anew only where the graph has changed and holds nodes of other servers."""

    def __init__(self, core: CoreReads) -> None:
        self._core = core
        self._counted: tuple[int, Counts] | None = None

    def counts(self) -> Counts:
        """What this server owns now."""
        core, graph = self._core, self._core.graph
        if not core.servers_met:
            return Counts(graph.group_count, graph.process_count, graph.arc_count, graph.virtual_node_count)
        if self._counted is None or self._counted[0] != graph.update_count:
            self._counted = (graph.update_count, self._count())
        return self._counted[1]

    def _count(self) -> Counts:
        core, graph = self._core, self._core.graph
        of_kind = [0, 0, 0]
        arcs = 0
        for number, kind in enumerate(graph.kinds):
            if kind != NodeKind.ABSENT and core.owns(node := NodeIndex(number)):
                of_kind[kind] += 1
                arcs += len(graph.children[node])
        virtual_nodes = sum(
            core.home_of(min(graph.ids[component] for component in virtual_node.components)) == core.server
            for virtual_node in graph.virtual_nodes.values()
        )
        return Counts(of_kind[NodeKind.GROUP], of_kind[NodeKind.PROCESS], arcs, virtual_nodes)
