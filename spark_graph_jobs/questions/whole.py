"""The name graph of all servers as one: each node once, from its home; each arc once, from the home of its parent.

Names are hashed to `key`s, as in `tables`. The groups of a virtual node share a `point`; every other node has its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow.dataset as ds
from pyroaring import BitMap
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from spark_graph_jobs.snapshot.node_arrays import FoundNodes, NodeArray, open_nodes
from spark_graph_jobs.snapshot.set_files import open_sets
from spark_graph_jobs.snapshot.tables import FOREIGN, Tables

_NODES: Final = "nodes of the whole"
_ARCS: Final = "arcs of the whole"

_NO_NAME: Final = "virtual node"
"""Salt that keeps the hash of a virtual node apart from the hash of the group that names it."""


@dataclass(frozen=True, slots=True)
class Whole:
    """The graph of all servers."""

    tables: Tables
    nodes: DataFrame
    """key, id, kind, domain, server, level, vnid, point."""
    arcs: DataFrame
    """src, dst, cost: each arc of the truth once. Both ends are known."""
    sets: DataFrame
    """at, local, derived, key, kind, domain, in_loop, is_foreign, ancestors: ancestor sets of nodes at their homes.

    A foreign process has a row at each server that has it. Components of a virtual node share a set.
    """
    nodes_of: Callable[[int], NodeArray]
    """Return the nodes of the server at a place, for the driver."""
    set_of: Callable[[int], BitMap | None]
    """Return the ancestor set of a `derived`, for the driver. The set must not be changed."""

    def vertices(self, kind: str | None = None) -> DataFrame:
        """Return the `id` of all nodes, or of the nodes of a kind, as an engine expects them."""
        nodes = self.nodes if kind is None else self.nodes.filter(sql.col("kind") == kind)
        return nodes.select(sql.col("key").alias("id"))

    def everywhere(self, keys: Sequence[int]) -> Iterator[tuple[int, FoundNodes]]:
        """Yield the nodes with these keys at each server."""
        wanted = np.array(keys, np.int64)
        for at in range(len(self.tables.servers)):
            yield at, self.nodes_of(at).of_keys(wanted)

    def named(self, keys: Iterable[int]) -> dict[int, str]:
        """Return the names of these nodes."""
        return self.tables.work.names("key", keys)

    def rows_of_nodes(self) -> ds.Dataset:
        """Return the rows of `nodes`, for the driver."""
        return self.tables.work.rows(_NODES)

    def rows_of_arcs(self) -> ds.Dataset:
        """Return the rows of `arcs`, for the driver."""
        return self.tables.work.rows(_ARCS)


def whole(tables: Tables) -> Whole:
    """Build the graph. It is kept with the tables."""
    nodes = (
        tables.nodes.filter("owned and kind != 'absent'")
        .withColumn("server", tables.name_of(sql.col("at")))
        .groupBy("key")
        .agg(*(sql.min(name).alias(name) for name in ("id", "kind", "server", "level", "vnid")))
        .withColumn("domain", sql.substring_index("id", "@", -1))
        .withColumn(
            "point",
            sql.when(sql.col("vnid").isNull(), sql.col("key")).otherwise(sql.xxhash64(sql.lit(_NO_NAME), "vnid")),
        )
    )
    nodes = tables.store.keep(_NODES, nodes)
    ends = nodes.select("key")
    arcs = (
        tables.arcs.filter("present and is_truth and not suspended")
        .select(sql.col("parent_key").alias("src"), sql.col("child_key").alias("dst"), "cost")
        .dropDuplicates(["src", "dst"])
        .join(ends.withColumnRenamed("key", "src"), "src", "left_semi")
        .join(ends.withColumnRenamed("key", "dst"), "dst", "left_semi")
        .select("src", "dst", "cost")
    )
    owned = tables.nodes.filter("owned and kind != 'absent'").select(
        "local",
        "derived",
        "key",
        "kind",
        sql.substring_index("id", "@", -1).alias("domain"),
        sql.col("vnid").isNotNull().alias("in_loop"),
        (sql.col("home_at") == FOREIGN).alias("is_foreign"),
    )
    sets = tables.ancestors.filter("derived is not null").select("at", "derived", "ancestors").join(owned, "derived")
    return Whole(
        tables,
        nodes,
        tables.store.keep(_ARCS, arcs),
        tables.store.keep("sets of the whole", sets),
        open_nodes(tables.work.arrays),
        open_sets(tables.work.sets),
    )
