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
from spark_graph_jobs.trouble import TROUBLES_LIMIT, arcs_in_trouble

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
    stored = tables.rd_records.filter("origin = 'stored' and child_owns_derived")
    return arcs_in_trouble(stored, "{at} stores an RD record of it, and owns a component of the sink: it computes it")


def _unlike_sent(tables: Tables) -> DataFrame:
    """What the home of the parent stores, beside what the home of the child last sent."""
    both = tables.rd_records.filter("origin in ('stored', 'sent') and parent_home_at >= 0 and child_home_at >= 0")
    digests = {origin: sql.when(sql.col("origin") == origin, sql.col("digest")) for origin in ("stored", "sent")}
    ends = ("parent_key", "child_key")
    unlike = (
        both.groupBy(*ends)
        .agg(*(sql.max(digest).alias(origin) for origin, digest in digests.items()))
        .filter(~sql.col("stored").eqNullSafe(sql.col("sent")))
        .select(*ends)
        .limit(TROUBLES_LIMIT)
    )
    # Records of nobody are the same as none.
    nothing = sql.array().cast("array<string>")
    minimal = {origin: sql.when(sql.col("origin") == origin, sql.sort_array("minimal")) for origin in digests}
    said = (
        both.join(sql.broadcast(unlike), list(ends))
        .groupBy(*ends)
        .agg(
            sql.min("parent").alias("parent"),
            sql.min("child").alias("child"),
            *(sql.coalesce(sql.max(names), nothing).alias(origin) for origin, names in minimal.items()),
        )
        .filter("stored != sent")
    )
    texts = sql.array(
        *(sql.concat(sql.lit(f"{origin}: "), sql.array_join(origin, ", ")) for origin in ("stored", "sent"))
    )
    return arcs_in_trouble(said, "its RD record is not stored as the home of its child sent it", texts=texts)
