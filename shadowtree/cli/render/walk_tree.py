"""Draws the walk of a resolution as a tree of text. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from shadowtree.results import WalkStep


def draw_walk(group: str, walk: Sequence[WalkStep], *, with_guides: bool) -> Iterator[str]:
    """Yield the lines of the tree: with lines drawn for a person, else only indented.

    Each node stands once, below the one that it is reached from; `(shadow)` marks steps inside a loop.
    """
    below: dict[str, list[WalkStep]] = {}
    for step in walk:
        below.setdefault(step.source, []).append(step)
    yield group
    # One entry for each step to draw: what stands before it, and whether it is the last of its parent.
    stack = _entries(below.get(group, ()), "")
    while stack:
        lead, is_last, step = stack.pop()
        mark = "" if step.state == "normal" else f" ({step.state})"
        branch = ("└── " if is_last else "├── ") if with_guides else "  "
        yield f"{lead}{branch}{step.target}{mark}"
        if step.kind == "group":
            guide = ("    " if is_last else "│   ") if with_guides else "  "
            stack += _entries(below.get(step.target, ()), lead + guide)


def _entries(steps: Sequence[WalkStep], lead: str) -> list[tuple[str, bool, WalkStep]]:
    last = len(steps) - 1
    return [(lead, position == last, step) for position, step in enumerate(steps)][::-1]
