"""Findings of this server alone about pairs of a group and a member, for its own answers and for other servers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from enum import IntEnum
from typing import cast

from namegraph import ArcId, CoreQueries, NodeId, NodeIndex, NodeKind, ServerId, Uncertainty, subnet_of
from resolver.membership import MembershipResolver


class PairFinding(IntEnum):
    """Finding of one server about one pair. The numbers are those of CheckPartResponse."""

    NOT_BELOW = 0
    """The group is known here, and no arc known here leads from it to the member."""
    BELOW = 1
    NO_GROUP = 2
    """No group of this id is known here. Its home would know it."""
    SETTLED = 3
    """The member is not below, and no other server could know better.

    This server owns the group and all groups below it.
    """
    APART = 4
    """Another server may know better.

    The member is not below, or below by arcs of a server that is away, or no group of this id is known here.
    """


UNSURE = (PairFinding.APART, PairFinding.NO_GROUP)
"""Findings for which it matters which servers are away and may know better."""


SETTLING_NODES_LIMIT = 20_000
"""Nodes looked at to settle the pairs of one request, in some 5 ms. Pairs beyond that are not settled."""


PATHNAMES_AT_ONCE = 50
"""Pathnames that are found before other tasks get their turn, in a millisecond or two of a usual graph."""


class LocalChecks:
    """Reader of a core. It knows all about the members it owns, and the existence of the groups it owns."""

    def __init__(self, *, core: CoreQueries, resolver: MembershipResolver) -> None:
        self._core = core
        self._resolver = resolver

    @property
    def _index(self) -> Callable[[str], NodeIndex | None]:
        # The argument is a text as it came. A text that is no canonical id is not found.
        return cast("Mapping[str, NodeIndex]", self._core.graph.index).get

    def findings(self, groups: Sequence[str], members: Sequence[str], *, settles: bool) -> bytearray:
        """Return one `PairFinding` for each pair of canonical names.

        `settles`: True to settle pairs not known to be below.
        """
        known = self.all_known(groups, members)
        found = known if known is not None else bytearray(map(self.finding, groups, members))
        denied = [place for place, finding in enumerate(found) if finding == PairFinding.NOT_BELOW] if settles else []
        uncertainty = self._resolver.uncertainty()
        if uncertainty:
            self._mark_apart(groups, members, found, uncertainty)
        self._settle(groups, members, found, denied, uncertainty)
        return found

    def renamed(self, groups: Sequence[str], findings: Iterable[int]) -> dict[str, NodeId]:
        """Return the present names of unknown groups that were renamed, by the requested name."""
        missing = {group for group, finding in zip(groups, findings, strict=True) if finding in UNSURE}
        found = ((group, self._core.renamed_to(NodeId(group))) for group in sorted(missing))
        return {group: to for group, to in found if to is not None}

    @property
    def may_miss_something(self) -> bool:
        """True if an answer must be looked at twice."""
        return bool(self._resolver.uncertainty())

    def away(self, groups: Sequence[str], members: Sequence[str], findings: Iterable[int]) -> list[str]:
        """Return the servers that may know better about the pairs with an unsure finding, sorted."""
        uncertainty, found = self._resolver.uncertainty(), set[str]()
        if not uncertainty:
            return []
        # A group that is unknown here may be above a suspended arc.
        asked = [pair[:2] for pair in zip(groups, members, findings, strict=True) if pair[2] in UNSURE]
        for member in {member for _, member in asked}:
            found.update(uncertainty.above(NodeId(member)))
        for group in {group for group, _ in asked if self._group(group) is None}:
            found.update(uncertainty.exists(NodeId(group)))
        return sorted(found)

    def _mark_apart(
        self, groups: Sequence[str], members: Sequence[str], found: bytearray, uncertainty: Uncertainty
    ) -> None:
        is_apart: dict[str, bool] = {}
        for place, (group, member) in enumerate(zip(groups, members, strict=True)):
            if found[place] == PairFinding.NO_GROUP:
                if uncertainty.exists(NodeId(group)):
                    found[place] = PairFinding.APART
            elif self._is_sure(NodeId(group), NodeId(member), found[place], uncertainty):
                found[place] = PairFinding.BELOW
            else:
                if member not in is_apart:
                    is_apart[member] = bool(uncertainty.above(NodeId(member)))
                if is_apart[member] or found[place] == PairFinding.BELOW:
                    found[place] = PairFinding.APART

    def _is_sure(self, group: NodeId, member: NodeId, found: int, uncertainty: Uncertainty) -> bool:
        """Return True if a member is in a group by arcs that no server which may know better can have left."""
        resolver, unheard = self._resolver, uncertainty.unheard
        if found == PairFinding.BELOW:
            is_by_others = bool(unheard) and not resolver.is_above_without(group, member, unheard)
            return not (is_by_others or uncertainty.is_changed_above(member))
        above, below = self._index(group), self._index(member)
        if above is None or below is None or not resolver.is_above_suspended(above, below, without=unheard):
            return False
        tails = map(self._core.graph.ids.__getitem__, self._core.suspended_parents(below))
        return not any(map(uncertainty.is_changed_above, tails))

    def all_known(self, groups: Sequence[str], members: Sequence[str]) -> bytearray | None:
        """Return the findings many times faster.

        None unless all names are known and canonical, and all groups exist.
        """
        group_nodes, member_nodes = list(map(self._index, groups)), list(map(self._index, members))
        if None in member_nodes or not self._are_groups(group_nodes):
            return None
        pairs = cast("Iterable[tuple[NodeIndex, NodeIndex]]", zip(group_nodes, member_nodes, strict=True))
        return bytearray(self._core.ancestors.are_ancestors(pairs))

    def finding(self, group: str, member: str) -> PairFinding:
        """Return the finding about one pair of canonical names, if no other server knows better."""
        node = self._group(group)
        if node is None:
            return PairFinding.NO_GROUP
        of_member = self._index(member)
        is_below = of_member is not None and self._core.ancestors.is_ancestor(ancestor=node, node=of_member)
        return PairFinding.BELOW if is_below else PairFinding.NOT_BELOW

    def _group(self, name: str) -> NodeIndex | None:
        node = self._core.graph.group(NodeId(name))
        return node if node is not None and self._core.may_be_group(node) else None

    def pathname(self, group: str, member: str) -> list[NodeId]:
        """Return a shortest chain from the group to the member, as far as known here. Empty if there is none."""
        if self._core.graph.group(NodeId(group)) is None:
            return []
        return self._resolver.explain(NodeId(group), NodeId(member))

    async def pathnames(self, pairs: Sequence[tuple[NodeId, NodeId]]) -> list[list[NodeId]]:
        """Return a shortest chain for each pair of a group and a member. Other tasks go first between some of them."""
        found = []
        for place, (group, member) in enumerate(pairs, start=1):
            found.append(self.pathname(group, member))
            if place % PATHNAMES_AT_ONCE == 0:
                await asyncio.sleep(0)
        return found

    def has_arc(self, arc: ArcId) -> bool:
        """Return True if the arc is there, as far as known here. A suspended arc to a process counts."""
        parent, child = self._index(arc.parent), self._index(arc.child)
        if parent is None or child is None:
            return False
        graph = self._core.graph
        return child in graph.children[parent] or (
            graph.kind(child) is NodeKind.PROCESS and parent in self._core.suspended_parents(child)
        )

    def is_known_alone(self, group: str, member: str, finding: PairFinding, unbelieved: Set[ServerId]) -> bool:
        """Return True if a finding about a member of this server needs no word of another server.

        `unbelieved`: servers of other organisations.
        """
        if not unbelieved:
            return True
        if finding is PairFinding.BELOW:
            return self.is_proven(group, member, unbelieved)
        return self._core.home_of(NodeId(group)) not in unbelieved

    def is_proven(self, group: str, member: str, unproven: Set[ServerId]) -> bool:
        """Return True if no membership on some path from a group to a member rests on these servers' groups."""
        above, below = self._index(group), self._index(member)
        if above is None or below is None or self._core.home_of(NodeId(group)) in unproven:
            return False
        return self._resolver.is_above_without(NodeId(group), NodeId(member), unproven)

    def _settle(
        self,
        groups: Sequence[str],
        members: Sequence[str],
        found: bytearray,
        denied: list[int],
        uncertainty: Uncertainty,
    ) -> None:
        """Settle the members that are below by no known arc and that can be below at no other server."""
        core = self._core
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
                    and self._owns_groups_of(reached)
                    and not uncertainty.below(NodeId(group), reached)
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
