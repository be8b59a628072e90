"""Single groups and single arcs that hold a loop together.

An arc of a virtual node is a *bridge* if its loop falls apart without it. A group holds the loop together if the other
groups fall apart without it. Take any group r of the loop. An arc is a bridge exactly if all paths from r to some
group, or from some group to r, lead over the arc. For the test, a node is put into the middle of each arc: the middle
of a bridge dominates a node in the loop or in its reverse (Italiano, Laura, Santaroni 2012). The computation takes two
dominator trees for each loop of any size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import rustworkx as rx
from pyspark.sql import DataFrame, Window, types
from pyspark.sql import functions as sql

from spark_graph_jobs.finding import counted, shell_line
from spark_graph_jobs.questions.answer import FINDINGS_SHOWN_LIMIT, ROWS_SHOWN_LIMIT, QuestionAnswer, info
from spark_graph_jobs.questions.whole import Whole
from spark_graph_jobs.spark.grouped import Row, by_group, check_groups

QUESTION: Final = "what holds loops together"

BRIDGES_SHOWN_LIMIT: Final = 10
"""Maximum number of names of arcs and of groups that are shown for one loop."""

_FOUND: Final = types.StructType(
    [
        types.StructField("point", types.LongType()),
        types.StructField("groups", types.LongType()),
        types.StructField("arcs", types.LongType()),
        types.StructField("bridges", types.LongType()),
        types.StructField("cuts", types.LongType()),
        types.StructField("bridges_shown", types.ArrayType(types.ArrayType(types.LongType()))),
        types.StructField("cuts_shown", types.ArrayType(types.LongType())),
    ]
)


def ask(whole: Whole) -> tuple[QuestionAnswer, list[int]]:
    """Return the numbers of single arcs and groups that hold each loop together, and all loop sizes, largest first."""
    judged = check_groups(by_group(_inner_arcs(whole), ["point", "src", "dst"], ordered_by=3), lambda: _judge, _FOUND)
    found = judged.toArrow()
    sizes = sorted(found["groups"].to_pylist(), reverse=True)
    largest = found.sort_by([("groups", "descending"), ("bridges", "descending"), ("point", "ascending")])
    rows = largest.slice(0, ROWS_SHOWN_LIMIT).to_pylist()
    arcs, tight = pc.sum(found["bridges"]).as_py(), pc.sum(pc.equal(found["bridges"], found["arcs"])).as_py()
    keys = {key for row in rows for arc in row["bridges_shown"] for key in arc} | {
        key for row in rows for key in row["cuts_shown"]
    }
    names = whole.named(keys)
    smallest = _smallest(whole, [row["point"] for row in rows])
    findings = []
    for row in [row for row in rows if row["bridges"]][:FINDINGS_SHOWN_LIMIT]:
        findings.append(
            info(
                QUESTION,
                smallest[row["point"]],
                f"a loop of {counted(row['groups'], 'group')} and {counted(row['arcs'], 'arc')};"
                f" {counted(row['bridges'], 'arc')} and {counted(row['cuts'], 'group')} hold it together, each alone",
                [f"{names[parent]} -> {names[child]}" for parent, child in row["bridges_shown"]],
                see=shell_line("describe", names=(smallest[row["point"]],)),
            )
        )
    return (
        QuestionAnswer(
            QUESTION,
            f"{counted(len(sizes), 'loop')}. Single arcs that hold a loop together, so that leaving one breaks it:"
            f" {arcs or 0:,}. Loops that break whichever arc is left: {tight or 0:,}.",
            ("loop of", "groups", "arcs", "single arcs that hold it", "single groups that hold it", "for instance"),
            tuple(
                (
                    smallest[row["point"]],
                    row["groups"],
                    row["arcs"],
                    row["bridges"],
                    row["cuts"],
                    ", ".join(f"{names[parent]} -> {names[child]}" for parent, child in row["bridges_shown"][:1]),
                )
                for row in rows
            ),
            tuple(findings),
        ),
        sizes,
    )


def worst_loops(whole: Whole, limit: int, groups_limit: int) -> list[tuple[str, list[tuple[str, str, str]]]]:
    """Return the largest loops that can be drawn: smallest name of each and its arcs, as (parent, child, state)."""
    inner = _inner_arcs(whole)
    members = inner.select("point", sql.col("src").alias("key")).distinct()
    ranked = Window.orderBy(sql.desc("groups"), "point")
    largest = (
        members.groupBy("point")
        .agg(sql.count("*").alias("groups"))
        .filter(sql.col("groups") <= groups_limit)
        .withColumn("place", sql.row_number().over(ranked))
        .filter(sql.col("place") <= limit)
    )
    states = whole.tables.arcs.filter("present and is_truth").select(
        sql.col("parent_key").alias("src"), sql.col("child_key").alias("dst"), "state"
    )
    drawn = inner.join(sql.broadcast(largest), "point").join(states, ["src", "dst"])
    rows = drawn.select("place", "src", "dst", "state").distinct().sort("place", "src", "dst").collect()
    names = whole.named({row[end] for row in rows for end in ("src", "dst")})
    loops: dict[int, list[tuple[str, str, str]]] = {}
    for row in rows:
        loops.setdefault(row["place"], []).append((names[row["src"]], names[row["dst"]], row["state"] or "normal"))
    return [(min(parent for parent, _, _ in arcs), arcs) for _, arcs in sorted(loops.items())]


def _inner_arcs(whole: Whole) -> DataFrame:
    inside = whole.nodes.filter("vnid is not null")
    src = inside.select(sql.col("key").alias("src"), "point")
    dst = inside.select(sql.col("key").alias("dst"), sql.col("point").alias("lower"))
    return whole.arcs.join(src, "src").join(dst, "dst").filter("point = lower").select("point", "src", "dst")


def _smallest(whole: Whole, points: list[int]) -> dict[int, str]:
    are_there = pc.field("point").isin(pa.array(points, pa.int64()))
    rows = whole.rows_of_nodes().to_table(["point", "id"], filter=are_there)
    least = rows.group_by("point").aggregate([("id", "min")])
    return dict(zip(least["point"].to_pylist(), least["id_min"].to_pylist(), strict=True))


def _judge(rows: Sequence[Row]) -> Iterator[Row]:
    arcs = [(src, dst) for _, src, dst in rows]
    bridges, cuts = weak_points(arcs)
    groups = {key for arc in arcs for key in arc}
    shown = [list(arc) for arc in bridges[:BRIDGES_SHOWN_LIMIT]]
    yield (rows[0][0], len(groups), len(arcs), len(bridges), len(cuts), shown, cuts[:BRIDGES_SHOWN_LIMIT])


def weak_points(arcs: Sequence[tuple[int, int]]) -> tuple[list[tuple[int, int]], list[int]]:
    """Return the single arcs and the single nodes that keep a graph strongly connected; both sorted.

    A node does not count if only one other node is left without it. A graph that is not strongly connected gives empty
    lists: the audit `virtual_nodes` reports it.
    """
    nodes = sorted({node for arc in arcs for node in arc})
    places = {node: place for place, node in enumerate(nodes)}
    pairs = sorted({(places[src], places[dst]) for src, dst in arcs if src != dst})
    middles = {len(nodes) + number: pair for number, pair in enumerate(pairs)}
    if not nodes or rx.number_strongly_connected_components(_graph(len(nodes), pairs)) != 1:
        return [], []
    dominating: set[int] = set()
    for backwards in (False, True):
        graph = rx.PyDiGraph()
        graph.add_nodes_from([None] * (len(nodes) + len(middles)))
        halves = []
        for middle, (src, dst) in middles.items():
            start, end = (dst, src) if backwards else (src, dst)
            halves += [(start, middle), (middle, end)]
        graph.add_edges_from_no_data(halves)
        for node, dominator in rx.immediate_dominators(graph, 0).items():
            if node < len(nodes) and node != dominator:
                dominating.add(dominator)
                # Every dominator of the middle of an arc into a node also dominates that node.
                if dominator in middles:
                    dominating.add(middles[dominator][1 if backwards else 0])
    bridges = [middles[number] for number in sorted(dominating) if number in middles]
    # A loop of two cannot fall apart. The start group dominates all nodes, so it is checked separately.
    cuts = {number for number in dominating if 0 < number < len(nodes)}
    if _falls_apart_without(0, len(nodes), pairs):
        cuts.add(0)
    return [(nodes[src], nodes[dst]) for src, dst in bridges], [
        nodes[number] for number in sorted(cuts) if len(nodes) > 2
    ]


def _falls_apart_without(place: int, size: int, pairs: Sequence[tuple[int, int]]) -> bool:
    others = [(src - 1, dst - 1) for src, dst in pairs if place not in (src, dst)]
    return size > 2 and rx.number_strongly_connected_components(_graph(size - 1, others)) != 1


def _graph(size: int, pairs: Sequence[tuple[int, int]]) -> rx.PyDiGraph:
    graph = rx.PyDiGraph()
    graph.add_nodes_from([None] * size)
    graph.add_edges_from_no_data(list(pairs))
    return graph
