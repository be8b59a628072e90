"""The brute-force model: the committed updates one after another, by final priority, on one plain set of arcs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import rustworkx

from namegraph.events import Committed, JoinArc, LeaveArc, Outcome, UpdateCommand
from namegraph.names import NodeId
from namegraph.priorities import Priority
from simulation.invariants import InvariantViolatedError

ArcName = tuple[NodeId, NodeId]


class TrueGraph:
    """The arcs there are with their costs, and what follows from them."""

    def __init__(self, arcs: Mapping[ArcName, int]) -> None:
        self.arcs = dict(arcs)
        self.children: dict[NodeId, list[NodeId]] = {}
        self.parents: dict[NodeId, list[NodeId]] = {}
        graph: rustworkx.PyDiGraph[NodeId, None] = rustworkx.PyDiGraph()
        nodes = sorted({node for arc in self.arcs for node in arc})
        place = {node: graph.add_node(node) for node in nodes}
        for parent, child in sorted(self.arcs):
            self.children.setdefault(parent, []).append(child)
            self.parents.setdefault(child, []).append(parent)
            graph.add_edge(place[parent], place[child], None)
        self._loop_of: dict[NodeId, frozenset[NodeId]] = {}
        for component in rustworkx.strongly_connected_components(graph):
            inside = frozenset(graph[number] for number in component)
            self._loop_of.update(dict.fromkeys(inside, inside))

    def loop_of(self, node: NodeId) -> frozenset[NodeId]:
        """The nodes of a node's derived node."""
        return self._loop_of.get(node, frozenset([node]))

    def above(self, nodes: Iterable[NodeId]) -> set[NodeId]:
        """The nodes and their ancestors."""
        return _closure(self.parents, nodes)

    def below(self, nodes: Iterable[NodeId]) -> set[NodeId]:
        """The nodes and their descendants."""
        return _closure(self.children, nodes)

    def blocked(self) -> dict[ArcName, set[NodeId]]:
        """Who must not cross which normal arc (protocol.md section 4); every normal arc is in it."""
        entering: dict[frozenset[NodeId], list[tuple[int, NodeId, NodeId]]] = {}
        for (parent, child), cost in self.arcs.items():
            sink = self.loop_of(child)
            if parent not in sink:
                entering.setdefault(sink, []).append((cost, parent, child))
        found = {}
        for arcs in entering.values():
            reached: set[NodeId] = set()
            for _, parent, child in sorted(arcs):
                above = self.above([parent])
                found[parent, child] = above & reached
                reached |= above
        return found


def run_serially(
    commands: Mapping[int, UpdateCommand], answers: Mapping[int, Outcome], places: Mapping[int, Priority]
) -> dict[ArcName, int]:
    """The arcs after all updates in the order of final priorities; raises where the serial run has another outcome.

    A refusal that was not ordered (a deadline passed) may stand anywhere.
    """
    arcs: dict[ArcName, int] = {}
    # One server may refuse right after a commit of the same priority, so commits come first.
    in_order = sorted(
        (places[ticket], not isinstance(answers[ticket], Committed), ticket) for ticket in commands if ticket in places
    )
    for place, is_refused, ticket in in_order:
        operations = [op for op in commands[ticket].operations if isinstance(op, JoinArc | LeaveArc)]
        is_possible = all(((op.parent, op.child) in arcs) != isinstance(op, JoinArc) for op in operations)
        if is_possible == is_refused:
            raise InvariantViolatedError(f"I8: {operations} at {place}: possible {is_possible}; {answers[ticket]}")
        if is_refused:
            continue
        for operation in operations:
            if isinstance(operation, JoinArc):
                arcs[operation.parent, operation.child] = operation.cost
            else:
                del arcs[operation.parent, operation.child]
    for ticket, outcome in answers.items():
        if ticket not in places and isinstance(outcome, Committed):
            raise InvariantViolatedError(f"I8: {commands[ticket]} was committed and has no place")
    return arcs


def _closure(neighbours: Mapping[NodeId, list[NodeId]], starts: Iterable[NodeId]) -> set[NodeId]:
    reached = set(starts)
    pending = list(reached)
    while pending:
        for node in neighbours.get(pending.pop(), ()):
            if node not in reached:
                reached.add(node)
                pending.append(node)
    return reached
