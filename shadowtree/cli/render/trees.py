"""The members of a group as a tree of text: by memberships, or by the walk of the resolution. Pure.

The walk crosses some arcs inside a loop from the member to the group, so it is no tree of memberships:

    memberships     a            walk of a, where b contains a, a contains c, c contains b:
                    └── c        a
                        └── b    ├── -> c
                                 └── <- b
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from shadowtree.cli.render.loops import loops_of
from shadowtree.results import Child, WalkStep
from shadowtree.vocabulary import ArcState, GroupId, MemberId

ChildrenOf = Callable[[GroupId], Sequence[Child]]
"""Function that returns the immediate members of a group."""

LoopArcs = Mapping[tuple[GroupId, GroupId], ArcState]
"""Memberships between groups of one loop, as (parent, child), with their arc states."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """Lines of text.

    `missing`: members of the walk for which no membership was found, because memberships changed meanwhile.
    """

    lines: tuple[str, ...]
    missing: tuple[MemberId, ...] = ()


def arcs_in_loops(walk: Sequence[WalkStep], children_of: ChildrenOf) -> LoopArcs:
    """Return the memberships inside the loops of a walk. Calls `children_of` for each group in a loop."""
    found = {}
    for loop in map(frozenset, loops_of(walk)):
        for group in loop:
            for child in children_of(group):
                if child.id in loop and child.state in ("shadow", "fade"):
                    found[group, child.id] = child.state
    return found


def draw_memberships(group: GroupId, walk: Sequence[WalkStep], in_loops: LoopArcs, *, with_guides: bool) -> Drawing:
    """Draw each member once, below a group that has it as an immediate member, as near to the top as possible."""
    children: dict[GroupId, list[MemberId]] = {}
    for parent, child in in_loops:
        children.setdefault(parent, []).append(child)
    for step in walk:
        if step.state != "shadow":
            children.setdefault(step.source, []).append(step.target)
    missing = {step.target for step in walk} - {group}
    below: dict[GroupId, list[tuple[str, MemberId]]] = {}
    queue = deque([group])
    while queue:
        parent = queue.popleft()
        for child in sorted(children.get(parent, ())):
            if child in missing:
                missing.remove(child)
                below.setdefault(parent, []).append((child, child))
                queue.append(child)
    return Drawing(tuple(_draw(group, below, with_guides=with_guides)), tuple(sorted(missing)))


def draw_walk(group: GroupId, walk: Iterable[WalkStep], in_loops: LoopArcs, *, with_guides: bool) -> Drawing:
    """Draw each node below its predecessor in the walk, over an arc down (`->`) or up (`<-`)."""
    below: dict[GroupId, list[tuple[str, MemberId]]] = {}
    for step in walk:
        goes_up = step.state == "shadow" and in_loops.get((step.source, step.target)) != "shadow"
        mark = "" if step.state == "normal" else f" ({step.state})"
        label = f"{'<-' if goes_up else '->'} {step.target}{mark}"
        below.setdefault(step.source, []).append((label, step.target))
    return Drawing(tuple(_draw(group, below, with_guides=with_guides)))


def _draw(
    root: GroupId, below: Mapping[GroupId, Sequence[tuple[str, MemberId]]], *, with_guides: bool
) -> Iterator[str]:
    """Yield the lines of a tree of labels and nodes: with guide lines for a person, else only indented."""
    yield root
    # Each entry is a node to draw: its prefix, and True if it is the last child of its parent.
    stack = _entries(below.get(root, ()), "")
    while stack:
        lead, is_last, label, node = stack.pop()
        branch = ("└── " if is_last else "├── ") if with_guides else "  "
        yield f"{lead}{branch}{label}"
        guide = ("    " if is_last else "│   ") if with_guides else "  "
        stack += _entries(below.get(node, ()), lead + guide)


def _entries(nodes: Sequence[tuple[str, MemberId]], lead: str) -> list[tuple[str, bool, str, MemberId]]:
    last = len(nodes) - 1
    return [(lead, position == last, *node) for position, node in enumerate(nodes)][::-1]
