"""I3, acyclic: the derived graph has no cycle.

Why local implies global: each node has a number, its level, and every normal arc leads from a lower to a higher level.
Therefore no path of normal arcs returns to its start. The values of the levels do not matter; servers use the size of
the ancestor set. Comparing the two levels of each arc is the whole proof. The proof also shows that no loop is larger
than its recorded virtual node: the arcs outside would close a cycle.

Source: docs/protocol.md, "The invariants".
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from spark_graph_jobs.audits.sinks import is_entering
from spark_graph_jobs.compare.side_by_side import Unlike
from spark_graph_jobs.compare.violations import Condition, nodes_in_trouble
from spark_graph_jobs.snapshot.tables import Tables

AUDIT: Final = "levels"
CHECKS: Final = "Each node has a level, and each arc outside loops leads to a higher level. So no loop was missed."


def of_arcs() -> list[Condition]:
    """Return the conditions that no arc may meet."""
    levels = sql.format_string("at {at}, it goes from level %d to level %d", "parent_level", "child_level")
    return [Condition(AUDIT, is_entering() & (sql.col("parent_level") >= sql.col("child_level")), levels)]


def of_nodes() -> list[Condition]:
    """Return the conditions that no node may meet."""
    return [Condition(AUDIT, sql.col("held") & sql.col("level").isNull(), "{at} says no level of it")]


UNLIKE: Final = Unlike(AUDIT, "level", "servers do not agree on its level")
"""All servers that hold a node's record give the node the same level.

Levels therefore rise along arcs between servers too.
"""


def audit(tables: Tables) -> DataFrame:
    """Return the virtual nodes whose components have different levels.

    A virtual node is one derived node, with one level.
    """
    unlike = (
        tables.nodes.filter("vnid is not null")
        .groupBy("derived")
        .agg(sql.min("level").alias("lowest"), sql.max("level").alias("highest"))
        .filter("lowest != highest")
        .withColumnRenamed("derived", "local")
    )
    message = sql.format_string(
        "at {at}, components of its virtual node have levels from %d to %d", "lowest", "highest"
    )
    return nodes_in_trouble(unlike, message)
