"""The truth by brute force: the graph as users made it, and all that follows from it, computed anew for each
question.
"""

import itertools
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property

import networkx

from namegraph.graph.name_graph import ArcState
from namegraph.model.names import subnet_of
from namegraph.model.operations import ChildKind, CreateGroup, DeleteGroup, JoinArc, LeaveArc
from namegraph.model.outcomes import EffectKind
from namegraph.model.refusals import Reason
from namegraph.model.rows import NodeKind
from simulation.checks.invariants import ExternalView


@dataclass(frozen=True)
class Model:
    """The external group view. `arcs` is (parent, child) -> (kind of the child, communication cost)."""

    subnets: frozenset
    groups: frozenset = frozenset()
    arcs: dict = field(default_factory=dict)

    # Updates

    def after(self, operations):
        """Return the model after an atomic update, or (reason, number of the first operation that cannot be done)."""
        if not operations:
            return Reason.INVALID_REQUEST, 0
        model = self
        for number, operation in enumerate(operations, start=1):
            model = model.after_one(operation)
            if isinstance(model, Reason):
                return model, number
        return model

    def after_one(self, operation):
        match operation:
            case CreateGroup(group):
                return self._created(group)
            case DeleteGroup(group, force):
                return self._deleted(group, force)
            case JoinArc(parent, child, kind, cost):
                return self._joined(parent, child, kind, cost)
            case LeaveArc(parent, child, kind):
                return self._left(parent, child, kind)
        raise AssertionError(operation)

    def valid(self, operations):
        """Return the operations that can be done, each after the operations kept before it."""
        model, kept = self, []
        for operation in operations:
            following = model.after_one(operation)
            if isinstance(following, Model):
                model = following
                kept.append(operation)
        return tuple(kept)

    def brought(self, rows, groups):
        """Return the model after an import of (parent, child, kind number), or the set of reasons to refuse it."""
        as_group = set(groups) | {parent for parent, _, _ in rows} | {child for _, child, kind in rows if kind == 1}
        as_process = {child for _, child, kind in rows if kind == 2}
        reasons = set()
        if any(subnet_of(group) not in self.subnets for group in as_group):
            reasons.add(Reason.UNKNOWN_SUBNET)
        if as_group & self.processes:
            reasons.add(Reason.NAME_IN_USE)
        if as_process & (as_group | self.groups):
            reasons.add(Reason.WRONG_KIND)
        if any(parent == child for parent, child, _ in rows):
            reasons.add(Reason.SELF_ARC)
        if any(kind not in (1, 2) for _, _, kind in rows):
            reasons.add(Reason.INVALID_REQUEST)
        if reasons:
            return reasons
        added = {(parent, child): (NodeKind(kind), 0) for parent, child, kind in rows}
        return replace(self, groups=self.groups | as_group, arcs=added | self.arcs)

    def kind(self, name):
        if name in self.groups:
            return NodeKind.GROUP
        return NodeKind.PROCESS if name in self.processes else NodeKind.ABSENT

    @cached_property
    def processes(self):
        return {child for (_, child), (kind, _) in self.arcs.items() if kind is NodeKind.PROCESS}

    def _created(self, group):
        if subnet_of(group) not in self.subnets:
            return Reason.UNKNOWN_SUBNET
        match self.kind(group):
            case NodeKind.GROUP:
                return Reason.GROUP_EXISTS
            case NodeKind.PROCESS:
                return Reason.NAME_IN_USE
        return replace(self, groups=self.groups | {group})

    def _deleted(self, group, force):
        if group not in self.groups:
            return Reason.GROUP_NOT_FOUND
        if not force and any(group in arc for arc in self.arcs):
            return Reason.GROUP_IN_USE
        arcs = {arc: value for arc, value in self.arcs.items() if group not in arc}
        return replace(self, groups=self.groups - {group}, arcs=arcs)

    def _joined(self, parent, child, kind, cost):
        if parent == child:
            return Reason.SELF_ARC
        if parent not in self.groups or (kind is ChildKind.GROUP and child not in self.groups):
            return Reason.GROUP_NOT_FOUND
        if kind is ChildKind.PROCESS and child in self.groups:
            return Reason.WRONG_KIND
        if (parent, child) in self.arcs:
            return Reason.ALREADY_MEMBER
        child_kind = NodeKind.GROUP if child in self.groups else NodeKind.PROCESS
        return replace(self, arcs={**self.arcs, (parent, child): (child_kind, cost)})

    def _left(self, parent, child, kind):
        if parent == child:
            return Reason.SELF_ARC
        if parent not in self.groups:
            return Reason.GROUP_NOT_FOUND
        found = self.arcs.get((parent, child))
        if found is None or kind not in (ChildKind.AUTO, ChildKind(found[0].value)):
            return Reason.NOT_A_MEMBER
        return replace(self, arcs={arc: value for arc, value in self.arcs.items() if arc != (parent, child)})

    # Facts derived from the arcs

    @property
    def view(self):
        return ExternalView(self.groups, {arc: kind for arc, (kind, _) in self.arcs.items()})

    @cached_property
    def digraph(self):
        graph = networkx.DiGraph()
        graph.add_nodes_from(self.groups)
        graph.add_edges_from(self.arcs)
        return graph

    @cached_property
    def derived(self):
        """Name -> its derived node, as the set of components."""
        return {
            name: frozenset(component)
            for component in networkx.strongly_connected_components(self.digraph)
            for name in component
        }

    @cached_property
    def loops(self):
        return {component for component in self.derived.values() if len(component) > 1}

    @cached_property
    def condensation(self):
        graph = networkx.DiGraph()
        graph.add_nodes_from(self.derived.values())
        pairs = ((self.derived[parent], self.derived[child]) for parent, child in self.arcs)
        graph.add_edges_from((above, below) for above, below in pairs if above != below)
        return graph

    @cached_property
    def members(self):
        """Name -> all its members, itself included where it is on a loop."""
        found = {}
        for name in self.digraph:
            below = networkx.descendants(self.digraph, name)
            found[name] = below | ({name} if self.derived[name] in self.loops else set())
        return found

    @cached_property
    def ancestor_sets(self):
        """Name -> A*: itself and all its ancestors."""
        return {name: networkx.ancestors(self.digraph, name) | {name} for name in self.digraph}

    def proof_length(self, group, member):
        """Return the number of arcs of the shortest path from the group to the member."""
        below = [child for parent, child in self.arcs if parent == group]
        ways = (networkx.single_source_shortest_path_length(self.digraph, child).get(member) for child in below)
        return 1 + min(length for length in ways if length is not None)

    def shadow_tree(self, components):
        inside = {arc: cost for arc, (_, cost) in self.arcs.items() if components.issuperset(arc)}
        return first_crossing_arcs(components, inside)

    @cached_property
    def states(self):
        found = {}
        trees = {loop: self.shadow_tree(loop) for loop in self.loops}
        for parent, child in self.arcs:
            if self.derived[parent] != self.derived[child]:
                found[parent, child] = ArcState.NORMAL
            else:
                shadow = (parent, child) in trees[self.derived[parent]]
                found[parent, child] = ArcState.SHADOW if shadow else ArcState.FADE
        return found

    @cached_property
    def blocked(self):
        """Secondary arc -> who must not cross it: the rule to the letter.

        Source: docs/protocol-updates.md, "Every duplicate is blocked in advance".
        """
        found = {}
        for sink in set(self.derived.values()):
            entering = [arc for arc in self.arcs if arc[1] in sink and arc[0] not in sink]
            entering.sort(key=lambda arc: (self.arcs[arc][1], *arc))
            for place, arc in enumerate(entering):
                before = set().union(*(self.ancestor_sets[parent] for parent, _ in entering[:place]))
                found[arc] = self.ancestor_sets[arc[0]] & before
        return {arc: originators for arc, originators in found.items() if originators}

    def sources(self, originators):
        """Return the minimal derived nodes of a set of originators."""
        minimal = {self.derived[name] for name in originators}
        return {
            node for node in minimal if not any(networkx.has_path(self.condensation, node, n) for n in minimal - {node})
        }

    @cached_property
    def controlled(self):
        """Return all names whose derived node is the sink of a duplication loop."""
        return {name for _, child in self.blocked for name in self.derived[child]}

    def controlled_at(self, servers):
        """Return the controlled names, as (name, its home).

        `servers`: all servers, one for each subnet. With several servers a foreign process is a node of each that it
        joined.
        """
        if len(servers) < 2:
            return {(name, subnet_of(name)) for name in self.controlled}
        found = {(name, subnet_of(name)) for name in self.controlled if subnet_of(name) in servers}
        foreign = sorted(arc for arc in self.arcs if subnet_of(arc[1]) not in servers)
        for (parent, child), (other, same) in itertools.combinations(foreign, 2):
            is_one_node = child == same and subnet_of(parent) == subnet_of(other)
            if is_one_node and self.ancestor_sets[parent] & self.ancestor_sets[other]:
                found.add((child, subnet_of(parent)))
        return found

    def pathnames(self, name):
        """Return every path of the derived graph from a root to the derived node of `name`."""
        sink = self.derived[name]
        paths = set()
        for root in self.condensation:
            if self.condensation.in_degree(root) == 0:
                if root == sink:
                    paths.add((sink,))
                else:
                    paths |= {tuple(path) for path in networkx.all_simple_paths(self.condensation, root, sink)}
        return paths


