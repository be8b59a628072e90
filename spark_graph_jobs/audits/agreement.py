"""I7, agreement: both homes of each arc agree on the arc, and all servers that know a node agree on the node.

Why local implies global: an arc has two homes and a node has one. Comparing the servers' statements about one arc, or
about one node, is the whole comparison. The result does not depend on any node or arc further away.

Source: docs/protocol.md, "The invariants"; docs/protocol-updates.md, "Two views of one graph";
docs/protocol-partitions.md, "Servers that part".
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from spark_graph_jobs.compare.side_by_side import COMPARED, Unlike, both_homes_are_here, have_it
from spark_graph_jobs.compare.violations import Condition
from spark_graph_jobs.finding import Severity, shell_line
from spark_graph_jobs.snapshot.tables import FOREIGN, UNKNOWN, Tables

AUDIT: Final = "agreement"
CHECKS: Final = (
    "Both ends of each arc, and all servers that know a node, have the same of it. Suspended arcs are warnings."
)

UNLIKE: Final = Unlike(AUDIT, "kind", "servers do not agree whether it is a group or a process")


def fix(node: str) -> str:
    """Return the command that shows the assumed owner of each subnet, for any node.

    `peers add` and `peers remove` correct a wrong owner.
    """
    del node
    return shell_line("peers")


def of_arcs() -> list[Condition]:
    """Return the conditions that no arc may meet at one server."""
    present = sql.col("present")
    is_foreign = sql.col("child_home_at") == FOREIGN
    return [
        Condition(
            AUDIT,
            # Suspended arcs to a server without a snapshot are counted, not listed: see `not_judged`.
            sql.col("suspended") & present & sql.col("is_truth") & (sql.col("child_home_at") != UNKNOWN),
            "suspended: its other end is out of reach",
            severity=Severity.WARNING,
        ),
        Condition(
            AUDIT,
            present & (sql.col("parent_key").isNull() | sql.col("child_key").isNull()),
            "one of its ends has no row among the nodes",
        ),
        Condition(
            AUDIT,
            present & ((sql.col("parent_kind") != "group") | (sql.col("child_kind") == "absent")),
            "at {at}, its parent is no group, or its child is nothing",
        ),
        # An arc to a foreign process has one home, whose record of the arc is the truth.
        Condition(
            AUDIT,
            present & is_foreign & ~(sql.col("is_truth") & sql.col("is_record")),
            "at {at}, its child is foreign, and its home does not hold both ends of it",
        ),
    ]


def of_said_arcs(tables: Tables) -> list[Condition]:
    """Return the conditions that no arc may meet over all servers."""
    at_parent, at_child, has = sql.col("at_parent"), sql.col("at_child"), have_it(tables)
    differing = [_unlike(name) for name in COMPARED]
    shown = [sql.when(unlike, sql.lit(name)) for unlike, name in zip(differing, COMPARED, strict=True)]
    message = sql.concat(sql.lit("servers do not have it alike in: "), sql.concat_ws(", ", *shown))
    is_there = at_parent + at_child > 0
    return [
        Condition(
            AUDIT,
            both_homes_are_here() & (at_child > 0) & (at_parent == 0),
            "one-sided: the home of the child has it, and that of the parent has not",
            has,
        ),
        Condition(
            AUDIT,
            both_homes_are_here() & (at_parent > 0) & (at_child == 0),
            "one-sided: the home of the parent has it, and that of the child has not",
            has,
        ),
        Condition(AUDIT, reduce(or_, differing), message, has),
        Condition(AUDIT, _unlike("left"), "its homes have tombstones of different versions"),
        Condition(
            AUDIT,
            is_there & (sql.col("child_home") > UNKNOWN) & ~sql.col("child_is"),
            "dangling: the home of the child knows no such node",
        ),
        Condition(
            AUDIT,
            is_there & (sql.col("parent_home") > UNKNOWN) & ~sql.col("parent_is_group"),
            "dangling: the home of the parent knows no such group",
        ),
    ]


def _unlike(name: str) -> Column:
    # Both values are null for an arc that no server has.
    return sql.coalesce(sql.col(f"{name}_least") != sql.col(f"{name}_most"), sql.lit(False))


def of_said_nodes(tables: Tables) -> list[Condition]:
    """Return the conditions that no node may meet over all servers."""
    two = sql.concat(tables.name_of(sql.col("home")), sql.lit(", "), tables.name_of(sql.col("other_home")))
    return [Condition(AUDIT, sql.col("homes") > 1, sql.concat(sql.lit("two homes: it is owned by "), two))]


def of_nodes() -> list[Condition]:
    """Return the conditions that no node may meet at one server. The nodes have an `owner`: see `with_owners`."""
    is_there = sql.col("kind") != "absent"
    is_here = (sql.col("home_at") == sql.col("at")) | (sql.col("home_at") == FOREIGN)
    named = sql.when(sql.col("home_at") == FOREIGN, sql.lit("nobody")).otherwise(sql.col("home"))
    message = sql.concat(
        sql.lit("{at} takes it for one of "), named, sql.lit(", and "), sql.col("owner"), sql.lit(" owns its subnet")
    )
    return [
        Condition(
            AUDIT, is_there & (sql.col("owned") != is_here), "{at} contradicts itself on whether it is homed there"
        ),
        Condition(
            AUDIT, is_there & ~sql.col("owner").eqNullSafe(sql.col("home")) & sql.col("owner").isNotNull(), message
        ),
    ]


def with_owners(tables: Tables) -> DataFrame:
    """Return the nodes, each with the `owner` of its subnet: the single server that claims the subnet; else null.

    Peers name the subnets of a server without a snapshot.
    """
    claims: dict[str, set[str]] = {}
    for snapshot in tables.servers:
        for subnet in snapshot.subnets:
            claims.setdefault(subnet, set()).add(snapshot.server)
    there = {snapshot.server for snapshot in tables.servers}
    for peer, subnets in {peer for snapshot in tables.servers for peer in snapshot.peers if peer[0] not in there}:
        for subnet in subnets:
            claims.setdefault(subnet, set()).add(peer)
    known = [(subnet, min(owners)) for subnet, owners in claims.items() if len(owners) == 1]
    owners = tables.nodes.sparkSession.createDataFrame(known, "subnet string, owner string")
    nodes = tables.nodes.withColumn("subnet", sql.substring_index("id", "@", -1))
    return nodes.join(sql.broadcast(owners), "subnet", "left")
