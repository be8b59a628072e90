"""The snapshots of all servers as DataFrames, with numbers that can be joined.

A snapshot numbers its nodes for itself. Here every node gets two numbers more: `local` (this node *on this server*)
and `key` (this name, wherever it is): a hash of the name, of which it is checked that no two names share one. A
derived node is `derived`, the smallest `local` of its components. `rank` is the place of a name among those of its
server, so that arcs can be put in their order without carrying names.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as sql
from pyspark.sql.pandas.types import from_arrow_schema

from spark_graph_jobs.schema import DELIVERIES_SCHEMA, TABLES
from spark_graph_jobs.snapshots import Collection, Snapshot

FOREIGN: Final = -1
"""`home_at` of a foreign process."""
UNKNOWN: Final = -2
"""`home_at` of a node whose home has no snapshot here."""

NUMBERS_OF_SERVER: Final = 1 << 32
"""`local` is the place of the server times this, plus the node's number there."""


class NamesCollideError(Exception):
    """Two names have one hash, so that nothing can be said of either."""


@dataclass(frozen=True, slots=True)
class Tables:
    """What all servers hold. `at` is the place of a server in `servers`."""

    servers: tuple[Snapshot, ...]
    nodes: DataFrame
    """at, number, local, key, rank, id, kind, home, home_at, owned, held, vnid, version_counter, version_server, level,
    derived."""
    arcs: DataFrame
    """The columns of the schema, at, and of both ends their `local` (as parent and child), key, rank, kind, derived,
    level, owned, held, home_at. Null, but for the `local`, where a number stands for no node."""
    virtual_nodes: DataFrame
    """at, vnid, smallest, components (each a `local`)."""
    ancestors: DataFrame
    """at, local, derived, ancestors."""
    rd_records: DataFrame
    """The columns of the schema, at, and of both ends their `local` (as parent and child), key, derived."""
    updates: DataFrame
    """The columns of the schema, at."""
    deliveries: DataFrame | None
    is_cut: bool
    store: Store
    """Where audits may keep what they compute."""

    def name_of(self, at: Column) -> Column:
        """The name of the server at a place."""
        names = sql.array(*(sql.lit(snapshot.server) for snapshot in self.servers))
        return sql.when(at >= 0, sql.get(names, at)).otherwise(sql.lit("a server without a snapshot"))


