"""What this server alone knows of pairs of a group and a member, for its own answers and for those of other servers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import cast

from namegraph import CoreQueries, NodeId, NodeIndex, NodeKind, OrphanedPrepares, subnet_of
from nameserver.reads.completeness import Completeness
from resolver.membership import MembershipResolver


class PairFinding(IntEnum):
    """What one server finds of one pair. The numbers are those of CheckPartResponse."""

    NOT_BELOW = 0
    """The group is known here, and no arc known here leads from it to the member."""
    BELOW = 1
    NO_GROUP = 2
    """No group of this id is known here. Its home would know it."""
    SETTLED = 3
    """Not below, and this server owns the group and all groups below it: no other server could know better."""
    APART = 4
    """The result depends on an unreachable server: not below, or below only by arcs of that server (`gaps`)."""


SETTLING_NODES_LIMIT = 20_000
"""Nodes looked at to settle the pairs of one request, in some 5 ms; pairs beyond that are not settled."""


class LocalChecks:
    """Reads a core. It knows all about the members it owns, and about the groups it owns whether they exist."""

    def __init__(self, *, core: CoreQueries, resolver: MembershipResolver, gaps: Completeness) -> None:
        self._core = core
        self._gaps = gaps
        self._resolver = resolver

    @property
    def _index(self) -> Callable[[str], NodeIndex | None]:
        # Asked with texts as they came: those that are no canonical id are simply not found.
        return cast("Mapping[str, NodeIndex]", self._core.graph.index).get

    def findings(self, groups: Sequence[str], members: Sequence[str], *, settles: bool) -> bytearray:
        """One `PairFinding` for each pair of canonical names; `settles` where others might know better."""
        known = self.all_known(groups, members)
        found = known if known is not None else bytearray(map(self.finding, groups, members))
        denied = [place for place, finding in enumerate(found) if finding == PairFinding.NOT_BELOW] if settles else []
        orphaned_prepares = None
        if self._gaps.are_possible():
            orphaned_prepares = self._untold()
            self._mark_apart(groups, members, found, orphaned_prepares)
        self._settle(groups, members, found, denied, orphaned_prepares)
        return found

    @property
    def may_miss_something(self) -> bool:
        """Whether an answer must be looked at twice."""
        return self._gaps.are_possible()

    def apart_of(self, members: Iterable[str]) -> list[str]:
        """The servers that may know better about one of the members; sorted."""
        return self._gaps.above(members)

    def _untold(self) -> OrphanedPrepares:
        return self._core.orphaned_prepares(self._gaps.changeable())

    def _mark_apart(
        self, groups: Sequence[str], members: Sequence[str], found: bytearray, orphaned_prepares: OrphanedPrepares
    ) -> None:
        is_apart: dict[str, bool] = {}
        changeable = self._gaps.changeable()
        for place, (group, member) in enumerate(zip(groups, members, strict=True)):
            if found[place] == PairFinding.BELOW:
                if self._may_have_changed(NodeId(member), orphaned_prepares) or (
                    changeable and not self._resolver.is_above_without(NodeId(group), NodeId(member), changeable)
                ):
                    found[place] = PairFinding.APART
            elif found[place] == PairFinding.NOT_BELOW:
                above, below = self._index(group), self._index(member)
                if (
                    above is not None
                    and below is not None
                    and self._resolver.is_above_suspended(above, below, without=changeable)
                    and not self._may_have_left(below, orphaned_prepares)
                ):
                    found[place] = PairFinding.BELOW
                    continue
                if member not in is_apart:
                    is_apart[member] = bool(self._gaps.above([member]))
                if is_apart[member]:
                    found[place] = PairFinding.APART

    def _may_have_changed(self, name: NodeId, orphaned_prepares: OrphanedPrepares) -> bool:
        """Whether an update may have changed what a node is below, or the node itself, and not told this server."""
        return bool(self._core.doubted_above(name)) or orphaned_prepares.touches_above(name)

    def _may_have_left(self, member: NodeIndex, orphaned_prepares: OrphanedPrepares) -> bool:
        """As `_may_have_changed`, of what a node is below by arcs that are suspended."""
        ids = self._core.graph.ids
        return any(
            self._may_have_changed(ids[parent], orphaned_prepares) for parent in self._core.suspended_parents(member)
        )

    def all_known(self, groups: Sequence[str], members: Sequence[str]) -> bytearray | None:
        """The findings, many times faster, where all names are known, in their one spelling, and all groups exist."""
        group_nodes, member_nodes = list(map(self._index, groups)), list(map(self._index, members))
        if None in member_nodes or not self._are_groups(group_nodes):
            return None
        pairs = cast("Iterable[tuple[NodeIndex, NodeIndex]]", zip(group_nodes, member_nodes, strict=True))
        return bytearray(self._core.ancestors.are_ancestors(pairs))

    def finding(self, group: str, member: str) -> PairFinding:
        """What is known of one pair of canonical names."""
        node = self._core.graph.group(NodeId(group))
        if node is None or not self._core.may_be_group(node):
            is_own = self._core.owner_of(subnet_of(NodeId(group))) == self._core.server
            return PairFinding.APART if is_own and self._may_exist(NodeId(group)) else PairFinding.NO_GROUP
        of_member = self._index(member)
        is_below = of_member is not None and self._core.ancestors.is_ancestor(ancestor=node, node=of_member)
        return PairFinding.BELOW if is_below else PairFinding.NOT_BELOW

    def _may_exist(self, group: NodeId) -> bool:
        """Whether a group of this server, of which nothing is known here, may be there all the same."""
        core = self._core
        if core.is_behind or core.doubted_above(group):
            return True
        return bool(core.entries.by_update) and self._untold().touches_above(group)

    def pathname(self, group: str, member: str) -> list[NodeId]:
        """A shortest chain from the group to the member, as far as is known here; empty where there is none."""
        if self._core.graph.group(NodeId(group)) is None:
            return []
        return self._resolver.explain(NodeId(group), NodeId(member))

    def _settle(
        self,
        groups: Sequence[str],
        members: Sequence[str],
        found: bytearray,
        denied: list[int],
        orphaned_prepares: OrphanedPrepares | None,
    ) -> None:
        """Find, of the members that are not below by any known arc, which can be below nowhere else."""
        core = self._core
        if not core.is_healed:
            return
        room = SETTLING_NODES_LIMIT
        is_closed: dict[str, bool] = {}
        for place in denied:
            group, member = groups[place], members[place]
            if found[place] == PairFinding.BELOW or core.owner_of(subnet_of(NodeId(member))) == core.server:
                continue
            if group not in is_closed:
                reached = core.graph.descendants((core.graph.index[NodeId(group)],), limit=room) if room > 0 else None
                is_closed[group] = (
                    reached is not None
                    and not core.doubted_below(core.graph.index[NodeId(group)])
                    and not (orphaned_prepares and orphaned_prepares.touches(reached))
                    and self._owns_groups_of(reached)
                )
                room -= SETTLING_NODES_LIMIT if reached is None else len(reached)
            if is_closed[group]:
                found[place] = PairFinding.SETTLED

    def _owns_groups_of(self, nodes: Iterable[NodeIndex]) -> bool:
        core, kinds, suspended = self._core, self._core.graph.kinds, self._core.graph.suspended_from
        return all(
            (kinds[node] == NodeKind.PROCESS or core.owns(node))
            and not (node in suspended and core.suspended_children(node))
            for node in nodes
        )

    def _are_groups(self, nodes: list[NodeIndex | None]) -> bool:
        kinds = self._core.graph.kinds
        distinct = set(nodes)
        if None in distinct or not all(kinds[cast("NodeIndex", node)] == NodeKind.GROUP for node in distinct):
            return False
        return not self._core.graph.suspended or all(map(self._core.may_be_group, cast("set[NodeIndex]", distinct)))
