"""Every arc with what all servers say of it, in one row: the two homes of its ends, and all that hold a record of its child.

Arcs to foreign processes are left out: they have one home. Two audits read the result.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_graph_jobs.tables import FOREIGN, UNKNOWN, Tables

TEXTS_SHOWN_LIMIT: Final = 5
"""Servers that one finding names as evidence."""

COMPARED: Final = ("cost", "version", "writer", "suspended")
"""What all who have an arc must have alike."""


def compare(tables: Tables) -> DataFrame:
    """One row an arc, with these columns; keep the result.

    `parent`, `child`: `local` numbers at one of the servers. `at_parent`, `at_child`: how many homes of that end have
    it; `parent_left`, `child_left`: how many have its tombstone. `records`: servers in whose ancestry record of the
    child it is; `child_holders`: servers that hold that record. `parent_home`, `child_home`: places of the homes, as
    far as there are snapshots. `parent_groups`, `children`: how many homes have the nodes. `least` and `most`: of what
    is compared, over all who have the arc; `left_least` and `left_most`: the same over tombstones.
    """
    there = F.col("present")
    compared = F.struct(*COMPARED)
    at_parent, at_child = F.col("is_truth"), F.col("is_record") & F.col("child_owned")
    arcs = (
        tables.arcs.filter((F.col("child_home_at") != FOREIGN) & F.col("parent_key").isNotNull())
        .groupBy("parent_key", "child_key")
        .agg(
            F.min("parent").alias("parent"),
            F.min_by("child", "parent").alias("child"),
            F.max("parent_home_at").alias("parent_home"),
            F.max("child_home_at").alias("child_home"),
            F.count_if(there & at_parent).alias("at_parent"),
            F.count_if(there & at_child).alias("at_child"),
            F.count_if(~there & at_parent).alias("parent_left"),
            F.count_if(~there & at_child).alias("child_left"),
            F.count_if(there & F.col("is_record") & F.col("child_held")).alias("records"),
            F.min(F.when(there, compared)).alias("least"),
            F.max(F.when(there, compared)).alias("most"),
            F.min(F.when(~there, F.col("version"))).alias("left_least"),
            F.max(F.when(~there, F.col("version"))).alias("left_most"),
            F.collect_set(F.when(there, F.col("at"))).alias("had_at"),
        )
    )
    nodes = tables.nodes.filter(F.col("home_at") != FOREIGN)
    known = nodes.groupBy("key").agg(
        F.count_if("held").alias("child_holders"),
        F.count_if(F.col("owned") & (F.col("kind") != "absent")).alias("children"),
    )
    groups = nodes.filter(F.col("owned") & (F.col("kind") == "group")).select("key").distinct()
    return (
        arcs.join(known.withColumnRenamed("key", "child_key"), "child_key", "left")
        .join(groups.select(F.col("key").alias("parent_key"), F.lit(1).alias("parent_groups")), "parent_key", "left")
        .fillna(0, ["child_holders", "children", "parent_groups"])
    )


def have_it(tables: Tables) -> Column:
    """Which servers have an arc, as texts."""
    places = F.slice(F.sort_array("had_at"), 1, TEXTS_SHOWN_LIMIT)
    return F.transform(places, lambda at: F.concat(tables.name_of(at), F.lit(" has it")))


def both_homes_are_here() -> Column:
    """Whether there are snapshots of the homes of both ends."""
    return (F.col("parent_home") > UNKNOWN) & (F.col("child_home") > UNKNOWN)