def first_crossing_arcs(components, costs):
    """NG figure 4.5 without a heap: again and again the first arc in order that leads out of what is joined."""
    in_order = sorted(costs, key=lambda arc: (costs[arc], *arc))
    joined, tree = {min(components)}, set()
    while len(joined) < len(components):
        arc = next(arc for arc in in_order if len(joined.intersection(arc)) == 1)
        tree.add(arc)
        joined.update(arc)
    return tree


def expected_effects(before, after, servers=()):
    """Return the effects of an update on the internal view, from the two models alone: a count of (kind, names).

    `servers`: all servers, one for each subnet, if there are several.
    """
    effects = Counter()
    for component in after.loops - before.loops:
        embedded = [old for old in before.loops if old & component]
        retained = not embedded or (len(embedded) == 1 and component <= embedded[0])
        effects[EffectKind.FORMED if retained else EffectKind.GROWN, tuple(sorted(component))] += 1
    for component in before.loops - after.loops:
        if len({after.derived.get(name, name) for name in component}) > 1:
            effects[EffectKind.BROKEN, tuple(sorted(component))] += 1
    touched = {arc for arc in before.arcs | after.arcs if before.arcs.get(arc) != after.arcs.get(arc)}
    for component in before.loops & after.loops:
        if any(component.issuperset(arc) for arc in touched):
            effects[EffectKind.CHANGED, tuple(sorted(component))] += 1
    was, now = before.controlled_at(servers), after.controlled_at(servers)
    for kind, changed in ((EffectKind.CONTROLLED, now - was), (EffectKind.RELEASED, was - now)):
        if changed:
            effects[kind, tuple(sorted({name for name, _ in changed}))] += 1
    return effects
