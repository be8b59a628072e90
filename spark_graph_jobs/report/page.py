"""Write report.html from the findings of the audits and the answers to the questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from jinja2 import Environment, PackageLoader, StrictUndefined

from spark_graph_jobs.compare.not_judged import in_words
from spark_graph_jobs.compare.suspended import in_words as suspended_in_words
from spark_graph_jobs.finding import Finding, Severity, counted
from spark_graph_jobs.questions import duplicates, exposure, nesting, weak_points
from spark_graph_jobs.questions.asking import Answers
from spark_graph_jobs.report import drawings

if TYPE_CHECKING:
    from datetime import datetime

    from markupsafe import Markup

    from spark_graph_jobs.results import Result
    from spark_graph_jobs.snapshot.discovery import Collection

REPORT: Final = "report.html"

FINDINGS_SHOWN_LIMIT: Final = 300
"""Maximum number of errors and warnings on the page, which must open quickly. All are in findings.jsonl."""

_HEADLINES: Final = {
    "CONSISTENT": ("good", "Consistent", "Every invariant holds in all snapshots."),
    "ERRORS": (
        "bad",
        "Errors were found",
        "What must hold does not. Errors below name the command that mends them, or shows what to mend.",
    ),
    "PARTIAL": ("partial", "Partial data", "No error in what could be read. Nothing is said of the whole."),
}


def write_report(out: Path, result: Result, collection: Collection, answers: Answers | None) -> Path:
    """Write the page into a folder and return its path. `answers` is None if no question was asked."""
    environment = Environment(
        loader=PackageLoader("spark_graph_jobs.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = lambda value: f"{value:,}" if isinstance(value, int) else str(value)
    troubles = [finding for finding in result.findings if finding.severity is not Severity.INFO]
    style, headline, meaning = _HEADLINES[result.verdict.name]
    page = environment.get_template("page.html.jinja").render(
        style=style,
        headline=headline,
        meaning=meaning,
        suspended=[(each.out_of_reach, suspended_in_words(each)) for each in result.suspended],
        not_judged=[(each.server, in_words(each)) for each in result.not_judged],
        made=result.made,
        moment=in_words_of_people,
        instant=_instant(collection),
        servers=collection.snapshots,
        audits=result.audits,
        errors=sum(audit.errors for audit in result.audits),
        warnings=sum(audit.warnings for audit in result.audits),
        troubles=_by_audit(troubles[:FINDINGS_SHOWN_LIMIT]),
        left_out=max(0, len(troubles) - FINDINGS_SHOWN_LIMIT),
        counted=counted,
        options=_options(collection),
        answers=answers,
        pictures={} if answers is None else _pictures(answers),
        loops=[] if answers is None else [_loop(name, arcs) for name, arcs in answers.picture.loops],
        matrix=None if answers is None else answers.picture.matrix,
        shade=drawings.shade,
        matrix_question=exposure.QUESTION,
        loops_question=weak_points.QUESTION,
    )
    path = out / REPORT
    path.write_text(page, encoding="utf-8")
    return path


def in_words_of_people(time: datetime) -> str:
    """Return a time in UTC to the second, as `2026-11-28 14:05:12 UTC`."""
    return f"{time:%Y-%m-%d %H:%M:%S} UTC"


def _options(collection: Collection) -> list[tuple[str, list[str]]]:
    """Return the options with which snapshots were taken, each with the servers of these snapshots."""
    found: dict[str, list[str]] = {}
    for snapshot in collection.snapshots:
        if snapshot.taken is not None:
            given = [f"{name} {value}" for name, value in snapshot.taken.options.items() if value not in (None, False)]
            found.setdefault(", ".join(given) or "no options", []).append(snapshot.server)
    return list(found.items())


def _instant(collection: Collection) -> str:
    """Return a sentence about the instants of the snapshots."""
    between = collection.taken_between
    if not collection.snapshots:
        return "There is no snapshot."
    if collection.is_cut:
        when = "" if between is None else f", of {in_words_of_people(between[0])}"
        return (
            f"All snapshots are of one instant{when}: the cut {collection.snapshots[0].cut}. They have every update"
            " before it and none after it."
        )
    when = "" if between is None else f", from {in_words_of_people(between[0])} to {in_words_of_people(between[1])}"
    return (
        f"Each snapshot is of an instant of its own{when}: two servers may differ in an update that was under way."
        " The option --cut takes all at one instant."
    )


def _by_audit(findings: Sequence[Finding]) -> list[tuple[str, list[Finding]]]:
    grouped: dict[str, list[Finding]] = {}
    for finding in findings:
        grouped.setdefault(finding.audit, []).append(finding)
    return list(grouped.items())


def _pictures(answers: Answers) -> Mapping[str, Markup]:
    """Return the drawings, by question."""
    picture = answers.picture
    depths = [(str(depth), picture.depths.get(depth, 0)) for depth in range(max(picture.depths, default=-1) + 1)]
    sizes = drawings.in_doubling_sizes(picture.loop_sizes)
    return {
        nesting.QUESTION: drawings.columns(depths, across="levels of groups above", up="groups"),
        weak_points.QUESTION: drawings.columns(sizes, across="groups in the loop", up="loops"),
        duplicates.QUESTION: drawings.rows(picture.duplicated[:10]),
    }


def _loop(name: str, arcs: Sequence[tuple[str, str, str]]) -> dict[str, object]:
    return {"name": name, "drawing": drawings.loop(arcs), "groups": drawings.names_of(arcs)}
