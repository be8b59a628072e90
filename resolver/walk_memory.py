"""Agreed walks that the root remembers: the next resolution of a quiet graph costs one round of `Unchanged`."""

from __future__ import annotations

from collections import OrderedDict

from namegraph import NodeIndex, TargetSet
from resolver.resolution import AgreedWalk

WALKS_WEIGHT_LIMIT = 4_000_000
"""Most ids in all remembered walks together. The least recently used walks go first."""


Originator = NodeIndex | TargetSet
"""Representative of a group; or a set, in the order of the request, which decides the first target."""


class WalkMemory:
    """Agreed walks by originator. An outdated walk does no harm: its versions show it."""

    def __init__(self, *, weight_limit: int = WALKS_WEIGHT_LIMIT) -> None:
        self._walks: OrderedDict[Originator, AgreedWalk] = OrderedDict()
        self._weight = 0
        self._weight_limit = weight_limit

    def recall(self, originator: Originator) -> AgreedWalk | None:
        """Return the remembered walk of an originator. None if there is none."""
        walk = self._walks.get(originator)
        if walk is not None:
            self._walks.move_to_end(originator)
        return walk

    def keep(self, originator: Originator, walk: AgreedWalk) -> None:
        """Remember a walk in place of the previous one."""
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
