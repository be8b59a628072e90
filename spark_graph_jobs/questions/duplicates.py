"""Members to which most repeated deliveries are blocked.

A walk from an originator reaches a sink once over each arc whose tail it reaches. Summed over all originators, arc i
brings |A*(tail_i)| walks, and |A*(sink)| less the sink itself is the number that is needed. Levels give both numbers.
One grouping of the arcs by their sinks therefore counts what duplication control saves there.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from pyspark import Broadcast
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sql

from spark_graph_jobs.finding import counted, shell_line
from spark_graph_jobs.questions.answer import FINDINGS_SHOWN_LIMIT, ROWS_SHOWN_LIMIT, QuestionAnswer, info
from spark_graph_jobs.questions.census import count_above_foreign
from spark_graph_jobs.questions.numbering import Numbering
from spark_graph_jobs.questions.paths import find_paths
from spark_graph_jobs.questions.whole import Whole

QUESTION: Final = "most duplicated members"


def ask(whole: Whole, numbering: Broadcast[Numbering]) -> QuestionAnswer:
    """Return the nodes that most originators reach over more than one arc, with two paths to the first few."""
    normal, sinks = _sinks(whole, numbering)
    rows = sinks.orderBy(sql.desc("saved"), "id").limit(ROWS_SHOWN_LIMIT).collect()
    shown = rows[:FINDINGS_SHOWN_LIMIT]
    tails = _two_highest_tails(whole, normal, [row["point"] for row in shown])
    originators = _common_originators(whole, tails)
    pairs = [(top, tail) for point, top in originators.items() for tail, _ in tails[point]]
    paths = find_paths(whole, [pair for pair in pairs if pair[0] != pair[1]])
    names = whole.named({key for pair in pairs for key in pair} | {child for two in tails.values() for _, child in two})
    findings = []
    for row in shown:
        top, two = originators.get(row["point"]), tails.get(row["point"], [])
        ways = []
        for tail, child in two:
            if top is not None and (top == tail or (top, tail) in paths):
                way = [names[top]] if top == tail else list(paths[top, tail])
                ways.append(" -> ".join([*way, names[child]]))
        message = (
            f"reached over {counted(row['arcs'], 'arc')}; for all originators together, the service blocks"
            f" {counted(row['saved'], 'repetition')}"
        )
        findings.append(info(QUESTION, row["id"], message, ways, see=shell_line("memberships", names=(row["id"],))))
    return QuestionAnswer(
        QUESTION,
        "Blocked repetitions: how often a walk would come again over another arc into the node, summed over all groups"
        " one may ask for. One step only: what would follow below is not counted.",
        ("member", "kind", "arcs into it", "ancestors", "blocked repetitions"),
        tuple((row["id"], row["kind"], row["arcs"], row["above"], row["saved"]) for row in rows),
        tuple(findings),
    )


def _sinks(whole: Whole, numbering: Broadcast[Numbering]) -> tuple[DataFrame, DataFrame]:
    nodes = whole.nodes
    src = nodes.select(
        sql.col("key").alias("src"), sql.col("point").alias("upper"), sql.col("level").alias("upper_level")
    )
    dst = nodes.select(sql.col("key").alias("dst"), sql.col("point").alias("lower"))
    normal = whole.arcs.join(src, "src").join(dst, "dst").filter("upper != lower")
    points = nodes.groupBy("point").agg(
        sql.count("*").alias("components"),
        sql.max("level").alias("level"),
        sql.min("id").alias("id"),
        sql.min("kind").alias("kind"),
    )
    arrived = normal.groupBy(sql.col("lower").alias("point")).agg(
        sql.count("*").alias("arcs"), sql.sum("upper_level").alias("walks")
    )
    foreign = count_above_foreign(whole, numbering).withColumnRenamed("key", "point")
    sinks = (
        arrived.filter("arcs > 1")
        .join(points, "point")
        .join(foreign, "point", "left")
        .withColumn("above", sql.coalesce("above", sql.col("level") - sql.col("components")))
        .withColumn("saved", sql.col("walks") - sql.col("above"))
        .filter("saved > 0")
    )
    return normal, sinks


def _two_highest_tails(whole: Whole, normal: DataFrame, points: list[int]) -> dict[int, list[tuple[int, int]]]:
    """Return two arcs for each of these sinks, as (parent, child): the arcs whose tails have most ancestors."""
    if not points:
        return {}
    wanted = whole.nodes.sparkSession.createDataFrame([(point,) for point in points], "lower long")
    each = Window.partitionBy("lower", "upper").orderBy("src", "dst")
    ranked = Window.partitionBy("lower").orderBy(sql.desc("upper_level"), "src")
    rows = (
        normal.join(sql.broadcast(wanted), "lower")
        .withColumn("of_tail", sql.row_number().over(each))
        .filter("of_tail = 1")
        .withColumn("place", sql.row_number().over(ranked))
        .filter("place <= 2")
        .select("lower", "src", "dst")
        .sort("lower", "src")
        .collect()
    )
    found: dict[int, list[tuple[int, int]]] = {}
    for row in rows:
        found.setdefault(row["lower"], []).append((row["src"], row["dst"]))
    return found


def _common_originators(whole: Whole, tails: dict[int, list[tuple[int, int]]]) -> dict[int, int]:
    """Return for each sink the nearest group above both of its tails: the group with the most groups above it."""
    found = {}
    for point, two in tails.items():
        if len(two) != 2:
            continue
        one, other = (_levels_above(whole, parent) for parent, _ in two)
        common = [(max(one[top], other[top]), top) for top in one.keys() & other.keys()]
        if common:
            found[point] = max(common)[1]
    return found


def _levels_above(whole: Whole, key: int) -> dict[int, int]:
    """Return the keys of a group and of all groups above it, with their levels there."""
    levels: dict[int, int] = {}
    for at, found in whole.everywhere([key]):
        above = whole.set_of(int(found.nodes["derived"][0])) if found.is_there[0] and found.nodes["owned"][0] else None
        if above is not None:
            tops = whole.nodes_of(at).of_numbers(np.frombuffer(above.to_array(), np.uint32).astype(np.int64))
            nodes = tops.nodes[tops.is_there]
            levels |= dict(zip(nodes["key"].tolist(), nodes["level"].tolist(), strict=True))
    return levels
