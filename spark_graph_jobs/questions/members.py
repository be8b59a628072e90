"""The processes that are members of a few groups, one by one."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyroaring import BitMap
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from spark_graph_jobs.questions.whole import Whole


def sets_of_processes(whole: Whole) -> DataFrame:
    """Rows at, process, ancestors: the set of each process; of a foreign one at each server that has it."""
    processes = whole.tables.nodes.filter("owned and kind = 'process'").select(
        "derived", sql.col("key").alias("process")
    )
    return whole.tables.ancestors.join(processes, "derived").select("at", "process", "ancestors")


def members_of(whole: Whole, groups: set[int]) -> dict[int, set[int]]:
    """The processes that are members of these groups, direct or not; keys of both. For a few groups."""
    if not groups:
        return {}
    tables = whole.tables
    wanted = sql.broadcast(whole.nodes.sparkSession.createDataFrame([(key,) for key in sorted(groups)], "key long"))
    rows = tables.nodes.join(wanted, "key").select("at", "number", "key").collect()
    looked_for: dict[int, dict[int, int]] = {}
    for row in rows:
        looked_for.setdefault(row["at"], {})[row["number"]] = row["key"]

    def of_partition(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        asked = {at: BitMap(numbers) for at, numbers in looked_for.items()}
        for batch in batches:
            found = []
            columns = (batch.column(name).to_pylist() for name in ("at", "process", "ancestors"))
            for at, process, ancestors in zip(*columns, strict=True):
                for number in asked.get(at, BitMap()) & BitMap.deserialize(ancestors):
                    found.append({"key": looked_for[at][number], "process": process})
            yield pa.RecordBatch.from_pylist(found, pa.schema([("key", pa.int64()), ("process", pa.int64())]))

    members: dict[int, set[int]] = {}
    found = sets_of_processes(whole).mapInArrow(of_partition, "key long, process long").toArrow()
    for key, process in zip(found["key"].to_pylist(), found["process"].to_pylist(), strict=True):
        members.setdefault(key, set()).add(process)
    return members
