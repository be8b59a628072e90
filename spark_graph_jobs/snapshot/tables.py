"""The snapshots of all servers as DataFrames, with numbers that can be joined.

Each snapshot has its own node numbers. Here every node gets two more numbers: `local` (this node *on this server*) and
`key` (this name, on any server). The key is a hash of the name; it is checked that no two names share a hash. `derived`
of a node is the smallest `local` of its derived node's components. `rank` is the place of a name among the names of its
server, so that arcs can be sorted without carrying names.
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

from spark_graph_jobs.snapshot.discovery import Collection, ServerSnapshot
from spark_graph_jobs.snapshot.joined import (
    ANCESTORS,
    ARCS,
    NODES,
    TablePart,
    WorkFolder,
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
    """Two names have the same hash, so that neither can be judged."""


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables of all servers. `at` is the place of a server in `servers`."""

    servers: tuple[ServerSnapshot, ...]
    nodes: DataFrame
    """Columns of the nodes of all servers.

    at, number, local, key, rank, id, kind, home, home_at, owned, held, vnid, version_counter, version_server, level,
    derived.
    """
    arcs: DataFrame
    """The columns of the schema, at, and for both ends `local` (as parent and child), key, rank, kind, derived, level,
    owned, held, home_at.

    All but `local` are null if the number names no node.
    """
    virtual_nodes: DataFrame
    """at, vnid, smallest, components (each a `local`)."""
    ancestors: DataFrame
    """at, local, derived, ancestors."""
    updates: DataFrame
    """The columns of the schema, at."""
    deliveries: DataFrame | None
    is_cut: bool
    is_whole: bool
    """True if no server is known to lack a snapshot."""
    store: TableStore
    """Store for the intermediate results of audits."""
    work: WorkFolder
    """Folders in which tasks find nodes and ancestor sets."""

    @property
    def has_messages(self) -> bool:
        """True if a snapshot contains a message or a mailbox."""
        told = [snapshot.messages for snapshot in self.servers if snapshot.messages is not None]
        return any(one.log_last or one.numbered for one in told)

    def of_messages(self, table: str) -> DataFrame:
        """Return the columns of a table of messages, and at, of all servers with such tables.

        At least one must have them.
        """
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
        """Return the name of the server at a place."""
        names = sql.array(*(sql.lit(snapshot.server) for snapshot in self.servers))
        return sql.when(at >= 0, sql.get(names, at)).otherwise(sql.lit("a server without a snapshot"))


@contextmanager
def load(spark: SparkSession, collection: Collection, work: Path | None = None) -> Iterator[Tables]:
    """Read all tables. Shared results are written once to the folder `work`, which is removed at the end.

    All workers of a cluster must see that folder. If `work` is None, a temporary folder of this machine is used.
    """
    servers = collection.snapshots
    folder = Path(tempfile.mkdtemp(prefix="shadowtree-audit-")) if work is None else work
    try:
        store = TableStore(spark, folder)
        there = WorkFolder(folder)
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
class TableStore:
    """Intermediate tables as files.

    Spark plans all inputs of a DataFrame anew at each use. A file needs no such planning, and only its needed columns
    are read.
    """

    spark: SparkSession
    folder: Path

    def keep(self, name: str, frame: DataFrame) -> DataFrame:
        """Compute `frame` now, and return it as read from a file."""
        path = str(self.folder / name)
        # Most columns are numbers that hardly repeat: dictionaries would be expensive and save nothing.
        frame.write.mode("overwrite").option("parquet.enable.dictionary", "false").parquet(path, compression="lz4")
        return self.spark.read.schema(frame.schema).parquet(path)

    def made(self, name: str, schema: pa.Schema, make: Callable[[Path], object]) -> DataFrame:
        """Call `make` to write the files of a table into a folder, and return the table as read from them."""
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
    """Return the number of a node on a server, which is unique among all nodes on all servers."""
    place = sql.col(at) if isinstance(at, str) else at
    numbered = sql.col(number) if isinstance(number, str) else number
    return place.cast("long") * sql.lit(NUMBERS_OF_SERVER) + numbered.cast("long")


def place_of(numbered: Column) -> Column:
    """Return the place of the server of a node, from its `local`."""
    return sql.floor(numbered / sql.lit(NUMBERS_OF_SERVER)).cast("int")


def _local_here(number: Column) -> Column:
    return local(number)


def key(name: Column | str) -> Column:
    """Return the number of a name, which is the same at all servers."""
    return sql.xxhash64(sql.col(name) if isinstance(name, str) else name)


def _read(spark: SparkSession, servers: Sequence[ServerSnapshot], table: str) -> DataFrame:
    """Return one table of all servers, each row with the place of its server."""
    schema = from_arrow_schema(TABLES[table])
    frames = [
        spark.read.schema(schema).parquet(str(snapshot.folder / f"{table}.parquet")).withColumn("at", sql.lit(at))
        for at, snapshot in enumerate(servers)
    ]
    return _union(frames)


def _union(frames: Sequence[DataFrame]) -> DataFrame:
    """Return the union of all frames, built as a tree: Spark plans a chain of hundreds slowly."""
    if len(frames) == 1:
        return frames[0]
    middle = len(frames) // 2
    return _union(frames[:middle]).unionByName(_union(frames[middle:]))


def _nodes(store: TableStore, servers: Sequence[ServerSnapshot], work: WorkFolder) -> DataFrame:
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
    # A function of its own, because Spark inspects the names of its arguments.
    numbered = nodes.groupBy("at").applyInArrow(lambda table: number_nodes(table, work), "rows long")
    return store.made("nodes", NODES, lambda _: numbered.collect())


def _refuse_collisions(nodes: DataFrame) -> None:
    """Raise `NamesCollideError` if two names have the same hash. Such names differ in a second hash."""
    other = sql.xxhash64(sql.lit("another"), "id")
    alike = nodes.groupBy("key").agg(sql.min(other).alias("least"), sql.max(other).alias("most"))
    found = alike.filter(sql.col("least") != sql.col("most")).head()
    if found is not None:
        names = nodes.filter(sql.col("key") == found["key"]).select("id").distinct().limit(2).collect()
        raise NamesCollideError(f"{' and '.join(row['id'] for row in names)} have one hash; rename one of them")


def _arcs(store: TableStore, servers: Sequence[ServerSnapshot], work: WorkFolder) -> DataFrame:
    parts = parts_of(servers, "arcs")
    return store.made("arcs", ARCS, lambda _: _each(store, parts, partial(write_arcs, work=work)))


def _ancestors(store: TableStore, servers: Sequence[ServerSnapshot], work: WorkFolder) -> DataFrame:
    parts = parts_of(servers, "ancestors")
    of_servers = [(at, [part for part in parts if part.at == at]) for at in range(len(servers))]

    def write(of_server: tuple[int, list[TablePart]]) -> None:
        write_ancestors(*of_server, work)

    return store.made("ancestors", ANCESTORS, lambda _: _each(store, of_servers, write))


def _each(store: TableStore, tasks: Sequence[T], carry_out: Callable[[T], None]) -> None:
    """Run a task for each item."""
    if tasks:
        store.spark.sparkContext.parallelize(tasks, len(tasks)).foreach(carry_out)


def _virtual_nodes(spark: SparkSession, servers: Sequence[ServerSnapshot]) -> DataFrame:
    to_local = sql.transform("components", _local_here)
    return _read(spark, servers, "virtual_nodes").withColumn("components", to_local)