@contextmanager
def load(spark: SparkSession, collection: Collection, work: Path | None = None) -> Iterator[Tables]:
    """Read all tables. What many audits need is written to the folder `work` once, which is removed at the end.

    All of a cluster must see that folder; without one, a temporary folder of this machine is taken.
    """
    servers = collection.snapshots
    folder = Path(tempfile.mkdtemp(prefix="shadowtree-audit-")) if work is None else work
    try:
        store = Store(spark, folder)
        nodes = store.keep("nodes", _nodes(spark, servers))
        _refuse_collisions(nodes)
        yield Tables(
            servers=servers,
            nodes=nodes,
            arcs=store.keep("arcs", _with_ends(_read(spark, servers, "arcs"), nodes)),
            virtual_nodes=_virtual_nodes(spark, servers),
            ancestors=store.keep("ancestors", _ancestors(spark, servers, nodes)),
            rd_records=store.keep("rd_records", _rd_records(spark, servers, nodes)),
            updates=_read(spark, servers, "updates"),
            deliveries=(
                None
                if collection.deliveries is None
                else spark.read.schema(from_arrow_schema(DELIVERIES_SCHEMA)).parquet(str(collection.deliveries))
            ),
            is_cut=collection.is_cut,
            store=store,
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class Store:
    """Intermediate tables as files.

    Spark plans anew all that a DataFrame is made from, each time it is used; what was read from a file is planned at
    once, and of a file only the columns are read that are needed.
    """

    spark: SparkSession
    folder: Path

    def keep(self, name: str, frame: DataFrame) -> DataFrame:
        """Compute `frame` now, and return it as read from a file."""
        path = str(self.folder / name)
        # Most columns are numbers that hardly repeat: dictionaries of them cost much and save nothing.
        frame.write.mode("overwrite").option("parquet.enable.dictionary", "false").parquet(path, compression="lz4")
        return self.spark.read.schema(frame.schema).parquet(path)


def local(number: Column | str, at: Column | str = "at") -> Column:
    """What tells a node on a server from all others."""
    place = sql.col(at) if isinstance(at, str) else at
    numbered = sql.col(number) if isinstance(number, str) else number
    return place.cast("long") * sql.lit(NUMBERS_OF_SERVER) + numbered.cast("long")


def _local_here(number: Column) -> Column:
    return local(number)


def key(name: Column | str) -> Column:
    """What stands for a name at all servers."""
    return sql.xxhash64(sql.col(name) if isinstance(name, str) else name)


def _read(spark: SparkSession, servers: Sequence[Snapshot], table: str) -> DataFrame:
    """One table of all servers, each row with the place of its server."""
    schema = from_arrow_schema(TABLES[table])
    frames = [
        spark.read.schema(schema).parquet(str(snapshot.folder / f"{table}.parquet")).withColumn("at", sql.lit(at))
        for at, snapshot in enumerate(servers)
    ]
    return _union(frames)


def _union(frames: Sequence[DataFrame]) -> DataFrame:
    """All of them; as a tree, because a chain of hundreds would take Spark long to plan."""
    if len(frames) == 1:
        return frames[0]
    middle = len(frames) // 2
    return _union(frames[:middle]).unionByName(_union(frames[middle:]))


def _nodes(spark: SparkSession, servers: Sequence[Snapshot]) -> DataFrame:
    places = sql.create_map(*(sql.lit(part) for at, snapshot in enumerate(servers) for part in (snapshot.server, at)))
    home_at = (
        sql.when(sql.col("home").isNull(), sql.lit(FOREIGN))
        .otherwise(sql.coalesce(sql.try_element_at(places, sql.col("home")), sql.lit(UNKNOWN)))
        .cast("int")
    )
    in_order = Window.partitionBy("at").orderBy("id")
    nodes = (
        _read(spark, servers, "nodes")
        .withColumnRenamed("node", "number")
        .withColumn("local", local("number"))
        .withColumn("key", key("id"))
        .withColumn("home_at", home_at)
        .withColumn("rank", sql.row_number().over(in_order))
    )
    alone = nodes.filter(sql.col("vnid").isNull()).withColumn("derived", sql.col("local"))
    of_virtual_node = Window.partitionBy("at", "vnid")
    inside = nodes.filter(sql.col("vnid").isNotNull()).withColumn("derived", sql.min("local").over(of_virtual_node))
    return alone.unionByName(inside)


def _refuse_collisions(nodes: DataFrame) -> None:
    alike = nodes.groupBy("key").agg(sql.min("id").alias("one"), sql.max("id").alias("other"))
    found = alike.filter(sql.col("one") != sql.col("other")).head()
    if found is not None:
        raise NamesCollideError(f"{found['one']} and {found['other']} have one hash; rename one of them")


_OF_ENDS: Final = ("key", "rank", "kind", "derived", "level", "owned", "held", "home_at")


def _with_ends(arcs: DataFrame, nodes: DataFrame) -> DataFrame:
    arcs = arcs.withColumn("parent", local("parent")).withColumn("child", local("child"))
    for end in ("parent", "child"):
        about = nodes.select(sql.col("local").alias(end), *(sql.col(name).alias(f"{end}_{name}") for name in _OF_ENDS))
        arcs = arcs.join(about, end, "left")
    return arcs


def _virtual_nodes(spark: SparkSession, servers: Sequence[Snapshot]) -> DataFrame:
    to_local = sql.transform("components", _local_here)
    return _read(spark, servers, "virtual_nodes").withColumn("components", to_local)


def _ancestors(spark: SparkSession, servers: Sequence[Snapshot], nodes: DataFrame) -> DataFrame:
    frame = _read(spark, servers, "ancestors").withColumn("local", local("node")).drop("node")
    return frame.join(nodes.select("local", "derived"), "local", "left")


def _rd_records(spark: SparkSession, servers: Sequence[Snapshot], nodes: DataFrame) -> DataFrame:
    records = _read(spark, servers, "rd_records")
    records = records.withColumn("parent", local("parent")).withColumn("child", local("child"))
    for end in ("parent", "child"):
        about = nodes.select(
            sql.col("local").alias(end), sql.col("key").alias(f"{end}_key"), sql.col("derived").alias(f"{end}_derived")
        )
        records = records.join(about, end, "left")
    return records
