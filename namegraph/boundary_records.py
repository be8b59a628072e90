"""What records of arcs into owned nodes are to hold: as the graph says, or by what has happened since they were right.

A record that was right differs from what the graph says now at most about those who have `moved` (`settled.py`). About
these alone the arcs are compared, so that the cost is that of the arcs that an update reaches, not of all there are.

Source: NG 4.5; protocol.md section 4.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from hashlib import blake2b

from pyroaring import BitMap

from namegraph.ancestry import AncestorSets
from namegraph.collected import minimal_nodes, names_of_derived
from namegraph.duplication import arc_order, controlled_arcs
from namegraph.graph import NameGraph
from namegraph.layers import Layers
from namegraph.records import ArcRecord, NodeIndex
from namegraph.settled import ArcKey, Minimal, Partly, Touch

LAYERED_FROM_ARCS = 10_000
"""So many arcs of one update, as an import brings them, are worth finding the layers of all that is above them."""

LAYERED_FROM_NODES = 300
"""Smaller sets are looked through as quickly without layers."""

Sent = Callable[[ArcRecord], Minimal]
"""The record of an arc that was sent last."""


class BoundaryRecords:
    """Computes records over one graph; nothing is kept but for the length of one comparison."""

    def __init__(self, graph: NameGraph, ancestors: AncestorSets, sent: Sent) -> None:
        self._graph = graph
        self._ancestors = ancestors
        self._sent = sent
        self._minimal: dict[bytes, Minimal] = {}
        """By set of those who are blocked: many arcs of one tail block the same."""
        self._layers: Layers | None = None

    def of(self, entering: Collection[ArcRecord]) -> dict[ArcKey, Minimal]:
        """The records of these arcs as the graph says, by (parent, child); where nobody is blocked there is none."""
        if len(entering) >= LAYERED_FROM_ARCS and self._ancestors.are_all_kept:
            self._layers = Layers(self._graph, self._ancestors, [arc.parent for arc in entering])
        by_sink: dict[NodeIndex, list[ArcRecord]] = {}
        for arc in entering:
            by_sink.setdefault(self._graph.representative(arc.child), []).append(arc)
        found: dict[ArcKey, Minimal] = {}
        for sink, arcs in by_sink.items():
            only = {(arc.parent, arc.child) for arc in arcs}
            for controlled in controlled_arcs(self._graph, self._ancestors, sink, only=only):
                arc = controlled.arc
                found[arc.parent, arc.child] = self._record(arc, controlled.blocked)
        return found

    def differing(self, partly: Partly, *, is_wanted: Callable[[ArcRecord], bool]) -> list[tuple[ArcRecord, Minimal]]:
        """The wanted arcs into these nodes of which another record was sent than the graph says, and what it says."""
        everybody = BitMap().union(*(touch.moved for touch, _ in partly.values()))
        among = Among(self._graph, self._ancestors, everybody)
        found = []
        for sink, (touch, nodes) in partly.items():
            for arc, moved in self._differing_into(sink, touch, set(nodes), among):
                if is_wanted(arc):
                    before = touch.replaced.get((arc.parent, arc.child), self._sent(arc))
                    stayed = self.expanded(before) - touch.moved
                    found.append((arc, self._record(arc, stayed | moved)))
        return found

    def expanded(self, nodes: Minimal) -> BitMap:
        """Whom a record of these nodes blocks."""
        index, of = self._graph.index, self._ancestors.of
        return BitMap().union(*[of(index[node]) for node in nodes if node in index])

    def _differing_into(
        self, sink: NodeIndex, touch: Touch, nodes: set[NodeIndex], among: Among
    ) -> Iterator[tuple[ArcRecord, BitMap]]:
        """Arcs into these components whose record may be wrong, and who of those that moved are to be blocked there."""
        reached = BitMap()
        for arc in self._touched_arcs(sink, touch):
            above = among.above(arc.parent) & touch.moved
            if arc.child in nodes:
                blocked = above & reached
                if (arc.parent, arc.child) in touch.replaced or blocked != among.named(self._sent(arc)) & touch.moved:
                    yield arc, blocked
            reached |= above

    def _touched_arcs(self, sink: NodeIndex, touch: Touch) -> list[ArcRecord]:
        """In their order, all arcs whose records may have changed, and all whose tails those who moved reach now."""
        graph = self._graph
        stayed = touch.moved - touch.moved_wholly
        tails = set().union(*map(graph.components, touch.tails), [parent for parent, _ in touch.replaced])
        if stayed or sink in graph.virtual_node_of:
            entering = graph.entering_arcs(sink)
            reached = self._ancestors.have_any_above([arc.parent for arc in entering], stayed)
            arcs = [arc for arc, is_reached in zip(entering, reached, strict=True) if is_reached or arc.parent in tails]
        else:
            into = graph.parents[sink]
            arcs = [into[parent] for parent in tails if parent in into]
        arcs = [arc for arc in arcs if not arc.suspended]
        if len(arcs) > 1:
            arcs.sort(key=lambda arc: arc_order(graph, arc))
        return arcs

    def _record(self, arc: ArcRecord, blocked: BitMap) -> Minimal:
        """As it was sent, where that says the same: so it does where what changed is far above."""
        sent = self._sent(arc)
        if not blocked:
            return ()
        if sent and self._says(sent, blocked):
            return sent
        if arc.parent in blocked:
            # All that is blocked is above the tail.
            ids = self._graph.ids
            return (min([ids[component] for component in self._graph.components(arc.parent)]),)
        return self.minimal(blocked, likely=sent)

    def minimal(self, blocked: BitMap, *, likely: Minimal) -> Minimal:
        """The record that blocks exactly these; `likely`: one that nearly does."""
        key = blake2b(blocked.serialize(), digest_size=16).digest()
        if key not in self._minimal:
            self._minimal[key] = self._found_minimal(blocked, likely)
        return self._minimal[key]

    def _found_minimal(self, blocked: BitMap, likely: Minimal) -> Minimal:
        if self._layers is not None and self._layers.hold(blocked) and len(blocked) >= LAYERED_FROM_NODES:
            return names_of_derived(self._graph, self._layers.sources(blocked))
        return minimal_nodes(self._graph, self._ancestors, blocked, likely=likely)

    def _says(self, nodes: Minimal, blocked: BitMap) -> bool:
        """Whether a record of these nodes blocks exactly these."""
        index = self._graph.index
        return all(node in index for node in nodes) and self.expanded(nodes) == blocked


class Among:
    """Ancestor sets as far as they concern a few nodes."""

    def __init__(self, graph: NameGraph, ancestors: AncestorSets, nodes: BitMap) -> None:
        self._graph = graph
        self._ancestors = ancestors
        self._nodes = nodes
        self._above: dict[NodeIndex, BitMap] = {}
        self._named: dict[Minimal, BitMap] = {}

    def above(self, node: NodeIndex) -> BitMap:
        """Those of the nodes that are above one, or are it."""
        found = self._above.get(node)
        if found is None:
            found = self._above[node] = self._ancestors.of(node) & self._nodes
        return found

    def named(self, record: Minimal) -> BitMap:
        """Those of the nodes that a record blocks."""
        found = self._named.get(record)
        if found is None:
            index = self._graph.index
            found = BitMap().union(*[self.above(index[node]) for node in record if node in index])
            self._named[record] = found
        return found
