"""A cluster that is asked like one server: updates run through a wild network, answers come from private states.

Each question is answered by the servers that a deployment asks, from their own state alone:

    check, memberships    the member's home, from its ancestry; for a foreign process all servers, united
    describe              the group's home, which asks the homes of the nodes below for the blocked originators of arcs
    resolve               a star: the home of the originator, and every server that owns a child of a reached node;
                          each reports its own nodes that the originator reaches in its own graph

Source: docs/protocol-updates.md, "Questions over several servers".
"""

from collections import Counter
from copy import deepcopy
from dataclasses import dataclass, field
from random import Random

from namegraph.events import UpdateCommand
from namegraph.graph.ancestor_sets import ancestor_groups
from namegraph.graph.duplication_control import blocked_originators
from namegraph.graph.name_graph import ArcState
from namegraph.graph.pathnames import pathnames
from namegraph.model.names import ServerId, Subnet, subnet_of
from namegraph.model.operations import JoinArc, LeaveArc
from namegraph.model.rows import NodeIndex, NodeKind, RequestId
from namegraph.update.admission import group_not_found
from namegraph.wire.message_parts import ArcId
from resolver.membership import MembershipResolver
from simulation.checks.cluster_invariants import blocked_at, check_all
from simulation.cluster.cluster import Cluster
from simulation.cluster.networks import RandomNetwork
from simulation.oracle.serial_model import TrueGraph
from tests.verbs import Verbs


@dataclass(frozen=True)
class Part:
    """The part of an originator's members that one server reports."""

    groups: list = field(default_factory=list)
    native: list = field(default_factory=list)
    foreign: list = field(default_factory=list)
    onward: dict = field(default_factory=dict)
    """Other server -> children of what is reported here that are homed there."""


@dataclass(frozen=True)
class Members:
    """All members of a group, sorted."""

    processes: list
    groups: list


