"""The processes that are members of a few groups, each by its key."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyroaring import BitMap

from spark_graph_jobs.questions.whole import Whole


def members_of(whole: Whole, groups: set[int]) -> dict[int, set[int]]:
    """Return the processes that are members of these groups, direct or not, by group. Meant for a few groups."""
    if not groups:
        return {}
    wanted = sorted(groups)
    looked_for: dict[int, dict[int, int]] = {}
    for at, found in whole.everywhere(wanted):
        numbers = found.nodes["number"].tolist()
        looked_for[at] = {
            number: key for number, key, there in zip(numbers, wanted, found.is_there.tolist(), strict=True) if there
        }

    def of_partition(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        asked = {at: BitMap(numbers) for at, numbers in looked_for.items()}
        for batch in batches:
            found = []
            columns = (batch.column(name).to_pylist() for name in ("at", "key", "ancestors"))
            for at, process, ancestors in zip(*columns, strict=True):
                for number in asked.get(at, BitMap()) & BitMap.deserialize(ancestors):
                    found.append({"key": looked_for[at][number], "process": process})
            yield pa.RecordBatch.from_pylist(found, pa.schema([("key", pa.int64()), ("process", pa.int64())]))

    members: dict[int, set[int]] = {}
    sets = whole.sets.filter("kind = 'process'").select("at", "key", "ancestors")
    pairs = sets.mapInArrow(of_partition, "key long, process long").toArrow()
    for key, process in zip(pairs["key"].to_pylist(), pairs["process"].to_pylist(), strict=True):
        members.setdefault(key, set()).add(process)
    return members
