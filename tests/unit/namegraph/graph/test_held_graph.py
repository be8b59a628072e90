"""A graph that is held stays as it was, also in what is suspended and in what its two ends do not agree on."""

from random import Random

import pytest

from namegraph.graph.name_graph import NameGraph
from namegraph.model.names import NodeId
from namegraph.model.rows import ArcRecord

NODES = 6
CHANGES = 200
HELD_AT_ONCE = 3


def ends_of(graph):
    """Return the kept ends of arcs, as lists."""
    maps = (graph.suspended_from, graph.suspended_into, graph.divergent_children)
    return [dict(graph.suspended), *({node: list(ends) for node, ends in each.items()} for each in maps)]


@pytest.mark.parametrize("seed", range(20))
def test_ends_of_arcs_change_in_the_graph_alone_while_it_is_held(seed):
    chance, graph, held = Random(seed), NameGraph(), []
    nodes = [graph.intern(NodeId(f"g{number}@a.x")) for number in range(NODES)]
    for _ in range(CHANGES):
        parent, child = chance.sample(nodes, 2)
        arc = ArcRecord(parent, child, 0, 1, 1, present=True, suspended=True)
        match chance.randrange(4):
            case 0:
                graph.suspend(arc)
            case 1:
                graph.unsuspend(parent, child)
            case 2:
                arcs = chance.choice([graph.children.to_change(parent), graph.parents.to_change(child)])
                end = child if arcs is graph.children[parent] else parent
                if arcs.pop(end, None) is None:
                    arcs[end] = arc
                graph.compare(parent, child)
            case _ if len(held) < HELD_AT_ONCE and chance.random() < 0.5:
                held.append((graph.hold(), ends_of(graph)))
            case _ if held:
                held.pop(0)
                if not held:
                    graph.end_holds()
        assert set(graph.suspended) == {(one, each) for one, ends in graph.suspended_from.items() for each in ends}
        assert set(graph.suspended) == {(each, one) for one, ends in graph.suspended_into.items() for each in ends}
        for then, before in held:
            assert ends_of(then) == before


@pytest.mark.parametrize("free", range(4))
def test_ids_get_the_same_numbers_together_as_one_after_another(free):
    names = [NodeId(f"{name}@a.x") for name in ("new", "There", "later", "new", "Other")]
    graphs = []
    for is_together in (True, False):
        graph = NameGraph()
        graph.intern(NodeId("There@a.x"))
        graph.forget_names([graph.intern(NodeId(f"gone{number}@a.x")) for number in range(free)])
        held, before, mark = graph.hold(), list(graph.ids), graph.mark()
        numbers = graph.intern_all(names) if is_together else [graph.intern(name) for name in names]
        columns = [list(each) for each in (graph.ids, graph.kinds, graph.versions, graph.children, graph.parents)]
        assert list(held.ids) == before
        assert dict(held.index) == {"There@a.x": 0}
        assert graph.spellings(NodeId("other@a.x")) == [numbers[4]]
        graphs.append((numbers, columns, dict(graph.index), graph.interned_since(mark), graph.free_count))
    assert graphs[0] == graphs[1]
