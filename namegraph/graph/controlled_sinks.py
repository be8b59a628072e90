"""Sinks of duplication loops among some nodes.

Source: NG 4.5.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from namegraph.graph.ancestor_sets import AncestorSets
from namegraph.graph.name_graph import NameGraph
from namegraph.model.rows import NodeIndex

AFFECTED_COMPARED_LIMIT = 50_000
"""Affected nodes of one server that are compared to find controlled and released nodes.

Beyond this limit, only the children of the update's own arcs are compared. The limit keeps one update from holding
up all other updates.
"""


class Sinks(NamedTuple):
    """Some nodes of one server as they were when an update became ready there, to compare the update with."""

    compared: frozenset[NodeIndex]
    controlled: frozenset[NodeIndex]
    """Nodes of `compared` that were sinks of duplication loops."""


def controlled_among(graph: NameGraph, ancestors: AncestorSets, nodes: Iterable[NodeIndex]) -> set[NodeIndex]:
    """Return those of the nodes whose derived node is the sink of a duplication loop."""
    owner, parents = graph.virtual_node_of, graph.parents
    # Most nodes have one parent, and cannot be sinks.
    return {node for node in nodes if (len(parents[node]) > 1 or node in owner) and ancestors.is_controlled(node)}
