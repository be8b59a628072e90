"""The spanning shadow tree of NG figure 4.5, made with a heap, against the plain algorithm and the least cost."""

import networkx
from hypothesis import given
from hypothesis import strategies as st

from namegraph.graph.spanning_tree import spanning_tree
from namegraph.model.names import NodeId
from namegraph.model.rows import NodeIndex
from tests.brute_force import first_crossing_arcs


@st.composite
def loops(draw):
    """{(parent, child): cost} of a strongly connected graph over 0 to n-1, and a name for each node."""
    size = draw(st.integers(2, 9))
    nodes = range(size)
    names = draw(st.permutations([NodeId(f"{letter}@x.example") for letter in "abcdefghi"[:size]]))
    ring = draw(st.permutations(nodes))
    costs = st.sampled_from((0, 0, 1, 2, 10))
    arcs = {arc: draw(costs) for arc in zip(ring, [*ring[1:], ring[0]], strict=True)}
    pairs = [(parent, child) for parent in nodes for child in nodes if parent != child]
    arcs |= draw(st.dictionaries(st.sampled_from(pairs), costs, max_size=15))
    return arcs, names


def tree_of(arcs, names):
    components = sorted(range(len(names)), key=names.__getitem__)
    listed = [
        ((cost, names[parent], names[child]), NodeIndex(parent), NodeIndex(child)) for (parent, child), cost in arcs
    ]
    return {(names[parent], names[child]) for parent, child in spanning_tree(components, listed)}


@given(loops(), st.randoms(use_true_random=False))
def test_the_tree_is_that_of_the_first_crossing_arc_in_order_however_arcs_are_listed(loop, random):
    arcs, names = loop
    shuffled = list(arcs.items())
    random.shuffle(shuffled)
    expected = first_crossing_arcs(names, {(names[p], names[c]): cost for (p, c), cost in arcs.items()})
    assert tree_of(shuffled, names) == tree_of(arcs.items(), names) == expected


@given(loops())
def test_the_tree_spans_all_components_with_arcs_of_theirs_at_the_least_cost(loop):
    arcs, names = loop
    tree = tree_of(arcs.items(), names)
    cost_of = {(names[parent], names[child]): cost for (parent, child), cost in arcs.items()}
    assert tree <= set(cost_of)
    spanning = networkx.Graph(tree)
    assert networkx.is_tree(spanning)
    assert set(spanning) == set(names)
    undirected = networkx.Graph()
    for (parent, child), cost in cost_of.items():
        known = undirected.get_edge_data(parent, child)
        undirected.add_edge(parent, child, weight=cost if known is None else min(cost, known["weight"]))
    least = sum(data["weight"] for _, _, data in networkx.minimum_spanning_edges(undirected))
    assert sum(cost_of[arc] for arc in tree) == least


def test_of_two_opposite_arcs_one_is_taken():
    names = ["a", "b"]
    assert tree_of({(0, 1): 0, (1, 0): 0}.items(), names) == {("a", "b")}
    assert tree_of({(0, 1): 5, (1, 0): 0}.items(), names) == {("b", "a")}


def test_a_cheaper_arc_is_preferred_to_an_earlier_name():
    names = ["a", "b", "c"]
    assert tree_of({(0, 1): 0, (1, 2): 0, (2, 0): 0}.items(), names) == {("a", "b"), ("b", "c")}
    assert tree_of({(0, 1): 9, (1, 2): 0, (2, 0): 0}.items(), names) == {("b", "c"), ("c", "a")}
