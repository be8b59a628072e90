"""The GraphFrames engine: algorithms run as Spark jobs, so the cluster's size limits the graph.

Each step of an algorithm is a few jobs. A deep graph takes many steps: see `strongly_connected_components`.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as sql

from spark_graph_jobs.engines.interface import parse

if TYPE_CHECKING:
    from graphframes import GraphFrame
    from pyspark.sql import Column, DataFrame

_NO_END: Final = 2**31 - 2
"""Largest limit of rounds: GraphFrames requires a limit, although the algorithm ends by itself."""


class GraphFramesEngine:
    """Algorithms of GraphFrames. Its jar must be on the class path of the session."""

    @property
    def name(self) -> str:
        """GraphFrames with the version of its Python package."""
        return f"GraphFrames {version('graphframes-py')}"

    def connected_components(self, vertices: DataFrame, arcs: DataFrame) -> DataFrame:
        """See `GraphEngine`.

        Without a threshold for broadcasts, Spark itself handles skewed joins, which is several times faster.
        """
        graph = _graph(vertices, arcs)
        found = graph.connectedComponents(use_local_checkpoints=True, broadcastThreshold=-1)
        return _named_by_smallest(found.select("id", "component"))

    def strongly_connected_components(self, vertices: DataFrame, arcs: DataFrame) -> DataFrame:
        """See `GraphEngine`.

        GraphFrames removes vertices without arcs in or without arcs out one layer after another, and its plan grows
        with each layer: a graph of a hundred layers takes hours. Therefore such vertices are removed here first, at
        both ends at once, each round in a plan of its own.
        """
        inner = _without_ends(arcs.select("src", "dst").where("src <> dst").distinct())
        looped = inner.select(sql.col("src").alias("id")).distinct()
        if inner.isEmpty():
            return vertices.select("id", sql.col("id").alias("component"))
        found = _graph(looped, inner).stronglyConnectedComponents(maxIter=_NO_END).select("id", "component")
        named = _named_by_smallest(found)
        return (
            vertices.select("id")
            .join(named, "id", "left")
            .select("id", sql.coalesce("component", "id").alias("component"))
        )

    def shortest_paths(self, vertices: DataFrame, arcs: DataFrame, targets: Sequence[str | int]) -> DataFrame:
        """See `GraphEngine`."""
        found = _graph(vertices, arcs).shortestPaths(landmarks=list(targets)).select("id", sql.explode("distances"))
        reached = found.select(
            "id", sql.col("key").alias("target"), sql.col("value").cast("long").alias("distance")
        ).cache()
        ahead = reached.select(sql.col("id").alias("dst"), "target", (sql.col("distance") + 1).alias("distance"))
        nearest = (
            arcs.join(ahead, "dst")
            .groupBy(sql.col("src").alias("id"), "target", "distance")
            .agg(sql.min("dst").alias("next"))
        )
        joined: DataFrame = reached.join(nearest, ["id", "target", "distance"], "left")
        after = sql.when(sql.col("distance") > 0, sql.col("next")).alias("next")
        return joined.select("id", "target", "distance", after)

    def diamonds(self, vertices: DataFrame, arcs: DataFrame) -> DataFrame:
        """See `GraphEngine`. Searches for half of the motif, and counts its occurrences for each pair."""
        once = arcs.select("src", "dst").where("src <> dst").distinct()
        halves = _graph(vertices, once).find("(src)-[]->(middle); (middle)-[]->(dst)")
        found: DataFrame = halves.select(sql.col("src.id").alias("src"), sql.col("dst.id").alias("dst"))
        counted = found.where("src <> dst").groupBy("src", "dst").agg(sql.count("*").alias("between"))
        return counted.where("between > 1")

    def motifs(self, vertices: DataFrame, arcs: DataFrame, pattern: str) -> DataFrame:
        """See `GraphEngine`."""
        terms = parse(pattern)
        names = dict.fromkeys(name for term in terms for name in (term.src, term.dst))
        text = "; ".join(f"{'' if term.present else '!'}({term.src})-[]->({term.dst})" for term in terms)
        found: DataFrame = _graph(vertices, arcs).find(text)
        return found.select(*(sql.col(f"{name}.id").alias(name) for name in names)).distinct()


def _graph(vertices: DataFrame, arcs: DataFrame) -> GraphFrame:
    # GraphFrames forgets to require typing_extensions and warns of pandas 3, so it is imported only here.
    from graphframes import GraphFrame

    return GraphFrame(vertices.select("id").distinct(), arcs.select("src", "dst"))


def _named_by_smallest(components: DataFrame) -> DataFrame:
    """Name components by their smallest id."""
    smallest = components.groupBy("component").agg(sql.min("id").alias("smallest"))
    return components.join(smallest, "component").select("id", sql.col("smallest").alias("component"))


def _without_ends(arcs: DataFrame) -> DataFrame:
    """Return the arcs that remain after all ends were removed.

    Arcs whose tail no arc enters, and arcs whose head no arc leaves, are removed until no such arc is left.
    """
    left = arcs.localCheckpoint()
    count = left.count()
    while count:
        fewer = _among(_among(left, "src", left, "dst"), "dst", left, "src").localCheckpoint()
        left.unpersist()
        left, before, count = fewer, count, fewer.count()
        if count == before:
            break
    return left


def _among(arcs: DataFrame, end: str, others: DataFrame, other_end: str) -> DataFrame:
    """Return the arcs whose `end` is the `other_end` of an arc of `others`."""
    ends = others.select(_renamed(other_end, end)).distinct()
    return arcs.join(ends, end, "left_semi")


def _renamed(column: str, name: str) -> Column:
    return sql.col(column).alias(name)
