"""Search for loops in the walk of a resolution. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from shadowtree.results import WalkStep
from shadowtree.vocabulary import GroupId


def loops_of(walk: Iterable[WalkStep]) -> list[tuple[GroupId, ...]]:
    """Return the loops that a walk went through, sorted by size: the groups that its shadow steps connect."""
    neighbours: dict[GroupId, list[GroupId]] = {}
    for step in walk:
        if step.state == "shadow":
            neighbours.setdefault(step.source, []).append(step.target)
            neighbours.setdefault(step.target, []).append(step.source)
    found: list[tuple[GroupId, ...]] = []
    seen: set[GroupId] = set()
    for group in neighbours:
        if group not in seen:
            loop = _connected(group, neighbours)
            seen.update(loop)
            found.append(tuple(sorted(loop)))
    return sorted(found, key=lambda loop: (len(loop), loop))


def _connected(start: GroupId, neighbours: dict[GroupId, list[GroupId]]) -> set[GroupId]:
    reached = {start}
    queue = deque([start])
    while queue:
        for other in neighbours[queue.popleft()]:
            if other not in reached:
                reached.add(other)
                queue.append(other)
    return reached
