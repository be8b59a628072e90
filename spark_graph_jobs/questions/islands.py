"""Parts of the graph that are not connected to each other."""

from __future__ import annotations

from typing import Final

from pyspark.sql import functions as sql

from spark_graph_jobs.engines.interface import GraphEngine
from spark_graph_jobs.finding import counted, shell_line
from spark_graph_jobs.questions.answer import FINDINGS_SHOWN_LIMIT, ROWS_SHOWN_LIMIT, QuestionAnswer, info
from spark_graph_jobs.questions.whole import Whole

QUESTION: Final = "islands"


def ask(whole: Whole, engine: GraphEngine) -> QuestionAnswer:
    """Return the connected components of all arcs, walked both ways, with the smaller components as findings."""
    found = engine.connected_components(whole.vertices(), whole.arcs)
    islands = (
        found.withColumnRenamed("id", "key")
        .join(whole.nodes.select("key", "id", "kind", "domain"), "key")
        .groupBy("component")
        .agg(
            sql.count_if(sql.col("kind") == "group").alias("groups"),
            sql.count_if(sql.col("kind") == "process").alias("processes"),
            sql.count_distinct("domain").alias("domains"),
            sql.min(sql.when(sql.col("kind") == "group", sql.col("id"))).alias("one"),
        )
        .withColumn("nodes", sql.col("groups") + sql.col("processes"))
        .toArrow()
    )
    largest = islands.sort_by([("nodes", "descending"), ("one", "ascending")])
    rows = largest.slice(0, ROWS_SHOWN_LIMIT).to_pylist()
    findings = [
        info(
            QUESTION,
            row["one"] or "?",
            f"an island of {counted(row['groups'], 'group')} and {counted(row['processes'], 'process')}, without an arc"
            " to the others",
            [row["one"] or "?"],
            see=shell_line("resolve", "--groups", names=(row["one"],)) if row["one"] else "",
        )
        for row in rows[1 : 1 + FINDINGS_SHOWN_LIMIT]
    ]
    return QuestionAnswer(
        QUESTION,
        f"The graph falls into {len(islands):,} parts without an arc between them.",
        ("smallest group", "groups", "processes", "domains"),
        tuple((row["one"] or "", row["groups"], row["processes"], row["domains"]) for row in rows),
        tuple(findings),
    )
