"""Comparison of all servers' statements: one row for each node and one for each arc, each from one grouped pass.

Several audits read the results, so the caller should keep them. Foreign processes and arcs to them are left out of
comparisons: they have one home each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from spark_graph_jobs.compare.violations import TROUBLES_LIMIT, nodes_in_trouble
from spark_graph_jobs.snapshot.tables import FOREIGN, UNKNOWN, Tables

ABOUT_NODES: Final = ("level", "version", "vnid", "kind")
"""Attributes on which all servers with a node's ancestry record must agree.

All servers that know the node must agree on `kind`.
"""

COMPARED: Final = ("cost", "version", "writer", "suspended")
"""Attributes on which all servers that have an arc must agree."""


def _said() -> dict[str, Column]:
    """Return a server's statements about a node, as texts; null where the server makes none."""
    version = sql.concat_ws(
        " of ", sql.coalesce("version_counter", sql.lit(0)).cast("string"), sql.col("version_server")
    )
    return {
        "level": sql.when(sql.col("held"), sql.coalesce("level", sql.lit(-1)).cast("string")),
        "version": sql.when(sql.col("held"), version),
        "vnid": sql.when(sql.col("held"), sql.coalesce("vnid", sql.lit("no virtual node"))),
        "kind": sql.when(sql.col("kind") != "absent", sql.col("kind")),
    }


def of_nodes(tables: Tables) -> DataFrame:
    """Return one row for each name, by `key`.

    `local`                              number at one of its servers
    `holders`                            number of servers that hold its ancestry record
    `homes`                              number of servers that own it
    `home`, `other_home`                 places of the first and the last owner
    `is_group_at_home`, `is_at_home`     true if it is a group, or any node, at a home
    `NAME_least`, `NAME_most`            smallest and largest statement for each of `ABOUT_NODES`

    Statements are hashed, because only numbers can be grouped without sorting.
    """
    # A missing statement has no hash: null is ignored by min and max.
    hashes = {name: sql.when(said.isNotNull(), sql.xxhash64(said)) for name, said in _said().items()}
    home = sql.when(sql.col("owned"), sql.col("at"))
    return (
        tables.nodes.filter(sql.col("home_at") != FOREIGN)
        .groupBy("key")
        .agg(
            sql.min("local").alias("local"),
            sql.count_if("held").alias("holders"),
            sql.count_if("owned").alias("homes"),
            sql.min(home).alias("home"),
            sql.max(home).alias("other_home"),
            sql.bool_or(sql.col("owned") & (sql.col("kind") == "group")).alias("is_group_at_home"),
            sql.bool_or(sql.col("owned") & (sql.col("kind") != "absent")).alias("is_at_home"),
            *(
                how(said).alias(f"{name}_{end}")
                for name, said in hashes.items()
                for end, how in (("least", sql.min), ("most", sql.max))
            ),
        )
    )


@dataclass(frozen=True, slots=True)
class Unlike:
    """A disagreement between servers about an attribute of a node."""

    audit: str
    about: str
    """One of `ABOUT_NODES`."""
    message: str


def unlike_nodes(tables: Tables, nodes: DataFrame, unlike: Sequence[Unlike]) -> list[DataFrame]:
    """Return the troubles of nodes on which servers disagree, one frame for each attribute with troubles.

    `nodes`: result of `of_nodes`.
    """
    counts = nodes.agg(*(sql.count_if(_differ_in(each.about)).alias(each.about) for each in unlike)).collect()[0]
    return [
        nodes_in_trouble(_differing(tables, nodes, each.about), each.message, texts=sql.col("texts")).withColumn(
            "audit", sql.lit(each.audit)
        )
        for each in unlike
        if counts[each.about]
    ]


def _differ_in(name: str) -> Column:
    return sql.col(f"{name}_least") != sql.col(f"{name}_most")


