"""Restores a graph from its durable rows."""

from __future__ import annotations

from collections.abc import Iterable

from namegraph.graph.name_graph import NameGraph, VirtualNode
from namegraph.model.priorities import Priority
from namegraph.model.rows import ArcRecord, NodeIndex, NodeKind, NodeRecord, StoredState, VirtualNodeRecord
from namegraph.state.context import ServerContext


class InconsistentStateError(Exception):
    """A stored state that this program cannot have written. The message says which row is wrong, and why."""


def restore_graph(state: StoredState, context: ServerContext) -> None:
    """Fill the site's empty graph with a stored state. Raises `InconsistentStateError`.

    If there are several servers, kinds and loops are as other servers told them, and need not fit.
    """
    graph = context.graph
    components = _restore_nodes(graph, state.nodes)
    _restore_virtual_nodes(graph, state.virtual_nodes, components, context)
    _restore_arcs(graph, state.arcs, context)


def _restore_nodes(graph: NameGraph, rows: Iterable[NodeRecord]) -> dict[int, list[NodeIndex]]:
    components: dict[int, list[NodeIndex]] = {}
    for index, node_id, kind, virtual_node, version, version_server in rows:
        if index != len(graph.ids) or node_id in graph.index:
            raise InconsistentStateError(f"node {index} ({node_id}) is not the next one: {len(graph.ids) - 1} is")
        graph.restore(node_id, kind)
        graph.versions[index] = version
        if version_server is not None:
            graph.version_servers[index] = version_server
        if virtual_node is not None:
            components.setdefault(virtual_node, []).append(index)
    return components


def _restore_virtual_nodes(
    graph: NameGraph, rows: Iterable[VirtualNodeRecord], components: dict[int, list[NodeIndex]], context: ServerContext
) -> None:
    # While an update arrives from other servers, one component of a virtual node may be known before the others.
    is_alone = context.is_alone
    fewest = 2 if is_alone else 1
    for number, smallest, counter, server, present in rows:
        graph.next_virtual_node = max(graph.next_virtual_node, number + 1)
        if not present:
            continue
        inside = components.pop(number, [])
        if len(inside) < fewest:
            raise InconsistentStateError(f"virtual node {number} has {len(inside)} components")
        if is_alone and any(graph.kinds[component] != NodeKind.GROUP for component in inside):
            raise InconsistentStateError(f"virtual node {number} has a component that is no group")
        virtual_node = VirtualNode(number, smallest, Priority(counter, server), tuple(inside))
        graph.virtual_nodes[number] = virtual_node
        for component in inside:
            graph.virtual_node_of[component] = virtual_node
    if components:
        raise InconsistentStateError(f"node {min(components.values())[0]} is in a virtual node that is not there")


def _restore_arcs(graph: NameGraph, rows: Iterable[ArcRecord], context: ServerContext) -> None:
    children, parents, kinds = graph.children, graph.parents, graph.kinds
    known, is_alone = len(graph.ids), context.is_alone
    for arc in rows:
        parent, child = arc.parent, arc.child
        if parent >= known or child >= known:
            raise InconsistentStateError(f"an arc joins node {parent} to {child}; only {known} are there")
        if arc.suspended:
            graph.suspend(arc)
        elif arc.present:
            if is_alone and (kinds[parent] != NodeKind.GROUP or kinds[child] == NodeKind.ABSENT):
                raise InconsistentStateError(
                    f"an arc joins {graph.ids[parent]} to {graph.ids[child]}, one of which is gone"
                )
            children[parent][child] = arc
            parents[child][parent] = arc
        else:
            graph.bury(arc)
