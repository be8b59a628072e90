"""Duplication control: the rule against its literal reading on random graphs.

Source: docs/protocol-updates.md, "Every duplicate is blocked in advance".
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from namegraph.graph.duplication_control import arc_order, blocked_originators, controlled_arcs, sources
from namegraph.graph.name_graph import ArcState
from namegraph.model.names import NodeId
from namegraph.model.operations import CreateGroup, JoinArc
from namegraph.model.rows import NodeIndex
from namegraph.wire.message_parts import ArcId
from tests.brute_force import Model
from tests.cores import CoreUnderTest
from tests.small_graphs import SmallGraph, node_id

SUBNET = "x.example"
GROUPS = [NodeId(f"{letter}@{SUBNET}") for letter in "abcdefgh"]
PROCESS = NodeId("ann@people.example")
joins = st.builds(JoinArc, st.sampled_from(GROUPS), st.sampled_from([*GROUPS, PROCESS]), cost=st.integers(0, 2))


@given(st.lists(joins, max_size=30))
def test_records_are_those_of_the_rule_read_literally(batch):
    server = CoreUnderTest(SUBNET)
    model = Model(frozenset({SUBNET}))
    creation = tuple(map(CreateGroup, GROUPS))
    batch = model.after(creation).valid(batch)
    server.do(*creation, *batch)
    model = model.after((*creation, *batch))
    graph, ancestors = server.core.graph, server.core.ancestors
    ids = graph.ids
    together = {}
    for node in range(len(ids)):
        in_order = [found.arc for found in controlled_arcs(graph, ancestors, NodeIndex(node))]
        assert in_order == sorted(in_order, key=lambda arc: arc_order(graph, arc))
        for found in controlled_arcs(graph, ancestors, NodeIndex(node)):
            assert found.blocked, "no record blocks nobody"
            together[ids[found.arc.parent], ids[found.arc.child]] = {ids[above] for above in found.blocked}
        assert ancestors.is_controlled(NodeIndex(node)) is (ids[node] in model.controlled)
    one_by_one = {
        (ids[arc.parent], ids[arc.child]): {ids[above] for above in blocked_originators(graph, ancestors, arc)}
        for arc in graph.present_arcs()
        if graph.arc_state(arc) is ArcState.NORMAL
    }
    assert together == model.blocked
    assert {arc: blocked for arc, blocked in one_by_one.items() if blocked} == model.blocked


@given(st.lists(joins, max_size=30))
def test_every_originator_enters_a_derived_node_over_the_first_arc_it_reaches_and_no_other(batch):
    model = Model(frozenset({SUBNET})).after(tuple(map(CreateGroup, GROUPS)))
    batch = model.valid(batch)
    model = model.after(batch) if batch else model
    for sink in set(model.derived.values()):
        entering = sorted(
            (arc for arc in model.arcs if arc[1] in sink and arc[0] not in sink),
            key=lambda arc: (model.arcs[arc][1], *arc),
        )
        for originator in model.groups - sink:
            reached = [arc for arc in entering if originator in model.ancestor_sets[arc[0]]]
            crossed = [arc for arc in reached if originator not in model.blocked.get(arc, ())]
            assert crossed == reached[:1]


def grown_by(batch):
    """Return the graph and the ancestor sets of a server that took these joins."""
    server = CoreUnderTest(SUBNET)
    server.create(*GROUPS)
    for join in batch:
        server.ask(join)
    return server.core.graph, server.core.ancestors


@given(st.lists(joins, max_size=30))
def test_sources_are_the_minimal_derived_nodes_and_stand_for_the_whole_record(batch):
    graph, ancestors = grown_by(batch)
    for node in range(len(graph.ids)):
        for found in controlled_arcs(graph, ancestors, NodeIndex(node)):
            minimal = sources(graph, ancestors, found.blocked)
            assert set().union(*(ancestors.of(source) for source in minimal)) == set(found.blocked)
            assert len(set(minimal)) == len(minimal)
            assert all(one == other or one not in ancestors.of(other) for one in minimal for other in minimal), (
                "no source lies above another"
            )


def test_the_cheapest_arc_is_the_primary_one():
    graph = SmallGraph("s>a s>b")
    graph.join("b>k", cost=1)
    graph.join("a>k", cost=2)
    assert graph.records() == {"a>k": {"s"}}


def test_of_arcs_of_one_cost_the_primary_one_is_of_the_smallest_parent():
    assert SmallGraph("s>b s>a b>k a>k").records() == {"b>k": {"s"}}


def test_a_record_blocks_only_who_reaches_an_earlier_arc_too():
    graph = SmallGraph("s>a s>b t>b a>k b>k")
    assert graph.records() == {"b>k": {"s"}}
    assert sorted(graph.visits("t")) == ["b", "k", "t"]
    assert sorted(graph.visits("s")) == ["a", "b", "k", "s"]


def test_of_parallel_arcs_into_a_virtual_node_all_but_the_first_are_controlled():
    graph = SmallGraph("k>l l>m m>k s>m s>k s>l")
    assert graph.records() == {"s>l": {"s"}, "s>m": {"s"}}


def test_parallel_arcs_between_virtual_nodes_block_all_components_of_the_source():
    graph = SmallGraph("a>b b>a k>l l>k a>l b>k")
    assert graph.records() == {"b>k": {"a", "b"}}


def test_a_process_with_several_parents_is_a_sink_like_any_other():
    assert SmallGraph("s>a s>b a>.ann b>.ann").records() == {"b>.ann": {"s"}}


def test_an_ancestor_of_a_sources_loop_is_blocked_with_all_components():
    assert SmallGraph("r>q q>r r>s s>a s>b a>k b>k").records() == {"b>k": {"q", "r", "s"}}


def test_one_arc_may_be_controlled_for_several_sources():
    graph = SmallGraph("s>a t>a s>b t>b a>k b>k")
    assert graph.records() == {"b>k": {"s", "t"}}
    assert graph.duplication_loops("b") == {("s", "k", "k"), ("t", "k", "k")}


def test_a_home_says_who_must_not_cross_an_arc_by_the_minimal_ones():
    graph = SmallGraph("r>q q>r r>s s>a s>b a>k b>k")
    assert graph.core.rd_record(ArcId(node_id("b"), node_id("k"))) == (node_id("s"),)
    assert graph.core.rd_record(ArcId(node_id("a"), node_id("k"))) == ()


def test_a_virtual_node_stands_in_a_record_by_its_smallest_component():
    graph = SmallGraph("t>s s>t s>a t>b a>k b>k")
    assert graph.core.rd_record(ArcId(node_id("b"), node_id("k"))) == (node_id("s"),)


@pytest.mark.parametrize("arc", ["a>b", "b>a", "a>c", "a>nobody", "nobody>a"])
def test_nobody_is_said_of_what_is_no_normal_arc(arc):
    graph = SmallGraph("a>b b>a b>c")
    assert graph.core.rd_record(ArcId(*map(node_id, arc.split(">")))) == ()
