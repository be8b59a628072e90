"""Ancestry for people: the pathnames of a node, and a chain of arcs that proves a membership.

Pathnames are never stored: there can be 10**15 of them. Pathnames are listed lazily, from the arcs.

Source: NG 4.4.2.
"""

from __future__ import annotations

from collections.abc import Iterator

from namegraph.graph.ancestor_sets import AncestorSets
from namegraph.graph.name_graph import NameGraph
from namegraph.model.rows import NodeIndex


def pathnames(graph: NameGraph, node: NodeIndex) -> Iterator[tuple[str, ...]]:
    """Yield the pathnames of a node, lazily, in sorted order.

    A pathname is the labels of derived nodes from a root down to the node's own. Pathnames may be far too many to
    read, so the caller takes as many as it wants. Each costs at most its length times the number of parents on it.
    """
    start = graph.representative(node)
    path = [start]
    pending = [_sorted_parents(graph, start)]
    if not pending[0]:
        yield (graph.label(start),)
        return
    while pending:
        if not pending[-1]:
            pending.pop()
            path.pop()
            continue
        above = pending[-1].pop()
        parents = _sorted_parents(graph, above)
        path.append(above)
        if parents:
            pending.append(parents)
        else:
            yield tuple(graph.label(derived) for derived in reversed(path))
            path.pop()


def prove(graph: NameGraph, ancestors: AncestorSets, *, group: NodeIndex, member: NodeIndex) -> list[NodeIndex]:
    """Return a shortest chain of arcs group -> ... -> member, as its nodes. Empty if there is none.

    Only ancestors of the member that have `group` above them are visited, level by level from the member up.
    """
    if not ancestors.is_ancestor(ancestor=group, node=member):
        return []
    below: dict[NodeIndex, NodeIndex] = {}
    level = [member]
    while level:
        above: list[NodeIndex] = []
        for node in level:
            for parent in sorted(graph.parents[node], key=graph.ids.__getitem__):
                if parent == group:
                    chain_down = [group, node]
                    while chain_down[-1] != member:
                        chain_down.append(below[chain_down[-1]])
                    return chain_down
                if parent not in below and parent != member and ancestors.is_ancestor(ancestor=group, node=parent):
                    below[parent] = node
                    above.append(parent)
        level = above
    raise AssertionError("an ancestor is reached by going up")


def _sorted_parents(graph: NameGraph, node: NodeIndex) -> list[NodeIndex]:
    # The last parent comes first, so that popping from the end visits them in order.
    return sorted(graph.parent_representatives(node), key=graph.label, reverse=True)
