"""Run all audits over a collection of snapshots and return the verdict."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from spark_graph_jobs.audits import (
    acyclic,
    agreement,
    ancestry,
    deliveries,
    in_flight,
    messages,
    row_audits,
    sink_pass,
    virtual_nodes,
)
from spark_graph_jobs.compare import not_judged, side_by_side, suspended
from spark_graph_jobs.compare.not_judged import NotJudged
from spark_graph_jobs.compare.suspended import Suspended
from spark_graph_jobs.compare.violations import ViolationRow, collect_troubles, name_troubles
from spark_graph_jobs.engines.choice import Choice
from spark_graph_jobs.finding import Finding, Severity
from spark_graph_jobs.questions import changes, from_scratch
from spark_graph_jobs.questions.asking import Answers, Wishes, ask_all
from spark_graph_jobs.report.page import write_report
from spark_graph_jobs.results import AuditResult, Made, Result, Verdict, program_version, write
from spark_graph_jobs.snapshot import discovery
from spark_graph_jobs.snapshot.discovery import Collection, ServerSnapshot
from spark_graph_jobs.snapshot.schema import DELIVERIES_SCHEMA
from spark_graph_jobs.snapshot.tables import NamesCollideError, Tables, load, why_unreadable
from spark_graph_jobs.spark.failures import SPARK_FAILURES, in_one_line

Progress = Callable[[str], None]

WORK: Final = ".work"
WORK_BEFORE: Final = ".work-before"
"""Folders of intermediate tables below the folder of the results; removed at the end."""

READING: Final = "reading and joining"
LOOKING: Final = "each arc and node by itself"
JUDGING: Final = "ancestor sets at every sink"
"""Steps that the report lists among the audits, for their durations."""

CHECKS: Final = {
    discovery.AUDIT: discovery.CHECKS,
    in_flight.AUDIT: in_flight.CHECKS,
    READING: "Nothing is checked: the tables of all servers are read and put side by side.",
    agreement.AUDIT: agreement.CHECKS,
    LOOKING: "One look at each row of the tables. Findings are counted under levels, agreement, ancestry and virtual"
    " nodes.",
    JUDGING: "The ancestor set of each node follows from those of its parents. Findings are counted under ancestry.",
    acyclic.AUDIT: acyclic.CHECKS,
    virtual_nodes.AUDIT: virtual_nodes.CHECKS,
    ancestry.AUDIT: ancestry.CHECKS,
    messages.AUDIT: messages.CHECKS,
    deliveries.AUDIT: deliveries.CHECKS,
}
"""A sentence or two for each row of the report."""

FIXES: Final = {
    agreement.AUDIT: agreement.fix,
    ancestry.AUDIT: ancestry.fix,
    acyclic.AUDIT: ancestry.fix,
    virtual_nodes.AUDIT: ancestry.fix,
}
"""Functions that return the fix of a node, by audit. The fix of an arc is always to join it again."""


@dataclass(frozen=True, slots=True)
class Inquiry:
    """Questions to ask beside the audits, and the graph engine for them."""

    choice: Choice
    wishes: Wishes = field(default_factory=Wishes)


def run(
    spark: SparkSession,
    collection: Collection,
    out: Path,
    *,
    progress: Progress,
    inquiry: Inquiry | None = None,
    options: Sequence[str] = (),
) -> Result:
    """Judge the snapshots of a collection, and write the results to the folder `out`.

    `inquiry`: also answer the questions of an auditor; None leaves them out. `options`: options of the command, for the
    report.
    """
    began = datetime.now(UTC)
    found: list[Finding] = []
    left: tuple[NotJudged, ...] = ()
    apart: tuple[Suspended, ...] = ()
    seconds = {discovery.AUDIT: 0.0, in_flight.AUDIT: 0.0}

    def conclude(answers: Answers | None) -> Result:
        asked = [] if answers is None else [finding for answer, _ in answers.answers for finding in answer.findings]
        findings = sorted([*found, *asked], key=_place)
        results = [_count(audit, findings, elapsed) for audit, elapsed in seconds.items()]
        verdict = _verdict(collection, findings)
        made = Made(program_version(), began, datetime.now(UTC), tuple(options))
        result = Result(verdict, tuple(results), tuple(findings), left, collection.is_partial, apart, made=made)
        write(result, collection, out, answers)
        write_report(out, result, collection, answers)
        return result

    if not collection.snapshots:
        found += [*not_judged.told(collection.findings, left), *in_flight.audit(collection)]
        return conclude(None)
    started = time.perf_counter()
    with load(spark, collection, out / WORK) as tables:
        found, left = _judge(tables, collection, progress, seconds, started)
        apart = suspended.count(tables)
        found += [*not_judged.told(collection.findings, left), *in_flight.audit(collection)]
        # Results are written before any question: a question that ends this process must not lose the audits.
        result = conclude(None)
        if inquiry is None:
            return result
        return conclude(_ask(tables, collection, inquiry, out / WORK_BEFORE, progress))


def _ask(tables: Tables, collection: Collection, inquiry: Inquiry, work_before: Path, progress: Progress) -> Answers:
    wishes, left_out = inquiry.wishes, {}
    if wishes.from_scratch and collection.is_partial:
        left_out[from_scratch.QUESTION] = "a loop through what is missing would look broken"
    if wishes.before is not None and (collection.lacks_servers or wishes.before.lacks_servers):
        left_out[changes.QUESTION] = "all that a missing server has would look created or deleted"
    before: Tables | None = None
    with ExitStack() as stack:
        if wishes.before is not None and changes.QUESTION not in left_out:
            try:
                before = stack.enter_context(load(tables.nodes.sparkSession, wishes.before, work_before))
            except (*SPARK_FAILURES, NamesCollideError, OSError) as error:
                left_out[changes.QUESTION] = f"the earlier snapshots cannot be read: {in_one_line(error)}"
        return ask_all(tables, inquiry.choice, wishes, before, progress, left_out)


def audits(tables: Tables) -> Mapping[str, Callable[[], DataFrame]]:
    """Return the audits that read the tables themselves, by name, in the order of running. Each returns troubles."""
    found: dict[str, Callable[[], DataFrame]] = {
        acyclic.AUDIT: lambda: acyclic.audit(tables),
        virtual_nodes.AUDIT: lambda: virtual_nodes.audit(tables),
        ancestry.AUDIT: lambda: ancestry.audit(tables),
    }
    if tables.has_messages:
        found[messages.AUDIT] = lambda: messages.audit(tables)
    log = tables.deliveries
    if log is not None:
        found[deliveries.AUDIT] = lambda: deliveries.audit(tables, log)
    return found


def _judge(
    tables: Tables, collection: Collection, progress: Progress, seconds: dict[str, float], started: float
) -> tuple[list[Finding], tuple[NotJudged, ...]]:
    """Run Spark's audits; return their findings and the counts of what could not be judged.

    `seconds` receives the duration of each audit. Reading began at `started`.
    """

    def end(name: str, found: list[ViolationRow]) -> None:
        seconds[name] = time.perf_counter() - started
        progress(f"{name}: {_in_words(trouble.severity for trouble in found)} ({seconds[name]:.1f} s)")
        troubles.extend(found)

    troubles: list[ViolationRow] = []
    nodes = tables.store.keep("said of nodes", side_by_side.of_nodes(tables))
    arcs = tables.store.keep("said of arcs", side_by_side.of_arcs(tables, nodes))
    seconds[READING] = time.perf_counter() - started
    progress(f"{READING} ({seconds[READING]:.1f} s)")
    seconds[agreement.AUDIT] = 0.0  # agreement has no pass of its own
    started = time.perf_counter()
    end(LOOKING, collect_troubles(row_audits.look(tables, nodes, arcs)))
    started = time.perf_counter()
    end(JUDGING, collect_troubles(sink_pass.judge(tables), ancestry.AUDIT))
    for name, audit in audits(tables).items():
        started = time.perf_counter()
        end(name, collect_troubles(audit(), name))
    return name_troubles(troubles, tables, FIXES), not_judged.count(collection, tables, arcs)


def find_damaged(spark: SparkSession, collection: Collection, out: Path) -> dict[str, str]:
    """Return the damage of snapshots or the delivery log that made the audits fail, by name of the folder.

    Manifests and footers were whole, so either pages are damaged, or some rows are such as no server writes. Every
    table is read; if all are readable, each snapshot is judged alone. The result is empty if no snapshot is at fault.
    """
    found = {name: why for name, path, schema in _files(collection) if (why := why_unreadable(spark, path, schema))}
    if not found:
        alone = ((each.folder.name, _why_it_fails_alone(spark, each, out / WORK)) for each in collection.snapshots)
        found = {name: why for name, why in alone if why}
        if len(found) == len(collection.snapshots) > 1:
            # If all fail, the cause is more likely this machine, for example a full disk.
            return {}
    return found


def _files(collection: Collection) -> Iterator[tuple[str, Path, pa.Schema]]:
    """Yield all tables, each with the name of the folder or log that it belongs to."""
    for snapshot in collection.snapshots:
        for table, schema in snapshot.schemas.items():
            yield snapshot.folder.name, snapshot.folder / f"{table}.parquet", schema
    if collection.deliveries is not None:
        yield collection.deliveries.name, collection.deliveries, DELIVERIES_SCHEMA


def _why_it_fails_alone(spark: SparkSession, snapshot: ServerSnapshot, work: Path) -> str:
    alone = Collection((snapshot,), (), is_partial=True, deliveries=None, lacks_servers=True)
    try:
        with load(spark, alone, work) as tables:
            _judge(tables, alone, lambda _: None, {}, 0.0)
    except (*SPARK_FAILURES, NamesCollideError) as error:
        return f"no audit can go through its rows: {in_one_line(error)}"
    return ""


_SEVERITIES: Final = {severity: place for place, severity in enumerate(Severity)}


def _place(finding: Finding) -> tuple[int, str, str, str]:
    return _SEVERITIES[finding.severity], finding.audit, finding.subject, finding.message


def _count(audit: str, findings: Iterable[Finding], seconds: float) -> AuditResult:
    severities = [finding.severity for finding in findings if finding.audit == audit]
    errors, warnings = severities.count(Severity.ERROR), severities.count(Severity.WARNING)
    return AuditResult(audit, errors, warnings, round(seconds, 1), CHECKS[audit])


def _in_words(severities: Iterable[Severity]) -> str:
    found = list(severities)
    if not found:
        return "nothing wrong"
    return f"{found.count(Severity.ERROR)} errors, {found.count(Severity.WARNING)} warnings"


def _verdict(collection: Collection, findings: Iterable[Finding]) -> Verdict:
    """Return the verdict: ERRORS if there is an error, whatever is missing; CONSISTENT only for complete data."""
    if any(finding.severity is Severity.ERROR for finding in findings):
        return Verdict.ERRORS
    return Verdict.PARTIAL if collection.is_partial else Verdict.CONSISTENT
