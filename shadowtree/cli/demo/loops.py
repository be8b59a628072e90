"""Finds loops in the walk of a resolution, and draws what became of one. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from shadowtree.results import GroupDescription, WalkStep
from shadowtree.vocabulary import GroupId


def loops_of(walk: Iterable[WalkStep]) -> list[tuple[GroupId, ...]]:
    """The loops that a walk went through, sorted by size: the groups that its shadow steps connect."""
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


def arc_to_turn_round(walk: Sequence[WalkStep]) -> tuple[GroupId, GroupId] | None:
    """An arc parent -> child of the walk between groups that are in no loop; the deepest that leads to a group."""
    in_loops = {group for loop in loops_of(walk) for group in loop}
    found = None
    for step in walk:
        if step.kind == "group" and step.state == "normal" and not {step.source, step.target} & in_loops:
            found = (step.source, step.target)
    return found


def draw_loop(descriptions: Sequence[GroupDescription]) -> Iterator[str]:
    """Draw the shadow tree of a loop from its smallest group, then list the arcs that faded."""
    groups = {description.group for description in descriptions}
    arcs = sorted(
        (description.group, child.id, child.state)
        for description in descriptions
        for child in description.children
        if child.id in groups
    )
    neighbours: dict[GroupId, list[tuple[str, GroupId]]] = {group: [] for group in groups}
    for parent, child, state in arcs:
        if state == "shadow":
            neighbours[parent].append(("->", child))
            neighbours[child].append(("<-", parent))
    root = min(groups)
    yield root
    stack = [("", root, "", root)]
    while stack:
        lead, group, arrow, came_from = stack.pop()
        if arrow:
            yield f"{lead}{arrow} {group}"
        deeper = lead + "   " if arrow else ""
        stack += [(deeper, other, way, group) for way, other in sorted(neighbours[group])[::-1] if other != came_from]
    for parent, child, state in arcs:
        if state == "fade":
            yield f"faded: {parent} -> {child}"


def _connected(start: GroupId, neighbours: dict[GroupId, list[GroupId]]) -> set[GroupId]:
    reached = {start}
    queue = deque([start])
    while queue:
        for other in neighbours[queue.popleft()]:
            if other not in reached:
                reached.add(other)
                queue.append(other)
    return reached
