"""Duplication control: which originators' messages must not cross which arc.

The normal arcs into a derived node k are put in one total order, by (communication cost, parent, child). For an
originator o, the arc that delivers k is the first whose tail is o or below o. So the i-th arc must not be crossed by

    RD(i) = A*(tail_i)  and  ( A*(tail_1) or ... or A*(tail_(i-1)) )

which makes every walk visit k exactly once, whatever else the graph holds (invariant I4), without remembering any
message (invariant I6).

Source: NG 4.2, 4.5; protocol.md section 4.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyroaring import BitMap

from namegraph.ancestry import AncestorSets
from namegraph.graph import NameGraph
from namegraph.records import ArcRecord, NodeIndex
from namegraph.shadow_tree import ArcOrder


@dataclass(frozen=True, slots=True)
class ControlledArc:
    """A secondary arc and the originators (groups; all components of their virtual nodes) it blocks: never none."""

    arc: ArcRecord
    blocked: BitMap


def arc_order(graph: NameGraph, arc: ArcRecord) -> ArcOrder:
    """The place of an arc among those into one derived node."""
    return arc.cost, graph.ids[arc.parent], graph.ids[arc.child]


def blocked_originators(graph: NameGraph, ancestors: AncestorSets, arc: ArcRecord) -> BitMap:
    """Who must not cross one normal arc (groups; all components of their virtual nodes): empty for most arcs."""
    above = ancestors.of(arc.parent)
    order = arc_order(graph, arc)
    blocked = BitMap()
    for other in graph.entering_arcs(arc.child):
        if not other.suspended and arc_order(graph, other) < order:
            blocked |= above & ancestors.of(other.parent)
            if len(blocked) == len(above):
                break
    return blocked


def controlled_arcs(graph: NameGraph, ancestors: AncestorSets, sink: NodeIndex) -> list[ControlledArc]:
    """The secondary arcs into the derived node of `sink` that block somebody, in the order of arcs."""
    entering = [arc for arc in graph.entering_arcs(sink) if not arc.suspended]
    entering.sort(key=lambda arc: arc_order(graph, arc))
    found = []
    reached = BitMap()
    for arc in entering:
        above = ancestors.of(arc.parent)
        blocked = above & reached
        if blocked:
            found.append(ControlledArc(arc, blocked))
        reached |= above
    return found


def sources(graph: NameGraph, blocked: BitMap) -> list[NodeIndex]:
    """The minimal derived nodes of an ancestor-closed set, as representatives sorted by label.

    They are the sources of the duplication loops that the set controls; all others are their ancestors.
    """
    inner: set[NodeIndex] = set()
    representatives = {graph.representative(NodeIndex(node)) for node in blocked}
    for representative in representatives:
        inner |= graph.parent_representatives(representative)
    return sorted(representatives - inner, key=graph.label)
