"""The fate of virtual nodes: one computation for every kind of update. The table is that of the module."""

import pytest

from namegraph.model.operations import JoinArc, LeaveArc
from tests.small_graphs import SmallGraph, node_id

RING = "a>b b>c c>a"


@pytest.mark.parametrize(
    ("before", "joined", "effects", "virtual_nodes"),
    [
        ("", "a>b", set(), set()),
        ("a>b", "b>a", {("formed", "a+b")}, {"a+b"}),
        ("a>b b>c c>d", "d>a", {("formed", "a+b+c+d")}, {"a+b+c+d"}),
        ("a>b b>c c>d", "d>b", {("formed", "b+c+d")}, {"b+c+d"}),
        (RING, "c>b", {("changed", "a+b+c")}, {"a+b+c"}),
        (RING, "c>d", set(), {"a+b+c"}),
        (RING, "x>a", set(), {"a+b+c"}),
        (f"{RING} c>d", "d>a", {("grown", "a+b+c+d")}, {"a+b+c+d"}),
        (f"{RING} x>y y>x c>x", "y>a", {("grown", "a+b+c+x+y")}, {"a+b+c+x+y"}),
        (f"{RING} c>k k>l l>x x>y y>x", "y>b", {("grown", "a+b+c+k+l+x+y")}, {"a+b+c+k+l+x+y"}),
        ("", "a>b b>a c>d d>c", {("formed", "a+b"), ("formed", "c+d")}, {"a+b", "c+d"}),
        ("", "a>b b>a b>c c>b", {("formed", "a+b+c")}, {"a+b+c"}),
        ("a>b c>d", "b>c d>a", {("formed", "a+b+c+d")}, {"a+b+c+d"}),
        (f"{RING} c>k", "a>c k>a", {("grown", "a+b+c+k")}, {"a+b+c+k"}),
        (f"{RING} x>y", "a>c y>x", {("changed", "a+b+c"), ("formed", "x+y")}, {"a+b+c", "x+y"}),
    ],
)
def test_what_joining_does(before, joined, effects, virtual_nodes):
    graph = SmallGraph(before, groups="a b c d k l x y")
    assert {effect for effect in graph.join(joined) if effect[0] not in ("controlled", "released")} == effects
    assert graph.virtual_nodes() == virtual_nodes


@pytest.mark.parametrize(
    ("before", "left", "effects", "virtual_nodes"),
    [
        ("a>b", "a>b", set(), set()),
        (f"{RING} c>d", "c>d", set(), {"a+b+c"}),
        ("a>b b>a", "a>b", {("broken", "a+b")}, set()),
        (RING, "b>c", {("broken", "a+b+c")}, set()),
        (f"{RING} b>a", "a>b", {("broken", "a+b+c")}, set()),
        (f"{RING} b>a", "b>c", {("broken", "a+b+c"), ("formed", "a+b")}, {"a+b"}),
        (f"{RING} b>a", "b>a", {("changed", "a+b+c")}, {"a+b+c"}),
        (f"{RING} a>c", "b>c", {("broken", "a+b+c"), ("formed", "a+c")}, {"a+c"}),
        (
            "a>b b>a b>c c>b c>d d>c",
            "b>c",
            {("broken", "a+b+c+d"), ("formed", "a+b"), ("formed", "c+d")},
            {"a+b", "c+d"},
        ),
        (RING, "a>b b>c c>a", {("broken", "a+b+c")}, set()),
        (f"{RING} x>y y>x", "b>c x>y", {("broken", "a+b+c"), ("broken", "x+y")}, set()),
    ],
)
def test_what_leaving_does(before, left, effects, virtual_nodes):
    graph = SmallGraph(before)
    assert {effect for effect in graph.leave(left) if effect[0] not in ("controlled", "released")} == effects
    assert graph.virtual_nodes() == virtual_nodes


def test_a_virtual_node_is_named_after_its_smallest_component_and_the_update_that_made_it():
    graph = SmallGraph("b>c c>a a>b")
    assert graph.vnid("c") == "a@x.example#" + graph.core.revision.replace("@", ".")


def test_a_virtual_node_keeps_its_id_while_only_arcs_inside_change():
    graph = SmallGraph(RING)
    vnid = graph.vnid("a")
    graph.join("c>b a>c")
    graph.leave("c>b")
    graph.join("c>d")
    assert graph.vnid("b") == vnid


def test_a_virtual_node_that_grows_gets_a_new_id_even_where_its_smallest_component_stays():
    graph = SmallGraph(f"{RING} c>d")
    vnid = graph.vnid("a")
    graph.join("d>a")
    assert graph.vnid("a") != vnid


def test_a_virtual_node_broken_and_formed_again_gets_a_new_id():
    graph = SmallGraph(RING)
    vnid = graph.vnid("a")
    graph.leave("b>c")
    graph.join("b>c")
    assert graph.vnid("a") != vnid


def test_a_virtual_node_broken_and_mended_in_one_update_was_never_broken():
    graph = SmallGraph(RING)
    vnid = graph.vnid("a")
    outcome = graph.server.do(*graph_operations("-a>b +a>b -b>c +b>a +a>c"))
    assert [(effect.kind, len(effect.groups)) for effect in outcome.effects] == [("changed", 3)]
    assert graph.vnid("a") == vnid


def graph_operations(text):
    for change in text.split():
        parent, child = change[1:].split(">")
        yield (JoinArc if change[0] == "+" else LeaveArc)(node_id(parent), node_id(child))
