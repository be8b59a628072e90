"""Diamonds: two groups side by side between the same group above and the same node below.

A diamond is the smallest cause of a duplicate without a loop: without duplication control, a message to the group above
would come over both groups between. The question `duplicates` counts blocked deliveries, however far apart the paths
part. This question shows the arcs to look at.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from spark_graph_jobs.engines.interface import EngineRefusedError, GraphEngine
from spark_graph_jobs.questions.answer import FINDINGS_SHOWN_LIMIT, ROWS_SHOWN_LIMIT, QuestionAnswer, info, see_path
from spark_graph_jobs.questions.whole import Whole

QUESTION: Final = "diamonds"

WALKS_LIMIT: Final = 100_000_000
"""Maximum number of walks of two arcs. A group with m groups above and n nodes below makes m * n walks.

The pairs of so many walks take 1.2 GB on the driver at most. The example, of 454,565 arcs, has 7,454,450 walks.
"""

WAYS_SHOWN: Final = 2


def ask(whole: Whole, engine: GraphEngine, walks_limit: int = WALKS_LIMIT) -> QuestionAnswer:
    """Ask an engine for the pairs with most diamonds between them, and show two paths for the first few."""
    walks = _count_walks(whole)
    if walks > walks_limit:
        raise EngineRefusedError(f"{walks:,} walks of two arcs are too many to look for diamonds ({walks_limit:,})")
    pairs = engine.diamonds(whole.vertices(), whole.arcs).persist()
    each = sql.expr("`between` * (`between` - 1) div 2")
    total = pairs.agg(sql.count("*").alias("pairs"), sql.sum(each).alias("diamonds")).collect()[0]
    names = whole.nodes.select("key", "id")
    rows = (
        pairs.join(names.select(sql.col("key").alias("src"), sql.col("id").alias("above")), "src")
        .join(names.select(sql.col("key").alias("dst"), sql.col("id").alias("below")), "dst")
        .withColumn("diamonds", each)
        .orderBy(sql.desc("between"), "above", "below")
        .limit(ROWS_SHOWN_LIMIT)
        .collect()
    )
    pairs.unpersist()
    shown = rows[:FINDINGS_SHOWN_LIMIT]
    middles = _between(whole, [(row["src"], row["dst"]) for row in shown])
    return QuestionAnswer(
        QUESTION,
        f"{total['diamonds'] or 0:,} diamonds between {total['pairs']:,} pairs: two groups side by side lead from the"
        " same group to the same member, which would come twice if nothing were blocked.",
        ("group above", "member below", "groups between", "diamonds"),
        tuple((row["above"], row["below"], row["between"], row["diamonds"]) for row in rows),
        tuple(
            info(
                QUESTION,
                row["above"],
                f"{row['between']:,} groups between it and {row['below']}: {row['diamonds']:,} diamonds",
                [f"{row['above']} -> {middle} -> {row['below']}" for middle in middles[row["src"], row["dst"]]],
                see=see_path((row["above"], row["below"])),
            )
            for row in shown
        ),
    )


def _count_walks(whole: Whole) -> int:
    """Count the walks of two arcs by the arcs into each node and out of it."""
    arrived = whole.arcs.groupBy(sql.col("dst").alias("key")).agg(sql.count("*").alias("arrived"))
    left = whole.arcs.groupBy(sql.col("src").alias("key")).agg(sql.count("*").alias("left"))
    walks = arrived.join(left, "key").agg(sql.sum(sql.col("arrived") * sql.col("left")).alias("walks"))
    return int(walks.collect()[0]["walks"] or 0)


def _between(whole: Whole, pairs: list[tuple[int, int]]) -> dict[tuple[int, int], list[str]]:
    """Return the first names of groups between, for each pair."""
    if not pairs:
        return {}
    wanted: DataFrame = whole.nodes.sparkSession.createDataFrame(pairs, "above long, below long")
    upper = whole.arcs.select(sql.col("src").alias("above"), sql.col("dst").alias("key"))
    lower = whole.arcs.select(sql.col("src").alias("key"), sql.col("dst").alias("below"))
    rows = (
        upper.join(sql.broadcast(wanted), "above")
        .join(lower, ["key", "below"])
        .join(whole.nodes.select("key", "id"), "key")
        .groupBy("above", "below")
        .agg(sql.slice(sql.array_sort(sql.collect_list("id")), 1, WAYS_SHOWN).alias("names"))
        .collect()
    )
    return {(row["above"], row["below"]): row["names"] for row in rows}
