"""The spanning shadow tree of a virtual node: which of its arcs resolution walks.

Growing from the smallest component, the tree takes again and again the first arc, in the order of (communication cost,
parent, child), that joins a component it has to one it lacks; the direction of the arc does not matter, for a shadow
arc is walked both ways. The tree is a function of the virtual node's components and arcs alone, so every home of a
component derives the same one and nothing about it is sent or stored.

Source: NG 4.6.2, figure 4.5; protocol.md section 3.2; invariant I2.
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
