"""Snapshot tables with the attributes of their nodes added, written by tasks instead of joins.

A task reads a part of a server's file, finds the nodes in `node_arrays`, and writes its own file into the folder of a
table. Rows never pass through Java on the way. A repeated task writes the same file again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from numpy.typing import NDArray

from spark_graph_jobs.snapshot.discovery import ServerSnapshot
from spark_graph_jobs.snapshot.node_arrays import NUMBERS_OF_SERVER, FoundNodes, open_nodes, write_nodes
from spark_graph_jobs.snapshot.schema import TABLES
from spark_graph_jobs.snapshot.set_files import write_sets

ROWS_OF_BATCH: Final = 100_000
"""Number of rows that a task holds at once, and of a row group of its output."""

OF_ENDS: Final = ("key", "rank", "kind", "derived", "level", "owned", "held", "home_at")
"""Attributes of both ends of an arc."""

_KINDS_OF_COLUMNS: Final[dict[str, pa.DataType]] = {
    "key": pa.int64(),
    "rank": pa.int32(),
    "kind": pa.string(),
    "derived": pa.int64(),
    "level": pa.int64(),
    "owned": pa.bool_(),
    "held": pa.bool_(),
    "home_at": pa.int32(),
}


def _of_both_ends(names: tuple[str, ...]) -> list[pa.Field]:
    return [pa.field(f"{end}_{name}", _KINDS_OF_COLUMNS[name]) for end in ("parent", "child") for name in names]


_AT: Final = pa.field("at", pa.int32())
_LOCAL_ENDS: Final = [pa.field("parent", pa.int64()), pa.field("child", pa.int64())]

NODES: Final = pa.schema(
    [
        _AT,
        pa.field("number", pa.int32()),
        pa.field("local", pa.int64()),
        pa.field("key", pa.int64()),
        pa.field("home_at", pa.int32()),
        *(field for field in TABLES["nodes"] if field.name != "node"),
        pa.field("rank", pa.int32()),
        pa.field("derived", pa.int64()),
    ]
)
ARCS: Final = pa.schema([_AT, *_LOCAL_ENDS, *list(TABLES["arcs"])[2:], *_of_both_ends(OF_ENDS)])
ANCESTORS: Final = pa.schema(
    [_AT, pa.field("local", pa.int64()), pa.field("derived", pa.int64()), pa.field("ancestors", pa.binary())]
)

_SCHEMAS: Final = {"nodes": NODES, "arcs": ARCS, "ancestors": ANCESTORS}
"""Schemas of tables that may have no files."""


@dataclass(frozen=True, slots=True)
class WorkFolder:
    """Folders of the intermediate tables, which all workers must see."""

    folder: Path

    @property
    def arrays(self) -> Path:
        """Folder of the arrays of nodes."""
        return self.folder / "node arrays"

    @property
    def sets(self) -> Path:
        """Folder of the files of sets."""
        return self.folder / "set files"

    def table(self, name: str) -> Path:
        """Return the folder of a table."""
        return self.folder / name

    def rows(self, name: str) -> ds.Dataset:
        """Return the rows of a table, for the driver.

        A search for a few rows costs a scan here, and a plan as well in Spark.
        """
        return ds.dataset(self.table(name), _SCHEMAS.get(name), format="parquet")

    def names(self, column: str, wanted: Iterable[int]) -> dict[int, str]:
        """Return the names of nodes by their `local` or `key`."""
        numbers = pa.array(sorted(set(wanted)), pa.int64())
        if not len(numbers):
            return {}
        found = self.rows("nodes").to_table([column, "id"], filter=pc.field(column).isin(numbers))
        return dict(zip(found[column].to_pylist(), found["id"].to_pylist(), strict=True))


@dataclass(frozen=True, slots=True)
class TablePart:
    """Rows of a table of one server: one row group of its file, or all if `row_group` is None."""

    at: int
    source: Path
    row_group: int | None


def parts_of(servers: Sequence[ServerSnapshot], table: str) -> list[TablePart]:
    """Return the parts of a table at all servers. A table without rows has no parts."""
    found = []
    for at, snapshot in enumerate(servers):
        path = snapshot.folder / f"{table}.parquet"
        found += [TablePart(at, path, group) for group in range(pq.read_metadata(path).num_row_groups)]
    return found


def number_nodes(nodes: pa.Table, work: WorkFolder) -> pa.Table:
    """Write the nodes of one server, given as one table, with the computed columns `rank` and `derived`."""
    at = nodes["at"][0].as_py()
    rank = np.empty(nodes.num_rows, np.int32)
    rank[pc.sort_indices(nodes["id"]).to_numpy()] = np.arange(1, nodes.num_rows + 1)
    nodes = nodes.append_column("rank", pa.array(rank)).append_column("derived", pa.array(_derived(nodes)))
    write_nodes(work.arrays, at, nodes)
    pq.write_table(
        nodes.select(NODES.names).cast(NODES),
        work.table("nodes") / f"{at}.parquet",
        compression="lz4",
        use_dictionary=["home", "kind", "version_server"],
        row_group_size=ROWS_OF_BATCH,
    )
    return pa.table({"rows": pa.array([nodes.num_rows])})


def _derived(nodes: pa.Table) -> NDArray[np.int64]:
    local = nodes["local"].to_numpy().copy()
    codes = nodes["vnid"].combine_chunks().dictionary_encode()
    inside = codes.is_valid().to_numpy(zero_copy_only=False)
    loops = pc.fill_null(codes.indices, 0).to_numpy()[inside]
    smallest = np.full(len(codes.dictionary), np.iinfo(np.int64).max)
    np.minimum.at(smallest, loops, local[inside])
    local[inside] = smallest[loops]
    found: NDArray[np.int64] = local
    return found


def write_arcs(part: TablePart, work: WorkFolder) -> None:
    """Write arcs with the attributes of their ends."""
    nodes = open_nodes(work.arrays)(part.at)
    path = work.table("arcs") / f"{part.at}-{part.row_group}.parquet"
    with pq.ParquetWriter(path, ARCS, compression="lz4", use_dictionary=["state", "parent_kind", "child_kind"]) as file:
        for batch in _batches(part, "arcs"):
            ends = {end: nodes.of_numbers(_wide(batch.column(end))) for end in ("parent", "child")}
            given = {name: batch.column(name) for name in batch.schema.names}
            file.write_batch(_batch(ARCS, given, part.at, ends), row_group_size=ROWS_OF_BATCH)


def write_ancestors(at: int, parts: Sequence[TablePart], work: WorkFolder) -> None:
    """Write all ancestor sets of a server: as a table, and as a file with an index."""
    nodes = open_nodes(work.arrays)(at)

    def sets() -> Iterator[tuple[pa.Array, pa.Array]]:
        path = work.table("ancestors") / f"{at}.parquet"
        with pq.ParquetWriter(path, ANCESTORS, compression="lz4", use_dictionary=False) as file:
            for part in parts:
                for batch in _batches(part, "ancestors"):
                    numbers, content = _wide(batch.column("node")), batch.column("ancestors")
                    derived = nodes.of_numbers(numbers).column("derived")
                    places = pa.array(np.full(len(numbers), at, np.int32))
                    local = pa.array(numbers + at * NUMBERS_OF_SERVER)
                    columns = [places, local, derived, content]
                    file.write_batch(pa.record_batch(columns, schema=ANCESTORS), row_group_size=ROWS_OF_BATCH)
                    yield derived, content

    write_sets(work.sets, at, sets())


def _batches(part: TablePart, table: str) -> Iterator[pa.RecordBatch]:
    with pq.ParquetFile(part.source) as file:
        groups = None if part.row_group is None else [part.row_group]
        yield from file.iter_batches(ROWS_OF_BATCH, row_groups=groups, columns=TABLES[table].names)


def _batch(schema: pa.Schema, given: dict[str, pa.Array], at: int, ends: dict[str, FoundNodes]) -> pa.RecordBatch:
    """Return a batch of a schema from given columns and from attributes of the two ends."""
    columns = []
    for field in schema:
        end, _, name = field.name.partition("_")
        if field.name == "at":
            column = pa.array(np.full(len(given["parent"]), at, np.int32))
        elif field.name in ends:
            column = pa.array(_wide(given[field.name]) + at * NUMBERS_OF_SERVER)
        elif field.name in given:
            column = given[field.name]
        else:
            column = ends[end].column(name)
        columns.append(column)
    return pa.record_batch(columns, schema=schema)


def _wide(numbers: pa.Array) -> NDArray[np.int64]:
    found: NDArray[np.int64] = numbers.to_numpy(zero_copy_only=False).astype(np.int64)
    return found
