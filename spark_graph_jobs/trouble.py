"""What is wrong, in numbers, and how it becomes findings with names.

Audits join and group numbers. Names are looked up at the end, and only those of what is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_graph_jobs.finding import FINDING, REJOIN, Severity
from spark_graph_jobs.grouped import Row
from spark_graph_jobs.tables import NUMBERS_OF_SERVER, Tables

TROUBLE: Final = T.StructType(
    [
        T.StructField("node", T.LongType()),
        T.StructField("parent", T.LongType()),
        T.StructField("child", T.LongType()),
        T.StructField("message", T.StringType()),
        T.StructField("shown", T.ArrayType(T.LongType())),
        T.StructField("texts", T.ArrayType(T.StringType())),
    ]
)
"""A node, or an arc by its ends, that is wrong; what is wrong; nodes and texts that show it.

Nodes are `local` numbers. In the message, {at} stands for the server of the node or of the arc's parent.
"""

FINDINGS_LIMIT: Final = 10_000
"""Findings that one check reports. Whoever has more knows enough, and names are looked up for each."""

NODES_SHOWN_LIMIT: Final = 5
"""Nodes that one finding names as evidence."""


def about_node(node: int, message: str, shown: Iterable[int] = (), texts: Iterable[str] = ()) -> Row:
    """A node that is wrong."""
    return (node, None, None, message, list(shown), list(texts))


def about_arc(parent: int, child: int, message: str, shown: Iterable[int] = (), texts: Iterable[str] = ()) -> Row:
    """An arc that is wrong."""
    return (None, parent, child, message, list(shown), list(texts))


def on_server_of(node: int, numbers: Iterable[int]) -> list[int]:
    """The first few nodes that a server numbered so; `node` is the `local` number of one of its nodes."""
    server = node - node % NUMBERS_OF_SERVER
    return [server + number for number, _ in zip(numbers, range(NODES_SHOWN_LIMIT), strict=False)]


def nodes_in_trouble(frame: DataFrame, message: str | Column, *, texts: Column | None = None) -> DataFrame:
    """Each row of `frame` as a node that is wrong: its column `local`."""
    return _troubles(frame, message, texts, node=F.col("local"))


def arcs_in_trouble(frame: DataFrame, message: str | Column, *, texts: Column | None = None) -> DataFrame:
    """Each row of `frame` as an arc that is wrong: its columns `parent` and `child`, `local` numbers."""
    return _troubles(frame, message, texts, parent=F.col("parent"), child=F.col("child"))


def _troubles(frame: DataFrame, message: str | Column, texts: Column | None, **about: Column) -> DataFrame:
    none = F.lit(None).cast("long")
    text = F.lit(message) if isinstance(message, str) else message
    return frame.select(
        *(about.get(end, none).alias(end) for end in ("node", "parent", "child")),
        text.alias("message"),
        F.array().cast("array<long>").alias("shown"),
        (F.array().cast("array<string>") if texts is None else texts).alias("texts"),
    )


def name_troubles(
    troubles: DataFrame, tables: Tables, *, audit: str, fix: str = "", severity: Severity = Severity.ERROR
) -> DataFrame:
    """Findings of all these. Arcs are mended by joining them again, nodes by `fix`, in which {node} is the name."""
    numbered = troubles.limit(FINDINGS_LIMIT).withColumn("trouble", F.monotonically_increasing_id())
    ends = ("node", "parent", "child")
    about = F.array(*(F.struct(F.lit(end).alias("as"), F.col(end).alias("local")) for end in ends))
    others = F.transform("shown", lambda node: F.struct(F.lit("shown").alias("as"), node.alias("local")))
    mentions = numbered.select("trouble", "message", "texts", F.explode(F.concat(about, others)).alias("of"))
    mentions = mentions.select("trouble", "message", "texts", "of.as", "of.local").filter(F.col("local").isNotNull())
    named = (
        tables.nodes.select("local", "id", "at")
        .join(F.broadcast(mentions), "local")
        .groupBy("trouble", "message")
        .agg(
            F.first("texts").alias("texts"),
            F.max(F.when(F.col("as").isin("node", "parent"), F.col("at"))).alias("at"),
            *(F.max(F.when(F.col("as") == end, F.col("id"))).alias(end) for end in ends),
            F.sort_array(F.collect_set(F.when(F.col("as") == "shown", F.col("id")))).alias("shown"),
        )
    )
    is_arc = F.col("parent").isNotNull() | F.col("child").isNotNull()
    for end in ends:
        named = named.withColumn(end, F.coalesce(end, F.lit("?")))
    return named.select(
        F.lit(audit).alias("audit"),
        F.lit(severity.value).alias("severity"),
        F.when(is_arc, F.concat_ws(" -> ", "parent", "child")).otherwise(F.col("node")).alias("subject"),
        F.replace("message", F.lit("{at}"), tables.name_of(F.col("at"))).alias("message"),
        F.concat("texts", "shown").alias("evidence"),
        F.when(is_arc, _filled(REJOIN, ends)).otherwise(_filled(fix, ends)).alias("fix"),
    ).select(*FINDING.names)


def _filled(pattern: str, names: Iterable[str]) -> Column:
    text: Column = F.lit(pattern)
    for name in names:
        text = F.replace(text, F.lit("{" + name + "}"), F.col(name))
    return text
