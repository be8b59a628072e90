"""I7, agreement: both ends of each arc, and all servers that know a node, say the same; and what is under way or cut off.

Why local implies global: an arc has two homes and a node has one, so that putting side by side what the servers say of one
arc, or of one node, is the whole comparison; nothing depends on anything further away.

Source: protocol.md sections 2, 3.1, 5 and 7.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_graph_jobs.ends import COMPARED, TEXTS_SHOWN_LIMIT, both_homes_are_here, have_it
from spark_graph_jobs.finding import FINDING, Severity
from spark_graph_jobs.tables import FOREIGN, UNKNOWN, Tables
from spark_graph_jobs.trouble import arcs_in_trouble, name_troubles, nodes_in_trouble

AUDIT: Final = "agreement"

PEERS: Final = "shadowtree peers"


def audit(tables: Tables, ends: DataFrame) -> DataFrame:
    """Findings about arcs, nodes and updates on which servers do not agree. `ends` as `ends.compare` made them."""
    arcs = (
        _one_sided(tables, ends)
        .unionByName(_unlike(tables, ends))
        .unionByName(_dangling(ends))
        .unionByName(_of_no_node(tables))
        .unionByName(_of_foreign(tables))
    )
    nodes = _two_homes(tables).unionByName(_unlike_nodes(tables)).unionByName(_wrong_homes(tables))
    suspended = arcs_in_trouble(
        tables.arcs.filter("suspended and present and is_truth"), "suspended: its other end is out of reach"
    )
    return (
        name_troubles(arcs, tables, audit=AUDIT)
        .unionByName(name_troubles(nodes, tables, audit=AUDIT, fix=PEERS))
        .unionByName(name_troubles(suspended, tables, audit=AUDIT, severity=Severity.WARNING))
        .unionByName(_updates(tables))
    )


def _one_sided(tables: Tables, ends: DataFrame) -> DataFrame:
    here = ends.filter(both_homes_are_here())
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


def _unlike(tables: Tables, ends: DataFrame) -> DataFrame:
    differing = [F.when(F.col(f"least.{name}") != F.col(f"most.{name}"), F.lit(name)) for name in COMPARED]
    message = F.concat(F.lit("servers do not have it alike in: "), F.concat_ws(", ", *differing))
    present = arcs_in_trouble(ends.filter("least != most"), message, texts=have_it(tables))
    left = arcs_in_trouble(ends.filter("left_least != left_most"), "its homes have tombstones of different versions")
    return present.unionByName(left)


def _dangling(ends: DataFrame) -> DataFrame:
    is_there = F.col("at_parent") + F.col("at_child") > 0
    no_child = ends.filter(is_there & (F.col("child_home") > UNKNOWN) & (F.col("children") == 0))
    no_parent = ends.filter(is_there & (F.col("parent_home") > UNKNOWN) & (F.col("parent_groups") == 0))
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
    foreign = tables.arcs.filter(F.col("present") & (F.col("child_home_at") == FOREIGN))
    wrong = foreign.filter("not (is_truth and is_record)")
    message = "at {at}, its child is foreign, and its home does not hold both ends of it"
    return arcs_in_trouble(wrong, message)


def _two_homes(tables: Tables) -> DataFrame:
    owned = tables.nodes.filter(F.col("owned") & (F.col("home_at") != FOREIGN))
    homes = owned.groupBy("key").agg(
        F.min("local").alias("local"), F.sort_array(F.collect_set("at")).alias("places"), F.count("*").alias("homes")
    )
    servers = F.transform(F.slice("places", 1, TEXTS_SHOWN_LIMIT), lambda at: tables.name_of(at))
    message = F.concat(F.lit("two homes: it is owned by "), F.concat_ws(", ", servers))
    return nodes_in_trouble(homes.filter("homes > 1"), message)


def _unlike_nodes(tables: Tables) -> DataFrame:
    """Nodes of which servers do not say the same kind."""
    kinds = (
        tables.nodes.filter("kind != 'absent'")
        .groupBy("key")
        .agg(
            F.min("local").alias("local"),
            F.min("kind").alias("one"),
            F.max("kind").alias("other"),
            F.sort_array(
                F.collect_set(F.concat(tables.name_of(F.col("at")), F.lit(" takes it for a "), "kind"))
            ).alias("seen"),
        )
        .filter("one != other")
    )
    message = "servers do not agree whether it is a group or a process"
    return nodes_in_trouble(kinds, message, texts=F.slice("seen", 1, TEXTS_SHOWN_LIMIT))


def _wrong_homes(tables: Tables) -> DataFrame:
    """Nodes that a server takes for somebody's who does not own their subnet, or for its own where they are not."""
    claims: dict[str, set[int]] = {}
    for at, snapshot in enumerate(tables.servers):
        for subnet in snapshot.subnets:
            claims.setdefault(subnet, set()).add(at)
    known = [(subnet, min(owners)) for subnet, owners in claims.items() if len(owners) == 1]
    nodes = tables.nodes.filter("kind != 'absent'")
    contradicting = nodes.filter(F.col("owned") != ((F.col("home_at") == F.col("at")) | (F.col("home_at") == FOREIGN)))
    found = nodes_in_trouble(contradicting, "{at} contradicts itself on whether it is homed there")
    if not known:
        return found
    owners = nodes.sparkSession.createDataFrame(known, "subnet string, owner int")
    named = F.when(F.col("home_at") == FOREIGN, F.lit("nobody")).otherwise(F.col("home"))
    wrong = (
        nodes.withColumn("subnet", F.substring_index("id", "@", -1))
        .join(F.broadcast(owners), "subnet")
        .filter(F.col("owner") != F.col("home_at"))
    )
    message = F.concat(F.lit("{at} takes it for one of "), named, F.lit(", and "), _owner(tables), F.lit(" owns its subnet"))
    return found.unionByName(nodes_in_trouble(wrong, message))


