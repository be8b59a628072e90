"""I7, agreement: both ends of each arc, and all servers that know a node, say the same.

Why local implies global: an arc has two homes and a node has one, so that putting side by side what the servers say of
one arc, or of one node, is the whole comparison; nothing depends on anything further away.

Source: protocol.md sections 2, 3.1 and 7.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from spark_graph_jobs.finding import Severity
from spark_graph_jobs.said import COMPARED, both_homes_are_here, differ_in, have_it, who_says
from spark_graph_jobs.tables import FOREIGN, UNKNOWN, Tables
from spark_graph_jobs.trouble import arcs_in_trouble, nodes_in_trouble

AUDIT: Final = "agreement"

FIX: Final = "shadowtree peers"
"""Shows whose each subnet is taken for; `peers add` and `peers remove` correct it."""

SERVERS_SHOWN_LIMIT: Final = 5
"""Servers that one finding names."""


def audit(tables: Tables, nodes: DataFrame, arcs: DataFrame) -> DataFrame:
    """Troubles: arcs and nodes on which servers do not agree.

    `nodes` and `arcs`: of `said.of_nodes` and `said.of_arcs`.
    """
    return (
        _one_sided(tables, arcs)
        .unionByName(_unlike(tables, arcs))
        .unionByName(_dangling(arcs))
        .unionByName(_of_no_node(tables))
        .unionByName(_of_foreign(tables))
        .unionByName(_two_homes(tables, nodes))
        .unionByName(_unlike_kinds(tables, nodes))
        .unionByName(_wrong_homes(tables))
        .unionByName(_suspended(tables))
    )


def _suspended(tables: Tables) -> DataFrame:
    arcs = tables.arcs.filter("suspended and present and is_truth")
    return arcs_in_trouble(arcs, "suspended: its other end is out of reach", severity=Severity.WARNING)


def _one_sided(tables: Tables, arcs: DataFrame) -> DataFrame:
    here = arcs.filter(both_homes_are_here())
    at_child = arcs_in_trouble(
        here.filter("at_child > 0 and at_parent = 0"),
        "one-sided: the home of the child has it, and that of the parent has not",
        texts=have_it(tables),
    )
    at_parent = arcs_in_trouble(
        here.filter("at_parent > 0 and at_child = 0"),
        "one-sided: the home of the parent has it, and that of the child has not",
        texts=have_it(tables),
    )
    return at_child.unionByName(at_parent)


def _unlike(tables: Tables, arcs: DataFrame) -> DataFrame:
    differing = [sql.when(sql.col(f"least.{name}") != sql.col(f"most.{name}"), sql.lit(name)) for name in COMPARED]
    message = sql.concat(sql.lit("servers do not have it alike in: "), sql.concat_ws(", ", *differing))
    present = arcs_in_trouble(arcs.filter("least != most"), message, texts=have_it(tables))
    left = arcs_in_trouble(arcs.filter("left_least != left_most"), "its homes have tombstones of different versions")
    return present.unionByName(left)


def _dangling(arcs: DataFrame) -> DataFrame:
    is_there = sql.col("at_parent") + sql.col("at_child") > 0
    no_child = arcs.filter(is_there & (sql.col("child_home") > UNKNOWN) & ~sql.col("child_is"))
    no_parent = arcs.filter(is_there & (sql.col("parent_home") > UNKNOWN) & ~sql.col("parent_is_group"))
    child = arcs_in_trouble(no_child, "dangling: the home of the child knows no such node")
    return child.unionByName(arcs_in_trouble(no_parent, "dangling: the home of the parent knows no such group"))


def _of_no_node(tables: Tables) -> DataFrame:
    """Arcs of the snapshot that number what is no node in it, or whose parent is no group."""
    arcs = tables.arcs.filter("present")
    unknown = arcs.filter("parent_key is null or child_key is null")
    no_group = arcs.filter("parent_kind != 'group' or child_kind = 'absent'")
    nothing = arcs_in_trouble(unknown, "one of its ends has no row among the nodes")
    return nothing.unionByName(arcs_in_trouble(no_group, "at {at}, its parent is no group, or its child is nothing"))


def _of_foreign(tables: Tables) -> DataFrame:
    """An arc to a foreign process has one home, whose record of it is the truth."""
    foreign = tables.arcs.filter(sql.col("present") & (sql.col("child_home_at") == FOREIGN))
    wrong = foreign.filter("not (is_truth and is_record)")
    message = "at {at}, its child is foreign, and its home does not hold both ends of it"
    return arcs_in_trouble(wrong, message)


def _two_homes(tables: Tables, nodes: DataFrame) -> DataFrame:
    servers = sql.transform(sql.slice(sql.sort_array("owned_at"), 1, SERVERS_SHOWN_LIMIT), tables.name_of)
    message = sql.concat(sql.lit("two homes: it is owned by "), sql.concat_ws(", ", servers))
    return nodes_in_trouble(nodes.filter("homes > 1"), message)


def _unlike_kinds(tables: Tables, nodes: DataFrame) -> DataFrame:
    message = "servers do not agree whether it is a group or a process"
    return nodes_in_trouble(nodes.filter(differ_in("kind")), message, texts=who_says("kind", tables))


def _wrong_homes(tables: Tables) -> DataFrame:
    """Nodes that a server takes for somebody's who does not own their subnet, or for its own where they are not."""
    claims: dict[str, set[int]] = {}
    for at, snapshot in enumerate(tables.servers):
        for subnet in snapshot.subnets:
            claims.setdefault(subnet, set()).add(at)
    known = [(subnet, min(owners)) for subnet, owners in claims.items() if len(owners) == 1]
    nodes = tables.nodes.filter("kind != 'absent'")
    contradicting = nodes.filter(
        sql.col("owned") != ((sql.col("home_at") == sql.col("at")) | (sql.col("home_at") == FOREIGN))
    )
    found = nodes_in_trouble(contradicting, "{at} contradicts itself on whether it is homed there")
    if not known:
        return found
    owners = nodes.sparkSession.createDataFrame(known, "subnet string, owner int")
    named = sql.when(sql.col("home_at") == FOREIGN, sql.lit("nobody")).otherwise(sql.col("home"))
    wrong = (
        nodes.withColumn("subnet", sql.substring_index("id", "@", -1))
        .join(sql.broadcast(owners), "subnet")
        .filter(sql.col("owner") != sql.col("home_at"))
    )
    message = sql.concat(
        sql.lit("{at} takes it for one of "), named, sql.lit(", and "), _owner(tables), sql.lit(" owns its subnet")
    )
    return found.unionByName(nodes_in_trouble(wrong, message))


def _owner(tables: Tables) -> Column:
    return tables.name_of(sql.col("owner"))
