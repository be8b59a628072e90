"""The spanning shadow tree of a virtual node: the arcs that resolution walks inside it.

The tree grows from the smallest component. Each step takes the first arc, in the order (communication cost, parent,
child), that joins a new component to the tree. The direction of the arc does not matter, because a shadow arc is
walked both ways. The tree is a function of the virtual node's components and arcs alone. Every home of a component
therefore derives the same tree, and no part of it is sent or stored.

Source: NG 4.6.2, figure 4.5; docs/protocol-updates.md, "Two views of one graph"; invariant I2.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence

from namegraph.model.names import NodeId
from namegraph.model.rows import ArcKey, NodeIndex

ArcOrder = tuple[int, NodeId, NodeId]
"""(communication cost, parent, child): the total order in which arcs are preferred."""


def spanning_tree(
    components: Sequence[NodeIndex], arcs: Iterable[tuple[ArcOrder, NodeIndex, NodeIndex]]
) -> frozenset[ArcKey]:
    """Return the tree's arcs as (parent, child). `components` come smallest id first; `arcs` in any order."""
    touching: dict[NodeIndex, list[tuple[ArcOrder, NodeIndex, NodeIndex]]] = {node: [] for node in components}
    for arc in arcs:
        touching[arc[1]].append(arc)
        touching[arc[2]].append(arc)
    tree = set()
    joined = {components[0]}
    candidates = list(touching[components[0]])
    heapq.heapify(candidates)
    while len(joined) < len(components):
        assert candidates, "the components of a virtual node are connected"
        _, parent, child = heapq.heappop(candidates)
        if parent in joined and child in joined:
            continue
        tree.add((parent, child))
        added = child if parent in joined else parent
        joined.add(added)
        for arc in touching[added]:
            heapq.heappush(candidates, arc)
    return frozenset(tree)
