"""A second opinion on virtual nodes: loops computed from the arcs alone, without the servers' records of loops.

The audits `virtual_nodes` and `levels` prove the records locally, from the contents of the snapshots. This question
computes the strongly connected components from the arcs alone and compares.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from spark_graph_jobs.engines.interface import GraphEngine
from spark_graph_jobs.finding import Finding, Severity, counted, shell_line
from spark_graph_jobs.questions.answer import FINDINGS_SHOWN_LIMIT, QuestionAnswer
from spark_graph_jobs.questions.whole import Whole

QUESTION: Final = "virtual nodes from scratch"

FINDINGS_LIMIT: Final = 100
"""Maximum number of findings. More findings mostly have a common cause."""

NODES_SHOWN_LIMIT: Final = 10


def ask(whole: Whole, engine: GraphEngine) -> QuestionAnswer:
    """Compare the loops of the graph with the virtual nodes that the servers recorded. Differences are errors."""
    groups = whole.nodes.filter("kind = 'group'").select("key")
    ends = whole.arcs.join(groups.withColumnRenamed("key", "src"), "src", "left_semi").join(
        groups.withColumnRenamed("key", "dst"), "dst", "left_semi"
    )
    found = engine.strongly_connected_components(whole.vertices("group"), ends).withColumnRenamed("id", "key")
    both = found.join(whole.nodes.select("key", "id", "vnid"), "key").persist()
    loops = (
        both.groupBy("component")
        .agg(
            sql.count("*").alias("size"),
            sql.count("vnid").alias("inside"),
            (sql.min("vnid") == sql.max("vnid")).alias("in_one"),
            sql.min("id").alias("smallest"),
        )
        .filter("size > 1")
        .persist()
    )
    count = loops.count()
    missed = loops.filter("inside < size or not in_one").orderBy("smallest").limit(FINDINGS_LIMIT).collect()
    merged = (
        both.filter("vnid is not null")
        .groupBy("vnid")
        .agg(
            sql.count("*").alias("size"),
            (sql.min("component") == sql.max("component")).alias("one_loop"),
            sql.min("id").alias("smallest"),
            sql.max("id").alias("largest"),
        )
        .filter("not one_loop")
        .orderBy("vnid")
        .limit(FINDINGS_LIMIT)
        .collect()
    )
    shown = {row["component"]: _some_of(both, row["component"]) for row in missed[:FINDINGS_SHOWN_LIMIT]}
    loops.unpersist()
    both.unpersist()
    findings = [
        Finding(
            QUESTION,
            Severity.ERROR,
            row["smallest"],
            f"a loop of {row['size']:,} groups, of which {row['inside']:,} are recorded as in a virtual node,"
            f" {'all the same' if row['in_one'] else 'not in one'}",
            tuple(shown.get(row["component"], [row["smallest"]])),
            shell_line("describe", names=(row["smallest"],)),
        )
        for row in missed
    ] + [
        Finding(
            QUESTION,
            Severity.ERROR,
            row["vnid"],
            f"a virtual node of {row['size']:,} groups that are no loop",
            (row["smallest"], row["largest"]),
            shell_line("describe", names=(row["smallest"],)),
        )
        for row in merged
    ]
    same = "not what the servers recorded" if findings else "the virtual nodes that the servers recorded"
    explanation = (
        f"{counted(count, 'loop')} {'was' if count == 1 else 'were'} found from the arcs alone, by {engine.name}."
        f" {'It is' if count == 1 else 'They are'} {same}."
    )
    return QuestionAnswer(QUESTION, explanation, findings=tuple(findings))


def _some_of(both: DataFrame, component: int) -> list[str]:
    rows = both.filter(sql.col("component") == component).orderBy("id").limit(NODES_SHOWN_LIMIT).collect()
    return [row["id"] for row in rows]
