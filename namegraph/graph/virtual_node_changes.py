"""Effect of an update on virtual nodes: forming, growing, changing inside, breaking.

One computation serves every kind of update. A group can come into a loop only if it lies on a way between new arcs:
from a child of one back up to a parent of one. A component can fall out of a loop only if its virtual node lost an
inner arc. The strongly connected components of that region alone are computed, once for the whole update, over the
arcs as they will be. The effects follow from comparing these components with the present virtual nodes:

    new arc between derived nodes, no way back     ->  no new component: a normal arc
    new arc inside a virtual node                  ->  same components: `changed`
    new arc that closes a loop                     ->  more components: `formed`, or `grown` where it embeds others
    normal arc left                                ->  region empty
    inner arc left, still strongly connected       ->  same components: `changed`
    inner arc left, not strongly connected         ->  fewer: `broken`, then `formed` for each retained virtual node

Source: NG 4.6.3, 4.7; docs/protocol-updates.md, "An update, from command to answer".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import rustworkx
from pyroaring import BitMap

from namegraph.graph.ancestor_sets import AncestorSets
from namegraph.graph.delta import GraphDelta
from namegraph.graph.name_graph import NameGraph, VirtualNode
from namegraph.model.outcomes import EffectKind
from namegraph.model.priorities import Priority
from namegraph.model.rows import ArcKey, NodeIndex, NodeKind

ANCESTOR_SETS_USED_LIMIT = 64
"""Largest number of tails for which the upper end of the region is united from cached ancestor sets.

