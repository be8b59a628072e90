"""The invariants I1 to I6 of one server at rest. Each function raises `InvariantViolatedError`.

The functions compare the derived state of the server with the truth: the external group view as users made it, kept by
the caller. They are written for clarity on small graphs. Every function costs at least the number of nodes times the
number of arcs.

Source: NG 3.2, 4.1 to 4.3; docs/protocol.md, "The invariants".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import rustworkx
from pyroaring import BitMap

from namegraph import ArcState, NodeId, NodeIndex, NodeKind, ServerCore, blocked_originators
from namegraph.graph.duplication_control import controlled_arcs
from resolver.census import Census
from simulation.oracle.violation import InvariantViolatedError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ExternalView:
    """The truth: the existing groups and the arcs that users made, each with the kind of its child."""

    groups: frozenset[NodeId]
    arcs: Mapping[tuple[NodeId, NodeId], NodeKind]

    def processes(self) -> set[NodeId]:
        """Return all processes that are in a group."""
        return {child for (_, child), kind in self.arcs.items() if kind is NodeKind.PROCESS}

    def reachable(self) -> dict[NodeId, set[NodeId]]:
        """Return the nodes that every node reaches by one or more arcs."""
        below: dict[NodeId, list[NodeId]] = {}
        for parent, child in self.arcs:
            below.setdefault(parent, []).append(child)
        return {node: _below(below, below.get(node, ())) for node in self.groups | self.processes()}

    def loops(self) -> set[frozenset[NodeId]]:
        """Return the strongly connected components of two or more groups."""
        graph: rustworkx.PyDiGraph[NodeId, None] = rustworkx.PyDiGraph()
        place = {node: graph.add_node(node) for node in sorted(self.groups | self.processes())}
        graph.add_edges_from_no_data([(place[parent], place[child]) for parent, child in self.arcs])
        components = rustworkx.strongly_connected_components(graph)
        return {frozenset(graph[node] for node in component) for component in components if len(component) > 1}


def check_all(core: ServerCore, truth: ExternalView) -> None:
    """Check every invariant of one server."""
    check_external_view(core, truth)
    check_consistency(core, truth)
    check_shadow_trees(core)
    check_acyclic(core, truth)
    check_exactly_once(core, truth)
    check_ancestry(core, truth)


def check_external_view(core: ServerCore, truth: ExternalView) -> None:
    """Require that the server holds the external group view, and that both ends of each arc agree (I7, one server)."""
    graph = core.graph
    kinds = {name: graph.kind(node) for name, node in graph.index.items()}
    groups = {name for name, kind in kinds.items() if kind is NodeKind.GROUP}
    processes = {name for name, kind in kinds.items() if kind is NodeKind.PROCESS}
    _require("EGV", groups == truth.groups, f"groups differ: {groups ^ truth.groups}")
    _require("EGV", processes == truth.processes(), f"processes differ: {processes ^ truth.processes()}")
    arcs = {(graph.ids[arc.parent], graph.ids[arc.child]) for arc in graph.present_arcs()}
    _require("EGV", arcs == set(truth.arcs), f"arcs differ: {arcs ^ set(truth.arcs)}")
    for arc in graph.present_arcs():
        at_child = graph.parents[arc.child].get(arc.parent)
        _require("I7", at_child is arc, f"the ends of {arc} do not agree")
    counts = Census(core).counts()
    _require("EGV", (counts.groups, counts.processes) == (len(groups), len(processes)), "counts are wrong")
    _require("EGV", counts.arcs == len(arcs), "the count of arcs is wrong")


def check_consistency(core: ServerCore, truth: ExternalView) -> None:
    """I1: x reaches y in the internal group view exactly if x reaches y in the external one."""
    graph = core.graph
    below: dict[NodeId, list[NodeId]] = {}
    for arc in graph.present_arcs():
        parent, child = graph.ids[arc.parent], graph.ids[arc.child]
        state = graph.arc_state(arc)
        if state in (ArcState.NORMAL, ArcState.SHADOW):
            below.setdefault(parent, []).append(child)
        if state is ArcState.SHADOW:
            below.setdefault(child, []).append(parent)
    for node, reached in truth.reachable().items():
        internal = _below(below, below.get(node, ()))
        _require("I1", internal == reached, f"from {node} the views differ by {internal ^ reached}")


def check_shadow_trees(core: ServerCore) -> None:
    """I2: the shadow edges of each virtual node are arcs of it, and form one spanning tree of its components."""
    graph = core.graph
    for virtual_node in graph.virtual_nodes.values():
        tree = graph.shadow_tree(virtual_node)
        vnid = virtual_node.vnid
        _require("I2", len(tree) == len(virtual_node.components) - 1, f"{vnid} has {len(tree)} shadow edges")
        around: dict[NodeIndex, list[NodeIndex]] = {}
        for parent, child in tree:
            _require("I2", graph.arc(parent, child) is not None, f"{vnid} has a shadow edge that is no arc")
            around.setdefault(parent, []).append(child)
            around.setdefault(child, []).append(parent)
        joined = _below(around, virtual_node.components[:1])
        _require("I2", joined == set(virtual_node.components), f"the shadow edges of {vnid} do not span it")
        smallest = min(graph.ids[component] for component in virtual_node.components)
        _require("I2", virtual_node.smallest == smallest, f"{vnid} is not named after its smallest component")


def check_acyclic(core: ServerCore, truth: ExternalView) -> None:
    """I3: virtual nodes are exactly the loops of the external view, so that the derived graph has no cycle."""
    graph = core.graph
    recorded = {
        frozenset(graph.ids[component] for component in virtual_node.components)
        for virtual_node in graph.virtual_nodes.values()
    }
    _require("I3", recorded == truth.loops(), f"virtual nodes differ from loops: {recorded ^ truth.loops()}")
    for component, virtual_node in graph.virtual_node_of.items():
        _require("I3", component in virtual_node.components, f"{graph.ids[component]} is in a virtual node not its own")
        _require("I3", graph.virtual_nodes.get(virtual_node.number) is virtual_node, f"{virtual_node.vnid} is gone")


def check_exactly_once(core: ServerCore, truth: ExternalView) -> None:
    """I4 and I6: a walk without memory visits each node that its originator reaches exactly once, again and again."""
    graph = core.graph
    blocked = {
        (arc.parent, arc.child): blocked_originators(graph, core.ancestors, arc)
        for arc in graph.present_arcs()
        if graph.arc_state(arc) is ArcState.NORMAL
    }
    for sink in range(len(graph.ids)):
        together = {
            (found.arc.parent, found.arc.child): found.blocked
            for found in controlled_arcs(graph, core.ancestors, NodeIndex(sink))
        }
        for arc in graph.entering_arcs(NodeIndex(sink)):
            one = blocked[arc.parent, arc.child]
            _require("I4", one == together.get((arc.parent, arc.child), BitMap()), f"RD records of {arc} differ")
    reachable = truth.reachable()
    for group in sorted(truth.groups):
        expected = sorted(reachable[group] | {group})
        for _ in range(2):
            visited = _walk(core, graph.index[group], blocked, limit=len(expected) + 1)
            _require("I4", sorted(visited) == expected, f"from {group} visited {sorted(visited)}, reached {expected}")


def check_ancestry(core: ServerCore, truth: ExternalView) -> None:
    """I5: the ancestor set of every node is the true one."""
    graph = core.graph
    above: dict[NodeId, set[NodeId]] = {name: set() for name in truth.groups | truth.processes()}
    for group, reached in truth.reachable().items():
        for member in reached:
            above[member].add(group)
    for name, expected in above.items():
        found = {graph.ids[node] for node in core.ancestors.of(graph.index[name])}
        _require("I5", found == expected | {name}, f"ancestors of {name} differ by {found ^ (expected | {name})}")


def _walk(
    core: ServerCore, start: NodeIndex, blocked: Mapping[tuple[NodeIndex, NodeIndex], BitMap], *, limit: int
) -> list[NodeId]:
    graph = core.graph
    visited: list[NodeId] = []
    stack: list[tuple[NodeIndex, NodeIndex | None]] = [(start, None)]
    while stack and len(visited) < limit:
        node, came_from = stack.pop()
        visited.append(graph.ids[node])
        for child, arc in graph.children[node].items():
            state = graph.arc_state(arc)
            if state is ArcState.NORMAL and start not in blocked[node, child]:
                stack.append((child, None))
            elif state is ArcState.SHADOW and child != came_from:
                stack.append((child, node))
        for parent, arc in graph.parents[node].items():
            if graph.arc_state(arc) is ArcState.SHADOW and parent != came_from:
                stack.append((parent, node))
    return visited


def _below(below: Mapping[T, Iterable[T]], starts: Iterable[T]) -> set[T]:
    reached = set(starts)
    pending = list(reached)
    while pending:
        for node in below.get(pending.pop(), ()):
            if node not in reached:
                reached.add(node)
                pending.append(node)
    return reached


def _require(invariant: str, holds: bool, what: str) -> None:
    if not holds:
        raise InvariantViolatedError(f"{invariant}: {what}")
