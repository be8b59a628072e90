"""Names and arcs that could not be checked because a server has no readable snapshot.

An arc has two homes. If one home is missing, the statement of the other cannot be compared. If both are missing, only
ancestry records of third servers mention the arc, and these cannot be checked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from spark_graph_jobs.finding import Finding, counted
from spark_graph_jobs.snapshot.discovery import AUDIT, Collection
from spark_graph_jobs.snapshot.tables import UNKNOWN, Tables


@dataclass(frozen=True, slots=True)
class NotJudged:
    """Counts about a missing server, from the snapshots of the other servers."""

    server: str
    subnets: tuple[str, ...]
    names: int
    """Number of names of its subnets that other servers mention."""
    arcs: int
    """Number of arcs with an end at the missing server."""
    arcs_of_records_alone: int
    """Number of these arcs whose other home could not be read either."""
    suspended: int = 0
    """Number of these arcs that a home has suspended because the missing server was out of reach."""


def count(collection: Collection, tables: Tables, arcs: DataFrame) -> tuple[NotJudged, ...]:
    """Count the names and arcs of each missing server. `arcs`: result of `side_by_side.of_arcs`."""
    if not collection.missing:
        return ()
    unknown = tables.nodes.filter(sql.col("home_at") == UNKNOWN)
    names = _by_home(unknown.groupBy("home").agg(sql.count_distinct("key").alias("names")))
    homes = unknown.select(sql.col("local").alias("end"), "home")
    is_unread = {end: sql.col(f"{end}_home") == UNKNOWN for end in ("parent", "child")}
    there = arcs.filter(sql.col("first_at").isNotNull() & (is_unread["parent"] | is_unread["child"]))
    alone = (is_unread["parent"] & is_unread["child"]).alias("alone")
    apart = sql.col("suspended_most").alias("apart")
    pairs = there.select("parent", "child", alone, apart, sql.explode(sql.array("parent", "child")).alias("end"))
    either = (sql.bool_or(name).alias(name) for name in ("alone", "apart"))
    ends = pairs.join(homes, "end").groupBy("home", "parent", "child").agg(*either)
    counts = (sql.count("*").alias("arcs"), sql.count_if("alone").alias("alone"), sql.count_if("apart").alias("apart"))
    found = _by_home(ends.groupBy("home").agg(*counts))
    return tuple(
        NotJudged(
            each.server,
            each.subnets,
            names.get(each.server, {}).get("names", 0),
            found.get(each.server, {}).get("arcs", 0),
            found.get(each.server, {}).get("alone", 0),
            found.get(each.server, {}).get("apart", 0),
        )
        for each in collection.missing
    )


def _by_home(frame: DataFrame) -> Mapping[str, Mapping[str, int]]:
    return {row["home"]: row.asDict() for row in frame.collect()}


def told(findings: Sequence[Finding], not_judged: Sequence[NotJudged]) -> list[Finding]:
    """Return the findings of discovery. Findings about missing servers also state the counts."""
    counts = {each.server: each for each in not_judged}
    return [
        replace(finding, message=f"{finding.message}: {in_words(counts[finding.subject])}")
        if finding.audit == AUDIT and finding.subject in counts
        else finding
        for finding in findings
    ]


def in_words(each: NotJudged) -> str:
    """Return the counts as a part of a sentence."""
    apart = f", {each.suspended:,} of them suspended" if each.suspended else ""
    return (
        f"{counted(each.names, 'name')} of its {counted(len(each.subnets), 'subnet')},"
        f" and {counted(each.arcs, 'arc')} with an end there,"
        f" {each.arcs_of_records_alone:,} of them known by the ancestry records of others alone{apart}"
    )