All these sets must be cached. Otherwise one walk up finds the upper end.
"""


@dataclass(slots=True)
class Topology:
    """Changes of virtual nodes by one update. `effects` are (kind, components) in the order in which to report them."""

    formed: list[VirtualNode] = field(default_factory=list)
    dissolved: list[VirtualNode] = field(default_factory=list)
    changed: list[VirtualNode] = field(default_factory=list)
    effects: list[tuple[EffectKind, tuple[NodeIndex, ...]]] = field(default_factory=list)


def compute_topology(
    graph: NameGraph, ancestors: AncestorSets, changes: GraphDelta, *, final_priority: Priority
) -> Topology:
    """Return the effect of the update on virtual nodes. The graph is as it was before the update, and is not
    changed."""
    heads = {child for _, child, _ in changes.added}
    groups = {child for child in heads if changes.kinds.get(child, graph.kinds[child]) == NodeKind.GROUP}
    new_arcs = [(parent, child) for parent, child, _ in changes.added if child in groups]
    removed = set(changes.removed)
    topology = Topology()
    region = _region(graph, ancestors, new_arcs, removed)
    if region:
        touched = {vn for node in region if (vn := graph.virtual_node_of.get(node)) is not None}
        components = _components(graph, region, new_arcs, removed)
        _compare(graph, touched, components, topology, final_priority=final_priority)
    _add_changed_inside(graph, topology, [*new_arcs, *changes.removed])
    return topology


def _region(
    graph: NameGraph,
    ancestors: AncestorSets,
    new_arcs: list[ArcKey],
    removed: set[ArcKey],
) -> set[NodeIndex]:
    """Return a set of groups that contains, whole, every strongly connected component that the update changes."""
    owner = graph.virtual_node_of
    region: set[NodeIndex] = set()
    for parent, child in removed:
        virtual_node = owner.get(parent)
        if virtual_node is not None and owner.get(child) is virtual_node:
            region.update(virtual_node.components)
    joining = [
        (parent, child)
        for parent, child in new_arcs
        if owner.get(parent) is None or owner.get(parent) is not owner.get(child)
    ]
    if not joining:
        return region
    tails = {parent for parent, _ in joining}
    heads = {child for _, child in joining}
    above = _union_above(graph, ancestors, tails)
    starts = {head for head in heads if head in above}
    if not starts:
        return region
    reached = set(starts)
    frontier = starts
    while frontier:
        below = set().union(*[graph.children[node] for node in frontier])
        # A node below a head but not above a tail is on no loop. The nodes below such a node are on no loop either.
        frontier = {node for node in below - reached if node in above}
        reached |= frontier
    return region | reached


def _union_above(graph: NameGraph, ancestors: AncestorSets, tails: set[NodeIndex]) -> BitMap | set[NodeIndex]:
    if len(tails) > ANCESTOR_SETS_USED_LIMIT or not all(map(ancestors.is_known, tails)):
        return graph.ancestors(tails)
    return BitMap().union(*(ancestors.of(tail) for tail in tails))


def _components(
    graph: NameGraph,
    region: set[NodeIndex],
    new_arcs: list[ArcKey],
    removed: set[ArcKey],
) -> list[tuple[NodeIndex, ...]]:
    """Return the strongly connected components of two or more groups in the region, over the arcs as they will be."""
    nodes = sorted(region)
    position = {node: place for place, node in enumerate(nodes)}
    arcs = [
        (position[node], position[child])
        for node in nodes
        for child, arc in graph.children[node].items()
        if child in position and not arc.suspended
    ]
    if removed:
        gone = {
            (position[parent], position[child]) for parent, child in removed if parent in position and child in position
        }
        arcs = [arc for arc in arcs if arc not in gone]
    arcs += [
        (position[parent], position[child]) for parent, child in new_arcs if parent in position and child in position
    ]
    induced = rustworkx.PyDiGraph()
    induced.add_nodes_from(nodes)
    induced.add_edges_from_no_data(arcs)
    found = [
        tuple(sorted(nodes[place] for place in component))
        for component in rustworkx.strongly_connected_components(induced)
        if len(component) > 1
    ]
    # Sorted by smallest id, so that numbers and effects do not depend on the order of a library.
    return sorted(found, key=lambda component: min(graph.ids[node] for node in component))


def _compare(
    graph: NameGraph,
    touched: Iterable[VirtualNode],
    components: list[tuple[NodeIndex, ...]],
    topology: Topology,
    *,
    final_priority: Priority,
) -> None:
    formed: list[tuple[EffectKind, tuple[NodeIndex, ...]]] = []
    kept: set[int] = set()
    number = graph.next_virtual_node
    for component in components:
        embedded = {vn.number: vn for node in component if (vn := graph.virtual_node_of.get(node)) is not None}
        if len(embedded) == 1:
            (old,) = embedded.values()
            if old.components == component:
                kept.add(old.number)
                continue
            kind = EffectKind.FORMED if set(component) <= set(old.components) else EffectKind.GROWN
        else:
            kind = EffectKind.GROWN if embedded else EffectKind.FORMED
        formed.append((kind, component))
        smallest = min(graph.ids[node] for node in component)
        topology.formed.append(VirtualNode(number, smallest, final_priority, component))
        number += 1
    home_of_component = {node: place for place, (_, component) in enumerate(formed) for node in component}
    for old in sorted((vn for vn in touched if vn.number not in kept), key=lambda vn: vn.smallest):
        topology.dissolved.append(old)
        homes = {home_of_component.get(node, -1 - node) for node in old.components}
        if len(homes) > 1:
            topology.effects.append((EffectKind.BROKEN, old.components))
    topology.effects += formed


def _add_changed_inside(graph: NameGraph, topology: Topology, arcs: Iterable[ArcKey]) -> None:
    gone = {virtual_node.number for virtual_node in topology.dissolved}
    changed: dict[int, VirtualNode] = {}
    for parent, child in arcs:
        virtual_node = graph.virtual_node_of.get(parent)
        inside = virtual_node is not None and graph.virtual_node_of.get(child) is virtual_node
        if virtual_node is not None and inside and virtual_node.number not in gone:
            changed[virtual_node.number] = virtual_node
    topology.changed = list(changed.values())
    topology.effects += [(EffectKind.CHANGED, virtual_node.components) for virtual_node in topology.changed]
