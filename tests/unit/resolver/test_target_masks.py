"""Targets of a set that reach or except a node: on small graphs, and against random sets of members."""

from random import Random

import pytest

from namegraph.model.slices import at_once
from namegraph.model.target_sets import Target, is_plain, named_in, only
from resolver.plans import PlanCache
from resolver.target_masks import Masks, masks_below
from tests.small_graphs import SmallGraph, node_id, short

NESTED = "a>b a>.ann b>.ann b>.bob c>b c>.cat"


def target(name, *excluding):
    return Target(node_id(name), tuple(map(node_id, sorted(excluding))))


def masks_of(graph, *targets):
    """Short name -> masks."""
    known = {name: graph.core.graph.index[name] for name in named_in(targets)}
    found = at_once(masks_below(graph.core.graph, targets, known, {}))
    return {short(graph.core.graph.ids[node]): tuple(masks) for node, masks in found.items()}


def answer(graph, *targets):
    """Return the answer of one server that knows all to a set: short name -> place of the first target."""
    known = {name: graph.core.graph.index[name] for name in named_in(targets)}
    plan = PlanCache(graph.core).plan_of_set(targets, known)
    rows = zip((*plan.processes, *plan.groups), (*plan.process_masks, *plan.group_masks), strict=True)
    return {short(name): masks.first for name, masks in rows if masks.first is not None}


def test_every_target_that_reaches_a_node_is_told():
    assert masks_of(SmallGraph(NESTED), target("a"), target("c")) == {
        "b": (0b11, 0),
        ".ann": (0b11, 0),
        ".bob": (0b11, 0),
        ".cat": (0b10, 0),
    }


def test_who_is_below_an_exception_is_excepted_from_the_targets_that_have_it():
    masks = masks_of(SmallGraph(NESTED), target("a", "b"), target("c"))
    assert masks[".bob"] == (0b11, 0b01)
    assert masks["b"] == (0b11, 0), "a group is not in itself"


def test_a_member_of_one_target_that_another_excepts_is_in_the_answer_with_the_one_that_does_not():
    assert answer(SmallGraph(NESTED), target("a", "b"), target("c")) == {"b": 0, ".ann": 1, ".bob": 1, ".cat": 1}


def test_the_first_target_counts_in_the_order_given():
    graph = SmallGraph(NESTED)
    assert answer(graph, target("a"), target("c"))[".bob"] == 0
    assert answer(graph, target("c"), target("a"))[".bob"] == 0
    assert answer(graph, target("c"), target("a"))[".ann"] == 0, "through b"
    assert answer(graph, target("c", "b"), target("a"))[".ann"] == 1


def test_a_group_is_in_itself_only_on_a_loop():
    graph = SmallGraph("a>b b>c c>.ann")
    assert set(answer(graph, target("a"), target("b"))) == {"b", "c", ".ann"}
    graph.join("c>b")
    assert answer(graph, target("b")) == {"b": 0, "c": 0, ".ann": 0}
    assert answer(graph, target("a", "c")) == {}, "c is on the loop, so all of it is below c"


def test_a_target_that_excepts_itself_has_nobody():
    assert answer(SmallGraph(NESTED), target("a", "a")) == {}


def test_the_first_target_that_is_not_excepted_is_found_and_none_where_all_are():
    assert Masks(0b110, 0b010).first == 2
    assert Masks(0b110, 0b111).first is None
    assert Masks(0b01, 0b10).united(Masks(0b10, 0)).first == 0


def test_one_group_without_exceptions_is_plain_and_nothing_else_is():
    assert is_plain(only(node_id("a")))
    assert not is_plain((target("a"), target("a")))
    assert not is_plain((target("a", "b"),))


@pytest.mark.parametrize("seed", range(40))
def test_a_set_has_whom_some_target_has_and_none_of_its_exceptions(seed):
    chance = Random(seed)
    groups = [f"g{number}" for number in range(chance.randint(2, 7))]
    names = [*groups, *groups, ".p", ".q", ".r"]
    arcs = {(chance.choice(groups), chance.choice(names)) for _ in range(chance.randint(1, 20))}
    graph = SmallGraph(" ".join(f"{a}>{b}" for a, b in sorted(arcs) if a != b), groups=" ".join(groups))
    members = {group: set(answer(graph, target(group))) for group in groups}
    for group in groups:
        plan = PlanCache(graph.core).plan(graph.core.graph.index[node_id(group)])
        assert members[group] == {*map(short, plan.processes), *map(short, plan.groups)}
    for _ in range(5):
        targets = [
            (chance.choice(groups), chance.sample(groups, chance.randint(0, 2))) for _ in range(chance.randint(1, 4))
        ]
        expected = {}
        for place, (name, excluding) in enumerate(targets):
            for member in members[name].difference(*(members[each] for each in excluding)):
                expected.setdefault(member, place)
        assert answer(graph, *(target(name, *excluding) for name, excluding in targets)) == expected
