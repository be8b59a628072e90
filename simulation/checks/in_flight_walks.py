"""Check of walks at one instant while updates are under way: a walk without doubt is complete, and visits no extra
node.

A server is *in doubt* if it is ready for an update that affects a node of the walk. These nodes include the sinks that
the walk leaves out. A walk in doubt must be made again, and proves nothing. Any other walk reaches all nodes that are
reachable over arcs untouched by updates under way. It reaches no node that is unreachable over all arcs.

Source: docs/protocol-updates.md, "Questions over several servers".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from namegraph import (
    ArcId,
    ArcState,
    JoinArc,
    LeaveArc,
    NodeId,
    NodeIndex,
    ServerCore,
    ServerId,
    UpdateCommand,
    blocked_originators,
)
from simulation.cluster.cluster import Cluster
from simulation.oracle.serial_model import ArcName, TrueGraph
from simulation.oracle.violation import InvariantViolatedError

VISITS_LIMIT = 3_000
"""Limit on the nodes that a walk of these small graphs visits. A longer walk is taken to be endless."""


class InDoubtError(Exception):
    """A server on the path of the walk is ready for an update of the nodes at which the walk looked."""


class Ground:
    """The graphs with which walks at one instant are compared."""

    def __init__(self, cluster: Cluster, commands: Mapping[int, UpdateCommand]) -> None:
        self._cores = cluster.servers
        touched = {
            ArcId(operation.parent, operation.child)
            for ticket, command in commands.items()
            if ticket not in cluster.answers
            for operation in command.operations
            if isinstance(operation, JoinArc | LeaveArc)
        }
        arcs = _arcs_at_parents(self._cores)
        self._steady = TrueGraph({arc: 0 for arc in arcs if ArcId(*arc) not in touched})
        self._possible = TrueGraph(dict.fromkeys([*arcs, *touched], 0))
        self.originators = sorted(self._steady.children)

    def check_walk(self, originator: NodeId) -> bool:
        """Walk once, and compare. Return True if the walk was without doubt."""
        try:
            visited = walk(self._cores, originator)
        except InDoubtError:
            return False
        missed = self._steady.below([originator]) - visited
        extra = visited - self._possible.below([originator])
        if missed or extra:
            raise InvariantViolatedError(f"a walk from {originator} missed {sorted(missed)}, met {sorted(extra)}")
        return True


def walk(cores: Mapping[ServerId, ServerCore], originator: NodeId) -> set[NodeId]:
    """Return the nodes that a walk over private states visits at this instant. Raises `InDoubtError`."""
    doubtful = {server: _doubtful_nodes(core) for server, core in cores.items()}
    home = next(iter(cores.values())).home_of(originator)
    visited: set[NodeId] = set()
    pending: list[tuple[ServerId, NodeId, NodeId | None]] = [(home, originator, None)]
    visits = 0
    while pending:
        server, name, came_from = pending.pop()
        visits += 1
        if visits > VISITS_LIMIT:
            raise InvariantViolatedError(f"a walk from {originator} does not end")
        if name in doubtful[server]:
            raise InDoubtError(name)
        visited.add(name)
        core = cores[server]
        for head, tail, state in _onward(core, name, came_from):
            home = core.home_of(head) if core.knows_subnet_of(head) else server
            if state is ArcState.SHADOW:
                pending.append((home, head, tail))
            elif not _is_blocked(cores[home], ArcId(tail, head), originator, doubtful[home]):
                pending.append((home, head, None))
    return visited


def _onward(core: ServerCore, name: NodeId, came_from: NodeId | None) -> Iterable[tuple[NodeId, NodeId, ArcState]]:
    """Yield the arcs over which the walk goes on: head, tail, and the state of the arc here."""
    graph = core.graph
    node = graph.index[name]
    for child, arc in graph.children[node].items():
        head, state = graph.ids[child], graph.arc_state(arc)
        if state is ArcState.NORMAL or (state is ArcState.SHADOW and head != came_from):
            yield head, name, state
    for parent, arc in graph.parents[node].items():
        if graph.arc_state(arc) is ArcState.SHADOW and graph.ids[parent] != came_from:
            yield graph.ids[parent], name, ArcState.SHADOW


def _is_blocked(core: ServerCore, arc: ArcId, originator: NodeId, doubtful: frozenset[NodeId]) -> bool:
    """True if the home of an arc's head blocks the originator. Raises `InDoubtError`."""
    graph = core.graph
    head = graph.index.get(arc.child)
    sink = {arc.child} if head is None else {graph.ids[component] for component in graph.components(head)}
    if not doubtful.isdisjoint(sink):
        raise InDoubtError(arc.child)
    tail, number = graph.index.get(arc.parent), graph.index.get(originator)
    record = None if head is None or tail is None else graph.parents[head].get(tail)
    if record is None or number is None or graph.arc_state(record) is not ArcState.NORMAL:
        return False
    return number in blocked_originators(graph, core.ancestors, record)


def _doubtful_nodes(core: ServerCore) -> frozenset[NodeId]:
    parts = [core.entries.part(entry) for entry in core.entries.by_update.values() if entry.is_ready]
    ids = core.graph.ids
    return frozenset().union(*(part.unknown for part in parts), *({ids[node] for node in part.nodes} for part in parts))


def _arcs_at_parents(cores: Mapping[ServerId, ServerCore]) -> list[ArcName]:
    """Return the arcs that both homes hold. An arc at one end only belongs to an update under way."""
    found = []
    for server, core in cores.items():
        graph = core.graph
        for number, children in enumerate(graph.children):
            parent = graph.ids[number]
            if core.home_of(parent) != server:
                continue
            for child in children:
                name = graph.ids[child]
                at_child = cores[core.home_of(name)].graph if core.knows_subnet_of(name) else graph
                below, above = at_child.index.get(name), at_child.index.get(parent)
                if below is not None and above is not None and NodeIndex(above) in at_child.parents[below]:
                    found.append((parent, name))
    return sorted(found)
