"""Resolution plans: kept while nothing below them changes, never longer, and walked without any memory."""

from itertools import pairwise
from unittest.mock import patch

import pytest

from namegraph.graph.name_graph import NameGraph
from namegraph.model.names import NodeId
from namegraph.model.operations import DeleteGroup, JoinArc, LeaveArc
from namegraph.model.slices import at_once
from namegraph.model.target_sets import Target
from resolver import steps
from resolver.membership import MembershipResolver
from resolver.plans import PlanCache, make_plan
from tests.cores import CoreUnderTest
from tests.small_graphs import SmallGraph, node_id

GRAPH = "a>b b>c c>.ann x>y y>.bob"


@pytest.fixture
def graph():
    """Return a graph: a to b to c, and x to y apart."""
    return SmallGraph(GRAPH)


def plans_of(graph, names, cache):
    return [cache.plan(graph.node(name)) for name in names]


def test_the_same_plan_is_given_again_while_nothing_below_changes(graph):
    cache = PlanCache(graph.core)
    before = plans_of(graph, "abc", cache)
    graph.join("x>.eve")
    graph.leave("x>y")
    graph.join("z>a")
    assert plans_of(graph, "abc", cache) == before, "plans are compared by identity"


@pytest.mark.parametrize("changed", [lambda g: g.join("c>.eve"), lambda g: g.leave("c>.ann"), lambda g: g.join("c>x")])
def test_a_plan_is_made_anew_when_anything_below_changes(graph, changed):
    cache = PlanCache(graph.core)
    before = plans_of(graph, "abcx", cache)
    changed(graph)
    after = plans_of(graph, "abcx", cache)
    assert [one is other for one, other in zip(before, after, strict=True)] == [False, False, False, True]


def filling(cache, graph, *, of_set):
    """Return the slices in which the plan of a, or of a and b together, is made."""
    if not of_set:
        return cache.fill(graph.node("a"))
    return cache.fill_for_set(*the_set(graph))


def toggle(graph, arc):
    """Join an arc, or leave it."""
    is_there = tuple(map(node_id, arc.split(">"))) in graph.arcs
    (graph.leave if is_there else graph.join)(arc)


def asked(cache, graph, *, of_set):
    return cache.plan_of_set(*the_set(graph)) if of_set else cache.plan(graph.node("a"))


def the_set(graph):
    names = [node_id("a"), node_id("b")]
    return tuple(map(Target, names)), {name: graph.core.graph.index[name] for name in names}


@pytest.mark.parametrize("of_set", [False, True])
def test_a_plan_that_is_made_in_slices_is_there_when_it_is_asked_for(graph, of_set):
    cache = PlanCache(graph.core)
    for _ in filling(cache, graph, of_set=of_set):
        toggle(graph, "x>.eve")
    with patch("resolver.plans.at_once", side_effect=AssertionError("it is made again")):
        plan = asked(cache, graph, of_set=of_set)
    fresh = asked(PlanCache(graph.core), graph, of_set=of_set)
    assert (plan.processes, plan.groups, plan.reached) == (fresh.processes, fresh.groups, fresh.reached)


@pytest.mark.parametrize("of_set", [False, True])
def test_a_plan_that_an_update_overtakes_is_begun_again(graph, of_set):
    slices = sum(1 for _ in filling(PlanCache(graph.core), graph, of_set=of_set))
    assert slices >= 5
    for changed_in in range(slices):
        graph = SmallGraph(GRAPH)
        cache = PlanCache(graph.core)
        for number, _ in enumerate(filling(cache, graph, of_set=of_set)):
            if number == changed_in:
                graph.join("c>.eve")
                graph.join("c>x")
        plan = asked(cache, graph, of_set=of_set)
        assert set(map(node_id, (".ann", ".bob", ".eve"))) == set(plan.processes), changed_in


def test_a_plan_that_updates_overtake_again_and_again_is_made_when_it_is_asked_for(graph):
    cache = PlanCache(graph.core)
    for _ in cache.fill(graph.node("a")):
        toggle(graph, "b>.eve")
    assert cache.weight == 0
    assert node_id(".ann") in cache.plan(graph.node("a")).processes


def test_a_plan_that_is_overtaken_by_the_end_of_a_loop_is_no_other_groups_plan():
    graph = SmallGraph("a>b b>a b>.ann a>.bob")
    cache = PlanCache(graph.core)
    filling = cache.fill(graph.node("b"))
    next(filling)
    graph.leave("b>a")
    for _ in filling:
        pass
    of_a, of_b = plans_of(graph, "ab", cache)
    assert (of_a.processes, of_b.processes) == ((node_id(".ann"), node_id(".bob")), (node_id(".ann"),))


