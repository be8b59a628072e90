"""Small graphs in a few letters, for tests of what the source claims.

A name without a dot is a group of one subnet, a name with one (`.ann`) a process. Arcs are written `a>b`, several with
spaces between them. Virtual nodes are written as their components joined by `+`.
"""

from namegraph.graph.duplication_control import blocked_originators
from namegraph.graph.name_graph import ArcState
from namegraph.graph.pathnames import pathnames
from namegraph.model.names import NodeId
from namegraph.model.operations import CreateGroup, JoinArc, LeaveArc
from namegraph.model.rows import NodeIndex, NodeKind
from resolver.membership import MembershipResolver
from simulation.checks.invariants import ExternalView, check_all
from tests.cores import CoreUnderTest

SUBNET = "x.example"


def node_id(name):
    return NodeId(f"{name.removeprefix('.')}@{'people.example' if name.startswith('.') else SUBNET}")


def short(name):
    local, _, domain = name.partition("@")
    return local if domain == SUBNET else f".{local}"


def pairs(arcs):
    return [tuple(arc.split(">")) for arc in arcs.split()]


class SmallGraph:
    """A core whose groups are created when first named. Every update is checked against all invariants."""

    def __init__(self, arcs="", *, groups=""):
        self.server = CoreUnderTest(SUBNET)
        self.arcs = {}
        self.groups = set()
        self._create(groups.split())
        for arc in arcs.split():
            self.join(arc)

    @property
    def core(self):
        return self.server.core

    def join(self, arcs, *, cost=0):
        """Join arcs in one atomic update; return its effects as {(kind, groups joined by "+")}."""
        wanted = pairs(arcs)
        self._create(name for arc in wanted for name in arc if not name.startswith("."))
        outcome = self.server.do(*(JoinArc(node_id(parent), node_id(child), cost=cost) for parent, child in wanted))
        for parent, child in wanted:
            kind = NodeKind.PROCESS if child.startswith(".") else NodeKind.GROUP
            self.arcs[node_id(parent), node_id(child)] = kind
        return self._checked(outcome)

    def leave(self, arcs):
        """Leave arcs in one atomic update; return its effects."""
        outcome = self.server.do(*(LeaveArc(node_id(parent), node_id(child)) for parent, child in pairs(arcs)))
        for parent, child in pairs(arcs):
            del self.arcs[node_id(parent), node_id(child)]
        return self._checked(outcome)

    # The internal view

    def virtual_nodes(self):
        return {"+".join(self._components(vn.components[0])) for vn in self.core.graph.virtual_nodes.values()}

    def vnid(self, component):
        return self.core.graph.label(self.node(component))

    def state(self, arc):
        ((parent, child),) = pairs(arc)
        record = self.core.graph.arc(self.node(parent), self.node(child))
        return None if record is None else self.core.graph.arc_state(record)

    def states(self, state):
        """Return all arcs in one state."""
        graph = self.core.graph
        return {
            f"{short(graph.ids[arc.parent])}>{short(graph.ids[arc.child])}"
            for arc in graph.present_arcs()
            if graph.arc_state(arc) is state
        }

    def pathnames(self, name):
        graph = self.core.graph
        derived = {
            graph.label(node): "+".join(self._components(node)) for node in map(NodeIndex, range(len(graph.ids)))
        }
        return {" ".join(derived[label] for label in path) for path in pathnames(graph, self.node(name))}

    def records(self):
        """RD-controlled arcs and the originators whose messages do not cross them."""
        graph = self.core.graph
        found = {}
        for arc in graph.present_arcs():
            if graph.arc_state(arc) is ArcState.NORMAL:
                blocked = {short(graph.ids[node]) for node in blocked_originators(graph, self.core.ancestors, arc)}
                if blocked:
                    found[f"{short(graph.ids[arc.parent])}>{short(graph.ids[arc.child])}"] = blocked
        return found

    def duplication_loops(self, group):
        """Return the RD records that a group keeps, in NG's form: {(source, sink, child)}."""
        told = MembershipResolver(self.core).describe(node_id(group), pathname_limit=0, told={})
        graph = self.core.graph
        derived = {
            graph.label(node): "+".join(self._components(node)) for node in map(NodeIndex, range(len(graph.ids)))
        }
        return {(derived[record.source], derived[record.sink], short(record.child)) for record in told.rd_records}

    def ancestors(self, name):
        return {short(self.core.graph.ids[node]) for node in self.core.ancestors.of(self.node(name))}

    def visits(self, originator):
        """Return the groups at which a message to a group is resolved, in order, by the procedure of NG figure 4.2."""
        graph, start = self.core.graph, self.node(originator)
        visited, pending = [], [(start, None)]
        while pending:
            node, came_over = pending.pop()
            visited.append(short(graph.ids[node]))
            assert len(visited) <= len(graph.ids), "the message circulates"
            for arc in [*graph.children[node].values(), *graph.parents[node].values()]:
                other = arc.child if arc.parent == node else arc.parent
                state = graph.arc_state(arc)
                if state is ArcState.SHADOW:
                    if arc is not came_over:
                        pending.append((other, arc))
                elif state is ArcState.NORMAL and arc.parent == node and not self._is_blocked(arc, start):
                    pending.append((other, arc))
        return visited

    def crossings(self, originator):
        """Return the walk over a resolution plan, as arcs in the direction in which they are crossed."""
        walk = MembershipResolver(self.core).walk(node_id(originator))
        return [f"{short(step.tail)}>{short(step.head)}" for step in walk]

    def members(self, group):
        plan = MembershipResolver(self.core).resolve(node_id(group))
        return {short(name) for name in [*plan.groups, *plan.processes]}

    def node(self, name):
        return self.core.graph.index[node_id(name)]

    def _is_blocked(self, arc, originator):
        return originator in blocked_originators(self.core.graph, self.core.ancestors, arc)

    def _components(self, node):
        return sorted(short(self.core.graph.ids[component]) for component in self.core.graph.components(node))

    def _create(self, names):
        new = [name for name in dict.fromkeys(names) if node_id(name) not in self.groups]
        self.groups.update(map(node_id, new))
        if new:
            self.server.do(*(CreateGroup(node_id(name)) for name in new))

    def _checked(self, outcome):
        check_all(self.core, ExternalView(frozenset(self.groups), self.arcs))
        return {(effect.kind.value, "+".join(sorted(map(short, effect.groups)))) for effect in outcome.effects}
