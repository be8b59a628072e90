"""Resolution plans: nodes that an originator or a set reaches, computed on first use and cached until a change below.

A plan is the tree of arcs that deliver for its originator. It has the shadow trees of the virtual nodes that the
originator reaches. For every other derived node it has the first arc whose tail is reached, in the order of
`namegraph.graph.duplication_control`. A walk over the plan needs no memory of visited nodes.

Each of several servers has its own plan for an originator. A server knows the whole ancestry of the nodes that it owns.
The owned nodes below the originator in its graph are therefore all owned nodes that the originator reaches, by any
path.

A set of targets, each less its exceptions, has one plan: that of a virtual node above all of them, with the masks of
each member (`resolver.target_masks`).

Source: NG 4.2, 4.3. See docs/protocol-updates.md, "Every duplicate is blocked in advance" and "Questions over several
servers"; docs/protocol.md, "The invariants" (I4, I6).
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
"""Attempts to make a plan in slices before updates that interrupt it. The next attempt runs at once."""

_GROUP, _PROCESS = int(NodeKind.GROUP), int(NodeKind.PROCESS)

PLANS_WEIGHT_LIMIT = 4_000_000
"""Most nodes reached by all cached plans together. The least recently used plans go first."""


@dataclass(frozen=True, slots=True)
class OnwardNodes:
    """Nodes of another server that are immediately below owned groups of a plan. Ids are sorted, each once."""

    server: ServerId
    groups: tuple[NodeId, ...]
    processes: tuple[NodeId, ...]
    masks: tuple[Masks, ...] = ()
    """Masks of each process as this server knows them, for a set."""


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class ResolvePlan:
    """Nodes at this server that an originator reaches.

    `processes` and `groups` are the owned ones: sorted ids, each once.
    """

    reached: frozenset[NodeIndex]
    """Components of the originator, and every group and process below them that this server knows."""
    processes: tuple[NodeId, ...]
    """Native processes of this server, and the foreign processes that were joined at this server."""
    groups: tuple[NodeId, ...]
    """Groups. A group on a loop reaches itself. A group on no loop does not."""
    onward: tuple[OnwardNodes, ...] = ()
    """Nodes of other servers at which the walk leaves this server, sorted by server."""
    apart: tuple[OnwardNodes, ...] = ()
    """Nodes at which the walk stops, because the arcs to them are suspended. Rejected arcs are left out."""
    number: int = 0
    """Number of the plan, unique in its cache."""
    encoded: dict[str, tuple[bytes, ...]] = field(default_factory=dict)
    """Serialized chunks of this answer, by list, that the shell made and wants to find again."""
    process_masks: tuple[Masks, ...] = ()
    """Masks of each process, for a set. Other servers may know more of a foreign process."""
    group_masks: tuple[Masks, ...] = ()
    """Masks of each group, for a set."""


@dataclass(frozen=True, slots=True)
class PlanStep:
    """One step of a walk from `tail` to `head`. Over a shadow arc it may go from child to parent."""

    tail: NodeId
    head: NodeId
    kind: NodeKind
    state: ArcState


_Key = NodeIndex | tuple[TargetSet, tuple[NodeIndex | None, ...]]
"""Representative of an originator; or a set, with the numbers of its groups.

