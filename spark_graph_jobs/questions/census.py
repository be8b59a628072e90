"""Number of processes and groups that are members of each group, directly or not.

The ancestor sets hold the answer: a node is a member of every group above it. Counting how often a group occurs in the
sets of processes gives its size. The count takes one pass over the sets, on the workers, and a sum.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark import Broadcast
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from spark_graph_jobs.questions.numbering import Numbering
from spark_graph_jobs.questions.whole import Whole

_COUNTED: Final = "key long, processes long, groups long"


def count_members(whole: Whole, numbering: Broadcast[Numbering]) -> DataFrame:
    """Return rows `key`, `processes`, `groups` for each group. A group of a virtual node is a member of itself."""

    def of_partition(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        known = numbering.value
        counts = {kind: np.zeros(len(known.keys), np.int64) for kind in ("processes", "groups")}
        for key, rows in groupby(_rows(batches), key=itemgetter(0)):
            (_, kind, at, ancestors, in_loop), *others = rows
            above = known.above(at, ancestors)
            for _, _, other, more, _ in others:  # a foreign process lives on several servers and counts once
                above = np.union1d(above, known.above(other, more))
            counts["groups" if kind == "group" else "processes"][above] += 1
            if kind == "group" and not in_loop:
                counts["groups"][np.searchsorted(known.keys, key)] -= 1
        found = np.flatnonzero(counts["processes"] + counts["groups"])
        columns = {"key": known.keys[found], **{kind: counts[kind][found] for kind in ("processes", "groups")}}
        yield pa.RecordBatch.from_pydict({name: pa.array(column, pa.int64()) for name, column in columns.items()})

    rows = whole.sets.select("key", "kind", "at", "ancestors", "in_loop").repartition("key").sortWithinPartitions("key")
    counted = rows.mapInArrow(of_partition, _COUNTED).groupBy("key")
    return (
        whole.nodes.filter("kind = 'group'")
        .select("key")
        .join(counted.agg(sql.sum("processes").alias("processes"), sql.sum("groups").alias("groups")), "key", "left")
        .na.fill(0)
    )


def count_above_foreign(whole: Whole, numbering: Broadcast[Numbering]) -> DataFrame:
    """Return rows `key`, `above`: the number of groups above each foreign process, over all its servers.

    The `level` of the process cannot be used: each server counts only the groups that it knows.
    """

    def of_partition(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found = []
        for key, rows in groupby(_rows(batches), key=itemgetter(0)):
            sets = [numbering.value.above(at, ancestors) for _, at, ancestors in rows]
            found.append({"key": key, "above": len(np.unique(np.concatenate(sets)))})
        yield pa.RecordBatch.from_pylist(found, pa.schema([("key", pa.int64()), ("above", pa.int64())]))

    rows = whole.sets.filter("is_foreign").select("key", "at", "ancestors")
    return rows.repartition("key").sortWithinPartitions("key").mapInArrow(of_partition, "key long, above long")


def _rows(batches: Iterator[pa.RecordBatch] | list[pa.RecordBatch]) -> Iterator[tuple[Any, ...]]:
    for batch in batches:
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)