def test_a_plan_that_somebody_else_makes_meanwhile_is_made_once(graph):
    cache = PlanCache(graph.core)
    first, second = (cache.fill(graph.node("a")) for _ in range(2))
    next(first)
    for _ in second:
        pass
    made = cache.plan(graph.node("a"))
    for _ in first:
        pass
    assert cache.plan(graph.node("a")) is made
    assert cache.weight == len(made.reached)


def test_a_plan_of_a_group_that_comes_on_a_loop_and_off_again_is_made_anew():
    graph = SmallGraph("a>b b>c")
    resolver = MembershipResolver(graph.core)
    answers = []
    for change in ("+c>a", "-c>a", "+b>a", "-b>a"):
        (graph.join if change[0] == "+" else graph.leave)(change[1:])
        answers.append([resolver.resolve(node_id(name)).groups for name in "abc"])
    a, b, c = map(node_id, "abc")
    apart = [(b, c), (c,), ()]
    assert answers == [[(a, b, c)] * 3, apart, [(a, b, c), (a, b, c), ()], apart]


def test_components_of_a_virtual_node_share_one_plan():
    graph = SmallGraph("a>b b>a")
    first, second = plans_of(graph, "ab", PlanCache(graph.core))
    assert first is second


def test_a_group_deleted_and_created_again_has_an_empty_plan():
    graph = SmallGraph("a>b b>.ann")
    resolver = MembershipResolver(graph.core)
    assert resolver.resolve(node_id("b")).processes
    graph.server.delete(node_id("b"), force=True)
    graph.server.create(node_id("b"))
    assert resolver.resolve(node_id("b")).processes == ()
    assert resolver.resolve(node_id("a")).groups == ()


def test_plans_survive_updates_that_change_nothing(graph):
    cache = PlanCache(graph.core)
    before = plans_of(graph, "a", cache)
    graph.server.do(LeaveArc(node_id("c"), node_id(".ann")), JoinArc(node_id("c"), node_id(".ann")))
    graph.server.ask(DeleteGroup(node_id("a")))
    assert plans_of(graph, "a", cache) == before


def test_a_plan_from_before_the_log_of_changes_is_made_anew_though_it_may_still_hold(graph):
    with patch("namegraph.graph.name_graph.CHANGE_LOG_LIMIT", 3):
        small = NameGraph()
    assert small.changed_tails.limit == 3
    graph.core.graph.changed_tails = small.changed_tails
    cache = PlanCache(graph.core)
    (before,) = plans_of(graph, "a", cache)
    for _ in range(3):
        graph.join("x>.eve")
        graph.leave("x>.eve")
    (after,) = plans_of(graph, "a", cache)
    assert after is not before
    assert after.groups == before.groups


def test_changes_are_remembered_up_to_so_many_tails_in_all(graph):
    log, cache = graph.core.graph.changed_tails, PlanCache(graph.core)
    (before,) = plans_of(graph, "a", cache)
    with patch("namegraph.graph.name_graph.CHANGED_TAILS_LIMIT", sum(len(tails) for _, tails in log)):
        graph.join("x>.eve y>.eve")
        assert plans_of(graph, "a", cache) == [before]
        graph.join("x>.eva")
        graph.join("x>.eli y>.eli")
        assert sum(len(tails) for _, tails in log) <= 5
        assert plans_of(graph, "a", cache) == [before], "it was asked for after the first of these"
        for name in ("amy", "bea", "cleo"):
            graph.join(f"x>.{name} y>.{name}")
    (after,) = plans_of(graph, "a", cache)
    assert after is not before


def test_an_update_too_large_to_list_is_taken_to_change_every_plan(graph):
    cache = PlanCache(graph.core)
    (before,) = plans_of(graph, "a", cache)
    with patch("namegraph.graph.name_graph.CHANGED_TAILS_LISTED_LIMIT", 1):
        graph.join("x>.eve y>.eve")
    assert plans_of(graph, "a", cache) != [before]


