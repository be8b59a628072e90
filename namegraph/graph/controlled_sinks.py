"""Which nodes are sinks of duplication loops.

Source: NG 4.5.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from namegraph.graph.ancestor_sets import AncestorSets
from namegraph.graph.name_graph import NameGraph
from namegraph.model.rows import NodeIndex

AFFECTED_COMPARED_LIMIT = 50_000
"""Up to so many affected nodes of one server are compared for what became controlled or released; beyond, only the
children of the update's own arcs are. Keeps one update from holding up all others."""


class Sinks(NamedTuple):
    """What an update is compared with: some nodes of one server, as they were when it became ready there."""

    compared: frozenset[NodeIndex]
    controlled: frozenset[NodeIndex]
    """Those of them that were sinks of duplication loops."""


def controlled_among(graph: NameGraph, ancestors: AncestorSets, nodes: Iterable[NodeIndex]) -> set[NodeIndex]:
    """Those of the nodes whose derived node is the sink of a duplication loop."""
    owner, parents = graph.virtual_node_of, graph.parents
    # Most nodes have one parent and are settled by that.
    return {node for node in nodes if (len(parents[node]) > 1 or node in owner) and ancestors.is_controlled(node)}
