"""The contract of every graph engine, and the two engines."""

from pathlib import Path

import networkx
import pytest

from spark_graph_jobs.engines.choice import choose
from spark_graph_jobs.engines.interface import EngineRefusedError
from spark_graph_jobs.engines.on_driver import DriverEngine
from spark_graph_jobs.spark.jars import Jars, NoJar

GRAPHS = {
    "lone vertex": (["a"], []),
    "one arc": ([], ["ab"]),
    "loop of two": ([], ["ab", "ba"]),
    "loop of three with a tail in and out": ([], ["ya", "ab", "bc", "ca", "cz"]),
    "two loops in a row": ([], ["ab", "ba", "bc", "cd", "dc"]),
    "loops that share a vertex": ([], ["ab", "ba", "bc", "cb"]),
    "diamond": ([], ["ab", "ac", "bd", "cd"]),
    "two diamonds over one another": ([], ["ab", "ac", "ad", "be", "ce", "de", "ef", "eg", "fh", "gh"]),
    "diamond with an arc back": ([], ["ab", "ac", "bd", "cd", "da"]),
    "ways back to where they began": ([], ["ab", "ac", "ba", "ca"]),
    "diamond of arcs that come twice, with self-arcs": ([], ["ab", "ab", "bd", "bd", "aa", "ad", "dd", "ac", "cd"]),
    "self-arc": ([], ["aa", "ab"]),
    "arcs that come twice": ([], ["ab", "ab", "bc", "bc"]),
    "ladder": ([], ["ab", "bc", "cd", "de", "ef", "ac", "ce"]),
    "smallest name in the middle": ([], ["za", "ay", "yz", "ym"]),
}
"""Vertices and arcs, a letter each. All are in one graph: a job of GraphFrames takes seconds whatever its size."""


def named(case, letter):
    return f"{case}: {letter}"


@pytest.fixture(scope="module")
def model():
    graph = networkx.MultiDiGraph()
    for case, (vertices, arcs) in GRAPHS.items():
        graph.add_nodes_from(named(case, letter) for letter in vertices)
        graph.add_edges_from((named(case, arc[0]), named(case, arc[1])) for arc in arcs)
    return graph


@pytest.fixture(scope="module")
def graph(spark, model):
    vertices = spark.createDataFrame([(vertex,) for vertex in model.nodes], "id string").cache()
    return vertices, spark.createDataFrame(list(model.edges()), "src string, dst string").cache()


def rows(frame, *columns):
    found = [tuple(row) for row in frame.select(*columns).collect()]
    assert len(found) == len(set(found)), "each row once"
    return set(found)


def smallest_of(components):
    return {(vertex, min(component)) for component in components for vertex in component}


def connected_components(engine, graph, model):
    found = rows(engine.connected_components(*graph), "id", "component")
    assert found == smallest_of(networkx.weakly_connected_components(model))


def strongly_connected_components(engine, graph, model):
    found = rows(engine.strongly_connected_components(*graph), "id", "component")
    assert found == smallest_of(networkx.strongly_connected_components(model))


def strongly_connected_components_of_a_graph_without_loops(engine, graph, model):
    vertices, arcs = graph
    found = rows(engine.strongly_connected_components(vertices, arcs.where("src < dst")), "id", "component")
    assert found == {(vertex, vertex) for vertex in model.nodes}


def shortest_paths_with_the_smallest_next_vertex(engine, graph, model):
    targets = [named("ladder", "f"), named("two loops in a row", "b"), named("diamond", "d"), named("lone vertex", "a")]
    expected = set()
    for target in targets:
        distances = networkx.single_source_shortest_path_length(model.reverse(), target)
        for vertex, distance in distances.items():
            nearer = [after for after in model.successors(vertex) if distances.get(after) == distance - 1]
            expected.add((vertex, target, distance, min(nearer) if distance else None))
    found = rows(engine.shortest_paths(*graph, targets), "id", "target", "distance", "next")
    assert found == expected


def diamonds_counted_for_each_pair(engine, graph, model):
    found = rows(engine.diamonds(*graph), "src", "dst", "between")
    between = {}
    for src in model.nodes:
        for dst in set(model.nodes) - {src}:
            count = len((set(model.successors(src)) & set(model.predecessors(dst))) - {src, dst})
            if count > 1:
                between[src, dst] = count
    assert found == {(*pair, count) for pair, count in between.items()}
    assert between[named("two diamonds over one another", "a"), named("two diamonds over one another", "e")] == 3


