"""The description of a group: its neighbours with states, its virtual node, records and pathnames, all bounded."""

from unittest.mock import patch

from namegraph.graph.name_graph import ArcState
from namegraph.model.rows import NodeKind
from resolver.descriptions import DescribedRecord
from resolver.membership import MembershipResolver
from tests.small_graphs import SmallGraph, node_id

NORMAL, SHADOW, FADE = ArcState.NORMAL, ArcState.SHADOW, ArcState.FADE


def describe(graph, name, *, pathname_limit=100):
    return MembershipResolver(graph.core).describe(node_id(name), pathname_limit=pathname_limit, told={})


def neighbours(found):
    return [(neighbour.node_id, neighbour.kind, neighbour.state) for neighbour in found]


def test_neighbours_are_sorted_and_carry_kind_and_state():
    graph = SmallGraph("a>b b>c c>a r>b b>.ann b>k")
    told = describe(graph, "b")
    assert neighbours(told.parents) == [
        (node_id("a"), NodeKind.GROUP, SHADOW),
        (node_id("r"), NodeKind.GROUP, NORMAL),
    ]
    assert neighbours(told.children) == [
        (node_id(".ann"), NodeKind.PROCESS, NORMAL),
        (node_id("c"), NodeKind.GROUP, SHADOW),
        (node_id("k"), NodeKind.GROUP, NORMAL),
    ]
    assert neighbours(describe(graph, "a").parents) == [(node_id("c"), NodeKind.GROUP, FADE)]


def test_a_virtual_node_is_named_with_all_its_components():
    graph = SmallGraph("a>b b>c c>a")
    told = describe(graph, "c").virtual_node
    assert told.vnid == graph.vnid("a")
    assert told.components == tuple(map(node_id, "abc"))


def test_a_group_on_no_loop_has_no_virtual_node():
    assert describe(SmallGraph("a>b"), "a").virtual_node is None


def test_the_home_is_the_server_that_owns_the_subnet():
    assert describe(SmallGraph("a>b"), "a").home == "x.example"


def test_records_are_of_the_groups_own_arcs_in_the_form_of_the_source():
    graph = SmallGraph("r>s s>t t>s s>a t>b a>k b>k")
    assert describe(graph, "a").rd_records == ()
    (record,) = describe(graph, "b").rd_records
    sources = tuple(map(node_id, "rst"))
    assert record == DescribedRecord(graph.vnid("s"), node_id("k"), node_id("b"), node_id("k"), sources)


def test_records_are_bounded_by_the_originators_they_list():
    graph = SmallGraph("s>a s>b a>k b>k a>l b>l")
    assert len(describe(graph, "b").rd_records) == 2
    with patch("resolver.descriptions.RD_ANCESTORS_LIMIT", 1):
        told = describe(graph, "b")
    assert (len(told.rd_records), told.rd_records_truncated) == (1, True)
    assert not describe(graph, "b").rd_records_truncated


def test_pathnames_are_bounded_and_say_so():
    graph = SmallGraph("a>c b>c c>d")
    assert describe(graph, "d").pathnames == (tuple(map(node_id, "acd")), tuple(map(node_id, "bcd")))
    for limit, truncated in ((0, True), (1, True), (2, False), (3, False)):
        told = describe(graph, "d", pathname_limit=limit)
        assert (len(told.pathnames), told.pathnames_truncated) == (min(limit, 2), truncated)


def test_the_pathname_of_a_root_is_itself():
    assert describe(SmallGraph("a>b"), "a").pathnames == ((node_id("a"),),)
    assert describe(SmallGraph(groups="a"), "a").pathnames == ((node_id("a"),),)
