"""Derived nodes in layers, for very many questions about the minimal nodes of ancestor-closed sets.

The layer of a node is the length of the longest way down to it, so that no node is above another one of its layer. Of
what is left of a set, the nodes of the deepest layer are minimal, all at once; what is above them goes.

Source: NG 4.5; protocol.md section 4.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat

from pyroaring import BitMap

from namegraph.ancestry import AncestorSets
from namegraph.graph import NameGraph
from namegraph.records import NodeIndex


class Layers:
    """The layers of some nodes and of all above them, as they are now."""

    def __init__(self, graph: NameGraph, ancestors: AncestorSets, nodes: Iterable[NodeIndex]) -> None:
        self._ancestors = ancestors
        self._above = BitMap().union(*map(ancestors.of, dict.fromkeys(map(graph.representative, nodes))))
        derived = dict.fromkeys(graph.representative(NodeIndex(node)) for node in self._above)
        depths: dict[NodeIndex, int] = {}
        layers: dict[int, list[NodeIndex]] = {}
        # What is above a node has a smaller ancestor set.
        for node in sorted(derived, key=lambda node: len(ancestors.of(node))):
            components = graph.components(node)
            depth = 1 + max(
                max(map(depths.get, graph.parents[component], repeat(0)), default=0) for component in components
            )
            depths.update(zip(components, repeat(depth)))
            layers.setdefault(depth, []).append(node)
        self._deepest_first = [BitMap(layers[depth]) for depth in sorted(layers, reverse=True)]

    def hold(self, nodes: BitMap) -> bool:
        """Whether these are among the nodes and all above them."""
        return nodes <= self._above

    def sources(self, blocked: BitMap) -> list[NodeIndex]:
        """As `duplication.sources`, of a set that these layers hold."""
        rest = blocked.copy()
        found: list[NodeIndex] = []
        for layer in self._deepest_first:
            deepest = rest & layer
            for number in deepest:
                node = NodeIndex(number)
                found.append(node)
                rest -= self._ancestors.of(node)
            if not rest:
                break
        return found