def no_diamonds_in_a_graph_without_arcs(engine, graph, _model):
    vertices, arcs = graph
    assert not rows(engine.diamonds(vertices, arcs.where("src = dst")), "src", "dst", "between")


def motifs_of_present_arcs(engine, graph, model):
    found = rows(engine.motifs(*graph, "(x)-[]->(y); (y)-[]->(x)"), "x", "y")
    assert found == {(x, y) for x, y in model.edges() if model.has_edge(y, x)}


def motifs_with_an_absent_arc(engine, graph, model):
    found = rows(engine.motifs(*graph, "(x)-[]->(y); (y)-[]->(z); !(x)-[]->(z)"), "x", "y", "z")
    pairs = {(x, y, z) for x, y in model.edges() for z in model.successors(y)}
    assert found == {(x, y, z) for x, y, z in pairs if not model.has_edge(x, z)}


CLAIMS = [
    connected_components,
    strongly_connected_components,
    strongly_connected_components_of_a_graph_without_loops,
    shortest_paths_with_the_smallest_next_vertex,
    diamonds_counted_for_each_pair,
    no_diamonds_in_a_graph_without_arcs,
    motifs_of_present_arcs,
    motifs_with_an_absent_arc,
]


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.__name__)
def test_the_driver_engine_keeps_the_contract(claim, spark, graph, model):
    claim(DriverEngine(), graph, model)


def test_graphframes_keeps_the_contract(needs_graphframes, subtests, spark, jars, graph, model):
    """One test, so that it is one skip where there are no jars. Where there are, it is the default engine."""
    choice = choose(spark, "auto", jars)
    assert choice.engine.name.startswith("GraphFrames ")
    assert not choice.notice
    for claim in CLAIMS:
        with subtests.test(claim.__name__):
            claim(choice.engine, graph, model)


def test_numbers_are_ids_too(spark):
    vertices = spark.createDataFrame([(10,), (9,), (2,)], "id long")
    arcs = spark.createDataFrame([(10, 9), (9, 10)], "src long, dst long")
    found = rows(DriverEngine().strongly_connected_components(vertices, arcs), "id", "component")
    assert found == {(10, 9), (9, 9), (2, 2)}


def test_the_driver_engine_refuses_what_is_too_large_for_it(graph):
    with pytest.raises(
        EngineRefusedError, match=r"66 arcs are too many for the driver engine \(3\): see docs/audit.md"
    ):
        DriverEngine(most_arcs=3).connected_components(*graph)


def test_the_driver_engine_counts_diamonds_the_same_in_blocks_of_any_size(monkeypatch, graph, model):
    for size in (1, 2, 7):
        monkeypatch.setattr("spark_graph_jobs.engines.on_driver.WALKS_AT_ONCE", size)
        diamonds_counted_for_each_pair(DriverEngine(), graph, model)


def does_not_work(session):
    return "its class is nowhere"


def test_without_jars_one_line_says_so_and_the_driver_engine_goes_on(monkeypatch, spark):
    monkeypatch.setattr("spark_graph_jobs.engines.choice.try_out", does_not_work)
    choice = choose(spark, "auto", NoJar("no jars of GraphFrames: io.x:y:1 is nowhere"))
    assert choice.engine.name == "driver (scipy)"
    assert choice.notice == "no jars of GraphFrames: io.x:y:1 is nowhere; going on with the engine driver (scipy)"


def test_jars_that_do_not_work_are_named_with_the_reason(monkeypatch, spark):
    monkeypatch.setattr("spark_graph_jobs.engines.choice.try_out", does_not_work)
    notice = choose(spark, "auto", Jars((Path("one.jar"), Path("other.jar")), "given")).notice
    assert "one.jar, other.jar (given): its class is nowhere" in notice


def test_graphframes_insisted_on_and_not_to_be_had_refuses_each_question_with_the_reason(monkeypatch, spark, graph):
    monkeypatch.setattr("spark_graph_jobs.engines.choice.try_out", does_not_work)
    choice = choose(spark, "graphframes", NoJar("io.x:y:1 is nowhere"))
    assert choice.notice == "io.x:y:1 is nowhere"
    for question in (
        lambda engine: engine.connected_components(*graph),
        lambda engine: engine.strongly_connected_components(*graph),
        lambda engine: engine.shortest_paths(*graph, ["a"]),
        lambda engine: engine.diamonds(*graph),
        lambda engine: engine.motifs(*graph, "(x)-[]->(y)"),
    ):
        with pytest.raises(EngineRefusedError, match="is nowhere"):
            question(choice.engine)
