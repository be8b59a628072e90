"""What could not be judged because a server has no snapshot that can be read: its names, and the arcs that end there.

An arc has two homes. Where one of them is missing, what the other says stands alone; where both are, only ancestry
records of third servers tell of the arc, and nothing shows whether they are right.
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
    """What the snapshots that are here tell of a server that is missing."""

    server: str
    subnets: tuple[str, ...]
    names: int
    """Names of its subnets that others mention."""
    arcs: int
    """Arcs with an end there: its word on them is missing."""
    arcs_of_records_alone: int
    """Those among them of which neither home could be read."""
    suspended: int = 0
    """Those among them that a home has suspended, since this server was out of its reach."""


def count(collection: Collection, tables: Tables, arcs: DataFrame) -> tuple[NotJudged, ...]:
    """Count what each missing server keeps from being judged. `arcs`: of `side_by_side.of_arcs`."""
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
    """The findings of discovery; those of missing servers say how much could not be judged."""
    counts = {each.server: each for each in not_judged}
    return [
        replace(finding, message=f"{finding.message}: {in_words(counts[finding.subject])}")
        if finding.audit == AUDIT and finding.subject in counts
        else finding
        for finding in findings
    ]


def in_words(each: NotJudged) -> str:
    """How much could not be judged, as a part of a sentence."""
    apart = f", {each.suspended:,} of them suspended" if each.suspended else ""
    return (
        f"{counted(each.names, 'name')} of its {counted(len(each.subnets), 'subnet')},"
        f" and {counted(each.arcs, 'arc')} with an end there,"
        f" {each.arcs_of_records_alone:,} of them known by the ancestry records of others alone{apart}"
    )
