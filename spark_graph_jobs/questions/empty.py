"""Groups without any process as a member, and groups that are in no other group."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from spark_graph_jobs.finding import counted, shell_line
from spark_graph_jobs.questions.answer import FINDINGS_SHOWN_LIMIT, ROWS_SHOWN_LIMIT, QuestionAnswer, info
from spark_graph_jobs.questions.whole import Whole

EMPTY: Final = "empty groups"
UNREACHED: Final = "groups nobody reaches"


def ask_empty(whole: Whole, sizes: DataFrame) -> QuestionAnswer:
    """Return groups whose resolution gives no process, so that a message to them reaches no process."""
    empty = sizes.filter("processes = 0").select("key", "groups")
    parents = whole.arcs.groupBy(sql.col("dst").alias("key")).agg(
        sql.count("*").alias("parents"), sql.min("src").alias("one")
    )
    found = empty.join(parents, "key", "left").join(whole.nodes.select("key", "id", "server"), "key")
    named = found.join(whole.nodes.select(sql.col("key").alias("one"), sql.col("id").alias("in")), "one", "left")
    kept = named.na.fill(0, ["parents"]).persist()
    count = kept.count()
    rows = kept.orderBy(sql.desc("parents"), "id").limit(ROWS_SHOWN_LIMIT).collect() if count else []
    kept.unpersist()
    findings = [
        info(
            EMPTY,
            row["id"],
            f"no process is a member; {counted(row['parents'], 'group')}"
            f" {'contains' if row['parents'] == 1 else 'contain'} it",
            [*filter(None, [row["in"]]), row["id"]],
            see=shell_line("resolve", "--groups", names=(row["id"],)),
        )
        for row in rows[:FINDINGS_SHOWN_LIMIT]
    ]
    return QuestionAnswer(
        EMPTY,
        f"{counted(count, 'group')} {'has' if count == 1 else 'have'} no process as a member. What is sent to them"
        " reaches nobody.",
        ("group", "groups in it", "groups that contain it", "home"),
        tuple((row["id"], row["groups"], row["parents"], row["server"]) for row in rows),
        tuple(findings),
    )


def ask_unreached(whole: Whole, sizes: DataFrame) -> QuestionAnswer:
    """Return groups that are in no other group. Such a group is reached only by its name."""
    tops = (
        whole.nodes.filter("kind = 'group'")
        .select("key", "id", "server")
        .join(whole.arcs.select(sql.col("dst").alias("key")), "key", "left_anti")
        .join(sizes, "key")
        .persist()
    )
    is_alone = sql.expr("processes + groups = 0")
    count, alone = tops.agg(sql.count("*"), sql.count_if(is_alone)).collect()[0]
    rows = tops.orderBy(sql.desc("processes"), sql.desc("groups"), "id").limit(ROWS_SHOWN_LIMIT).collect()
    forgotten = tops.filter(is_alone).orderBy("id").limit(FINDINGS_SHOWN_LIMIT).collect() if alone else []
    tops.unpersist()
    return QuestionAnswer(
        UNREACHED,
        f"{counted(count, 'group')} {'is' if count == 1 else 'are'} in no other group; {alone:,} of them"
        f" {'contains' if alone == 1 else 'contain'} nobody either. The largest:",
        ("group", "processes", "groups", "home"),
        tuple((row["id"], row["processes"], row["groups"], row["server"]) for row in rows),
        tuple(
            info(
                UNREACHED,
                row["id"],
                "it is in no group and has no members",
                [row["id"]],
                see=shell_line("memberships", names=(row["id"],)),
            )
            for row in forgotten
        ),
    )
