"""Any steps that servers tell make one walk. tests/property shows that honest steps make the right one."""

from dataclasses import replace
from itertools import pairwise

from namegraph.graph.name_graph import ArcState
from namegraph.model.names import NodeId
from namegraph.model.rows import NodeKind
from namegraph.model.slices import at_once
from resolver.plans import PlanStep, make_plan
from resolver.steps import DeliveryStep, assemble, deliveries
from tests.small_graphs import SmallGraph, node_id

A, B, C, Z = (NodeId(f"{letter}@x.example") for letter in "abcz")


def told(*steps):
    return [DeliveryStep(PlanStep(tail, head, NodeKind.GROUP, ArcState.NORMAL), cost) for tail, head, cost in steps]


def walked(group, *steps):
    return [(step.tail, step.head) for step in at_once(assemble(group, told(*steps)))]


def test_a_walk_goes_depth_first_with_siblings_by_id():
    assert walked(A, (A, C, 0), (B, Z, 0), (A, B, 0)) == [(A, B), (B, Z), (A, C)]


def test_a_foreign_process_is_delivered_by_the_first_arc_in_the_order_of_cost_and_parent():
    assert walked(A, (A, B, 0), (B, Z, 1), (A, Z, 2)) == [(A, B), (B, Z)]
    assert walked(A, (A, B, 0), (B, Z, 1), (A, Z, 1)) == [(A, B), (A, Z)]


def test_steps_in_a_circle_or_back_to_the_start_do_not_make_a_walk_endless():
    assert walked(A, (A, B, 0), (B, A, 0)) == [(A, B)]
    assert walked(A, (B, C, 0), (C, B, 0)) == []


def test_steps_that_nothing_leads_to_are_left_out():
    assert walked(A, (B, C, 0)) == []


def test_a_walk_down_a_chain_of_ten_thousand_groups_needs_no_deep_stack():
    names = [NodeId(f"g{number:05}@x.example") for number in range(10_001)]
    steps = [(tail, head, 0) for tail, head in pairwise(names)]
    assert [head for _, head in walked(names[0], *steps)] == names[1:]


def test_a_long_walk_is_put_together_a_little_at_a_time():
    names = [NodeId(f"p{number:05}@x.example") for number in range(20_000)]
    slices = list(assemble(A, told(*((A, name, 0) for name in names))))
    assert len(slices) >= 4 * len(names) / 3_000, "told, sorted, by tail, and walked"
    assert max(slices) <= 3_000


def test_no_step_is_told_to_a_part_of_a_loop_that_the_plan_does_not_reach():
    graph = SmallGraph("r>a a>b b>c c>a")
    root, lost = graph.node("r"), graph.node("c")
    plan = at_once(make_plan(graph.core, root, set()))
    for reached, heads in ((plan.reached, "abc"), (plan.reached - {lost}, "ab")):
        found = at_once(deliveries(graph.core, replace(plan, reached=reached), root))
        assert [delivery.step.head for delivery in found] == list(map(node_id, heads))
