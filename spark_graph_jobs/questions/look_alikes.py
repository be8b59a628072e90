"""Groups that have nearly the same members, though they are not in one loop.

MinHash: each group keeps the least of 16 hashes over all its processes. The share of equal hashes of two groups is, on
average, the likeness of their members (Jaccard): members of both divided by members of either. Groups that agree in a
band of 4 are compared. The numbers in the table are counted exactly, process by process.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import Broadcast
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from spark_graph_jobs.finding import counted, shell_line
from spark_graph_jobs.questions.answer import FINDINGS_SHOWN_LIMIT, ROWS_SHOWN_LIMIT, QuestionAnswer, info
from spark_graph_jobs.questions.members import members_of
from spark_graph_jobs.questions.numbering import Numbering
from spark_graph_jobs.questions.paths import find_paths
from spark_graph_jobs.questions.whole import Whole

QUESTION: Final = "look-alike groups"

HASHES: Final = 16
BANDS: Final = 4
"""Number of bands. Four bands of four compare two groups that share 90 of 100 members with a chance of 98 in 100."""

LIKENESS: Final = 0.75
"""Share of equal hashes from which two groups are compared."""

SMALLEST: Final = 5
"""Minimum number of processes. Smaller groups are alike by chance."""

BUCKET_LIMIT: Final = 30
"""Maximum number of groups compared in one bucket, the largest first: all pairs of a large bucket would be too many."""

_ALIKE: Final = "groups alike"

_HIGHEST: Final = np.uint32(0xFFFFFFFF)

_LEAST: Final = [f"least_{number}" for number in range(HASHES)]


def ask(whole: Whole, sizes: DataFrame, numbering: Broadcast[Numbering]) -> QuestionAnswer:
    """Return pairs of groups with nearly equal members, and the number of groups with exactly equal members."""
    hashed = _hashed(whole, numbering).join(
        sizes.filter(sql.col("processes") >= SMALLEST).select("key", "processes"), "key"
    )
    kinds = whole.tables.store.keep("least hashes", hashed.join(whole.nodes.select("key", "point"), "key"))
    # Groups with equal hashes become one row. Groups of one loop always have equal hashes.
    alike = whole.tables.store.keep(
        _ALIKE,
        kinds.groupBy(*_LEAST).agg(
            sql.min("key").alias("key"),
            sql.max("processes").alias("processes"),
            sql.count_distinct("point").alias("points"),
        ),
    )
    points = whole.tables.work.rows(_ALIKE).to_table(["points"])["points"]
    copies = (pc.sum(points).as_py() or 0) - len(points)
    pairs = _near_pairs(alike) if len(points) > 1 else []
    twins = _twins(kinds, alike) if copies else []
    judged = _judge(whole, [*twins, *pairs])
    names = whole.named({key for one, other, *_ in judged for key in (one, other)})
    differing = [(one if from_one else other, member) for one, other, _, _, member, from_one in judged if member]
    paths = find_paths(whole, differing[:FINDINGS_SHOWN_LIMIT])
    findings = []
    for one, other, shared, all_of_both, member, from_one in judged[:FINDINGS_SHOWN_LIMIT]:
        message = f"shares {shared:,} of {counted(all_of_both, 'process')} with {names[other]}"
        path = paths.get((one if from_one else other, member), ()) if member else ()
        findings.append(info(QUESTION, names[one], message, path, see=shell_line("resolve", names=(names[one],))))
    return QuestionAnswer(
        QUESTION,
        f"About {counted(copies, 'group')} {'has' if copies == 1 else 'have'} the members of another group outside"
        " their loop. Pairs of large groups that are nearly alike, or wholly:",
        ("group", "and", "processes in both", "processes in either", "likeness"),
        tuple(
            (names[one], names[other], shared, all_of_both, round(shared / all_of_both, 3))
            for one, other, shared, all_of_both, _, _ in judged
        ),
        tuple(findings),
    )


def _hashed(whole: Whole, numbering: Broadcast[Numbering]) -> DataFrame:
    """Return rows `key` and the least hash of each kind over all processes of the group."""

    def of_partition(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        known = numbering.value
        least = np.full((len(known.keys), HASHES), _HIGHEST, np.uint32)
        for batch in batches:
            columns = (batch.column(name).to_pylist() for name in ("at", "key", "ancestors"))
            for at, process, ancestors in zip(*columns, strict=True):
                above = known.above(at, ancestors)
                least[above] = np.minimum(least[above], hashes_of(process))
        found = np.flatnonzero((least != _HIGHEST).any(axis=1))
        arrays = [pa.array(least[found, place].astype(np.int64)) for place in range(HASHES)]
        yield pa.RecordBatch.from_arrays([pa.array(known.keys[found]), *arrays], ["key", *_LEAST])

    columns = ", ".join(f"{name} long" for name in _LEAST)
    sets = whole.sets.filter("kind = 'process'").select("at", "key", "ancestors")
    found = sets.mapInArrow(of_partition, f"key long, {columns}")
    return found.groupBy("key").agg(*(sql.min(name).alias(name) for name in _LEAST))


def hashes_of(process: int) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    """Return the hashes of one process: its key, scrambled in `HASHES` ways (the finalizer of splitmix64)."""
    seeds = np.arange(1, HASHES + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed = np.uint64(process % (1 << 64)) ^ seeds
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((mixed ^ (mixed >> np.uint64(31))) >> np.uint64(32)).astype(np.uint32)


def _near_pairs(alike: DataFrame) -> list[tuple[int, int]]:
    """Return pairs of groups whose hashes agree in most places, the largest first."""
    width = HASHES // BANDS
    bands = sql.array(
        *(sql.xxhash64(sql.lit(band), *_LEAST[band * width : (band + 1) * width]) for band in range(BANDS))
    )
    banded = alike.select("key", "processes", sql.array(*_LEAST).alias("least"), sql.explode(bands).alias("band"))
    bucket = sql.slice(
        sql.sort_array(sql.collect_list(sql.struct("processes", "key", "least")), asc=False), 1, BUCKET_LIMIT
    ).alias("bucket")
    buckets = banded.groupBy("band").agg(bucket).filter(sql.size("bucket") > 1)
    found: dict[tuple[int, int], int] = {}
    for row in buckets.collect():
        for place, one in enumerate(row["bucket"]):
            for other in row["bucket"][place + 1 :]:
                equal = sum(a == b for a, b in zip(one["least"], other["least"], strict=True))
                if LIKENESS <= equal / HASHES < 1:
                    pair = min(one["key"], other["key"]), max(one["key"], other["key"])
                    found[pair] = min(one["processes"], other["processes"])
    return sorted(found, key=lambda pair: (-found[pair], pair))[:ROWS_SHOWN_LIMIT]


def _twins(kinds: DataFrame, alike: DataFrame) -> list[tuple[int, int]]:
    """Return pairs of groups of different loops whose hashes are all equal, the largest first."""
    most = alike.filter("points > 1").orderBy(sql.desc("processes"), "key").limit(FINDINGS_SHOWN_LIMIT)
    two = (
        kinds.join(sql.broadcast(most.select(*_LEAST)), _LEAST)
        .groupBy(*_LEAST, "point")
        .agg(sql.min("key").alias("key"))
        .groupBy(*_LEAST)
        .agg(sql.slice(sql.sort_array(sql.collect_list("key")), 1, 2).alias("two"))
    )
    return [tuple(row["two"]) for row in two.collect() if len(row["two"]) == 2]


Judged = tuple[int, int, int, int, int, bool]
"""Two groups, processes in both, processes in either, a process in only one (or 0), True if the first group has it."""


def _judge(whole: Whole, pairs: Sequence[tuple[int, int]]) -> list[Judged]:
    """Count the members of these groups one by one."""
    members = members_of(whole, {key for pair in pairs for key in pair})
    judged: list[Judged] = []
    for one, other in pairs:
        mine, others = members.get(one, set()), members.get(other, set())
        rest = sorted(mine ^ others)
        judged.append(
            (one, other, len(mine & others), len(mine | others), rest[0] if rest else 0, bool(rest) and rest[0] in mine)
        )
    near = [each for each in judged if each[3] and each[2] / each[3] >= LIKENESS]
    return sorted(near, key=lambda each: (-each[2] / each[3] if not each[4] else 0, -each[2], each[0]))
