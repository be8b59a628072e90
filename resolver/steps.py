"""The walk of a resolution, put together from what each server knows of the steps to its own nodes.

A server knows the whole ancestry of what it owns: all arcs into a derived node of which it owns a component, and which
of their tails the originator reaches. So it can say of each owned node by which step the walk comes to it, and nobody
else can say it of that node, foreign processes excepted: of those, every server names its own first arc.

    derived node      entered over the first arc, in the order of arcs, whose tail is reached
    inside a virtual node      from the component that is entered along the shadow tree

Source: NG 4.2, 4.3; protocol.md sections 4 and 8.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from namegraph import ArcState, CoreQueries, NameGraph, NodeId, NodeIndex, VirtualNode
from resolver.plans import Plan, WalkStep, delivering_arcs, nodes_elsewhere


@dataclass(frozen=True, slots=True)
class Delivery:
    """The step by which the walk comes to a node, and the communication cost of the arc that it crosses."""

    step: WalkStep
    cost: int


def deliveries(core: CoreQueries, plan: Plan, group: NodeIndex) -> tuple[Delivery, ...]:
    """The step to each owned node of the plan but `group` itself, sorted by head."""
    graph = core.graph
    owned = plan.reached - nodes_elsewhere(core.records, plan.reached)
    delivering = delivering_arcs(graph, plan, group)
    first = graph.representative(group)
    found: dict[NodeIndex, Delivery] = {}
    for node in owned:
        representative = graph.representative(node)
        arc = delivering.get(representative)
        if node in found or node == group or (arc is None and representative != first):
            continue
        entered = group if arc is None else arc.child
        if arc is not None:
            found[entered] = Delivery(_step(graph, arc.parent, entered, ArcState.NORMAL), arc.cost)
        virtual_node = graph.virtual_node_of.get(node)
        if virtual_node is not None:
            for tail, head, cost in _around(graph, virtual_node, entered):
                found[head] = Delivery(_step(graph, tail, head, ArcState.SHADOW), cost)
    return tuple(sorted((found[node] for node in found if node in owned), key=lambda delivery: delivery.step.head))


def assemble(group: NodeId, told: Iterable[Delivery]) -> Iterator[WalkStep]:
    """Yield the walk of one server that owned everything: depth first, siblings by id, every node once.

    Of several steps to one foreign process, the first in the order of arcs is taken.
    """
    to: dict[NodeId, Delivery] = {}
    for delivery in told:
        step = delivery.step
        known = to.get(step.head)
        if known is None or (delivery.cost, step.tail) < (known.cost, known.step.tail):
            to[step.head] = delivery
    # The walk starts here, so nothing leads back.
    to.pop(group, None)
    below: dict[NodeId, list[WalkStep]] = {}
    for head in sorted(to, reverse=True):
        below.setdefault(to[head].step.tail, []).append(to[head].step)
    pending = list(below.get(group, ()))
    while pending:
        step = pending.pop()
        yield step
        pending += below.get(step.head, ())


def _around(
    graph: NameGraph, virtual_node: VirtualNode, entered: NodeIndex
) -> Iterator[tuple[NodeIndex, NodeIndex, int]]:
    """Yield (from, to, cost) of each shadow arc in the direction in which the walk crosses it."""
    beside: dict[NodeIndex, list[tuple[NodeIndex, int]]] = {}
    for parent, child in graph.shadow_tree(virtual_node):
        cost = graph.parents[child][parent].cost
        beside.setdefault(parent, []).append((child, cost))
        beside.setdefault(child, []).append((parent, cost))
    pending = [(entered, entered)]
    while pending:
        node, came_from = pending.pop()
        for neighbour, cost in beside[node]:
            if neighbour != came_from:
                yield node, neighbour, cost
                pending.append((neighbour, node))


def _step(graph: NameGraph, tail: NodeIndex, head: NodeIndex, state: ArcState) -> WalkStep:
    return WalkStep(graph.ids[tail], graph.ids[head], graph.kind(head), state)
