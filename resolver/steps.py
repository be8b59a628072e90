"""Walk of a resolution, assembled from the steps that each server knows to its own nodes.

A server knows the whole ancestry of the nodes that it owns. It knows all arcs into a derived node of which it owns a
component, and which of their tails the originator reaches. It can therefore name the step by which the walk comes to
each owned node. No other server can name it, except for foreign processes: every server names its own first arc to
them.

    derived node      entered over the first arc, in the order of arcs, whose tail is reached
    inside a virtual node      from the component that is entered along the shadow tree

Source: NG 4.2, 4.3. See docs/protocol-updates.md, "Every duplicate is blocked in advance" and "Questions over several
servers".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from namegraph import (
    SLICE_ITEMS,
    ArcState,
    CoreQueries,
    NameGraph,
    NodeId,
    NodeIndex,
    Slices,
    VirtualNode,
    in_slices,
    sorted_in_slices,
    unless_overtaken,
)
from resolver.plans import PlanCache, PlanStep, ResolvePlan, delivering_arcs, nodes_elsewhere

STEPS_OF_A_SLICE = SLICE_ITEMS // 4
"""Steps of a slice: each takes a few microseconds."""


Steps = TypeVar("Steps")


@dataclass(frozen=True, slots=True)
class DeliveryStep:
    """Step by which the walk comes to a node, and communication cost of its arc."""

    step: PlanStep
    cost: int


class Prepared(NamedTuple, Generic[Steps]):
    """Steps of a plan, made in advance. They hold while the plan and the owners of subnets hold."""

    plan: ResolvePlan
    ownership_changes: int
    steps: Steps

    def is_of(self, plan: ResolvePlan, core: CoreQueries) -> bool:
        """True if these are the steps of a plan, and still hold."""
        return self.plan is plan and self.ownership_changes == core.ownership_changes


def prepare(
    core: CoreQueries,
    plans: PlanCache,
    group: NodeIndex,
    steps_of: Callable[[CoreQueries, ResolvePlan], Slices[Steps]],
) -> Slices[Prepared[Steps] | None]:
    """Make the steps of a group's cached plan. Yield between slices, so that updates may come.

    Returns None if there is no plan, or an update overtakes it.
    """
    plan, owners = plans.kept(group), core.ownership_changes
    if plan is None:
        return None

    def holds() -> bool:
        return core.ownership_changes == owners and plans.kept(group) is plan

    with core.kept() as state:
        steps = yield from unless_overtaken(steps_of(state, plan), holds)
    return None if steps is None else Prepared(plan, owners, steps)


def deliveries(core: CoreQueries, plan: ResolvePlan, group: NodeIndex) -> Slices[tuple[DeliveryStep, ...]]:
    """Return the step to each owned node of the plan except `group`, sorted by head. It holds while the plan holds."""
    graph = core.graph
    elsewhere = nodes_elsewhere(core.records, plan.reached)
    delivering = yield from delivering_arcs(graph, plan, group)
    first = graph.representative(group)
    found: dict[NodeIndex, DeliveryStep] = {}
    for some in in_slices(plan.reached, STEPS_OF_A_SLICE):
        for node in some:
            if node in elsewhere:
                continue
            representative = graph.representative(node)
            arc = delivering.get(representative)
            if node in found or node == group or (arc is None and representative != first):
                continue
            entered = group if arc is None else arc.child
            if arc is not None:
                found[entered] = DeliveryStep(_step(graph, arc.parent, entered, ArcState.NORMAL), arc.cost)
            virtual_node = graph.virtual_node_of.get(node)
            if virtual_node is not None:
                yield from _walk_around(graph, virtual_node, entered, found)
        yield SLICE_ITEMS
    by_head: dict[NodeId, DeliveryStep] = {}
    for nodes in in_slices(found):
        # While a loop changes, a part of it may not be reached any more.
        owned = (node for node in nodes if node in plan.reached and node not in elsewhere)
        by_head.update((found[node].step.head, found[node]) for node in owned)
        yield len(nodes)
    told: list[DeliveryStep] = []
    for heads in in_slices((yield from sorted_in_slices(list(by_head)))):
        told += map(by_head.__getitem__, heads)
        yield len(heads)
    return tuple(told)


def assemble(group: NodeId, told: Iterable[DeliveryStep]) -> Slices[tuple[PlanStep, ...]]:
    """Return the walk as if one server owned all nodes: depth first, siblings by id, every node once.

    The first of several steps to a foreign process, in the order of arcs, is taken.
    """
    to: dict[NodeId, DeliveryStep] = {}
    for some in in_slices(told):
        for delivery in some:
            step = delivery.step
            known = to.get(step.head)
            if known is None or (delivery.cost, step.tail) < (known.cost, known.step.tail):
                to[step.head] = delivery
        yield len(some)
    # The walk starts at this group, so no step leads back to it.
    to.pop(group, None)
    below: dict[NodeId, list[PlanStep]] = {}
    for heads in in_slices(reversed((yield from sorted_in_slices(list(to))))):
        for head in heads:
            below.setdefault(to[head].step.tail, []).append(to[head].step)
        yield len(heads)
    steps: list[PlanStep] = []
    pending = list(below.get(group, ()))
    while pending:
        step = pending.pop()
        steps.append(step)
        pending += below.get(step.head, ())
        if len(steps) % SLICE_ITEMS == 0:
            yield SLICE_ITEMS
    return tuple(steps)


def _walk_around(
    graph: NameGraph, virtual_node: VirtualNode, entered: NodeIndex, found: dict[NodeIndex, DeliveryStep]
) -> Slices[None]:
    """Add the step over each shadow arc, in the direction in which the walk crosses it."""
    beside: dict[NodeIndex, list[tuple[NodeIndex, int]]] = {}
    for arcs in in_slices(graph.shadow_tree(virtual_node)):
        for parent, child in arcs:
            cost = graph.parents[child][parent].cost
            beside.setdefault(parent, []).append((child, cost))
            beside.setdefault(child, []).append((parent, cost))
        yield len(arcs)
    pending = [(entered, entered)]
    looked_at = 0
    while pending:
        node, came_from = pending.pop()
        for neighbour, cost in beside[node]:
            if neighbour != came_from:
                found[neighbour] = DeliveryStep(_step(graph, node, neighbour, ArcState.SHADOW), cost)
                pending.append((neighbour, node))
        looked_at += len(beside[node])
        if looked_at >= STEPS_OF_A_SLICE:
            yield SLICE_ITEMS
            looked_at = 0


def _step(graph: NameGraph, tail: NodeIndex, head: NodeIndex, state: ArcState) -> PlanStep:
    return PlanStep(graph.ids[tail], graph.ids[head], graph.kind(head), state)
