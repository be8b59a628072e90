"""Duplication control: which originators' messages must not cross which arc.

The normal arcs into a derived node k are put in one total order, by (communication cost, parent, child). For an
originator o, the arc that delivers k is the first whose tail is o or below o. So the i-th arc must not be crossed by

    RD(i) = A*(tail_i)  and  ( A*(tail_1) or ... or A*(tail_(i-1)) )

which makes every walk visit k exactly once, whatever else the graph holds (invariant I4), without remembering any
message (invariant I6).

Source: NG 4.2, 4.5; protocol.md section 4.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
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


_NONE_CHANGED: Mapping[NodeIndex, BitMap] = {}


def controlled_arcs(
    graph: NameGraph,
    ancestors: AncestorSets,
    sink: NodeIndex,
    *,
    gone: Set[tuple[NodeIndex, NodeIndex]] = frozenset(),
    changed: Mapping[NodeIndex, BitMap] = _NONE_CHANGED,
    only: Set[tuple[NodeIndex, NodeIndex]] | None = None,
) -> list[ControlledArc]:
    """The secondary arcs into the derived node of `sink` that block somebody, in the order of arcs.

    As if the arcs `gone` (parent, child) were not there, and the `changed` ancestor sets, by representative, were so.
    With `only`, no others are looked for.
    """
    entering = [arc for arc in graph.entering_arcs(sink) if not arc.suspended and (arc.parent, arc.child) not in gone]
    ids = graph.ids
    entering.sort(key=lambda arc: (arc.cost, ids[arc.parent], ids[arc.child]))  # `arc_order`, for very many
    found = []
    reached = BitMap()
    for arc in entering:
        above = changed.get(graph.representative(arc.parent)) if changed else None
        if above is None:
            above = ancestors.of(arc.parent)
        if only is None or (arc.parent, arc.child) in only:
            blocked = above & reached
            if blocked:
                found.append(ControlledArc(arc, blocked))
        reached |= above
    return found


def without_any_above(ancestors: AncestorSets, closed: BitMap, lost: BitMap) -> BitMap:
    """Of an ancestor-closed set, those that are not `lost` and have nothing lost above them."""
    rest = closed - lost
    found = BitMap()
    while rest:
        candidate = rest[len(rest) // 2]
        above = ancestors.of(NodeIndex(candidate))
        if lost.isdisjoint(above):
            # So it is with all above it.
            found |= above
            rest -= above
        else:
            rest.discard(candidate)
    return found


def sources(
    graph: NameGraph, ancestors: AncestorSets, blocked: BitMap, *, likely: Iterable[NodeIndex] = ()
) -> list[NodeIndex]:
    """The minimal derived nodes of an ancestor-closed set, as representatives, in no order.

    They are the sources of the duplication loops that the set controls; all others are their ancestors. Any nodes may
    be `likely`; where they are the sources of a set that is nearly the same, little is left to search.
    """
    of = ancestors.of
    candidates = dict.fromkeys([graph.representative(node) for node in likely if node in blocked])
    rest = blocked - BitMap().union(*map(of, candidates)) if candidates else blocked.copy()
    while rest:
        # Whichever is taken, all above it go with it. The middle one takes many, however nodes happen to be numbered.
        candidate = graph.representative(NodeIndex(rest[len(rest) // 2]))
        candidates[candidate] = None
        rest -= of(candidate)
    return [candidate for candidate in candidates if not _is_above_any(graph, ancestors, candidate, blocked)]


def _is_above_any(graph: NameGraph, ancestors: AncestorSets, node: NodeIndex, closed: BitMap) -> bool:
    """Whether a derived node has others of an ancestor-closed set below it: then one of them is immediately below."""
    if node not in graph.virtual_node_of and not any(map(closed.__contains__, graph.recorded_children(node))):
        return False
    above = ancestors.of(node)
    # While an update arrives from other servers there may be a loop that is no virtual node yet.
    return any(child in closed and child not in above for child in ancestors.derived_children(node))
