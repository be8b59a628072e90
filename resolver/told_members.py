"""Members of a group that a caller may know: a walk over the arcs of readable groups of one server.

    an arc is told       if the caller may read the group that it leaves
    a node is told       if a path of told arcs leads to it
    a group is hidden    if it is told, and the caller may not read it, or another server owns it

Source: docs/security.md, "What callers are told".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from namegraph import CoreQueries, NodeId, NodeIndex, NodeKind, Slices, sorted_in_slices

ARCS_OF_A_SLICE = 2_000
"""Arcs of a slice: each takes a microsecond or two."""


@dataclass(frozen=True, slots=True)
class ToldMembers:
    """Nodes that a caller may know. Ids are sorted, each once."""

    processes: tuple[NodeId, ...]
    groups: tuple[NodeId, ...]
    """Groups. A group on a loop of told arcs reaches itself."""
    hidden: tuple[NodeId, ...]
    """Groups below which the caller is told nothing."""


def members_told(core: CoreQueries, group: NodeId, is_readable: Callable[[NodeId], bool]) -> Slices[ToldMembers]:
    """Find the members of a group of this server. The state must not change meanwhile.

    `is_readable`: returns True for a group of this server whose arcs the caller may know.
    """
    graph, ids = core.graph, core.graph.ids
    start = graph.group(group)
    if start is None:
        raise core.missing_group(group)
    processes, groups, hidden = dict[NodeId, None](), dict[NodeId, None](), list[NodeId]()
    entered: dict[NodeIndex, None] = {start: None}
    pending, looked_at = [start], 0
    while pending:
        node = pending.pop()
        name = ids[node]
        if not core.owns(node) or not is_readable(name):
            hidden.append(name)
            continue
        children = [*graph.children[node], *(core.suspended_children(node) if graph.suspended else ())]
        for child in children:
            if graph.kind(child) is not NodeKind.GROUP:
                processes[ids[child]] = None
                continue
            groups[ids[child]] = None
            if child not in entered:
                entered[child] = None
                pending.append(child)
        looked_at += 1 + len(children)
        if looked_at >= ARCS_OF_A_SLICE:
            yield looked_at
            looked_at = 0
    return ToldMembers(
        tuple((yield from sorted_in_slices(list(processes)))),
        tuple((yield from sorted_in_slices(list(groups)))),
        tuple((yield from sorted_in_slices(hidden))),
    )
