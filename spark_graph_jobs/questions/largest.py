"""The groups with the most members."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from spark_graph_jobs.finding import counted, shell_line
from spark_graph_jobs.questions.answer import FINDINGS_SHOWN_LIMIT, ROWS_SHOWN_LIMIT, QuestionAnswer, info
from spark_graph_jobs.questions.members import members_of
from spark_graph_jobs.questions.paths import find_paths
from spark_graph_jobs.questions.whole import Whole

QUESTION: Final = "largest groups"


def ask(whole: Whole, sizes: DataFrame) -> QuestionAnswer:
    """Return the groups with most processes as members, direct or not. `sizes`: result of `census.count_members`."""
    direct = whole.arcs.groupBy(sql.col("src").alias("key")).agg(sql.count("*").alias("direct"))
    largest = (
        sizes.join(direct, "key", "left")
        .na.fill(0)
        .join(whole.nodes.select("key", "id", "server"), "key")
        .orderBy(sql.desc("processes"), sql.desc("groups"), "id")
        .limit(ROWS_SHOWN_LIMIT)
        .collect()
    )
    shown = [row for row in largest[:FINDINGS_SHOWN_LIMIT] if row["processes"]]
    some = {group: min(members) for group, members in members_of(whole, {row["key"] for row in shown}).items()}
    paths = find_paths(whole, some.items())
    return QuestionAnswer(
        QUESTION,
        "Members are direct or not, each counted once. A few arcs can make a large group.",
        ("group", "processes", "groups", "direct arcs", "home"),
        tuple((row["id"], row["processes"], row["groups"], row["direct"], row["server"]) for row in largest),
        tuple(
            info(
                QUESTION,
                row["id"],
                f"members: {counted(row['processes'], 'process')} and {counted(row['groups'], 'group')},"
                f" over {counted(row['direct'], 'arc')}",
                paths.get((row["key"], some.get(row["key"], 0)), ()),
                see=shell_line("resolve", names=(row["id"],)),
            )
            for row in shown
        ),
    )
