"""Walks at one instant while updates are under way: what is not in doubt is complete, and holds nothing too much.

A server that is ready for an update which affects what a walk looks at there, the sinks it leaves out included, is *in
doubt*: such a walk must be made again, and says nothing. Any other reaches all that is reachable over arcs no update
under way touches, and nothing but what is reachable over all arcs.

Source: protocol.md section 8 (datagram resolution).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from namegraph.duplication import blocked_originators
from namegraph.events import JoinArc, LeaveArc, UpdateCommand
from namegraph.graph import ArcState
from namegraph.message_parts import ArcId
from namegraph.names import NodeId, ServerId
from namegraph.records import ArcRecord, NodeIndex
from namegraph.server_core import ServerCore
from simulation.cluster import Cluster
from simulation.invariants import InvariantViolatedError
from simulation.serial import ArcName, TrueGraph

VISITS_LIMIT = 3_000
"""A walk of these small graphs that visits more nodes than this never ends."""


class InDoubtError(Exception):
    """A server that the walk came to is ready for an update of what it looked at."""


class Ground:
    """What walks at one instant are compared with."""

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
        """Walk once, and compare; return whether the walk was sure."""
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
    """What a walk over private states visits at this instant; raises `InDoubtError`."""
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
        for head, over in _onward(core, originator, name, came_from, doubtful[server]):
            pending.append((core.home_of(head) if core.knows_subnet_of(head) else server, head, over))
    return visited


def _onward(
    core: ServerCore, originator: NodeId, name: NodeId, came_from: NodeId | None, doubtful: frozenset[NodeId]
) -> Iterable[tuple[NodeId, NodeId | None]]:
    graph = core.graph
    node = graph.index[name]
    for child, arc in graph.children[node].items():
        head = graph.ids[child]
        state = graph.arc_state(arc)
        if state is ArcState.SHADOW and head != came_from:
            yield head, name
        elif state is ArcState.NORMAL:
            sink = {graph.ids[component] for component in graph.components(child)}
            if not _is_blocked(core, arc, originator):
                yield head, None
            elif not doubtful.isdisjoint(sink):
                raise InDoubtError(head)
    for parent, arc in graph.parents[node].items():
        if graph.arc_state(arc) is ArcState.SHADOW and graph.ids[parent] != came_from:
            yield graph.ids[parent], name


def _is_blocked(core: ServerCore, arc: ArcRecord, originator: NodeId) -> bool:
    graph = core.graph
    number = graph.index.get(originator)
    if number is None:
        return False
    name = ArcId(graph.ids[arc.parent], graph.ids[arc.child])
    if not core.boundary.stores(name):
        return number in blocked_originators(graph, core.ancestors, arc)
    minimal = [graph.index[kept] for kept in core.boundary.stored.get(name, ()) if kept in graph.index]
    starts = [component for node in minimal for component in graph.components(node)]
    return number in graph.ancestors(starts)


def _doubtful_nodes(core: ServerCore) -> frozenset[NodeId]:
    entries = core.entries
    parts = [entries.part(entry).nodes for entry in entries.by_update.values() if entry.is_ready]
    return frozenset().union(*parts)


def _arcs_at_parents(cores: Mapping[ServerId, ServerCore]) -> list[ArcName]:
    """Arcs that both homes hold: what is there at one end only belongs to an update under way."""
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