def test_the_least_recently_used_plans_go_when_there_are_too_many_nodes_in_all():
    graph = SmallGraph("a>.p a>.q b>.p b>.q c>.p c>.q")
    cache = PlanCache(graph.core, weight_limit=6)
    first, second = plans_of(graph, "ab", cache)
    assert plans_of(graph, "a", cache) == [first]
    plans_of(graph, "c", cache)
    assert plans_of(graph, "a", cache) == [first], "used later than b"
    assert plans_of(graph, "b", cache) != [second]


def test_a_plan_larger_than_the_limit_is_kept_alone():
    graph = SmallGraph("a>.p a>.q b>.p")
    cache = PlanCache(graph.core, weight_limit=1)
    (large,) = plans_of(graph, "a", cache)
    assert plans_of(graph, "a", cache) == [large]
    plans_of(graph, "b", cache)
    assert plans_of(graph, "a", cache) != [large]


def test_a_plan_lists_processes_and_groups_sorted_and_once():
    plan = make_plan_of(SmallGraph("a>c a>b b>k c>k k>.z k>.a b>.a"), "a")
    assert plan.processes == (node_id(".a"), node_id(".z"))
    assert plan.groups == (node_id("b"), node_id("c"), node_id("k"))
    assert len(plan.reached) == 6


def make_plan_of(graph, name):
    return at_once(make_plan(graph.core, graph.node(name), set()))


def test_a_walk_goes_depth_first_with_siblings_by_id():
    assert SmallGraph("a>c a>b b>e b>d c>f").crossings("a") == ["a>b", "b>d", "b>e", "a>c", "c>f"]


def test_a_walk_through_a_loop_starts_at_the_component_that_delivers():
    graph = SmallGraph("a>b b>c c>a r>c b>k")
    assert graph.crossings("r") == ["r>c", "c>b", "b>a", "b>k"]


def test_a_walk_from_a_loop_enters_what_is_below_by_the_first_of_parallel_arcs():
    graph = SmallGraph("a>b b>a a>k b>k")
    assert graph.crossings("b") == ["b>a", "a>k"]
    assert graph.crossings("a") == ["a>b", "a>k"]


def test_a_walk_down_a_chain_of_ten_thousand_groups_needs_no_deep_stack():
    names = [NodeId(f"g{number:05}@x.example") for number in range(10_001)]
    server = CoreUnderTest("x.example")
    server.bring([(parent, child, 1) for parent, child in pairwise(names)])
    assert [step.head for step in MembershipResolver(server.core).walk(names[0])] == names[1:]


def test_a_walk_around_a_loop_of_ten_thousand_groups_needs_no_deep_stack():
    names = [NodeId(f"g{number:05}@x.example") for number in range(10_000)]
    server = CoreUnderTest("x.example")
    server.bring([(parent, child, 1) for parent, child in zip(names, [*names[1:], names[0]], strict=True)])
    heads = [step.head for step in MembershipResolver(server.core).walk(names[5_000])]
    assert sorted([names[5_000], *heads]) == names


def prepared(resolver, between):
    """Return the result of preparing the walk from a, and its number of slices. `between`: called with the number each
    time.
    """
    found = []

    def slices():
        found.append((yield from resolver.prepare_walk(node_id("a"))))

    count = 0
    for count, _ in enumerate(slices(), start=1):
        between(count)
    return found[0], count


WALKED_AGAIN = patch("resolver.membership.at_once", side_effect=AssertionError("the walk is made again"))


@pytest.mark.parametrize("change", ["c>.eve", "c>x", "c>a", "x>.eve"])
def test_a_walk_that_an_update_overtakes_while_it_is_made_is_of_one_state(monkeypatch, change):
    monkeypatch.setattr(steps, "STEPS_OF_A_SLICE", 1)

    def overtaken(changed_in):
        graph = SmallGraph(GRAPH)
        resolver = MembershipResolver(graph.core)
        found, slices = prepared(resolver, lambda number: number != changed_in or graph.join(change))
        with WALKED_AGAIN:
            walk = resolver.walk(node_id("a"), found)
        assert walk == MembershipResolver(graph.core).walk(node_id("a"))
        return slices

    undisturbed = overtaken(None)
    assert undisturbed > 3
    for changed_in in range(1, undisturbed + 1):
        overtaken(changed_in)


def test_a_walk_that_no_longer_holds_when_it_is_told_is_made_again(graph):
    resolver = MembershipResolver(graph.core)
    found, _ = prepared(resolver, lambda number: None)
    graph.join("c>.eve")
    assert node_id(".eve") in {step.head for step in resolver.walk(node_id("a"), found)}