None as a number if the group is not known here.
"""

_Making = Callable[[CoreQueries, set[NodeIndex]], Slices[ResolvePlan]]
"""Function that makes a plan of a state. It adds the nodes that it has read to the set, before it reads further."""


class PlanCache:
    """Plans by originator, or by set."""

    def __init__(self, core: CoreQueries, *, weight_limit: int = PLANS_WEIGHT_LIMIT) -> None:
        self._core = core
        self._plans: OrderedDict[_Key, tuple[ResolvePlan, int]] = OrderedDict()
        """Each plan, with the update count at which it was last known to hold."""
        self._standing = core.standing
        """Standing of suspended arcs for which the plans were made."""
        self._made = 0
        self._weight = 0
        self._weight_limit = weight_limit

    @property
    def weight(self) -> int:
        """Number of nodes in all cached plans."""
        return self._weight

    def plan(self, group: NodeIndex) -> ResolvePlan:
        """Return the plan of a group: the same object while nothing below the group changes."""
        return self._plan(*self._of_group(group))

    def plan_of_set(self, targets: TargetSet, known: Mapping[NodeId, NodeIndex]) -> ResolvePlan:
        """Return the plan of a set: the same object while nothing below a target or an exception changes.

        `known`: targets and exceptions that this server knows. The other ones have no nodes below them here.
        """
        return self._plan(*self._of_set(targets, known))

    def fill(self, group: NodeIndex) -> Iterator[int]:
        """Make the plan of a group for a fast answer. Yield between slices, so that updates may come.

        If updates change the nodes below again and again, the plan is missing in the end.
        """
        return self._fill(lambda: self._of_group(group))

    def fill_for_set(self, targets: TargetSet, known: Mapping[NodeId, NodeIndex]) -> Iterator[int]:
        """Make the plan of a set, as `fill` does for a group."""
        return self._fill(lambda: self._of_set(targets, known))

    def kept(self, group: NodeIndex) -> ResolvePlan | None:
        """Return the plan of a group if it is cached and holds. None otherwise."""
        return self._kept(self._core.graph.representative(group))

    def _of_group(self, group: NodeIndex) -> tuple[_Key, _Making]:
        return self._core.graph.representative(group), lambda core, found: make_plan(core, group, found)

    def _of_set(self, targets: TargetSet, known: Mapping[NodeId, NodeIndex]) -> tuple[_Key, _Making]:
        key = (targets, tuple(map(known.get, named_in(targets))))
        return key, lambda core, found: make_plan_of_set(core, targets, known, found)

    def _plan(self, key: _Key, making: _Making) -> ResolvePlan:
        return self._kept(key) or self._keep(key, at_once(making(self._core, set())))

    def _fill(self, find: Callable[[], tuple[_Key, _Making]]) -> Iterator[int]:
        for _ in range(ATTEMPTS):
            key, making = find()  # An update that overtook the last attempt may have changed the representative.
            if self._kept(key) is not None:
                return
            plan = yield from self._attempt(making)
            if plan is not None:
                self._keep(key, plan)

    def _attempt(self, making: _Making) -> Slices[ResolvePlan | None]:
        """Make a plan of the state that readers see now. Return None if a node below changes meanwhile."""
        standing, begun_at = self._core.standing, self._core.graph.update_count
        reached: set[NodeIndex] = set()

        def holds() -> bool:
            is_same = self._core.standing == standing
            return is_same and self._core.graph.is_unchanged_at(reached, since=begun_at)

        with self._core.kept() as core:
            return (yield from unless_overtaken(making(core, reached), holds))

    def _kept(self, key: _Key) -> ResolvePlan | None:
        """Return the cached plan if it holds. None otherwise."""
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

    def _keep(self, key: _Key, plan: ResolvePlan) -> ResolvePlan:
        """Cache a plan, unless another plan was cached meanwhile. Return the cached plan."""
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
        """Discard all plans: no arc has changed, but other suspended arcs are rejected now."""
        self._standing = self._core.standing
        self._plans.clear()
        self._weight = 0

    def _still_holds(self, plan: ResolvePlan, held_at: int) -> bool:
        # The nodes that a plan reaches, and its arcs, change only with an arc that leaves such a node.
        return self._core.graph.is_unchanged_at(plan.reached, since=held_at)


def make_plan(core: CoreQueries, group: NodeIndex, reached: set[NodeIndex]) -> Slices[ResolvePlan]:
    """Compute the plan of a group: one walk down, level by level. `reached`, empty at first, gets the nodes found."""
    graph = core.graph
    yield from _descend(graph, graph.components(group), reached)
    elsewhere = nodes_elsewhere(core.records, reached)
    owned = reached - elsewhere if elsewhere else reached
    ids, kinds = graph.ids, graph.kinds
    processes: list[NodeId] = []
    groups: list[NodeId] = []
    for some in in_slices(owned):
        names, kinds_of_some = ids.of(some), kinds.of(some)
        processes += [name for name, kind in zip(names, kinds_of_some, strict=True) if kind == _PROCESS]
        groups += [name for name, kind in zip(names, kinds_of_some, strict=True) if kind == _GROUP]
        yield len(some)
    processes = yield from sorted_in_slices(processes)
    groups = yield from sorted_in_slices(groups)
    if group in owned and group not in graph.virtual_node_of:
        groups.remove(ids[group])
    below = (yield from _immediately_below(graph, owned, elsewhere)) if elsewhere else set()
    onward = yield from _by_server(core, below)
    suspended = yield from _suspended_below(core, owned)
    apart = yield from _by_server(core, set().union(*suspended.values()))
    return ResolvePlan(frozenset(reached), tuple(processes), tuple(groups), onward, apart)


def make_plan_of_set(
    core: CoreQueries, targets: TargetSet, known: Mapping[NodeId, NodeIndex], reached: set[NodeIndex]
) -> Slices[ResolvePlan]:
    """Compute the plan of a set: one walk down from all of its groups. `reached` as in `make_plan`.

    The plan includes groups only below exceptions, because the walk goes on there. It excludes native processes only
    below exceptions: they are in no answer, whatever other servers know.
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
    return ResolvePlan(
        frozenset(reached),
        tuple(processes),
        tuple(reached_groups),
        onward,
        apart,
        process_masks=tuple(map(people.__getitem__, processes)),
        group_masks=tuple(map(groups.__getitem__, reached_groups)),
    )


