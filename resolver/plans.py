"""Resolution plans: what an originator or a set reaches, computed on first use and kept until something below changes.

A plan is the tree of arcs that deliver for its originator: the shadow trees of the virtual nodes it reaches, and into
every other derived node the first arc, in the order of `namegraph.graph.duplication_control`, whose tail is reached. A
walk over it needs no memory of where it has been.

Of several servers, each has its own plan for an originator. A server knows the whole ancestry of what it owns, so the
owned nodes that are below the originator in its graph are all those that the originator reaches, by whatever way.

A set of targets, each less its exceptions, has one plan: of a virtual node above all of them, with what it comes to for
each member (`resolver.target_masks`).

Source: NG 4.2, 4.3; protocol.md sections 4 and 8; invariants I4, I6.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field

from namegraph import (
    AncestryStore,
    ArcRecord,
    ArcState,
    CoreQueries,
    NameGraph,
    NodeId,
    NodeIndex,
    NodeKind,
    ServerId,
    TargetSet,
    arc_order,
    named_in,
)
from resolver.target_masks import Masks, masks_below

PLANS_WEIGHT_LIMIT = 4_000_000
"""Nodes reached by all plans kept together; the least recently used go first."""


@dataclass(frozen=True, slots=True)
class Onward:
    """Nodes of another server that are immediately below owned groups of a plan; ids, each once, sorted."""

    server: ServerId
    groups: tuple[NodeId, ...]
    processes: tuple[NodeId, ...]
    masks: tuple[Masks, ...] = ()
    """Of a set: one for each process, as far as is known here."""


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Plan:
    """What an originator reaches here. `processes` and `groups` are the owned ones: sorted ids, each once."""

    reached: frozenset[NodeIndex]
    """The components of the originator and every group and process below them, as far as they are known here."""
    processes: tuple[NodeId, ...]
    """Native ones of this server, and the foreign ones that were joined here."""
    groups: tuple[NodeId, ...]
    """A group on a loop reaches itself; one that is on none does not."""
    onward: tuple[Onward, ...] = ()
    """Where the walk leaves this server, sorted by server."""
    apart: tuple[Onward, ...] = ()
    """Where it cannot go on: the arcs that lead there are suspended. Rejected ones lead nowhere."""
    number: int = 0
    """No two plans of one cache have the same."""
    encoded: dict[str, object] = field(default_factory=dict)
    """For the shell: forms of this answer that it made and wants to find again."""
    process_masks: tuple[Masks, ...] = ()
    """Of a set: one for each process. Of a foreign one other servers may know more."""
    group_masks: tuple[Masks, ...] = ()
    """Of a set: one for each group."""


@dataclass(frozen=True, slots=True)
class WalkStep:
    """One step of a walk from `tail` to `head`; over a shadow arc it may go from child to parent."""

    tail: NodeId
    head: NodeId
    kind: NodeKind
    state: ArcState


_Key = NodeIndex | tuple[TargetSet, tuple[NodeIndex | None, ...]]
"""The representative of an originator; or a set, with the numbers of its groups, None where one is not known here."""


class PlanCache:
    """Plans by originator, or by set."""

    def __init__(self, core: CoreQueries, *, weight_limit: int = PLANS_WEIGHT_LIMIT) -> None:
        self._core = core
        self._plans: OrderedDict[_Key, tuple[Plan, int]] = OrderedDict()
        """Plan and the update count at which it was last known to hold."""
        self._standing = core.standing
        """Of suspended arcs, by which the plans were made."""
        self._made = 0
        self._weight = 0
        self._weight_limit = weight_limit

    @property
    def weight(self) -> int:
        """The nodes of all plans that are kept."""
        return self._weight

    def plan(self, group: NodeIndex) -> Plan:
        """The plan of a group: the same object as long as nothing below it changes."""
        return self._plan(
            self._core.graph.representative(group), lambda number: make_plan(self._core, group, number=number)
        )

    def plan_of_set(self, targets: TargetSet, known: Mapping[NodeId, NodeIndex]) -> Plan:
        """The plan of a set: the same object as long as nothing below a target or an exception changes.

        `known`: the targets and exceptions that this server knows. Nothing of the others is below them here.
        """
        key = (targets, tuple(map(known.get, named_in(targets))))
        return self._plan(key, lambda number: make_plan_of_set(self._core, targets, known, number=number))

    def _plan(self, key: _Key, make: Callable[[int], Plan]) -> Plan:
        graph = self._core.graph
        if graph.suspended and self._standing != self._core.standing:
            self._forget_all()
        kept = self._plans.pop(key, None)
        if kept is not None:
            plan, held_at = kept
            if held_at == graph.update_count or self._still_holds(plan, held_at):
                self._plans[key] = (plan, graph.update_count)
                return plan
            self._weight -= len(plan.reached)
        self._made += 1
        plan = make(self._made)
        self._plans[key] = (plan, graph.update_count)
        self._weight += len(plan.reached)
        while self._weight > self._weight_limit and len(self._plans) > 1:
            _, (oldest, _) = self._plans.popitem(last=False)
            self._weight -= len(oldest.reached)
        return plan

    def _forget_all(self) -> None:
        """No arc has changed, but which of the suspended ones are rejected."""
        self._standing = self._core.standing
        self._plans.clear()
        self._weight = 0

    def _still_holds(self, plan: Plan, held_at: int) -> bool:
        # What a plan reaches, and how, changes only with an arc that leaves a node it reaches.
        return self._core.graph.is_unchanged_at(plan.reached, since=held_at)


def make_plan(core: CoreQueries, group: NodeIndex, *, number: int = 0) -> Plan:
    """Compute the plan of a group: one walk down, level by level."""
    graph = core.graph
    reached = graph.descendants(graph.components(group))
    assert reached is not None
    elsewhere = nodes_elsewhere(core.records, reached)
    owned = reached - elsewhere if elsewhere else reached
    ids, kinds = graph.ids, graph.kinds
    processes = sorted([ids[node] for node in owned if kinds[node] == NodeKind.PROCESS])
    groups = sorted([ids[node] for node in owned if kinds[node] == NodeKind.GROUP])
    if group in owned and group not in graph.virtual_node_of:
        groups.remove(ids[group])
    children = graph.children
    onward = _by_server(core, set().union(*[children[node] for node in owned]) & elsewhere) if elsewhere else ()
    apart = _by_server(core, apart_below(core, owned)) if graph.suspended else ()
    return Plan(frozenset(reached), tuple(processes), tuple(groups), onward, apart, number)


def make_plan_of_set(
    core: CoreQueries, targets: TargetSet, known: Mapping[NodeId, NodeIndex], *, number: int = 0
) -> Plan:
    """Compute the plan of a set: one walk down from all of its groups.

    Groups below exceptions alone are in it too, since the walk goes on there. Native processes below them are not: they
    are in no answer, whatever others know.
    """
    graph = core.graph
    ids, kinds, children = graph.ids, graph.kinds, graph.children
    reached = graph.descendants({component for node in known.values() for component in graph.components(node)})
    assert reached is not None
    elsewhere = nodes_elsewhere(core.records, reached)
    owned = reached - elsewhere
    suspended = {node: core.suspended_children(node) for node in owned & graph.suspended_from.keys()}
    masks = masks_below(
        graph,
        targets,
        known,
        {node: [child for child in below if kinds[child] == NodeKind.PROCESS] for node, below in suspended.items()},
    )
    people: dict[NodeId, Masks] = {}
    groups: dict[NodeId, Masks] = {}
    for node in owned & masks.keys():
        name, found = ids[node], masks[node]
        if kinds[node] == NodeKind.GROUP:
            groups[name] = found
        elif found.reached or node in graph.suspended_into or not core.knows_subnet_of(name):
            people[name] = found
    processes, reached_groups = sorted(people), sorted(groups)
    below = set().union(*[children[node] for node in owned]) & elsewhere
    apart = set().union(*suspended.values())
    return Plan(
        frozenset(reached),
        tuple(processes),
        tuple(reached_groups),
        _by_server(core, below, masks),
        _by_server(core, apart, masks),
        number,
        process_masks=tuple(map(people.__getitem__, processes)),
        group_masks=tuple(map(groups.__getitem__, reached_groups)),
    )


def apart_below(core: CoreQueries, nodes: Set[NodeIndex]) -> set[NodeIndex]:
    """The children of suspended arcs that leave some nodes, but for rejected ones."""
    return set().union(*map(core.suspended_children, nodes & core.graph.suspended_from.keys()))


def nodes_elsewhere(records: AncestryStore, nodes: Set[NodeIndex]) -> set[NodeIndex]:
    """Those of some nodes with arcs here that live on other servers: they are above owned nodes, or their children."""
    return (records.above.keys() & nodes) | (records.leaving.keys() & nodes)


def _by_server(
    core: CoreQueries, below: Iterable[NodeIndex], masks: Mapping[NodeIndex, Masks] | None = None
) -> tuple[Onward, ...]:
    graph = core.graph
    found: dict[ServerId, dict[NodeKind, list[NodeIndex]]] = {}
    for name, node in sorted((graph.ids[node], node) for node in below):
        found.setdefault(core.home_of(name), {}).setdefault(graph.kind(node), []).append(node)
    told = []
    for server in sorted(found):
        groups, processes = (found[server].get(kind, []) for kind in (NodeKind.GROUP, NodeKind.PROCESS))
        told.append(
            Onward(
                server,
                tuple(graph.ids[node] for node in groups),
                tuple(graph.ids[node] for node in processes),
                () if masks is None else tuple(masks[node] for node in processes),
            )
        )
    return tuple(told)


def delivering_arcs(graph: NameGraph, plan: Plan, originator: NodeIndex) -> dict[NodeIndex, ArcRecord]:
    """The arc that delivers each derived node of a plan but the originator, by representative."""
    delivering: dict[NodeIndex, ArcRecord] = {}
    owner = graph.virtual_node_of
    first = graph.representative(originator)
    for node in plan.reached:
        virtual_node = owner.get(node)
        representative = node if virtual_node is None else virtual_node.components[0]
        if representative == first:
            continue
        for arc in graph.parents[node].values():
            if arc.parent not in plan.reached or (virtual_node is not None and owner.get(arc.parent) is virtual_node):
                continue
            best = delivering.get(representative)
            if best is None or arc_order(graph, arc) < arc_order(graph, best):
                delivering[representative] = arc
    return delivering


def walk(graph: NameGraph, plan: Plan, group: NodeIndex) -> Iterator[WalkStep]:
    """Yield the steps of the resolution of `group` in depth-first order, siblings by id: every node once.

    The walk asks of each arc only whether it delivers for the originator, never whether a node was seen before.
    """
    delivering = delivering_arcs(graph, plan, group)
    ids = graph.ids
    stack = [(group, iter(_onward(graph, delivering, group, came_from=None)))]
    while stack:
        node, onward = stack[-1]
        step = next(onward, None)
        if step is None:
            stack.pop()
            continue
        head, state = step
        yield WalkStep(ids[node], ids[head], graph.kind(head), state)
        stack.append((head, iter(_onward(graph, delivering, head, came_from=node))))


def _onward(
    graph: NameGraph, delivering: dict[NodeIndex, ArcRecord], node: NodeIndex, *, came_from: NodeIndex | None
) -> list[tuple[NodeIndex, ArcState]]:
    owner = graph.virtual_node_of
    virtual_node = owner.get(node)
    onward = []
    for child, arc in graph.children[node].items():
        inside = virtual_node is not None and owner.get(child) is virtual_node
        if not inside and delivering.get(graph.representative(child)) is arc:
            onward.append((child, ArcState.NORMAL))
    if virtual_node is not None:
        tree = graph.shadow_tree(virtual_node)
        around = {child for child in graph.children[node] if (node, child) in tree}
        around.update(parent for parent in graph.parents[node] if (parent, node) in tree)
        onward += [(neighbour, ArcState.SHADOW) for neighbour in around if neighbour != came_from]
    onward.sort(key=lambda step: graph.ids[step[0]])
    return onward
