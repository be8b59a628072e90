"""Changes since an earlier snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from spark_graph_jobs.finding import Finding, counted, shell_line
from spark_graph_jobs.questions.answer import FINDINGS_SHOWN_LIMIT, ROWS_SHOWN_LIMIT, Cell, QuestionAnswer, info
from spark_graph_jobs.questions.paths import find_paths
from spark_graph_jobs.questions.whole import Whole

QUESTION: Final = "changes"

ARCS_TRACED_LIMIT: Final = 30
"""Maximum number of changed arcs to which a path is searched from each group whose members changed most."""


def ask(whole: Whole, before: Whole, sizes: DataFrame, sizes_before: DataFrame) -> QuestionAnswer:
    """Return groups created and deleted, arcs joined and left, and the groups whose members changed most."""
    groups, groups_before = (each.nodes.filter("kind = 'group'").select("key", "id") for each in (whole, before))
    created, deleted = (
        one.join(other, "key", "left_anti") for one, other in ((groups, groups_before), (groups_before, groups))
    )
    joined = whole.arcs.join(before.arcs, ["src", "dst"], "left_anti").persist()
    left = before.arcs.join(whole.arcs, ["src", "dst"], "left_anti").persist()
    counts: list[tuple[Cell, ...]] = [
        ("groups created", created.count(), _some(created)),
        ("groups deleted", deleted.count(), _some(deleted)),
        ("arcs joined", joined.count(), _some_arcs(whole, joined)),
        ("arcs left", left.count(), _some_arcs(before, left)),
    ]
    grown = _grown(whole, sizes, sizes_before)
    rows: list[tuple[Cell, ...]] = [
        (f"members of {row.id}", row.now - row.then, f"{row.then:,} before, {row.now:,} now") for row in grown
    ]
    findings = _findings(whole, before, joined, left, grown[:FINDINGS_SHOWN_LIMIT])
    joined.unpersist()
    left.unpersist()
    return QuestionAnswer(
        QUESTION,
        "Since the earlier snapshot; then the groups of which most processes became members, or ceased to be.",
        ("what", "how many", "for instance"),
        (*counts, *rows),
        findings,
    )


class _Grown(NamedTuple):
    """A group whose members changed."""

    key: int
    id: str
    then: int
    now: int


def _grown(whole: Whole, sizes: DataFrame, before: DataFrame) -> list[_Grown]:
    both = sizes.select("key", sql.col("processes").alias("now")).join(
        before.select("key", sql.col("processes").alias("then")), "key"
    )
    most = (
        both.filter("now != then")
        .orderBy(sql.desc(sql.abs(sql.col("now") - sql.col("then"))), "key")
        .limit(ROWS_SHOWN_LIMIT)
    )
    rows = most.join(whole.nodes.select("key", "id"), "key").collect()
    grown = (_Grown(row["key"], row["id"], row["then"], row["now"]) for row in rows)
    return sorted(grown, key=lambda row: (-abs(row.now - row.then), row.id))


def _findings(
    whole: Whole, before: Whole, joined: DataFrame, left: DataFrame, grown: Sequence[_Grown]
) -> tuple[Finding, ...]:
    findings = []
    for graph, arcs, sign, word in ((whole, joined, 1, "joined"), (before, left, -1, "left")):
        groups = [row for row in grown if (row.now - row.then) * sign > 0]
        ends = [(row["src"], row["dst"]) for row in arcs.orderBy("src", "dst").limit(ARCS_TRACED_LIMIT).collect()]
        pairs = [(row.key, src) for row in groups for src, _ in ends if src != row.key]
        paths = find_paths(graph, pairs)
        names = graph.named({key for arc in ends for key in arc} | {row.key for row in groups})
        for row in groups:
            ways = [
                (*paths.get((row.key, src), (names[row.key],) if src == row.key else ()), names[dst])
                for src, dst in ends
                if src == row.key or (row.key, src) in paths
            ]
            findings.append(
                info(
                    QUESTION,
                    row.id,
                    f"members: {counted(row.then, 'process')} before, {row.now:,} now; an arc below it was {word}",
                    min(ways, key=lambda way: (len(way), way), default=()),
                    see=shell_line("resolve", names=(row.id,)),
                )
            )
    return tuple(findings)


def _some(groups: DataFrame) -> str:
    return ", ".join(row["id"] for row in groups.orderBy("id").limit(3).collect())


def _some_arcs(whole: Whole, arcs: DataFrame) -> str:
    rows = arcs.orderBy("src", "dst").limit(3).collect()
    names = whole.named({row[end] for row in rows for end in ("src", "dst")})
    return ", ".join(f"{names[row['src']]} -> {names[row['dst']]}" for row in rows)
