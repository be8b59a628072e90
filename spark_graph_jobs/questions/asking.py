"""Asks all questions of one audit and collects the answers, and what the report draws."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Final

from pyspark.sql import functions as sql

from spark_graph_jobs.engines.choice import Choice
from spark_graph_jobs.engines.interface import EngineRefusedError
from spark_graph_jobs.questions import (
    about,
    changes,
    duplicates,
    empty,
    exposure,
    from_scratch,
    islands,
    largest,
    look_alikes,
    nesting,
    weak_points,
)
from spark_graph_jobs.questions.answer import Answer, as_part
from spark_graph_jobs.questions.census import count_members
from spark_graph_jobs.questions.exposure import Matrix
from spark_graph_jobs.questions.numbering import number_groups
from spark_graph_jobs.questions.whole import Whole, whole
from spark_graph_jobs.snapshot.discovery import Collection
from spark_graph_jobs.snapshot.tables import Tables

LOOPS_DRAWN: Final = 4
GROUPS_DRAWN_LIMIT: Final = 40
"""A loop of more groups cannot be read as a drawing."""


NEED_ALL_SERVERS: Final = frozenset({islands.QUESTION, empty.EMPTY, empty.UNREACHED})
"""Questions about what is not there."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """What an auditor asks beyond the usual."""

    about: str | None = None
    """A group: who can add members to it?"""
    from_scratch: bool = False
    before: Collection | None = None
    """Earlier snapshots to compare with."""


@dataclass(slots=True)
class Picture:
    """What the report draws."""

    depths: dict[int, int] = field(default_factory=dict)
    """How many groups have so many levels of groups above them."""
    loop_sizes: list[int] = field(default_factory=list)
    duplicated: list[tuple[str, int]] = field(default_factory=list)
    matrix: Matrix | None = None
    loops: list[tuple[str, list[tuple[str, str, str]]]] = field(default_factory=list)
    """The largest loops that can be drawn: smallest name, and arcs as (parent, child, state)."""
    totals: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Answers:
    """All answers, in the order of the report."""

    engine: str
    notice: str
    answers: list[tuple[Answer, float]] = field(default_factory=list)
    """Each with the seconds it took."""
    picture: Picture = field(default_factory=Picture)


def ask_all(
    tables: Tables, choice: Choice, wishes: Wishes, before: Tables | None, progress: Callable[[str], None]
) -> Answers:
    """Ask everything; a question that the engine refuses is answered with the reason. `before`: of `wishes.before`.

    Without the snapshot of a server, what is there can be told, and is marked as a part. That something is *not* there
    cannot, and such questions are not asked.
    """
    found = Answers(choice.engine.name, choice.notice)
    picture = found.picture

    def ask(name: str, question: Callable[[], Answer]) -> None:
        if not tables.is_whole and name in NEED_ALL_SERVERS:
            found.answers.append((Answer(name, "Not asked: what is looked for may be at a server that is missing."), 0))
            return
        started = time.perf_counter()
        try:
            answer = question() if tables.is_whole else as_part(question())
        except EngineRefusedError as refused:
            answer = Answer(name, f"Not asked: {refused}.")
        seconds = time.perf_counter() - started
        found.answers.append((answer, round(seconds, 1)))
        progress(f"{name} ({seconds:.1f} s)")

    with ExitStack() as stack:
        graph = whole(tables)
        picture.totals = _totals(graph)
        numbering = number_groups(tables)
        stack.callback(numbering.unpersist)
        sizes = tables.store.keep("sizes", count_members(graph, numbering))

        def nest() -> Answer:
            answer, picture.depths = nesting.ask(graph)
            return answer

        def weigh() -> Answer:
            answer, picture.loop_sizes = weak_points.ask(graph)
            picture.loops = weak_points.worst_loops(graph, LOOPS_DRAWN, GROUPS_DRAWN_LIMIT)
            return answer

        def expose() -> Answer:
            answer, picture.matrix = exposure.ask(graph, numbering)
            return answer

        if wishes.from_scratch:
            ask(from_scratch.QUESTION, lambda: from_scratch.ask(graph, choice.engine))
        if before is not None:
            earlier = whole(before)
            sizes_then = count_members(earlier, number_groups(before))
            ask(changes.QUESTION, lambda: changes.ask(graph, earlier, sizes, sizes_then))
        if wishes.about is not None:
            group = wishes.about
            ask(about.QUESTION, lambda: about.ask(graph, choice.engine, group))
        ask(largest.QUESTION, lambda: largest.ask(graph, sizes))
        ask(nesting.QUESTION, nest)
        ask(duplicates.QUESTION, lambda: duplicates.ask(graph, numbering))
        ask(weak_points.QUESTION, weigh)
        ask(exposure.QUESTION, expose)
        ask(look_alikes.QUESTION, lambda: look_alikes.ask(graph, sizes, numbering))
        ask(islands.QUESTION, lambda: islands.ask(graph, choice.engine))
        ask(empty.EMPTY, lambda: empty.ask_empty(graph, sizes))
        ask(empty.UNREACHED, lambda: empty.ask_unreached(graph, sizes))
    for answer, _ in found.answers:
        if answer.question == duplicates.QUESTION:
            picture.duplicated = [(str(row[0]), int(row[-1])) for row in answer.rows]
    return found


def _totals(graph: Whole) -> dict[str, int]:
    nodes = graph.nodes.agg(
        sql.count_if(sql.col("kind") == "group").alias("groups"),
        sql.count_if(sql.col("kind") == "process").alias("processes"),
        sql.count_distinct(sql.when(sql.col("kind") == "group", sql.col("domain"))).alias("domains"),
        sql.count_distinct("vnid").alias("virtual nodes"),
    ).collect()[0]
    return {**nodes.asDict(), "arcs": graph.rows_of_arcs().count_rows()}
