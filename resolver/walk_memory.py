"""Walks that agreed, remembered at the root: the next resolution of a quiet graph costs one round of "unchanged"."""

from __future__ import annotations

from collections import OrderedDict

from namegraph import NodeIndex, TargetSet
from resolver.resolution import AgreedWalk

WALKS_WEIGHT_LIMIT = 4_000_000
"""Ids in all remembered walks together; the least recently used go first."""


Originator = NodeIndex | TargetSet
"""The representative of a group; or a set, in the order in which it was asked for: that tells which target is first."""


class WalkMemory:
    """Agreed walks by originator. One that no longer holds does no harm: its versions tell."""

    def __init__(self, *, weight_limit: int = WALKS_WEIGHT_LIMIT) -> None:
        self._walks: OrderedDict[Originator, AgreedWalk] = OrderedDict()
        self._weight = 0
        self._weight_limit = weight_limit

    def recall(self, originator: Originator) -> AgreedWalk | None:
        """What was last kept for an originator, if it is still remembered."""
        walk = self._walks.get(originator)
        if walk is not None:
            self._walks.move_to_end(originator)
        return walk

    def keep(self, originator: Originator, walk: AgreedWalk) -> None:
        """Remember a walk instead of the one before."""
        before = self._walks.pop(originator, None)
        if before is not None:
            self._weight -= _weight(before)
        self._walks[originator] = walk
        self._weight += _weight(walk)
        while self._weight > self._weight_limit and len(self._walks) > 1:
            _, oldest = self._walks.popitem(last=False)
            self._weight -= _weight(oldest)


def _weight(walk: AgreedWalk) -> int:
    return sum(
        1 + len(part.processes) + len(part.groups) + sum(len(on.groups) + len(on.processes) for on in part.onward)
        for part in walk.parts.values()
    )
