"""Duplication control: the originators whose messages must not cross an arc.

The normal arcs into a derived node k are put in one total order, by (communication cost, parent, child). For an
originator o, k is delivered by the first arc whose tail is o or below o. The i-th arc must not be crossed by

    RD(i) = A*(tail_i)  and  ( A*(tail_1) or ... or A*(tail_(i-1)) )

With these records every walk visits k exactly once, whatever else the graph holds (invariant I4). No message has to
be remembered (invariant I6).

Source: NG 4.2, 4.5; docs/protocol-updates.md, "Every duplicate is blocked in advance".
"""

from __future__ import annotations

from dataclasses import dataclass

from pyroaring import BitMap

from namegraph.graph.ancestor_sets import AncestorSets
from namegraph.graph.name_graph import NameGraph
from namegraph.graph.spanning_tree import ArcOrder
from namegraph.model.names import NodeId
from namegraph.model.rows import ArcRecord, NodeIndex


@dataclass(frozen=True, slots=True)
class ControlledArc:
    """A secondary arc and the originators that it blocks: groups, with all components of their virtual nodes. Never
    empty."""

    arc: ArcRecord
    blocked: BitMap


def arc_order(graph: NameGraph, arc: ArcRecord) -> ArcOrder:
    """Return the place of an arc among the arcs into one derived node."""
    return arc.cost, graph.ids[arc.parent], graph.ids[arc.child]


def blocked_originators(graph: NameGraph, ancestors: AncestorSets, arc: ArcRecord) -> BitMap:
    """Return the originators that must not cross one normal arc. Empty for most arcs.

    The set holds groups, and all components of their virtual nodes.
    """
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
    """Return the secondary arcs into the derived node of `sink` that block an originator, in the order of arcs."""
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


def source_names(graph: NameGraph, ancestors: AncestorSets, arc: ArcRecord) -> tuple[NodeId, ...]:
    """Return the record of one normal arc as it travels: its sources, each by its smallest component, sorted."""
    ids = graph.ids
    found = sources(graph, ancestors, blocked_originators(graph, ancestors, arc))
    return tuple(sorted(min(ids[component] for component in graph.components(source)) for source in found))


def sources(graph: NameGraph, ancestors: AncestorSets, blocked: BitMap) -> list[NodeIndex]:
    """Return the minimal derived nodes of an ancestor-closed set, as representatives, in no order.

    They are the sources of the duplication loops that the set controls. All other nodes of the set are their
    ancestors.
    """
    of = ancestors.of
    candidates: dict[NodeIndex, None] = {}
    rest = blocked.copy()
    while rest:
        # Any candidate will do, because all nodes above it go with it. The middle one takes many, whatever the
        # numbering.
        candidate = graph.representative(NodeIndex(rest[len(rest) // 2]))
        candidates[candidate] = None
        rest -= of(candidate)
    return [candidate for candidate in candidates if not _is_above_any(graph, ancestors, candidate, blocked)]


def _is_above_any(graph: NameGraph, ancestors: AncestorSets, node: NodeIndex, closed: BitMap) -> bool:
    """Return True if another node of an ancestor-closed set is below a derived node. Such a node is then immediately
    below."""
    if node not in graph.virtual_node_of and not any(map(closed.__contains__, graph.recorded_children(node))):
        return False
    above = ancestors.of(node)
    # While an update arrives from other servers, a loop may exist that is no virtual node yet.
    return any(child in closed and child not in above for child in ancestors.derived_children(node))
