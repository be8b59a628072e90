"""How deep are groups nested, and along which chain?

The longest chain of the derived graph, each virtual node counted as one. Levels rise along every normal arc, so that
the arcs, in the order of their parents' levels, need to be looked at once; one after another, on the driver.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import functions as sql

from spark_graph_jobs.questions.answer import Answer, info
from spark_graph_jobs.questions.whole import Whole

QUESTION: Final = "deepest nesting"

ARCS_LIMIT: Final = 20_000_000
"""Arcs between groups that are collected: 16 bytes each."""


def ask(whole: Whole) -> tuple[Answer, dict[int, int]]:
    """The longest chain of groups, and how many groups have how many levels of groups above them."""
    groups = whole.nodes.filter("kind = 'group'").select("key", "point", "level")
    src = groups.select(
        sql.col("key").alias("src"), sql.col("point").alias("upper"), sql.col("level").alias("upper_level")
    )
    dst = groups.select(sql.col("key").alias("dst"), sql.col("point").alias("lower"))
    arcs = whole.arcs.join(src, "src").join(dst, "dst").filter("upper != lower and upper_level is not null")
    count = arcs.count()
    if count > ARCS_LIMIT:
        return Answer(QUESTION, f"Not asked: {count:,} arcs between groups are more than {ARCS_LIMIT:,}."), {}
    table = arcs.select("upper_level", "upper", "lower", "src", "dst").toArrow()
    table = table.sort_by([(name, "ascending") for name in table.column_names])
    columns = [table[name].to_pylist() for name in ("upper", "lower", "src", "dst")]
    depth: dict[int, int] = {}
    over: dict[int, tuple[int, int, int]] = {}
    """For each point: the point above it on a longest chain, and the ends of the arc between."""
    for upper, lower, parent, child in zip(*columns, strict=True):
        deeper = depth.get(upper, 0) + 1
        if deeper > depth.get(lower, 0):
            depth[lower] = deeper
            over[lower] = (upper, parent, child)
    histogram = _histogram(whole, depth)
    if not depth:
        return Answer(QUESTION, "No group is in another."), histogram
    deepest = max(depth, key=lambda point: (depth[point], -point))
    chain = [(over[deepest][2])]
    point = deepest
    while point in over and len(chain) <= 2 * len(over):  # wrong levels could lead round
        upper, parent, child = over[point]
        if chain[-1] != child:
            chain.append(child)  # the chain goes on inside a virtual node
        chain.append(parent)
        point = upper
    names = whole.named(chain)
    path = [names[key] for key in reversed(chain)]
    return (
        Answer(
            QUESTION,
            "The longest chain of groups, each inside the one before. Where two neighbours share a loop, the chain"
            " passes through it.",
            ("step", "group"),
            tuple(enumerate(path)),
            (info(QUESTION, path[-1], f"{depth[deepest]} levels of groups are above it", path),),
        ),
        histogram,
    )


def _histogram(whole: Whole, depth: dict[int, int]) -> dict[int, int]:
    """How many groups lie at each depth; those of a virtual node together."""
    points = whole.nodes.filter("kind = 'group'").groupBy("point").agg(sql.count("*").alias("groups")).toArrow()
    counts: dict[int, int] = {}
    for point, groups in zip(points["point"].to_pylist(), points["groups"].to_pylist(), strict=True):
        at = depth.get(point, 0)
        counts[at] = counts.get(at, 0) + groups
    return dict(sorted(counts.items()))
