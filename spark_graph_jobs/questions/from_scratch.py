"""The second opinion: are the virtual nodes really the loops, when nothing that the servers say of them is believed?

`virtual_nodes` and `levels` prove it locally from what the snapshots carry. This computes the strongly connected
components from the arcs alone and compares.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import functions as F

from spark_graph_jobs.engines.interface import GraphEngine
from spark_graph_jobs.finding import Finding, Severity
from spark_graph_jobs.questions.answer import Answer
from spark_graph_jobs.questions.whole import Whole

QUESTION: Final = "virtual nodes from scratch"


def ask(whole: Whole, engine: GraphEngine) -> Answer:
    """Compare the loops of the graph with the virtual nodes that the servers recorded; differences are errors."""
    groups = whole.nodes.filter("kind = 'group'").select("key")
    ends = whole.arcs.join(groups.withColumnRenamed("key", "src"), "src", "left_semi").join(
        groups.withColumnRenamed("key", "dst"), "dst", "left_semi"
    )
    found = engine.strongly_connected_components(whole.vertices("group"), ends).withColumnRenamed("id", "key")
    both = found.join(whole.nodes.select("key", "id", "vnid"), "key").persist()
    loops = both.groupBy("component").agg(
        F.count("*").alias("size"),
        F.count_distinct("vnid").alias("recorded"),
        F.count_if(F.col("vnid").isNull()).alias("outside"),
        F.min("id").alias("smallest"),
        F.slice(F.sort_array(F.collect_set("id")), 1, 10).alias("shown"),
    )
    count = loops.filter("size > 1").count()
    missed = loops.filter("size > 1 and (recorded != 1 or outside > 0)").orderBy("smallest").limit(100).collect()
    merged = (
        both.filter("vnid is not null")
        .groupBy("vnid")
        .agg(F.count("*").alias("size"), F.count_distinct("component").alias("loops"), F.min("id").alias("smallest"))
        .filter("loops > 1")
        .orderBy("vnid")
        .limit(100)
        .collect()
    )
    both.unpersist()
    findings = [
        Finding(
            QUESTION,
            Severity.ERROR,
            row["smallest"],
            f"a loop of {row['size']:,} groups that servers record as {row['recorded']} virtual nodes,"
            f" {row['outside']} of its groups outside any",
            tuple(row["shown"]),
            f"shadowtree describe '{row['smallest']}'",
        )
        for row in missed
    ] + [
        Finding(
            QUESTION,
            Severity.ERROR,
            row["vnid"],
            f"a virtual node of {row['size']:,} groups that are {row['loops']} loops",
            (row["smallest"],),
            f"shadowtree describe '{row['smallest']}'",
        )
        for row in merged
    ]
    same = "They are the virtual nodes that the servers recorded." if not findings else "They are not what is recorded."
    return Answer(
        QUESTION, f"{count:,} loops were found from the arcs alone, by {engine.name}. {same}", findings=tuple(findings)
    )
