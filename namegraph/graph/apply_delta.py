"""Commit of an update on one server: change the graph in one step and return the rows that make the change durable.

Ancestor sets follow the change. If a caller wants to know which nodes became controlled, the sinks of duplication
loops are compared before and after.

Source: NG 4.5 to 4.7; docs/protocol-updates.md, "An update, from command to answer".
"""

from __future__ import annotations

from namegraph.graph.ancestor_sets import AncestorSets
from namegraph.graph.controlled_sinks import AFFECTED_COMPARED_LIMIT, controlled_among
from namegraph.graph.delta import GraphDelta
from namegraph.graph.name_graph import Mark, NameGraph, VirtualNode
from namegraph.graph.virtual_node_changes import Topology
from namegraph.model.names import ServerId
from namegraph.model.outcomes import EffectKind, GraphEffect
from namegraph.model.ownership import OwnershipTable
from namegraph.model.priorities import Priority
from namegraph.model.rows import ArcRecord, NodeIndex, NodeKind, NodeRecord, Records, VirtualNodeRecord


def commit(
    graph: NameGraph,
    ancestors: AncestorSets,
    changes: GraphDelta,
    topology: Topology,
    *,
    final_priority: Priority,
    since: Mark,
    reports_control: bool,
) -> tuple[Records, list[tuple[EffectKind, list[NodeIndex]]]]:
    """Apply the update. Return its rows, and its effects as (kind, groups or processes).

    Ids that were interned `since` are new: they were interned while the update was collected. Without
    `reports_control` (an import), nodes that became controlled or released are not searched.
    """
    compared = _compared(graph, changes) if reports_control else set()
    controlled_before = controlled_among(graph, ancestors, compared)

    records = Records(counter=final_priority.counter)
    touched = _apply_arcs(graph, changes, records, counter=final_priority.counter)
    touched |= _apply_kinds(graph, changes)
    touched |= _apply_topology(graph, topology, records)
    touched.update(graph.interned_since(since))
    _record_nodes(graph, records, sorted(touched), counter=final_priority.counter)
    graph.note_changed({parent for parent, _, _ in changes.added} | {parent for parent, _ in changes.removed})
    ancestors.follow(
        added=[(parent, child) for parent, child, _ in changes.added],
        removed=changes.removed,
        regrouped=[component for group in (*topology.dissolved, *topology.formed) for component in group.components],
    )

    controlled_after = controlled_among(graph, ancestors, compared)
    effects = [(kind, list(components)) for kind, components in topology.effects]
    effects.append((EffectKind.CONTROLLED, sorted(controlled_after - controlled_before)))
    effects.append((EffectKind.RELEASED, sorted(controlled_before - controlled_after)))
    return records, [(kind, nodes) for kind, nodes in effects if nodes]


def name_effects(
    graph: NameGraph,
    subnets: OwnershipTable,
    server: ServerId,
    effects: list[tuple[EffectKind, list[NodeIndex]]],
) -> tuple[GraphEffect, ...]:
    """Return effects as callers see them: ids, and the servers that own them."""
    named = []
    for kind, nodes in effects:
        ids = sorted(graph.ids[node] for node in nodes)
        servers = sorted({subnets.home_of(name) or server for name in ids})
        named.append(GraphEffect(kind, tuple(ids), tuple(servers)))
    return tuple(named)


def _compared(graph: NameGraph, changes: GraphDelta) -> set[NodeIndex]:
    """Return the nodes that may become, or cease to be, sinks of duplication loops. The heads alone if the nodes are
    too many."""
    heads = {child for _, child, _ in changes.added} | {child for _, child in changes.removed}
    # The set is complete before and after alike: a node that the update puts below a head is below another head.
    affected = graph.descendants(heads, limit=AFFECTED_COMPARED_LIMIT)
    return heads if affected is None else affected


def _apply_arcs(graph: NameGraph, changes: GraphDelta, records: Records, *, counter: int) -> set[NodeIndex]:
    """Add and remove the arcs. Return the nodes whose ancestry record changes."""
    tombstones = graph.tombstones
    touched = {child for _, child in changes.removed} | {child for _, child, _ in changes.added}
    arcs_in = {child: graph.parents.to_change(child) for child in touched}
    for parent, child in changes.removed:
        old = graph.children.to_change(parent).pop(child)
        arcs_in[child].pop(parent, None)  # The home of the child may have reported another state.
        tombstone = ArcRecord(parent, child, old.cost, old.version + 1, counter, present=False, suspended=False)
        graph.bury(tombstone)
        records.arcs.append(tombstone)
    new_row = tuple.__new__  # This takes half the time of calling the class, and an import makes half a million
    tail, arcs_out = None, dict[NodeIndex, ArcRecord]()
    for parent, child, cost in changes.added:
        buried = graph.unbury((parent, child)) if tombstones else None
        version = 1 if buried is None else buried.version + 1
        arc = new_row(ArcRecord, (parent, child, cost, version, counter, True, False))
        if parent != tail:
            tail, arcs_out = parent, graph.children.to_change(parent)
        arcs_out[child] = arc
        arcs_in[child][parent] = arc
        records.arcs.append(arc)
    return touched


def _apply_kinds(graph: NameGraph, changes: GraphDelta) -> set[NodeIndex]:
    nodes_by_kind = {kind: [node for node, each in changes.kinds.items() if each is kind] for kind in NodeKind}
    group, kinds = NodeKind.GROUP, graph.kinds
    graph.group_changes += bool(nodes_by_kind[group]) or any(kinds[node] == group for node in changes.kinds)
    for kind, nodes in nodes_by_kind.items():
        graph.set_kinds(nodes, kind)
    return set(changes.kinds)


def _apply_topology(graph: NameGraph, topology: Topology, records: Records) -> set[NodeIndex]:
    touched: set[NodeIndex] = set()
    for virtual_node in topology.dissolved:
        graph.forget_shadow_tree(virtual_node)
        del graph.virtual_nodes[virtual_node.number]
        for component in virtual_node.components:
            del graph.virtual_node_of[component]
        touched.update(virtual_node.components)
        records.virtual_nodes.append(_virtual_node_row(virtual_node, present=False))
    for virtual_node in topology.formed:
        graph.virtual_nodes[virtual_node.number] = virtual_node
        for component in virtual_node.components:
            graph.virtual_node_of[component] = virtual_node
        touched.update(virtual_node.components)
        graph.next_virtual_node = max(graph.next_virtual_node, virtual_node.number + 1)
        records.virtual_nodes.append(_virtual_node_row(virtual_node, present=True))
    for virtual_node in topology.changed:
        graph.forget_shadow_tree(virtual_node)
    return touched


def _virtual_node_row(virtual_node: VirtualNode, *, present: bool) -> VirtualNodeRecord:
    counter, server = virtual_node.made_at
    return VirtualNodeRecord(virtual_node.number, virtual_node.smallest, counter, server, present)


def _record_nodes(graph: NameGraph, records: Records, nodes: list[NodeIndex], *, counter: int) -> None:
    versions, ids, owner = graph.versions, graph.ids, graph.virtual_node_of
    servers = graph.version_servers
    versions.put(nodes, counter)
    for node in nodes:
        if servers:
            servers.pop(node, None)
        virtual_node = owner.get(node)
        number = None if virtual_node is None else virtual_node.number
        records.nodes.append(NodeRecord(node, ids[node], graph.kind(node), number, counter, None))
