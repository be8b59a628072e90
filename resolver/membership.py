"""Questions about membership, answered from one server's state: no walk where the ancestors of the member tell."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import NamedTuple

from pyroaring import BitMap

from namegraph import (
    AncestorSets,
    ArcId,
    ArcRecord,
    CoreQueries,
    NameGraph,
    NodeId,
    NodeIndex,
    NodeKind,
    ServerId,
    Slices,
    Subnet,
    Uncertainty,
    ancestor_groups,
    at_once,
    blocked_originators,
    in_slices,
    prove,
    sorted_in_slices,
)
from resolver.descriptions import GroupDescription, describe
from resolver.group_order import GroupOrder
from resolver.plans import ATTEMPTS, Plan, PlanCache, WalkStep
from resolver.steps import Prepared, assemble, deliveries, prepare

Walk = tuple[WalkStep, ...]

NOTHING_TOLD: Mapping[ArcId, Sequence[NodeId]] = MappingProxyType({})


class ExportRow(NamedTuple):
    """One arc, or a group without members: then `child` is empty."""

    parent: NodeId
    child: str
    kind: NodeKind


class DirectMembers(NamedTuple):
    """Immediate members of a group. All names are sorted."""

    revision: str
    """Revision of the state that was read."""
    processes: list[NodeId]
    groups: list[NodeId]
    uncertain: list[NodeId]
    """Groups whose arc is suspended: their homes, which are out of reach, may have deleted them. `groups` has them too.
    The group itself, alone, where another server may know of more members."""


def nobody() -> tuple[ServerId, ...]:
    """What `unheard` says where all others are heard."""
    return ()


class MembershipResolver:
    """Reads a core. Names are canonical; `RefusedError` (GROUP_NOT_FOUND) where a group asked for does not exist.

    Where this server may have forgotten the group, or somebody may have created it without this server, it is
    UNAVAILABLE.
    """

    def __init__(self, core: CoreQueries, *, unheard: Callable[[], Collection[ServerId]] = nobody) -> None:
        """`unheard` gives the servers that may have lost this one by now."""
        self._core = core
        self._unheard = unheard
        self.plans = PlanCache(core)
        self.group_order = GroupOrder(core)

    @property
    def _graph(self) -> NameGraph:
        return self._core.graph

    @property
    def _ancestors(self) -> AncestorSets:
        return self._core.ancestors

    def uncertainty(self) -> Uncertainty:
        """What others may know better than this server now."""
        return self._core.uncertainty(self._unheard())

    def resolve(self, group: NodeId) -> Plan:
        """Who is in the group: the same plan object as long as the answer is the same."""
        return self.plans.plan(self._require_group(group))

    def fill(self, group: NodeId) -> Iterator[int]:
        """Make the plan that `resolve` needs, so that it takes no time; yield between slices, when updates may come."""
        return self.plans.fill(self._require_group(group))

    def representative(self, group: NodeId) -> NodeIndex:
        """The number that stands for the group's derived node."""
        return self._graph.representative(self._require_group(group))

    def walk(self, group: NodeId, prepared: Prepared[Walk] | None = None) -> Walk:
        """How the resolution of the group goes: depth first, siblings by id, every node once.

        `prepared`: what `prepare_walk` came to. Where that no longer holds, the walk is made anew.
        """
        node = self._require_group(group)
        plan = self.plans.plan(node)
        if prepared is not None and prepared.is_of(plan, self._core):
            return prepared.steps
        return at_once(self._walk(node, plan))

    def prepare_walk(self, group: NodeId) -> Slices[Prepared[Walk] | None]:
        """Make what `walk` needs, so that it takes no time; yield between slices, when updates may come."""
        for _ in range(ATTEMPTS):
            yield from self.fill(group)
            node = self._require_group(group)
            prepared = yield from prepare(self._core, self.plans, node, partial(self._walk, node))
            if prepared is not None:
                return prepared
        return None

    def _walk(self, group: NodeIndex, plan: Plan) -> Slices[Walk]:
        told = yield from deliveries(self._core, plan, group)
        return (yield from assemble(self._graph.ids[group], told))

    def check(self, group: NodeId, member: NodeId) -> bool:
        """Whether the member is in the group, directly or not. An unknown member is in no group."""
        node = self._require_group(group)
        of_member = self._graph.index.get(member)
        if of_member is None:
            return False
        return self._ancestors.is_ancestor(ancestor=node, node=of_member) or self.is_above_suspended(node, of_member)

    def is_above_suspended(self, group: NodeIndex, member: NodeIndex, *, without: Set[ServerId] = frozenset()) -> bool:
        """Whether a suspended arc from a group of this server makes a process a member of a group.

        That is sure, as nobody else can leave such an arc; `without` resting on groups of some servers. Of a group that
        is below a suspended arc it is not: its home, which is away, may have left it there, or deleted the group.
        """
        if not self._graph.suspended or self._graph.kind(member) is not NodeKind.PROCESS:
            return False
        return any(
            parent == group or self._is_above(group, parent, without)
            for parent in self._core.suspended_parents(member)
            if self._core.owns(parent)
        )

    def _is_above(self, group: NodeIndex, node: NodeIndex, without: Set[ServerId]) -> bool:
        if not self._ancestors.is_ancestor(ancestor=group, node=node):
            return False
        ids = self._graph.ids
        return not without or self.is_above_without(ids[group], ids[node], without)

    def is_above_without(self, group: NodeId, member: NodeId, servers: Set[ServerId]) -> bool:
        """Whether the member is in the group by way of groups alone that none of these servers owns."""
        graph, home_of = self._graph, self._core.home_of
        seen, pending = set[NodeIndex](), [graph.index[member]]
        goal = graph.index[group]
        while pending:
            for parent in graph.parents[pending.pop()]:
                if parent not in seen and home_of(graph.ids[parent]) not in servers:
                    if parent == goal:
                        return True
                    seen.add(parent)
                    pending.append(parent)
        return False

    def explain(self, group: NodeId, member: NodeId) -> list[NodeId]:
        """A shortest chain of immediate memberships from the group to the member; empty where it is not in it."""
        node = self._require_group(group)
        of_member = self._graph.index.get(member)
        if of_member is None:
            return []
        chain = list(prove(self._graph, self._ancestors, group=node, member=of_member))
        if chain or not self.is_above_suspended(node, of_member):
            return [self._graph.ids[step] for step in chain]
        for parent in sorted(filter(self._core.owns, self._core.suspended_parents(of_member))):
            above = [node] if parent == node else prove(self._graph, self._ancestors, group=node, member=parent)
            if above:
                chain = [*above, of_member]
                break
        return [self._graph.ids[step] for step in chain]

    def memberships(self, member: NodeId) -> list[NodeId]:
        """Every group the member is in, directly or not, sorted."""
        node = self._graph.index.get(member)
        if node is None:
            return []
        ids = self._graph.ids
        found = set(ancestor_groups(self._graph, self._ancestors, node))
        for parent in self._core.suspended_parents(node) if self._graph.suspended else ():
            # That is known, whoever is away.
            found.update([parent], ancestor_groups(self._graph, self._ancestors, parent))
        return sorted([ids[group] for group in found])

    def direct_memberships(self, member: NodeId) -> list[NodeId]:
        """Every group that the member is a direct member of, sorted."""
        node = self._graph.index.get(member)
        if node is None:
            return []
        ids = self._graph.ids
        parents = [*self._graph.parents[node], *(self._core.suspended_parents(node) if self._graph.suspended else ())]
        return sorted([ids[parent] for parent in parents])

    def direct_members(self, group: NodeId) -> Slices[DirectMembers]:
        """Find the immediate members of a group; yield between slices, when updates may come."""
        for _ in range(ATTEMPTS):
            graph = self._graph
            update_count = graph.update_count
            found = yield from self._direct_members(group)
            if self._graph is graph and graph.update_count == update_count:
                return found
        return at_once(self._direct_members(group))

    def _direct_members(self, group: NodeId) -> Slices[DirectMembers]:
        node = self._require_group(group)
        graph, revision = self._graph, self._core.revision
        suspended = self._core.suspended_children(node) if graph.suspended else []
        named: dict[NodeKind, list[NodeId]] = {NodeKind.GROUP: [], NodeKind.PROCESS: []}
        for some in in_slices([*graph.children[node], *suspended]):
            for child in some:
                named.setdefault(graph.kind(child), []).append(graph.ids[child])
            yield len(some)
        processes = yield from sorted_in_slices(named[NodeKind.PROCESS])
        groups = yield from sorted_in_slices(named[NodeKind.GROUP])
        uncertain = [graph.ids[child] for child in suspended if graph.kind(child) is NodeKind.GROUP]
        if self.uncertainty().out_of(group):
            uncertain = [group]
        return DirectMembers(revision, processes, groups, sorted(uncertain))

    def arcs_judged_elsewhere(self, group: NodeId) -> dict[ServerId, list[ArcId]]:
        """The arcs from the group whose duplication-control records other servers compute: to be asked there."""
        return self._core.arcs_judged_elsewhere(self._require_group(group))

    def describe(
        self, group: NodeId, *, pathname_limit: int, told: Mapping[ArcId, Sequence[NodeId]] = NOTHING_TOLD
    ) -> GroupDescription:
        """The group's place in both views of the graph.

        `told` is what other servers say of the arcs they judge: of each, the minimal nodes that must not cross it.
        """
        node = self._require_group(group)
        graph, ancestors, owns = self._graph, self._ancestors, self._core.owns

        def blocked(arc: ArcRecord) -> BitMap:
            if any(map(owns, graph.components(arc.child))):
                return blocked_originators(graph, ancestors, arc)
            sources = told.get(ArcId(graph.ids[arc.parent], graph.ids[arc.child]), ())
            named = (ancestors.of(graph.index[name]) for name in sources if name in graph.index)
            # Whatever another server tells: nothing else can come to the arc.
            return ancestors.of(arc.parent) & BitMap().union(*named)

        home = self._core.home_of(group)
        return describe(graph, ancestors, node, blocked=blocked, home=home, pathname_limit=pathname_limit)

    def groups(self, *, subnet: Subnet | None, after: NodeId | None, limit: int) -> list[NodeId]:
        """At most `limit` groups of this server in the order of their ids, those after `after`."""
        return list(islice(self.group_order.groups(subnet=subnet, after=after), limit))

    def export(self, *, subnet: Subnet | None) -> Iterator[ExportRow]:
        """All arcs of this server's groups by parent and child. Copies what it needs one group at a time."""
        graph = self._graph
        for group in self.group_order.groups(subnet=subnet, after=None):
            node = graph.group(group)
            if node is None:
                continue
            known = [*graph.children[node], *(self._core.suspended_children(node) if graph.suspended else ())]
            children = sorted(known, key=graph.ids.__getitem__)
            for child in children:
                yield ExportRow(group, graph.ids[child], graph.kind(child))
            if not children:
                yield ExportRow(group, "", NodeKind.GROUP)

    def _require_group(self, group: NodeId) -> NodeIndex:
        node = self._graph.group(group)
        if node is None:
            raise self._core.no_group(group, unheard=self._unheard())
        return node
