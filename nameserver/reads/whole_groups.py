"""Tells who is in a group of this server and who is not, whoever is out of reach: nothing below the group is there.

A check asks for this where a server that could say "yes" is silent. Resolving the group shows whether anything below it
could not be entered. If nothing was, all that is below has been told: who was told is below, and nobody else.

Source: interfaces.md, semantics 8; protocol.md section 8.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

from namegraph import CoreQueries, NodeId, RefusedError
from nameserver.reads.distributed_resolve import Answer, DistributedResolutions
from nameserver.routing.ownership import Routing
from resolver.resolution import Resolved

RESOLUTIONS_AT_ONCE = 8
"""Of the groups of one request: each asks the servers below it."""


class Told(NamedTuple):
    """What resolutions say of pairs of a group and a member, in their order."""

    is_below: list[bool | None]
    """None where that cannot be told."""
    revisions: list[str]
    """What this reflects."""


class WholeGroups:
    """Resolves groups to find out whether they are whole without the servers that are away."""

    def __init__(self, *, core: CoreQueries, resolutions: DistributedResolutions, routing: Routing) -> None:
        self._core = core
        self._routing = routing
        self._resolutions = resolutions

    async def verdicts(
        self, groups: Sequence[NodeId], members: Sequence[NodeId], *, seconds: float, at_least_revision: str
    ) -> Told:
        """Of each pair: whether the member is in the group, which this server owns; within so many seconds."""
        asked = list(dict.fromkeys(filter(self._is_here, groups)))
        places, resolutions = asyncio.Semaphore(RESOLUTIONS_AT_ONCE), self._resolutions
        deadline = resolutions.now() + seconds

        async def resolve(group: NodeId) -> Answer | None:
            async with places:
                try:
                    answer = await resolutions.resolve(
                        group, deadline, with_walk=False, at_least_revision=at_least_revision
                    )
                except RefusedError:
                    # The group was deleted meanwhile, or more than a part of it is out of reach.
                    return None
            return answer if self._is_whole(answer.resolved) else None

        whole = dict(zip(asked, await asyncio.gather(*map(resolve, asked)), strict=True))
        is_below = [_is_below(member, whole.get(group)) for group, member in zip(groups, members, strict=True)]
        return Told(is_below, [answer.revision for answer in whole.values() if answer is not None])

    def _is_whole(self, resolved: Resolved) -> bool:
        if resolved.unreachable or resolved.in_transition:
            return False
        routing = self._routing
        # What is a process as far as is known here may be a group of a server that only others know.
        return routing.knows_all_that_was_heard or not any(map(routing.heard_owner, resolved.processes))

    def _is_here(self, group: NodeId) -> bool:
        core = self._core
        return core.graph.group(group) is not None and core.home_of(group) == core.server


def _is_below(member: NodeId, answer: Answer | None) -> bool | None:
    if answer is None:
        return None
    return any(_holds(names, member) for names in (answer.resolved.processes, answer.resolved.groups))


def _holds(names: Sequence[NodeId], name: NodeId) -> bool:
    place = bisect_left(names, name)
    return place < len(names) and names[place] == name