def _owner(tables: Tables) -> Column:
    return tables.name_of(F.col("owner"))


def _updates(tables: Tables) -> DataFrame:
    """What is under way: warnings, and an error where a participant waits for what its coordinator does not know."""
    servers = tables.updates.sparkSession.createDataFrame(
        [(snapshot.server, at) for at, snapshot in enumerate(tables.servers)], "coordinator string, runs_at int"
    )
    run = tables.updates.filter("role = 'coordinator'").select("update", F.lit(True).alias("is_run")).distinct()
    updates = (
        tables.updates.join(F.broadcast(servers), "coordinator", "left")
        .join(run, "update", "left")
        .withColumn("is_run", F.coalesce("is_run", F.lit(False)))
    )
    is_stale = (F.col("role") == "participant") & F.col("runs_at").isNotNull() & ~F.col("is_run")
    # Snapshots of different instants may show an update here that was over there by then.
    severity = F.when(is_stale & F.lit(tables.is_cut), Severity.ERROR.value).otherwise(Severity.WARNING.value)
    message = F.concat(
        F.when(is_stale, F.lit("stale: its coordinator does not know it; ")).otherwise(F.lit("under way: ")),
        F.col("state"),
        F.lit(" at "),
        tables.name_of(F.col("at")),
        F.lit(", its "),
        F.col("role"),
    )
    waits = F.transform(F.slice("waits_for", 1, TEXTS_SHOWN_LIMIT), lambda server: F.concat(F.lit("waits for "), server))
    return updates.select(
        F.lit(AUDIT).alias("audit"),
        severity.alias("severity"),
        F.col("update").alias("subject"),
        message.alias("message"),
        F.concat(F.array(F.concat(F.lit("coordinator: "), "coordinator")), waits).alias("evidence"),
        F.lit("shadowtree status").alias("fix"),
    ).select(*FINDING.names)
