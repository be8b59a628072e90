"""Find an arc that would close a loop, and draw the tree of a loop. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from shadowtree.cli.render.loops import loops_of
from shadowtree.results import GroupDescription, WalkStep
from shadowtree.vocabulary import GroupId

TO_MEMBER, TO_GROUP = "->", "<-"
ARROWS: Mapping[str, str] = {TO_MEMBER: "leads to a member", TO_GROUP: "to the group that it is a member of"}
"""Meanings of the arrows of a drawing."""

_FADED = "faded: "


def is_faded(line: str) -> bool:
    """Return True if a line of a drawing names an arc that faded."""
    return line.startswith(_FADED)


def arc_to_turn_round(walk: Sequence[WalkStep]) -> tuple[GroupId, GroupId] | None:
    """Return an arc parent -> child of the walk between groups outside loops: the deepest arc to a group."""
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
            neighbours[parent].append((TO_MEMBER, child))
            neighbours[child].append((TO_GROUP, parent))
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
            yield f"{_FADED}{parent} {TO_MEMBER} {child}"