def _descend(graph: NameGraph, starts: Iterable[NodeIndex], reached: set[NodeIndex]) -> Slices[None]:
    """Add the start nodes, and all nodes below them."""
    reached.update(starts)
    frontier = set(reached)
    while frontier:
        found = yield from _immediately_below(graph, frontier, None)
        frontier = found - reached
        reached |= frontier


def _immediately_below(
    graph: NameGraph, nodes: Iterable[NodeIndex], among: Set[NodeIndex] | None
) -> Slices[set[NodeIndex]]:
    """Return the children of some nodes, limited to `among`. None as `among` for no limit."""
    children = graph.children
    found: set[NodeIndex] = set()
    for some in in_slices(nodes, SLICE_ITEMS // 4):
        # Many nodes at once: the union runs in C, several times faster than a visit to each arc.
        below = set().union(*children.of(some))
        found |= below if among is None else below & among
        yield len(some) + len(below)
    return found


def _suspended_below(core: CoreQueries, nodes: Set[NodeIndex]) -> Slices[dict[NodeIndex, list[NodeIndex]]]:
    """Return the children over suspended arcs that are not rejected, by parent."""
    suspended = core.graph.suspended_from
    found: dict[NodeIndex, list[NodeIndex]] = {}
    for node in suspended.among(nodes):
        children = found[node] = []
        for some in in_slices(list(suspended[node])):
            children += core.suspended_children(node, some)
            yield len(some)
    return found


def nodes_elsewhere(records: AncestryStore, nodes: Set[NodeIndex]) -> set[NodeIndex]:
    """Return the nodes that other servers own: those with arcs here are above owned nodes, or their children."""
    return records.above.among(nodes) | records.leaving.among(nodes)


def _by_server(
    core: CoreQueries, below: Collection[NodeIndex], masks: Mapping[NodeIndex, Masks] | None = None
) -> Slices[tuple[OnwardNodes, ...]]:
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
        OnwardNodes(server, tuple(groups), tuple(processes), tuple(masks_of))
        for server, (groups, processes, masks_of) in sorted(found.items())
    )


def delivering_arcs(graph: NameGraph, plan: ResolvePlan, originator: NodeIndex) -> Slices[dict[NodeIndex, ArcRecord]]:
    """Return the arc that delivers each derived node of a plan except the originator, by representative."""
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
