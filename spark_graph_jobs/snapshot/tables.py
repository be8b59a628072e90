"""The snapshots of all servers as DataFrames, with numbers that can be joined.

A snapshot numbers its nodes for itself. Here every node gets two numbers more: `local` (this node *on this server*)
and `key` (this name, wherever it is): a hash of the name, of which it is checked that no two names share one. A
derived node is `derived`, the smallest `local` of its components. `rank` is the place of a name among those of its
server, so that arcs can be put in their order without carrying names.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.pandas.types import from_arrow_schema

from spark_graph_jobs.snapshot.discovery import Collection, Snapshot
from spark_graph_jobs.snapshot.joined import (
    ANCESTORS,
    ARCS,
    NODES,
    Part,
    Work,
    number_nodes,
    parts_of,
    write_ancestors,
    write_arcs,
)
from spark_graph_jobs.snapshot.node_arrays import NUMBERS_OF_SERVER
from spark_graph_jobs.snapshot.schema import DELIVERIES_SCHEMA, MESSAGE_TABLES, TABLES
from spark_graph_jobs.spark.failures import SPARK_FAILURES, in_one_line

FOREIGN: Final = -1
"""`home_at` of a foreign process."""
UNKNOWN: Final = -2
"""`home_at` of a node whose home has no snapshot here."""

T = TypeVar("T")


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
    updates: DataFrame
    """The columns of the schema, at."""
    deliveries: DataFrame | None
    is_cut: bool
    is_whole: bool
    """Whether no server is known to lack a snapshot."""
    store: Store
    """Where audits may keep what they compute."""
    work: Work
    """Where tasks find nodes and ancestor sets by themselves."""

    @property
    def has_messages(self) -> bool:
        """Whether any server told of a message, or of a mailbox."""
        told = [snapshot.messages for snapshot in self.servers if snapshot.messages is not None]
        return any(one.log_last or one.numbered for one in told)

    def of_messages(self, table: str) -> DataFrame:
        """The columns of a table of messages, and at, of all servers that told of them: of one at least."""
        spark, schema = self.nodes.sparkSession, from_arrow_schema(MESSAGE_TABLES[table])
        return _union(
            [
                spark.read.schema(schema)
                .parquet(str(snapshot.folder / f"{table}.parquet"))
                .withColumn("at", sql.lit(at))
                for at, snapshot in enumerate(self.servers)
                if snapshot.messages is not None
            ]
        )

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
        there = Work(folder)
        nodes = _nodes(store, servers, there)
        _refuse_collisions(nodes)
        yield Tables(
            servers=servers,
            nodes=nodes,
            arcs=_arcs(store, servers, there),
            virtual_nodes=_virtual_nodes(spark, servers),
            ancestors=_ancestors(store, servers, there),
            updates=_read(spark, servers, "updates"),
            deliveries=(
                None
                if collection.deliveries is None
                else spark.read.schema(from_arrow_schema(DELIVERIES_SCHEMA)).parquet(str(collection.deliveries))
            ),
            is_cut=collection.is_cut,
            is_whole=not collection.lacks_servers,
            store=store,
            work=there,
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

    def made(self, name: str, schema: pa.Schema, make: Callable[[Path], object]) -> DataFrame:
        """Have `make` write the files of a table into the folder it is given, and return it as read from them."""
        path = self.folder / name
        path.mkdir(parents=True, exist_ok=True)
        make(path)
        return self.spark.read.schema(from_arrow_schema(schema)).parquet(str(path))


def why_unreadable(spark: SparkSession, path: Path, schema: pa.Schema) -> str:
    """Return why Spark cannot read all rows and columns of a file; empty if it can."""
    try:
        spark.read.schema(from_arrow_schema(schema)).parquet(str(path)).write.format("noop").mode("overwrite").save()
    except SPARK_FAILURES as error:
        return f"{path.name} is damaged: {in_one_line(error)}"
    return ""


def local(number: Column | str, at: Column | str = "at") -> Column:
    """What tells a node on a server from all others."""
    place = sql.col(at) if isinstance(at, str) else at
    numbered = sql.col(number) if isinstance(number, str) else number
    return place.cast("long") * sql.lit(NUMBERS_OF_SERVER) + numbered.cast("long")


def place_of(numbered: Column) -> Column:
    """The place of the server of a node, by its `local`."""
    return sql.floor(numbered / sql.lit(NUMBERS_OF_SERVER)).cast("int")


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


def _nodes(store: Store, servers: Sequence[Snapshot], work: Work) -> DataFrame:
    places = sql.create_map(*(sql.lit(part) for at, snapshot in enumerate(servers) for part in (snapshot.server, at)))
    home_at = (
        sql.when(sql.col("home").isNull(), sql.lit(FOREIGN))
        .otherwise(sql.coalesce(sql.try_element_at(places, sql.col("home")), sql.lit(UNKNOWN)))
        .cast("int")
    )
    nodes = (
        _read(store.spark, servers, "nodes")
        .withColumnRenamed("node", "number")
        .withColumn("local", local("number"))
        .withColumn("key", key("id"))
        .withColumn("home_at", home_at)
    )
    # A function of its own, because Spark looks at the names of its arguments.
    numbered = nodes.groupBy("at").applyInArrow(lambda table: number_nodes(table, work), "rows long")
    return store.made("nodes", NODES, lambda _: numbered.collect())


def _refuse_collisions(nodes: DataFrame) -> None:
    """Names that share a hash do not share another one."""
    other = sql.xxhash64(sql.lit("another"), "id")
    alike = nodes.groupBy("key").agg(sql.min(other).alias("least"), sql.max(other).alias("most"))
    found = alike.filter(sql.col("least") != sql.col("most")).head()
    if found is not None:
        names = nodes.filter(sql.col("key") == found["key"]).select("id").distinct().limit(2).collect()
        raise NamesCollideError(f"{' and '.join(row['id'] for row in names)} have one hash; rename one of them")


def _arcs(store: Store, servers: Sequence[Snapshot], work: Work) -> DataFrame:
    parts = parts_of(servers, "arcs")
    return store.made("arcs", ARCS, lambda _: _each(store, parts, partial(write_arcs, work=work)))


def _ancestors(store: Store, servers: Sequence[Snapshot], work: Work) -> DataFrame:
    parts = parts_of(servers, "ancestors")
    of_servers = [(at, [part for part in parts if part.at == at]) for at in range(len(servers))]

    def write(of_server: tuple[int, list[Part]]) -> None:
        write_ancestors(*of_server, work)

    return store.made("ancestors", ANCESTORS, lambda _: _each(store, of_servers, write))


def _each(store: Store, tasks: Sequence[T], carry_out: Callable[[T], None]) -> None:
    """Carry out each of these by a task of its own."""
    if tasks:
        store.spark.sparkContext.parallelize(tasks, len(tasks)).foreach(carry_out)


def _virtual_nodes(spark: SparkSession, servers: Sequence[Snapshot]) -> DataFrame:
    to_local = sql.transform("components", _local_here)
    return _read(spark, servers, "virtual_nodes").withColumn("components", to_local)
