"""Paths from groups to their members, as evidence, in a constant number of passes however long they are.

The server that owns a member holds the ancestor sets of all that is above it. So what lies between a group and a member
is found by looking at each of these sets once: it is above the member, and has the group above it. The arcs among these
few nodes go to the driver, where a shortest path is found.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import pyarrow as pa
from pyroaring import BitMap
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from spark_graph_jobs.node_arrays import NUMBERS_OF_SERVER
from spark_graph_jobs.questions.whole import Whole

PATHS_LIMIT: Final = 200
"""Paths that one audit shows. Each takes a look at every ancestor set of one server."""

Pair = tuple[int, int]
"""The keys of a group and of one of its members."""


def find_paths(whole: Whole, pairs: Iterable[Pair]) -> dict[Pair, tuple[str, ...]]:
    """A shortest path for each pair, as names from the group to the member; a pair without one is left out.

    A group on a loop is a member of itself; its path is the loop.
    """
    wanted = sorted(set(pairs))[:PATHS_LIMIT]
    if not wanted:
        return {}
    places = _places(whole, wanted)
    above = _sets_of(whole, {member for _, (_, member) in places})
    known = sorted({place for _, place in places if place[1] in above})
    arcs = _arcs(whole, _between(whole, [(group, member, above[member]) for group, member in known]))
    found: dict[Pair, list[int]] = {}
    for pair, place in places:
        path = _walk(arcs.get(place, {}), *place)
        if path and (pair not in found or len(path) < len(found[pair])):
            found[pair] = path
    names = _names(whole, {node for path in found.values() for node in path})
    return {pair: tuple(names[node] for node in path) for pair, path in found.items()}


def _places(whole: Whole, pairs: Iterable[Pair]) -> list[tuple[Pair, Pair]]:
    """The `local` numbers of each pair at a server that owns the member and holds the group.

    A foreign process is owned by several servers, and not at each of them by way of that group.
    """
    spark = whole.nodes.sparkSession
    frame = sql.broadcast(spark.createDataFrame(list(pairs), "group long, member long"))
    nodes = whole.tables.nodes.filter("held")
    members = nodes.filter("owned").select(sql.col("key").alias("member"), sql.col("local").alias("member_local"), "at")
    groups = nodes.select(sql.col("key").alias("group"), sql.col("local").alias("group_local"), "at")
    rows = groups.join(members.join(frame, "member"), ["group", "at"])
    columns = ("group", "member", "group_local", "member_local")
    return [((row[0], row[1]), (row[2], row[3])) for row in rows.select(*columns).sort(*columns).collect()]


def _sets_of(whole: Whole, nodes: Iterable[int]) -> dict[int, BitMap]:
    spark = whole.nodes.sparkSession
    wanted = sql.broadcast(spark.createDataFrame([(node,) for node in sorted(nodes)], "local long"))
    derived = whole.tables.nodes.join(wanted, "local").select("local", "derived")
    rows = whole.tables.ancestors.select("derived", "ancestors").join(sql.broadcast(derived), "derived")
    return {row["local"]: BitMap.deserialize(bytes(row["ancestors"])) for row in rows.collect()}


def _between(whole: Whole, wanted: list[tuple[int, int, BitMap]]) -> DataFrame:
    """Rows `group`, `member`, `derived`: all that lies between, both ends included; `local` numbers."""
    by_server: dict[int, list[tuple[int, int, bytes]]] = defaultdict(list)
    for group, member, above in wanted:
        # A process has no bit in the sets above it: it is looked at by its own number.
        by_server[member // NUMBERS_OF_SERVER].append((group, member, above.serialize()))

    def of_partition(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        looked_for = {
            at: [(group, member, BitMap.deserialize(above)) for group, member, above in those]
            for at, those in by_server.items()
        }
        for batch in batches:
            rows = []
            for at, derived, ancestors in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                number = derived % NUMBERS_OF_SERVER
                of_interest = [each for each in looked_for.get(at, ()) if number in each[2] or derived == each[1]]
                if not of_interest:
                    continue
                own = BitMap.deserialize(ancestors)
                rows += [
                    (group, member, derived) for group, member, _ in of_interest if group % NUMBERS_OF_SERVER in own
                ]
            yield pa.RecordBatch.from_pylist(
                [dict(zip(("group", "member", "derived"), row, strict=True)) for row in rows],
                pa.schema([("group", pa.int64()), ("member", pa.int64()), ("derived", pa.int64())]),
            )

    sets = whole.tables.ancestors.filter("derived is not null").select("at", "derived", "ancestors")
    return sets.mapInArrow(of_partition, "group long, member long, derived long")


def _arcs(whole: Whole, between: DataFrame) -> Mapping[Pair, Mapping[int, list[int]]]:
    """For each pair, the children of each parent among what lies between."""
    between = between.persist()
    held = whole.tables.arcs.filter("present and is_record and child_held")
    ends = held.select("parent", "child", "parent_derived", "child_derived")
    kept = ends.join(between.withColumnRenamed("derived", "parent_derived"), "parent_derived").join(
        between.withColumnRenamed("derived", "child_derived"), ["child_derived", "group", "member"]
    )
    arcs: dict[Pair, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for row in kept.select("group", "member", "parent", "child").sort("parent", "child").toArrow().to_pylist():
        arcs[row["group"], row["member"]][row["parent"]].append(row["child"])
    between.unpersist()
    return arcs


def _walk(children: Mapping[int, list[int]], group: int, member: int) -> list[int]:
    came_from: dict[int, int] = {}
    waiting = deque([group])
    while waiting:
        node = waiting.popleft()
        for child in children.get(node, ()):
            if child in came_from:
                continue
            came_from[child] = node
            if child == member:
                return _back(came_from, group, member)
            waiting.append(child)
    return []


def _back(came_from: Mapping[int, int], group: int, member: int) -> list[int]:
    path = [member, came_from[member]]
    while path[-1] != group:
        path.append(came_from[path[-1]])
    return path[::-1]


def _names(whole: Whole, nodes: Iterable[int]) -> dict[int, str]:
    wanted = sql.broadcast(whole.nodes.sparkSession.createDataFrame([(node,) for node in sorted(nodes)], "local long"))
    return {row["local"]: row["id"] for row in whole.tables.nodes.join(wanted, "local").select("local", "id").collect()}
