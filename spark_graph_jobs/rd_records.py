"""RD records where they are stored: each is of an arc that needs one, and is what the home of the child last sent.

Why local implies global: whether a record is to be stored depends on its arc and on who owns a component of the sink,
both known to the home of the arc's parent. That what is stored blocks the right originators is judged in
`exactly_once`.

Source: protocol.md section 4.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from spark_graph_jobs.tables import Tables
from spark_graph_jobs.trouble import arcs_in_trouble

AUDIT: Final = "RD records"


def audit(tables: Tables) -> DataFrame:
    """Troubles: stored records that should not be there, and such that were not sent so."""
    return _stray(tables).unionByName(_stored_where_computed(tables)).unionByName(_unlike_sent(tables))


def _stray(tables: Tables) -> DataFrame:
    normal = tables.arcs.filter("is_truth and present and not suspended and parent_derived != child_derived").select(
        "parent", "child"
    )
    stored = tables.rd_records.filter("origin = 'stored'").join(normal, ["parent", "child"], "left_anti")
    return arcs_in_trouble(stored, "{at} stores an RD record of it, and has no such normal arc")


def _stored_where_computed(tables: Tables) -> DataFrame:
    owned = tables.nodes.filter("owned").select(sql.col("derived").alias("child_derived")).distinct()
    stored = tables.rd_records.filter("origin = 'stored'").join(owned, "child_derived")
    return arcs_in_trouble(stored, "{at} stores an RD record of it, and owns a component of the sink: it computes it")


def _unlike_sent(tables: Tables) -> DataFrame:
    """What the home of the parent stores, beside what the home of the child last sent."""
    homes = tables.nodes.select("local", "home_at")
    parent = homes.select(sql.col("local").alias("parent"), sql.col("home_at").alias("parent_at"))
    child = homes.select(sql.col("local").alias("child"), sql.col("home_at").alias("child_at"))
    both = (
        tables.rd_records.filter("origin in ('stored', 'sent')")
        .join(parent, "parent")
        .join(child, "child")
        .filter("parent_at >= 0 and child_at >= 0")
    )
    nothing = sql.array().cast("array<string>")
    said = both.groupBy("parent_key", "child_key").agg(
        sql.min("parent").alias("parent"),
        sql.min_by("child", "parent").alias("child"),
        *(
            sql.coalesce(sql.max(sql.when(sql.col("origin") == origin, sql.sort_array("minimal"))), nothing).alias(
                origin
            )
            for origin in ("stored", "sent")
        ),
    )
    texts = sql.array(
        *(sql.concat(sql.lit(f"{origin}: "), sql.array_join(origin, ", ")) for origin in ("stored", "sent"))
    )
    return arcs_in_trouble(
        said.filter("stored != sent"), "its RD record is not stored as the home of its child sent it", texts=texts
    )