class Universe(Verbs):
    """One server for each subnet. `ask` returns `CommittedState` or `Refusal`."""

    def __init__(self, *subnets, seed=0):
        self.cluster = Cluster([Subnet(subnet) for subnet in subnets], RandomNetwork(Random(seed)))
        self._tickets = 0

    @property
    def servers(self):
        return self.cluster.servers

    # Updates of clients

    def ask(self, *operations, request_id=None):
        ticket = self.submit(*operations, request_id=request_id)
        self.cluster.run()
        return self.cluster.answers[ticket]

    def submit(self, *operations, request_id=None):
        """Submit an update without waiting, and return its ticket. It goes to the home of the first node, or to any
        server.
        """
        ticket = self._tickets
        self._tickets += 1
        first = next((_first_node(operation) for operation in operations), None)
        asked = None if first is None else self.home(first)
        command = UpdateCommand(ticket, RequestId(request_id or f"r{ticket}"), operations, reports_control=True)
        self.cluster.submit(asked or min(self.servers), command)
        return ticket

    def restart(self):
        """Let every server go on with what was made durable."""
        self.cluster.restart_all()
        self.cluster.run()

    def copy(self):
        return deepcopy(self)

    # Questions of clients

    def questions(self):
        return self

    def check(self, group, member):
        self._require_group(group)
        return any(self._is_above(core, group, member) for core in self._who_knows(member))

    def memberships(self, member):
        found = set()
        for core in self._who_knows(member):
            node = core.graph.index.get(member)
            if node is not None:
                found.update(core.graph.ids[above] for above in ancestor_groups(core.graph, core.ancestors, node))
        return sorted(found)

    def resolve(self, group):
        home = self._require_group(group)
        parts = {}
        pending = [(home.server, [])]
        while pending:
            server, entries = pending.pop()
            part = parts.get(server)
            if part is None:
                part = parts[server] = self._part(server, group)
                pending += part.onward.items()
            missing = set(entries).difference(part.groups, part.native)
            assert not missing, f"{server} does not know that {group} reaches {missing}"
        found = [name for part in parts.values() for name in [*part.groups, *part.native]]
        twice = [name for name, count in Counter(found).items() if count > 1]
        assert not twice, f"reported by several servers: {twice}"
        left_out = {server: self._part(server, group) for server in self.servers if server not in parts}
        assert all(part == Part() for part in left_out.values()), f"not asked: {left_out}"
        processes = {name for part in parts.values() for name in [*part.native, *part.foreign]}
        return Members(sorted(processes), sorted(name for part in parts.values() for name in part.groups))

    def describe(self, group, *, pathname_limit):
        core = self._require_group(group)
        told = {
            arc: self.servers[home].rd_record(arc)
            for home, arcs in core.arcs_judged_elsewhere(core.graph.index[group]).items()
            for arc in arcs
        }
        return MembershipResolver(core).describe(group, pathname_limit=pathname_limit, told=told)

    def pathnames(self, group):
        """Return the pathname set of a group as its home knows it, with derived nodes as their components."""
        graph = self._require_group(group).graph
        components = {graph.label(NodeIndex(node)): derived(graph, node) for node in range(len(graph.ids))}
        return {tuple(components[label] for label in path) for path in pathnames(graph, graph.index[group])}

    # The state of all servers together

    def groups(self):
        return {
            name
            for server, core in self.servers.items()
            for node, name in enumerate(core.graph.ids)
            if core.graph.kind(NodeIndex(node)) is NodeKind.GROUP and core.home_of(name) == server
        }

    def arcs(self):
        """(parent, child) -> communication cost, as the parents' homes hold them."""
        return {
            (core.graph.ids[arc.parent], core.graph.ids[arc.child]): arc.cost
            for server, core in self.servers.items()
            for arc in core.graph.present_arcs()
            if self.home(core.graph.ids[arc.parent]) == server
        }

    def arc_states(self):
        """(parent, child) -> its state, on which all servers that know the arc agree."""
        states = {}
        for server, core in self.servers.items():
            graph = core.graph
            for arc in graph.present_arcs():
                name, state = (graph.ids[arc.parent], graph.ids[arc.child]), graph.arc_state(arc)
                assert states.setdefault(name, state) is state, f"{server} takes {name} for {state}, not {states[name]}"
        return states

    def virtual_nodes(self):
        """Return all loops. Every home of a component must know its loop, under one vnid."""
        found = {}
        for core in self.servers.values():
            graph = core.graph
            for known in graph.virtual_nodes.values():
                inside = derived(graph, known.representative)
                assert found.setdefault(inside, known.vnid) == known.vnid
        for inside, vnid in found.items():
            for home in {self.home(component) for component in inside}:
                graph = self.servers[home].graph
                assert {graph.label(graph.index[component]) for component in inside} == {vnid}
        return set(found)

    def blocked(self):
        """Return (parent, child) -> originators that must not cross this normal arc, for every arc with any.

        All homes of the sink's components must agree, and the parent's home must describe the arc alike. Foreign
        processes are left out: each server has its own.
        """
        found = {}
        for server, core in self.servers.items():
            for arc, blocked in blocked_at(core).items():
                if self.home(arc.child) is None:
                    continue
                at_child = self.servers[self.home(arc.child)].graph
                for home in {self.home(node) for node in derived(at_child, at_child.index[arc.child])}:
                    assert self._computed(self.servers[home], arc) == blocked, f"{home} and {server} differ on {arc}"
                if blocked:
                    found[arc.parent, arc.child] = blocked
        assert self._described_records() == found
        return found

    def _described_records(self):
        """Return the same as `blocked`, from the descriptions of all groups."""
        found = {}
        for group in self.groups():
            for record in self.describe(group, pathname_limit=0).rd_records:
                if self.home(record.child) is not None:
                    found.setdefault((record.parent, record.child), set()).update(record.ancestors)
        return found

    def check_invariants(self):
        check_all(self.servers, TrueGraph(self.arcs()))

    def home(self, name):
        """Return the server that owns a node's subnet. None if the subnet has no owner."""
        server = ServerId(subnet_of(name))
        return server if server in self.servers else None

    def _who_knows(self, member):
        home = self.home(member)
        return list(self.servers.values()) if home is None else [self.servers[home]]

    def _require_group(self, group):
        """Return the core that owns a group. The group must exist."""
        home = self.home(group)
        core = self.servers[home or min(self.servers)]
        if core.graph.group(group) is None:
            raise group_not_found(group, core.server, known_subnet=home is not None)
        return core

    @staticmethod
    def _is_above(core, group, member):
        above, node = core.graph.index.get(group), core.graph.index.get(member)
        return None not in (above, node) and core.ancestors.is_ancestor(ancestor=above, node=node)

    def _part(self, server, originator):
        graph = self.servers[server].graph
        start = graph.index.get(originator)
        if start is None:
            return Part()
        part = Part()
        for node in graph.descendants(graph.components(start)):
            home, name = self.home(graph.ids[node]), graph.ids[node]
            if home is None:
                part.foreign.append(name)
            if home != server:
                continue
            is_process = graph.kind(node) is NodeKind.PROCESS
            if name != originator or node in graph.virtual_node_of:
                (part.native if is_process else part.groups).append(name)
            for child in graph.children[node]:
                below = self.home(graph.ids[child])
                if below not in (None, server):
                    part.onward.setdefault(below, []).append(graph.ids[child])
        return part

    @staticmethod
    def _computed(core, arc: ArcId):
        """Return the originators that must not cross an arc into a derived node, of which this server owns a
        component.
        """
        graph = core.graph
        record = graph.arc(graph.index[arc.parent], graph.index[arc.child])
        assert record is not None
        assert graph.arc_state(record) is ArcState.NORMAL
        return {graph.ids[node] for node in blocked_originators(graph, core.ancestors, record)}


def derived(graph, node):
    """Return the components of a node's derived node."""
    return frozenset(graph.ids[component] for component in graph.components(node))


def _first_node(operation):
    return operation.parent if isinstance(operation, JoinArc | LeaveArc) else operation.group
