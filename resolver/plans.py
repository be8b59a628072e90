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
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace

from namegraph import (
    SLICE_ITEMS,
    AncestryStore,
    ArcRecord,
    ArcState,
    CoreQueries,
    NameGraph,
    NodeId,
    NodeIndex,
    NodeKind,
    ServerId,
    Slices,
    TargetSet,
    arc_order,
    at_once,
    in_slices,
    named_in,
    sorted_in_slices,
    unless_overtaken,
)
from resolver.target_masks import Masks, masks_below

ATTEMPTS = 3
"""Plans that are begun again because an update changed what they had read; the next one is made at once."""

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

_Making = Callable[[set[NodeIndex]], Slices[Plan]]
"""Makes a plan; adds to the set the nodes that it has looked at, before it looks further."""


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
        return self._plan(*self._of_group(group))

    def plan_of_set(self, targets: TargetSet, known: Mapping[NodeId, NodeIndex]) -> Plan:
        """The plan of a set: the same object as long as nothing below a target or an exception changes.

        `known`: the targets and exceptions that this server knows. Nothing of the others is below them here.
        """
        return self._plan(*self._of_set(targets, known))

    def fill(self, group: NodeIndex) -> Iterator[int]:
        """Make the plan of a group, so that asking for it takes no time; yield between slices, when updates may come.

        Where these change again and again what is below it, there is none in the end.
        """
        return self._fill(lambda: self._of_group(group))

    def fill_for_set(self, targets: TargetSet, known: Mapping[NodeId, NodeIndex]) -> Iterator[int]:
        """The same for the plan of a set."""
        return self._fill(lambda: self._of_set(targets, known))

    def kept(self, group: NodeIndex) -> Plan | None:
        """The plan of a group, where it is made and holds."""
        return self._kept(self._core.graph.representative(group))

    def _of_group(self, group: NodeIndex) -> tuple[_Key, _Making]:
        return self._core.graph.representative(group), lambda found: make_plan(self._core, group, found)

    def _of_set(self, targets: TargetSet, known: Mapping[NodeId, NodeIndex]) -> tuple[_Key, _Making]:
        key = (targets, tuple(map(known.get, named_in(targets))))
        return key, lambda found: make_plan_of_set(self._core, targets, known, found)

    def _plan(self, key: _Key, making: _Making) -> Plan:
        return self._kept(key) or self._keep(key, at_once(making(set())))

    def _fill(self, find: Callable[[], tuple[_Key, _Making]]) -> Iterator[int]:
        for _ in range(ATTEMPTS):
            key, making = find()  # What overtook the last one may have changed the representative.
            if self._kept(key) is not None:
                return
            plan = yield from self._attempt(making)
            if plan is not None:
                self._keep(key, plan)

    def _attempt(self, making: _Making) -> Slices[Plan | None]:
        """A plan, unless something below changes while it is made, or what readers see becomes another graph."""
        graph, standing, begun_at = self._core.graph, self._core.standing, self._core.graph.update_count
        reached: set[NodeIndex] = set()

        def holds() -> bool:
            is_same = self._core.graph is graph and self._core.standing == standing
            return is_same and graph.is_unchanged_at(reached, since=begun_at)

        return (yield from unless_overtaken(making(reached), holds))

    def _kept(self, key: _Key) -> Plan | None:
        """The plan that is kept and holds."""
        graph = self._core.graph
        if graph.suspended and self._standing != self._core.standing:
            self._forget_all()
        kept = self._plans.pop(key, None)
        if kept is None:
            return None
        plan, held_at = kept
        if held_at == graph.update_count or self._still_holds(plan, held_at):
            self._plans[key] = (plan, graph.update_count)
            return plan
        self._weight -= len(plan.reached)
        return None

    def _keep(self, key: _Key, plan: Plan) -> Plan:
        """Keep one that was made, unless another one was made meanwhile."""
        kept = self._kept(key)
        if kept is not None:
            return kept
        self._made += 1
        plan = replace(plan, number=self._made)
        self._plans[key] = (plan, self._core.graph.update_count)
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


def make_plan(core: CoreQueries, group: NodeIndex, reached: set[NodeIndex]) -> Slices[Plan]:
    """Compute the plan of a group: one walk down, level by level. `reached`, empty at first, takes what is found."""
    graph = core.graph
    yield from _descend(graph, graph.components(group), reached)
    elsewhere = nodes_elsewhere(core.records, reached)
    owned = reached - elsewhere if elsewhere else reached
    ids, kinds = graph.ids, graph.kinds
    processes: list[NodeId] = []
    groups: list[NodeId] = []
    for some in in_slices(owned):
        processes += [ids[node] for node in some if kinds[node] == NodeKind.PROCESS]
        groups += [ids[node] for node in some if kinds[node] == NodeKind.GROUP]
        yield len(some)
    processes = yield from sorted_in_slices(processes)
    groups = yield from sorted_in_slices(groups)
    if group in owned and group not in graph.virtual_node_of:
        groups.remove(ids[group])
    below = (yield from _immediately_below(graph, owned, elsewhere)) if elsewhere else set()
    onward = yield from _by_server(core, below)
    suspended = yield from _suspended_below(core, owned)
    apart = yield from _by_server(core, set().union(*suspended.values()))
    return Plan(frozenset(reached), tuple(processes), tuple(groups), onward, apart)


