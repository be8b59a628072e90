"""Tells who is not in a group of this server, whoever is out of reach: nothing below the group is on that server.

A check asks for this where a server that could say "yes" is silent. Resolving the group shows whether anything below it
could not be entered. If nothing was, all that is below has been told, so who was not told is not below.

Source: interfaces.md, semantics 8; protocol.md section 8.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Sequence

from namegraph import CoreQueries, NodeId, RefusedError
from nameserver.reads.distributed_resolve import DistributedResolutions
from nameserver.routing.ownership import Routing
from resolver.resolution import Resolved

RESOLUTIONS_AT_ONCE = 8
"""Of the groups of one request: each asks the servers below it."""


class WholeGroups:
    """Resolves groups to find out whether they are whole without the servers that are away."""

    def __init__(self, *, core: CoreQueries, resolutions: DistributedResolutions, routing: Routing) -> None:
        self._core = core
        self._routing = routing
        self._resolutions = resolutions

    async def outside(
        self, groups: Sequence[NodeId], members: Sequence[NodeId], *, seconds: float, at_least_revision: str
    ) -> list[bool]:
        """Of each pair in order: whether the member is certainly not in the group, which this server owns.

        False also where that cannot be told, or not within so many seconds.
        """
        asked = list(dict.fromkeys(filter(self._is_here, groups)))
        places, resolutions = asyncio.Semaphore(RESOLUTIONS_AT_ONCE), self._resolutions
        deadline = resolutions.now() + seconds

        async def resolve(group: NodeId) -> Resolved | None:
            async with places:
                try:
                    answer = await resolutions.resolve(
                        group, deadline, with_walk=False, at_least_revision=at_least_revision
                    )
                except RefusedError:
                    # The group was deleted meanwhile, or more than a part of it is out of reach.
                    return None
            return answer.resolved if self._is_whole(answer.resolved) else None

        whole = dict(zip(asked, await asyncio.gather(*map(resolve, asked)), strict=True))
        return [_is_outside(member, whole.get(group)) for group, member in zip(groups, members, strict=True)]

    def _is_whole(self, resolved: Resolved) -> bool:
        if resolved.unreachable or resolved.in_transition:
            return False
        routing = self._routing
        # What is a process as far as is known here may be a group of a server that only others know.
        return routing.knows_all_that_was_heard or not any(map(routing.heard_owner, resolved.processes))

    def _is_here(self, group: NodeId) -> bool:
        core = self._core
        return core.graph.group(group) is not None and core.home_of(group) == core.server


def _is_outside(member: NodeId, resolved: Resolved | None) -> bool:
    return resolved is not None and not any(_holds(names, member) for names in (resolved.processes, resolved.groups))


def _holds(names: Sequence[NodeId], name: NodeId) -> bool:
    place = bisect_left(names, name)
    return place < len(names) and names[place] == name
