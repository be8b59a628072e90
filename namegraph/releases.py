"""Which records of arcs into owned nodes would wrongly block once an update removed arcs, and what may stay of them.

What can be foreseen without computing the outcome: arcs between different derived nodes go, and nothing else changes.
Only originators matter who no longer reach one of the tails: for them another arc may be the first.

Source: protocol.md sections 4 and 5, item 3.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Set
from itertools import compress

from pyroaring import BitMap

from namegraph.ancestry import AncestorSets
from namegraph.boundary_records import Among
from namegraph.duplication import arc_order, controlled_arcs
from namegraph.graph import NameGraph
from namegraph.records import ArcRecord, NodeIndex
from namegraph.settled import ArcKey


class Removal:
    """Normal arcs that are to go."""

    def __init__(
        self,
        graph: NameGraph,
        ancestors: AncestorSets,
        *,
        gone: Set[ArcKey],
        after: Mapping[NodeIndex, BitMap],
        only_leaves: bool,
    ) -> None:
        """`after`: the ancestor sets that will be others, by representative."""
        self._graph = graph
        self._ancestors = ancestors
        self.gone = gone
        self._only_leaves = only_leaves
        self._lost = {node: ancestors.of(node) - left for node, left in after.items()}
        self._reduced = BitMap([component for node in after for component in graph.components(node)])
        """Nodes that lose somebody above them."""
        self._leaving: dict[NodeIndex, BitMap] = {}
        """By sink: who will not reach some tail any more, or not over its arc."""
        for node, lost in self._lost.items():
            for sink in ancestors.derived_children(node):
                self._leaving[sink] = self._leaving[sink] | lost if sink in self._leaving else lost
        for parent, child in sorted(gone):
            sink, above = graph.representative(child), ancestors.of(parent)
            self._leaving[sink] = self._leaving[sink] | above if sink in self._leaving else above
        if only_leaves:
            # Who no longer reaches the sink at all may stay blocked on the way to it.
            for sink in self._leaving.keys() & self._lost.keys():
                self._leaving[sink] = self._leaving[sink] - self._lost[sink]
        self._among = Among(graph, ancestors, BitMap().union(*self._leaving.values()))

    def blocked(self, sink: NodeIndex, wanted: Iterable[ArcKey]) -> dict[ArcKey, BitMap]:
        """Whom the wanted arcs into a derived node block now; those that block nobody are left out."""
        controlled = controlled_arcs(self._graph, self._ancestors, sink, only=frozenset(wanted))
        return {(one.arc.parent, one.arc.child): one.blocked for one in controlled}

    @property
    def sinks(self) -> set[NodeIndex]:
        """Representatives of the derived nodes into which records may have to block less."""
        return {sink for sink, leaving in self._leaving.items() if leaving}

    def lost(self, sink: NodeIndex, wanted: Container[ArcKey]) -> dict[ArcKey, BitMap]:
        """Whom the wanted arcs into a derived node block now and must not after; those without any are left out."""
        leaving = self._leaving[sink]
        entering = [arc for arc in self._graph.entering_arcs(sink) if not arc.suspended]
        reached_from = self._ancestors.have_any_above([arc.parent for arc in entering], leaving)
        arcs = list(compress(entering, reached_from))
        arcs.sort(key=lambda arc: arc_order(self._graph, arc))
        found = {}
        reached, reached_after = BitMap(), BitMap()
        for arc in arcs:
            ends = (arc.parent, arc.child)
            above = self._among.above(arc.parent) & leaving
            above_after = self._above_after(arc, above)
            if ends in wanted:
                lost = (above & reached) - (above_after & reached_after)
                if self._only_leaves:
                    lost &= above_after
                if lost:
                    found[ends] = lost
            reached |= above
            reached_after |= above_after
        return found

    def _above_after(self, arc: ArcRecord, above: BitMap) -> BitMap:
        if (arc.parent, arc.child) in self.gone:
            return BitMap()
        lost = self._lost.get(self._graph.representative(arc.parent))
        return above if lost is None else above - lost

    def keepable(self, tail: NodeIndex, blocked: BitMap, lost: BitMap) -> BitMap:
        """Of those who are blocked at an arc from `tail`, those who may stay: with nobody who is lost above them.

        Nobody who stays blocked is below one who does not, unless something above them changes, or they will not reach
        the tail.
        """
        doubtful = self._reduced | self._lost.get(self._graph.representative(tail), BitMap())
        of = self._ancestors.of
        below = [node for node in blocked & doubtful if not lost.isdisjoint(of(NodeIndex(node)))]
        return blocked - lost - BitMap(below)
