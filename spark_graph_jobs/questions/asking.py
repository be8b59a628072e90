"""Ask all questions of one audit, and collect the answers and the data for the drawings of the report."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeVar

from pyspark.sql import functions as sql

from spark_graph_jobs.engines.choice import Choice
from spark_graph_jobs.engines.interface import GraphEngine
from spark_graph_jobs.questions import (
    about,
    changes,
    diamonds,
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
from spark_graph_jobs.questions.answer import QuestionAnswer, as_part, not_asked
from spark_graph_jobs.questions.census import count_members
from spark_graph_jobs.questions.exposure import Matrix
from spark_graph_jobs.questions.numbering import Numbering, number_groups
from spark_graph_jobs.questions.whole import Whole, whole
from spark_graph_jobs.snapshot.discovery import Collection
from spark_graph_jobs.snapshot.tables import Tables
from spark_graph_jobs.spark.failures import in_one_line

if TYPE_CHECKING:
    from pyspark import Broadcast
    from pyspark.sql import DataFrame

T = TypeVar("T")

LOOPS_DRAWN: Final = 4
GROUPS_DRAWN_LIMIT: Final = 40
"""Maximum size of a loop that is drawn. A drawing of more groups cannot be read."""


NEED_ALL_SERVERS: Final = frozenset({islands.QUESTION, empty.EMPTY, empty.UNREACHED})
"""Questions about absence, which need the snapshots of all servers."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """Optional questions of an auditor."""

    about: str | None = None
    """A group: which domains can add members to it?"""
    from_scratch: bool = False
    before: Collection | None = None
    """Earlier snapshots to compare with."""


@dataclass(slots=True)
class Picture:
    """Data for the drawings of the report."""

    depths: dict[int, int] = field(default_factory=dict)
    """Number of groups by the number of levels of groups above them."""
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
    answers: list[tuple[QuestionAnswer, float]] = field(default_factory=list)
    """Each answer with its duration in seconds."""
    picture: Picture = field(default_factory=Picture)


@dataclass(frozen=True, slots=True)
class _Prepared:
    """The tables that most questions read."""

    graph: Whole
    numbering: Broadcast[Numbering]
    sizes: DataFrame


@dataclass(frozen=True, slots=True)
class _Question:
    name: str
    answer: Callable[[_Prepared], QuestionAnswer]
    engine: str = "Spark"
    """Name of the engine that answers the question."""


def ask_all(
    tables: Tables,
    choice: Choice,
    wishes: Wishes,
    before: Tables | None,
    progress: Callable[[str], None],
    left_out: Mapping[str, str] = MappingProxyType({}),
) -> Answers:
    """Ask all questions. `before`: tables of `wishes.before`. `left_out`: questions that cannot be asked, with reasons.

    A question that fails for any cause is answered with the cause, because no audit depends on a question. If a
    server's snapshot is missing, answers about existing things are marked as partial. Questions about absence are then
    not asked.
    """
    found = Answers(choice.engine.name, choice.notice)
    questions = _questions(choice.engine, wishes, before, found.picture)
    reasons = dict(left_out)
    if not tables.is_whole:
        reasons |= dict.fromkeys(NEED_ALL_SERVERS, "what is looked for may be at a server that is missing")
    prepared = _attempt(lambda: _prepare(tables, found.picture))
    for question in questions:
        started = time.perf_counter()
        if question.name in reasons:
            answer = not_asked(question.name, reasons[question.name])
        elif isinstance(prepared, _Failed):
            answer = not_asked(question.name, prepared.reason)
        else:
            answer = _answer(question, prepared, is_whole=tables.is_whole)
        seconds = time.perf_counter() - started
        found.answers.append((answer, round(seconds, 1)))
        progress(f"{question.name}: {answer.explanation}" if answer.not_asked else f"{question.name} ({seconds:.1f} s)")
    if isinstance(prepared, _Prepared):
        _attempt(prepared.numbering.unpersist)
    for answer, _ in found.answers:
        if answer.question == duplicates.QUESTION:
            found.picture.duplicated = [(str(row[0]), int(row[-1])) for row in answer.rows]
    return found


def _questions(engine: GraphEngine, wishes: Wishes, before: Tables | None, picture: Picture) -> Iterable[_Question]:
    """Yield all questions, in the order of the report."""

    def compare(there: _Prepared, then: Tables | None) -> QuestionAnswer:
        assert then is not None, "the tables of the earlier snapshots, or a reason to leave the question out"
        earlier = whole(then)
        return changes.ask(there.graph, earlier, there.sizes, count_members(earlier, number_groups(then)))

    def nest(there: _Prepared) -> QuestionAnswer:
        answer, picture.depths = nesting.ask(there.graph)
        return answer

    def weigh(there: _Prepared) -> QuestionAnswer:
        answer, picture.loop_sizes = weak_points.ask(there.graph)
        picture.loops = weak_points.worst_loops(there.graph, LOOPS_DRAWN, GROUPS_DRAWN_LIMIT)
        return answer

    def expose(there: _Prepared) -> QuestionAnswer:
        answer, picture.matrix = exposure.ask(there.graph, there.numbering)
        return answer

    if wishes.from_scratch:
        yield _Question(from_scratch.QUESTION, lambda there: from_scratch.ask(there.graph, engine), engine.name)
    if wishes.before is not None:
        yield _Question(changes.QUESTION, partial(compare, then=before))
    if wishes.about is not None:
        group = wishes.about
        yield _Question(about.QUESTION, lambda there: about.ask(there.graph, engine, group), engine.name)
    yield _Question(largest.QUESTION, lambda there: largest.ask(there.graph, there.sizes))
    yield _Question(nesting.QUESTION, nest)
    yield _Question(duplicates.QUESTION, lambda there: duplicates.ask(there.graph, there.numbering))
    yield _Question(diamonds.QUESTION, lambda there: diamonds.ask(there.graph, engine), engine.name)
    yield _Question(weak_points.QUESTION, weigh)
    yield _Question(exposure.QUESTION, expose)
    yield _Question(look_alikes.QUESTION, lambda there: look_alikes.ask(there.graph, there.sizes, there.numbering))
    yield _Question(islands.QUESTION, lambda there: islands.ask(there.graph, engine), engine.name)
    yield _Question(empty.EMPTY, lambda there: empty.ask_empty(there.graph, there.sizes))
    yield _Question(empty.UNREACHED, lambda there: empty.ask_unreached(there.graph, there.sizes))


def _prepare(tables: Tables, picture: Picture) -> _Prepared:
    graph = whole(tables)
    picture.totals = _totals(graph)
    numbering = number_groups(tables)
    return _Prepared(graph, numbering, tables.store.keep("sizes", count_members(graph, numbering)))


def _answer(question: _Question, prepared: _Prepared, *, is_whole: bool) -> QuestionAnswer:
    answer = _attempt(lambda: question.answer(prepared))
    if isinstance(answer, _Failed):
        return not_asked(question.name, answer.reason)
    if answer.not_asked:
        return answer
    return replace(answer if is_whole else as_part(answer), answered_by=question.engine)


@dataclass(frozen=True, slots=True)
class _Failed:
    reason: str


def _attempt(carry_out: Callable[[], T]) -> T | _Failed:
    """Run a part of the questions; return its result, or the cause of its failure.

    Every error is caught. A question depends on libraries, a JVM and snapshots that the audits may just have found
    wrong. A failed question must not lose the findings of the audits.
    """
    try:
        return carry_out()
    except Exception as error:  # noqa: BLE001  (see the docstring)
        return _Failed(in_one_line(error))


def _totals(graph: Whole) -> dict[str, int]:
    nodes = graph.nodes.agg(
        sql.count_if(sql.col("kind") == "group").alias("groups"),
        sql.count_if(sql.col("kind") == "process").alias("processes"),
        sql.count_distinct(sql.when(sql.col("kind") == "group", sql.col("domain"))).alias("domains"),
        sql.count_distinct("vnid").alias("virtual nodes"),
    ).collect()[0]
    return {**nodes.asDict(), "arcs": graph.rows_of_arcs().count_rows()}
