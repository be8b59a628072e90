"""Arcs and groups that hold a loop together, against trying each of them."""

import itertools

import networkx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_graph_jobs.questions.weak_points import weak_points


@st.composite
def loops(draw):
    """Draw a strongly connected graph: a circle of some of its nodes in any order, and more arcs."""
    size = draw(st.integers(2, 7))
    circle = draw(st.lists(st.integers(0, size - 1), min_size=size, max_size=2 * size))
    walk = [*dict.fromkeys([*range(size), *circle])]
    walk = [*walk, *circle, walk[0]]
    arcs = {(src, dst) for src, dst in itertools.pairwise(walk) if src != dst}
    ends = st.integers(0, size - 1)
    return sorted(arcs | {arc for arc in draw(st.sets(st.tuples(ends, ends), max_size=8)) if arc[0] != arc[1]})


@given(loops())
def test_they_are_what_brute_force_finds(arcs):
    graph = networkx.DiGraph(arcs)
    bridges, cuts = weak_points(arcs)
    assert bridges == [arc for arc in arcs if not strong(graph, without_arc=arc)]
    expected = [node for node in sorted(graph) if len(graph) > 2 and not strong(graph, without_node=node)]
    assert cuts == expected


def strong(graph, without_arc=None, without_node=None):
    rest = graph.copy()
    if without_arc is not None:
        rest.remove_edge(*without_arc)
    if without_node is not None:
        rest.remove_node(without_node)
    return networkx.is_strongly_connected(rest)


@pytest.mark.parametrize("arcs", [[], [(1, 2)], [(1, 2), (2, 1), (2, 3)]])
def test_nothing_is_said_of_what_is_no_loop(arcs):
    assert weak_points(arcs) == ([], [])


def test_every_arc_and_no_group_holds_a_loop_of_two():
    assert weak_points([(5, 7), (7, 5)]) == ([(5, 7), (7, 5)], [])
