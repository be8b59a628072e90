"""Names that differ in letter case alone are found by one another, as long as each of them is known."""

from namegraph.graph.name_graph import NameGraph
from namegraph.model.names import NodeId
from namegraph.model.rows import NodeKind

SMALL, LARGE, MIXED = NodeId("ann.lee@x.example"), NodeId("ANN.LEE@x.example"), NodeId("Ann.Lee@x.example")
OTHER = NodeId("ann.le@x.example")


def spelled(graph, name):
    return sorted(graph.ids[node] for node in graph.spellings(name))


def test_every_spelling_finds_all_that_are_known():
    graph = NameGraph()
    for name in (SMALL, LARGE, OTHER):
        graph.intern(name)
    for name in (SMALL, LARGE, MIXED):
        assert spelled(graph, name) == [LARGE, SMALL]
    assert spelled(graph, OTHER) == [OTHER]


def test_a_forgotten_spelling_is_not_found_and_its_number_goes_to_another_name():
    graph = NameGraph()
    forgotten, _ = graph.intern(LARGE), graph.intern(MIXED)
    graph.forget_names([forgotten])
    assert spelled(graph, SMALL) == [MIXED]
    assert graph.intern(NodeId("Bob@x.example")) == forgotten
    assert spelled(graph, SMALL) == [MIXED]
    assert spelled(graph, NodeId("bob@x.example")) == ["Bob@x.example"]


def test_a_refused_update_leaves_no_spelling_behind():
    graph = NameGraph()
    graph.forget_names([graph.intern(OTHER)])
    mark = graph.mark()
    graph.intern(LARGE)
    graph.intern(MIXED)
    graph.forget_interned(mark)
    assert spelled(graph, SMALL) == []


def test_a_graph_that_is_held_knows_the_spellings_of_then():
    graph = NameGraph()
    graph.intern(LARGE)
    held = graph.hold()
    graph.intern(MIXED)
    assert spelled(held, SMALL) == [LARGE]
    assert spelled(graph, SMALL) == [LARGE, MIXED]


def test_spellings_are_found_after_a_restart():
    graph = NameGraph()
    graph.restore(MIXED, NodeKind.PROCESS)
    assert spelled(graph, SMALL) == [MIXED]
