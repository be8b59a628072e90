"""Queries about membership, answered from one server's state.

Ancestors of the member replace a walk if they suffice.
"""

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
from resolver.descriptions import GroupRecord, describe, describe_told
from resolver.group_order import GroupOrder
from resolver.plans import ATTEMPTS, PlanCache, PlanStep, ResolvePlan
from resolver.steps import Prepared, assemble, deliveries, prepare

Walk = tuple[PlanStep, ...]

NOTHING_TOLD: Mapping[ArcId, Sequence[NodeId]] = MappingProxyType({})


_KINDS = {int(kind): kind for kind in NodeKind}


class ExportRow(NamedTuple):
    """One arc, or a group without members. In the second case `child` is empty."""

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
    """Groups with a suspended arc, also in `groups`: their homes, which are out of reach, may have deleted them.

    If another server may know of more members, the list has only the queried group itself.
    """


def nobody() -> tuple[ServerId, ...]:
    """Default of `unheard` if all other servers are heard."""
    return ()


class MembershipResolver:
    """Reads a core. Names are canonical. Raises `RefusedError` (GROUP_NOT_FOUND) if a queried group does not exist.

    The reason is UNAVAILABLE if this server may have forgotten the group, or the group may have been created without
    this server.
    """

    def __init__(self, core: CoreQueries, *, unheard: Callable[[], Collection[ServerId]] = nobody) -> None:
        """Create a resolver. `unheard` returns the servers that may have lost this server by now."""
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
        """Return the facts that other servers may know better than this server now."""
        return self._core.uncertainty(self._unheard())

    def resolve(self, group: NodeId) -> ResolvePlan:
        """Return the plan of the group: the same object while the answer is the same."""
        return self.plans.plan(self._require_group(group))

    def kept(self, group: NodeId) -> ResolvePlan | None:
        """Return the plan of the group if it is cached and holds. None otherwise."""
        return self.plans.kept(self._require_group(group))

    def fill(self, group: NodeId) -> Iterator[int]:
        """Compute the plan for a fast `resolve`. Yield between slices, so that updates may come."""
        return self.plans.fill(self._require_group(group))

    def representative(self, group: NodeId) -> NodeIndex:
        """Return the number that represents the group's derived node."""
        return self._graph.representative(self._require_group(group))

    def walk(self, group: NodeId, prepared: Prepared[Walk] | None = None) -> Walk:
        """Return the walk of the group's resolution: depth first, siblings by id, every node once.

        `prepared`: result of `prepare_walk`. If it is outdated, the walk is computed again.
        """
        node = self._require_group(group)
        plan = self.plans.plan(node)
        if prepared is not None and prepared.is_of(plan, self._core):
            return prepared.steps
        return at_once(_walk(self._core, plan, group=node))

    def prepare_walk(self, group: NodeId) -> Slices[Prepared[Walk] | None]:
        """Compute the steps for a fast `walk`. Yield between slices, so that updates may come."""
        for _ in range(ATTEMPTS):
            yield from self.fill(group)
            node = self._require_group(group)
            prepared = yield from prepare(self._core, self.plans, node, partial(_walk, group=node))
            if prepared is not None:
                return prepared
        return None

    def check(self, group: NodeId, member: NodeId) -> bool:
        """True if the member is in the group, directly or indirectly. An unknown member is in no group."""
        node = self._require_group(group)
        of_member = self._graph.index.get(member)
        if of_member is None:
            return False
        return self._ancestors.is_ancestor(ancestor=node, node=of_member) or self.is_above_suspended(node, of_member)

    def is_above_suspended(self, group: NodeIndex, member: NodeIndex, *, without: Set[ServerId] = frozenset()) -> bool:
        """True if a suspended arc from a group of this server makes a process a member of a group.

        Such a membership is certain, because no other server can leave the arc. A group below a suspended arc is
        uncertain: its home, which is away, may have left the arc, or deleted the group. `without`: servers whose groups
        the path must avoid.
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
        """True if the member is in the group over a path of groups that none of these servers owns."""
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
        """Return a shortest chain of immediate memberships from the group to the member. Empty if it is no member."""
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
        """Return all groups of the member, direct and indirect, sorted."""
        graph, ancestors = self._graph, self._ancestors
        node = graph.index.get(member)
        if node is None:
            return []
        found = set(ancestor_groups(graph, ancestors, node))
        for parent in self._core.suspended_parents(node) if graph.suspended else ():
            # These memberships are known, whichever servers are away.
            found.update([parent], ancestor_groups(graph, ancestors, parent))
        ids = graph.ids
        return sorted([ids[group] for group in found])

    def direct_memberships(self, member: NodeId) -> list[NodeId]:
        """Return all groups of which the member is an immediate member, sorted."""
        node = self._graph.index.get(member)
        if node is None:
            return []
        ids = self._graph.ids
        parents = [*self._graph.parents[node], *(self._core.suspended_parents(node) if self._graph.suspended else ())]
        return sorted([ids[parent] for parent in parents])

    def direct_members(self, group: NodeId) -> Slices[DirectMembers]:
        """Find the immediate members of a group. Yield between slices, so that updates may come."""
        node = self._require_group(group)
        with self._core.kept() as core:
            return (yield from self._direct_members(core, group, node))

    def _direct_members(self, core: CoreQueries, group: NodeId, node: NodeIndex) -> Slices[DirectMembers]:
        graph, revision = core.graph, core.revision
        suspended = core.suspended_children(node) if graph.suspended else []
        named: dict[NodeKind, list[NodeId]] = {NodeKind.GROUP: [], NodeKind.PROCESS: []}
        for some in in_slices([*graph.children[node], *suspended]):
            for child in some:
                named.setdefault(graph.kind(child), []).append(graph.ids[child])
            yield len(some)
        processes = yield from sorted_in_slices(named[NodeKind.PROCESS])
        groups = yield from sorted_in_slices(named[NodeKind.GROUP])
        uncertain = [graph.ids[child] for child in suspended if graph.kind(child) is NodeKind.GROUP]
        if core.uncertainty(self._unheard()).out_of(group):
            uncertain = [group]
        return DirectMembers(revision, processes, groups, sorted(uncertain))

    def arcs_judged_elsewhere(self, group: NodeId) -> dict[ServerId, list[ArcId]]:
        """Return the arcs from the group whose duplication-control records another server computes, by server to
        ask."""
        return self._core.arcs_judged_elsewhere(self._require_group(group))

    def describe(
        self, group: NodeId, *, pathname_limit: int, told: Mapping[ArcId, Sequence[NodeId]] = NOTHING_TOLD
    ) -> GroupRecord:
        """Describe the group's place in both views of the graph.

        `told`: minimal nodes that must not cross an arc, for each arc whose records another server computes.
        """
        node = self._require_group(group)
        graph, ancestors, owns = self._graph, self._ancestors, self._core.owns

        def blocked(arc: ArcRecord) -> BitMap:
            if any(map(owns, graph.components(arc.child))):
                return blocked_originators(graph, ancestors, arc)
            sources = told.get(ArcId(graph.ids[arc.parent], graph.ids[arc.child]), ())
            named = (ancestors.of(graph.index[name]) for name in sources if name in graph.index)
            # Only ancestors of the arc's parent can come to the arc, whatever another server reports.
            return ancestors.of(arc.parent) & BitMap().union(*named)

        home = self._core.home_of(group)
        return describe(graph, ancestors, node, blocked=blocked, home=home, pathname_limit=pathname_limit)

    def describe_told(
        self,
        group: NodeId,
        *,
        pathname_limit: int,
        is_readable: Callable[[NodeId], bool],
        tells_parents: bool,
    ) -> GroupRecord:
        """Describe a group for a caller that may read it, by the arcs that the caller may know alone.

        `is_readable`: returns True for a group whose arcs the caller may know. `tells_parents`: True if the caller may
        know all arcs to the group.
        """
        node = self._require_group(group)
        home = self._core.home_of(group)
        return describe_told(
            self._graph,
            node,
            home=home,
            pathname_limit=pathname_limit,
            is_readable=is_readable,
            tells_parents=tells_parents,
        )

    def groups(self, *, subnet: Subnet | None, after: NodeId | None, limit: int) -> list[NodeId]:
        """Return at most `limit` groups of this server behind `after`, in the order of their ids."""
        return list(islice(self.group_order.groups(subnet=subnet, after=after), limit))

    def export(
        self,
        *,
        subnet: Subnet | None,
        state: CoreQueries | None = None,
        is_told: Callable[[NodeId], bool] | None = None,
    ) -> Iterator[ExportRow]:
        """Yield all arcs of this server's groups by parent and child.

        `state`: the present state, kept until the end. None if no step comes between. `is_told`: returns False for a
        group that is left out. None for all groups.
        """
        core = self._core if state is None else state
        graph = core.graph
        for group in self.group_order.groups(subnet=subnet, after=None):
            node = graph.group(group)
            if node is None or (is_told is not None and not is_told(group)):
                continue
            known = [*graph.children[node], *(core.suspended_children(node) if graph.suspended else ())]
            for name, kind in sorted(zip(graph.ids.of(known), graph.kinds.of(known), strict=True)):
                yield ExportRow(group, name, _KINDS[kind])
            if not known:
                yield ExportRow(group, "", NodeKind.GROUP)

    def _require_group(self, group: NodeId) -> NodeIndex:
        node = self._graph.group(group)
        if node is None:
            raise self._core.no_group(group, unheard=self._unheard())
        return node


def _walk(core: CoreQueries, plan: ResolvePlan, *, group: NodeIndex) -> Slices[Walk]:
    told = yield from deliveries(core, plan, group)
    return (yield from assemble(core.graph.ids[group], told))