def _differing(tables: Tables, nodes: DataFrame, name: str) -> DataFrame:
    """Return rows `local`, `texts`: nodes on which servers disagree, and two of the statements.

    `nodes`: result of `of_nodes`. At most `TROUBLES_LIMIT` rows.
    """
    unlike = nodes.filter(_differ_in(name)).select("key").limit(TROUBLES_LIMIT)
    said = tables.nodes.filter(sql.col("home_at") != FOREIGN).select("key", "local", "at", _said()[name].alias("said"))
    texts = sql.array(
        *(
            sql.concat(tables.name_of(sql.col(f"{end}.at")), sql.lit(" says "), sql.col(f"{end}.said"))
            for end in ("least", "most")
        )
    )
    of_two = said.filter(sql.col("said").isNotNull()).join(sql.broadcast(unlike), "key").groupBy("key")
    both = (how(sql.struct("said", "at")).alias(end) for end, how in (("least", sql.min), ("most", sql.max)))
    return of_two.agg(sql.min("local").alias("local"), *both).select("local", texts.alias("texts"))


def of_arcs(tables: Tables, nodes: DataFrame) -> DataFrame:
    """Return one row for each arc. `nodes`: result of `of_nodes`.

    `parent`, `child`                    `local` numbers at one of the servers
    `at_parent`, `at_child`              number of homes of that end that have the arc and have not suspended it
    `records`                            number of servers whose ancestry record of the child contains the arc
    `child_holders`                      number of servers that hold that record
    `parent_home`, `child_home`          places of the homes, as far as there are snapshots
    `parent_is_group`, `child_is`        true if the home has the node
    `NAME_least`, `NAME_most`            for each of `COMPARED`, over all servers that have the arc
    `left_least`, `left_most`            versions of tombstones
    `first_at`, `last_at`                places of the first and the last server that has the arc
    """
    there, is_active = sql.col("present"), sql.col("present") & ~sql.col("suspended")
    of_those = dict.fromkeys(COMPARED, is_active) | {"suspended": there}
    at_parent, at_child = sql.col("is_truth"), sql.col("is_record") & sql.col("child_owned")
    arcs = (
        tables.arcs.filter((sql.col("child_home_at") != FOREIGN) & sql.col("parent_key").isNotNull())
        .groupBy("parent_key", "child_key")
        .agg(
            # Both ends of a row belong to one server, so the smallest of each column belong to the same server.
            sql.min("parent").alias("parent"),
            sql.min("child").alias("child"),
            sql.max("parent_home_at").alias("parent_home"),
            sql.max("child_home_at").alias("child_home"),
            sql.count_if(is_active & at_parent).alias("at_parent"),
            sql.count_if(is_active & at_child).alias("at_child"),
            sql.count_if(is_active & sql.col("is_record") & sql.col("child_held")).alias("records"),
            *(
                how(sql.when(of_those[name], sql.col(name))).alias(f"{name}_{end}")
                for name in COMPARED
                for end, how in (("least", sql.min), ("most", sql.max))
            ),
            sql.min(sql.when(~there, sql.col("version"))).alias("left_least"),
            sql.max(sql.when(~there, sql.col("version"))).alias("left_most"),
            sql.min(sql.when(there, sql.col("at"))).alias("first_at"),
            sql.max(sql.when(there, sql.col("at"))).alias("last_at"),
        )
    )
    children = nodes.select(
        sql.col("key").alias("child_key"),
        sql.col("holders").alias("child_holders"),
        sql.col("is_at_home").alias("child_is"),
    )
    parents = nodes.select(sql.col("key").alias("parent_key"), sql.col("is_group_at_home").alias("parent_is_group"))
    return (
        arcs.join(children, "child_key", "left")
        .join(parents, "parent_key", "left")
        .fillna(0, ["child_holders"])
        .fillna(False, ["child_is", "parent_is_group"])
    )


def have_it(tables: Tables) -> Column:
    """Return the first and the last of the servers that have an arc, as texts."""
    places = sql.array_distinct(sql.array("first_at", "last_at"))
    return sql.transform(places, lambda at: sql.concat(tables.name_of(at), sql.lit(" has it")))


def both_homes_are_here() -> Column:
    """Return a condition: the homes of both ends have snapshots."""
    return (sql.col("parent_home") > UNKNOWN) & (sql.col("child_home") > UNKNOWN)


def a_home_is_here() -> Column:
    """Return a condition: the home of at least one end has a snapshot."""
    return (sql.col("parent_home") > UNKNOWN) | (sql.col("child_home") > UNKNOWN)
