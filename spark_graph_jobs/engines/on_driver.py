"""The driver engine: collect all arcs on the driver with Arrow, and process them there with scipy.

For small graphs this engine is by far faster: no Spark job runs for each step of an algorithm. It needs only Python
packages. Graphs larger than its limit are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components, dijkstra

from spark_graph_jobs.engines.interface import EngineRefusedError, parse

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyspark.sql import DataFrame

MOST_ARCS: Final = 5_000_000
"""Maximum number of collected arcs: with names of 40 bytes some 500 MB, half of what Spark sends to a driver."""

WALKS_AT_ONCE: Final = 4_000_000
"""Walks of two arcs whose ends are counted in one step: some 50 MB, or the walks from one vertex if they are more."""


class DriverEngine:
    """Algorithms of scipy over collected arcs."""

    name = "driver (scipy)"

    def __init__(self, most_arcs: int = MOST_ARCS) -> None:
        self._most_arcs = most_arcs

    def connected_components(self, vertices: DataFrame, arcs: DataFrame) -> DataFrame:
        """See `GraphEngine`."""
        return self._components(vertices, arcs, "weak")

    def strongly_connected_components(self, vertices: DataFrame, arcs: DataFrame) -> DataFrame:
        """See `GraphEngine`."""
        return self._components(vertices, arcs, "strong")

    def shortest_paths(self, vertices: DataFrame, arcs: DataFrame, targets: Sequence[str | int]) -> DataFrame:
        """See `GraphEngine`. Runs one search for each target."""
        ids, src, dst = self._collect(vertices, arcs)
        backwards = _matrix(len(ids), dst, src)
        parts = []
        for number in pc.index_in(pa.array(targets, ids.type), ids).to_pylist():
            if number is None:
                continue
            distance = dijkstra(backwards, indices=number, unweighted=True)
            nearer = np.isfinite(distance[src]) & (distance[dst] == distance[src] - 1)
            follower = np.full(len(ids), len(ids))
            np.minimum.at(follower, src[nearer], dst[nearer])
            reaching = np.flatnonzero(np.isfinite(distance))
            parts.append(
                pa.table(
                    {
                        "id": ids.take(reaching),
                        "target": pa.repeat(ids[number], len(reaching)),
                        "distance": distance[reaching].astype(np.int64),
                        "next": ids.take(pa.array(follower[reaching], mask=reaching == number)),
                    }
                )
            )
        nothing = pa.table({name: pa.array([], kind) for name, kind in _path_types(ids.type)})
        return vertices.sparkSession.createDataFrame(pa.concat_tables([nothing, *parts]))

    def diamonds(self, vertices: DataFrame, arcs: DataFrame) -> DataFrame:
        """See `GraphEngine`. Counts with the square of the adjacency matrix, a block of its rows at a time."""
        ids, src, dst = self._collect(vertices, arcs)
        pairs = np.unique(np.stack([src, dst], axis=1)[src != dst], axis=0)
        steps = _matrix(len(ids), pairs[:, 0], pairs[:, 1]).astype(np.int64)
        walks = np.cumsum(steps @ np.diff(steps.indptr))
        blocks = np.flatnonzero(np.diff(walks // WALKS_AT_ONCE, prepend=0))
        parts = []
        for start, stop in pairwise(sorted({0, *blocks.tolist(), len(ids)})):
            block = (steps[start:stop] @ steps).tocoo()
            kept = (block.data > 1) & (block.row + start != block.col)
            parts.append(np.stack([block.row[kept] + start, block.col[kept], block.data[kept]]).astype(np.int64))
        above, below, between = np.concatenate([np.empty((3, 0), np.int64), *parts], axis=1)
        table = pa.table({"src": ids.take(pa.array(above)), "dst": ids.take(pa.array(below)), "between": between})
        return vertices.sparkSession.createDataFrame(table)

    def motifs(self, vertices: DataFrame, arcs: DataFrame, pattern: str) -> DataFrame:
        """See `GraphEngine`. Runs one join for each arc of the pattern."""
        ids, src, dst = self._collect(vertices, arcs)
        pairs = np.unique(np.stack([src, dst], axis=1), axis=0)
        found: pa.Table | None = None
        for term in parse(pattern):
            same = term.src == term.dst
            some = pairs[pairs[:, 0] == pairs[:, 1]] if same else pairs
            columns = {term.src: some[:, 0]} if same else {term.src: some[:, 0], term.dst: some[:, 1]}
            step = pa.table(columns)
            if found is None:
                found = step
                continue
            shared = [name for name in step.column_names if name in found.column_names]
            if shared:
                found = found.join(step, shared, join_type="inner" if term.present else "left anti")
            else:
                found = _product(found, step)
        assert found is not None, "a pattern has at least one arc"
        names = {name: ids.take(found[name].combine_chunks()) for name in found.column_names}
        return vertices.sparkSession.createDataFrame(pa.table(names))

    def _components(self, vertices: DataFrame, arcs: DataFrame, connection: str) -> DataFrame:
        ids, src, dst = self._collect(vertices, arcs)
        count, labels = connected_components(_matrix(len(ids), src, dst), directed=True, connection=connection)
        smallest = np.full(count, len(ids))
        np.minimum.at(smallest, labels, np.arange(len(ids)))  # ids are sorted: the smallest number is the smallest id
        return vertices.sparkSession.createDataFrame(pa.table({"id": ids, "component": ids.take(smallest[labels])}))

    def _collect(self, vertices: DataFrame, arcs: DataFrame) -> tuple[pa.Array, NDArray[np.int64], NDArray[np.int64]]:
        """Return the sorted ids, and the arcs as pairs of positions among the ids."""
        count = arcs.count()
        if count > self._most_arcs:
            raise EngineRefusedError(
                f"{count:,} arcs are too many for the driver engine ({self._most_arcs:,}): see docs/audit.md"
            )
        ids = vertices.select("id").distinct().toArrow()["id"].combine_chunks()
        ids = ids.take(pc.sort_indices(ids))
        pairs = arcs.select("src", "dst").toArrow()
        ends = [pc.index_in(pairs[column], ids).combine_chunks() for column in ("src", "dst")]
        assert not any(end.null_count for end in ends), "each end of an arc is a vertex"
        src, dst = (end.to_numpy().astype(np.int64) for end in ends)
        return ids, src, dst


def _matrix(size: int, src: NDArray[np.int64], dst: NDArray[np.int64]) -> csr_array:
    return coo_array((np.ones(len(src), bool), (src, dst)), shape=(size, size)).tocsr()


def _product(left: pa.Table, right: pa.Table) -> pa.Table:
    """Return every row of `left` combined with every row of `right`."""
    rows = np.arange(left.num_rows).repeat(right.num_rows)
    others = np.tile(np.arange(right.num_rows), left.num_rows)
    return pa.table({**_columns(left.take(rows)), **_columns(right.take(others))})


def _columns(table: pa.Table) -> dict[str, pa.ChunkedArray]:
    return {name: table[name] for name in table.column_names}


def _path_types(kind: pa.DataType) -> list[tuple[str, pa.DataType]]:
    return [("id", kind), ("target", kind), ("distance", pa.int64()), ("next", kind)]