def make_plan_of_set(
    core: CoreQueries, targets: TargetSet, known: Mapping[NodeId, NodeIndex], reached: set[NodeIndex]
) -> Slices[Plan]:
    """Compute the plan of a set: one walk down from all of its groups. `reached` as in `make_plan`.

    Groups below exceptions alone are in it too, since the walk goes on there. Native processes below them are not: they
    are in no answer, whatever others know.
    """
    graph = core.graph
    ids, kinds = graph.ids, graph.kinds
    yield from _descend(graph, {component for node in known.values() for component in graph.components(node)}, reached)
    elsewhere = nodes_elsewhere(core.records, reached)
    owned = reached - elsewhere
    suspended = yield from _suspended_below(core, owned)
    masks = yield from masks_below(
        graph,
        targets,
        known,
        {node: [child for child in below if kinds[child] == NodeKind.PROCESS] for node, below in suspended.items()},
    )
    people: dict[NodeId, Masks] = {}
    groups: dict[NodeId, Masks] = {}
    for some in in_slices(owned & masks.keys()):
        for node in some:
            name, found = ids[node], masks[node]
            if kinds[node] == NodeKind.GROUP:
                groups[name] = found
            elif found.reached or node in graph.suspended_into or not core.knows_subnet_of(name):
                people[name] = found
        yield len(some)
    processes = yield from sorted_in_slices(list(people))
    reached_groups = yield from sorted_in_slices(list(groups))
    below = yield from _immediately_below(graph, owned, elsewhere)
    onward = yield from _by_server(core, below, masks)
    apart = yield from _by_server(core, set().union(*suspended.values()), masks)
    return Plan(
        frozenset(reached),
        tuple(processes),
        tuple(reached_groups),
        onward,
        apart,
        process_masks=tuple(map(people.__getitem__, processes)),
        group_masks=tuple(map(groups.__getitem__, reached_groups)),
    )


def _descend(graph: NameGraph, starts: Iterable[NodeIndex], reached: set[NodeIndex]) -> Slices[None]:
    """Add the starts, and all that is below them."""
    reached.update(starts)
    frontier = set(reached)
    while frontier:
        found = yield from _immediately_below(graph, frontier, None)
        frontier = found - reached
        reached |= frontier


def _immediately_below(
    graph: NameGraph, nodes: Iterable[NodeIndex], among: Set[NodeIndex] | None
) -> Slices[set[NodeIndex]]:
    """The children of some nodes, as far as they are among others."""
    children = graph.children
    found: set[NodeIndex] = set()
    for some in in_slices(nodes, SLICE_ITEMS // 4):
        # Many at once: the union runs in C, which is several times faster than visiting arc by arc.
        below = set().union(*[children[node] for node in some])
        found |= below if among is None else below & among
        yield len(some) + len(below)
    return found


def _suspended_below(core: CoreQueries, nodes: Set[NodeIndex]) -> Slices[dict[NodeIndex, list[NodeIndex]]]:
    """The children of suspended arcs that leave each of some nodes, but for rejected ones."""
    suspended = core.graph.suspended_from
    found: dict[NodeIndex, list[NodeIndex]] = {}
    for node in nodes & suspended.keys():
        children = found[node] = []
        for some in in_slices(list(suspended[node])):
            children += core.suspended_children(node, some)
            yield len(some)
    return found


def nodes_elsewhere(records: AncestryStore, nodes: Set[NodeIndex]) -> set[NodeIndex]:
    """Those of some nodes with arcs here that live on other servers: they are above owned nodes, or their children."""
    return (records.above.keys() & nodes) | (records.leaving.keys() & nodes)


def _by_server(
    core: CoreQueries, below: Collection[NodeIndex], masks: Mapping[NodeIndex, Masks] | None = None
) -> Slices[tuple[Onward, ...]]:
    graph = core.graph
    numbers: dict[NodeId, NodeIndex] = {}
    for some in in_slices(below):
        numbers.update((graph.ids[node], node) for node in some)
        yield len(some)
    names = yield from sorted_in_slices(list(numbers))
    found: dict[ServerId, tuple[list[NodeId], list[NodeId], list[Masks]]] = {}
    for few in in_slices(names):
        nodes = [numbers[name] for name in few]
        for name, node, home in zip(few, nodes, core.homes_of(nodes), strict=True):
            groups, processes, masks_of = found.setdefault(home, ([], [], []))
            if graph.kind(node) is NodeKind.GROUP:
                groups.append(name)
            elif graph.kind(node) is NodeKind.PROCESS:
                processes.append(name)
                masks_of += () if masks is None else (masks[node],)
        yield len(few)
    return tuple(
        Onward(server, tuple(groups), tuple(processes), tuple(masks_of))
        for server, (groups, processes, masks_of) in sorted(found.items())
    )


def delivering_arcs(graph: NameGraph, plan: Plan, originator: NodeIndex) -> Slices[dict[NodeIndex, ArcRecord]]:
    """The arc that delivers each derived node of a plan but the originator, by representative."""
    delivering: dict[NodeIndex, ArcRecord] = {}
    owner = graph.virtual_node_of
    first = graph.representative(originator)
    looked_at = 0
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
        looked_at += 1 + len(graph.parents[node])
        if looked_at >= SLICE_ITEMS:
            yield looked_at
            looked_at = 0
    return delivering
