"""I3, acyclic: the derived graph has no cycle.

Why local implies global: each node has a number, its level, and every normal arc goes from a lower to a higher one, so
no path of normal arcs comes back to where it was. It does not matter what the numbers are; servers use the size of the
ancestor set. One look at each arc, with both levels beside it, is the whole proof, and it also shows that no virtual
node is larger than recorded: its arcs would close a cycle.

Source: protocol.md section 2.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from spark_graph_jobs.said import differ_in, who_says
from spark_graph_jobs.sinks import is_entering
from spark_graph_jobs.tables import Tables
from spark_graph_jobs.trouble import arcs_in_trouble, nodes_in_trouble

AUDIT: Final = "levels"


def audit(tables: Tables, nodes: DataFrame) -> DataFrame:
    """Troubles: levels that do not rise, or on which servers do not agree. `nodes`: of `said.of_nodes`."""
    return (
        _arcs_that_do_not_rise(tables)
        .unionByName(_without_level(tables))
        .unionByName(_unlike_inside(tables))
        .unionByName(_unlike_at_servers(tables, nodes))
    )


def _arcs_that_do_not_rise(tables: Tables) -> DataFrame:
    arcs = tables.arcs.filter(is_entering()).filter("parent_level >= child_level")
    levels = sql.format_string("at {at}, it goes from level %d to level %d", "parent_level", "child_level")
    return arcs_in_trouble(arcs, levels)


def _without_level(tables: Tables) -> DataFrame:
    return nodes_in_trouble(tables.nodes.filter("held and level is null"), "{at} says no level of it")


def _unlike_inside(tables: Tables) -> DataFrame:
    """Components of one virtual node are one derived node, and have one level."""
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


def _unlike_at_servers(tables: Tables, nodes: DataFrame) -> DataFrame:
    """All who hold a node's record give it one level: so levels rise along arcs between servers, too."""
    return nodes_in_trouble(
        nodes.filter(differ_in("level")), "servers do not agree on its level", texts=who_says("level", tables)
    )
