"""Suspended arcs, counted by the server that has them and the server that was out of its reach.

A suspended arc counts for no membership. It becomes active by itself when the other server returns.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import functions as sql

from spark_graph_jobs.finding import counted
from spark_graph_jobs.snapshot.tables import Tables


@dataclass(frozen=True, slots=True, order=True)
class Suspended:
    """Number of suspended arcs of one server with an end at one other server."""

    server: str
    out_of_reach: str
    """Server at the other end."""
    arcs: int


def count(tables: Tables) -> tuple[Suspended, ...]:
    """Count the suspended arcs of each server."""
    found = tables.arcs.filter("present and suspended")
    homes = tables.nodes.select(sql.col("local").alias("other"), sql.col("home"))
    other = sql.when(sql.col("is_truth"), sql.col("child")).otherwise(sql.col("parent")).alias("other")
    rows = found.select("at", other).join(homes, "other").groupBy("at", "home").agg(sql.count("*").alias("arcs"))
    return tuple(
        sorted(Suspended(tables.servers[row["at"]].server, row["home"] or "?", row["arcs"]) for row in rows.collect())
    )


def in_words(each: Suspended) -> str:
    """Return the number of suspended arcs as a part of a sentence."""
    return f"{each.server} has suspended {counted(each.arcs, 'arc')} with an end there"
