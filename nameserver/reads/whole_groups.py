"""Tell the members of a group of this server while some server is unreachable, if no such server is below the group.

A check asks for this if a server that could say "yes" is silent. Resolving the group shows all nodes below it that
could not be entered. If there are none, the answer names everything below the group: each named member is below, and no
other.

Source: docs/protocol-updates.md, "Questions over several servers" (check and memberships).
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

from namegraph import CoreQueries, NodeId, RefusedError, subnet_of
from nameserver.reads.distributed_resolve import DistributedResolutions, ResolveAnswer
from nameserver.routing.ownership import Routing
from resolver.resolution import ResolvedIds

RESOLUTIONS_AT_ONCE = 8
"""Groups of one request that are resolved at a time. Each resolution asks the servers below the group."""


class ToldChecks(NamedTuple):
    """Results of resolutions about pairs of a group and a member, in the order of the pairs."""

    is_below: list[bool | None]
    """None for a pair without an answer."""
    revisions: list[str]
    """Revisions that the results reflect."""
    away: list[str]
    """Servers, or subnets of servers that were not met, without which some pair has no answer, sorted."""


class WholeGroups:
    """Resolutions that find out if groups are whole without the servers that are away."""

    def __init__(self, *, core: CoreQueries, resolutions: DistributedResolutions, routing: Routing) -> None:
        self._core = core
        self._routing = routing
        self._resolutions = resolutions

    async def verdicts(
        self, groups: Sequence[NodeId], members: Sequence[NodeId], *, seconds: float, at_least_revision: str
    ) -> ToldChecks:
        """Return True for each pair if the member is in the group, which this server owns, within `seconds`."""
        asked = list(dict.fromkeys(filter(self._is_here, groups)))
        places, resolutions = asyncio.Semaphore(RESOLUTIONS_AT_ONCE), self._resolutions
        deadline = resolutions.now() + seconds

        away = set[str]()

        async def resolve(group: NodeId) -> ResolveAnswer | None:
            async with places:
                try:
                    answer = await resolutions.resolve(
                        group, deadline, with_walk=False, at_least_revision=at_least_revision
                    )
                except RefusedError as error:
                    # The group was deleted meanwhile, or more than a part of it is unreachable.
                    away.update(filter(None, error.refusal.facts.get("unreachable", "").split("\n")))
                    return None
            missing = self._missing(answer.resolved)
            away.update(missing)
            return None if missing else answer

        whole = dict(zip(asked, await asyncio.gather(*map(resolve, asked)), strict=True))
        is_below = [_is_below(member, whole.get(group)) for group, member in zip(groups, members, strict=True)]
        revisions = [answer.revision for answer in whole.values() if answer is not None]
        return ToldChecks(is_below, revisions, sorted(away))

    def _missing(self, resolved: ResolvedIds) -> set[str]:
        """Return the servers of which members may be missing. Empty if the answer is whole."""
        core, routing = self._core, self._routing
        missing: set[str] = {routing.known_home(name) or subnet_of(name) for name in resolved.unreachable}
        if resolved.in_transition:
            # Two walks did not agree in time: any server of the view may be the reason, this one if it is alone.
            missing.update(server for server in core.servers_met if core.is_in_view(server))
            missing = missing or {core.server}
        if not routing.knows_all_that_was_heard:
            # A process, as far as known here, may be a group of a server that only other servers know.
            missing.update(filter(None, map(routing.heard_owner, resolved.processes)))
        return missing

    def _is_here(self, group: NodeId) -> bool:
        core = self._core
        return core.graph.group(group) is not None and core.home_of(group) == core.server


def _is_below(member: NodeId, answer: ResolveAnswer | None) -> bool | None:
    if answer is None:
        return None
    return any(_holds(names, member) for names in (answer.resolved.processes, answer.resolved.groups))


def _holds(names: Sequence[NodeId], name: NodeId) -> bool:
    place = bisect_left(names, name)
    return place < len(names) and names[place] == name
