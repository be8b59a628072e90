"""Writes report.html from what the audits found and what was answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from jinja2 import Environment, PackageLoader, StrictUndefined

from spark_graph_jobs.compare.not_judged import in_words
from spark_graph_jobs.finding import Finding, Severity
from spark_graph_jobs.questions import duplicates, exposure, nesting, weak_points
from spark_graph_jobs.questions.asking import Answers
from spark_graph_jobs.report import drawings

if TYPE_CHECKING:
    from markupsafe import Markup

    from spark_graph_jobs.results import Result
    from spark_graph_jobs.snapshot.discovery import Collection

REPORT: Final = "report.html"

FINDINGS_SHOWN_LIMIT: Final = 300
"""Errors and warnings on the page. All are in findings.jsonl; a browser should open the page at once."""

_HEADLINES: Final = {
    "CONSISTENT": ("good", "Consistent", "Every invariant holds in all snapshots."),
    "ERRORS": (
        "bad",
        "Errors were found",
        "What must hold does not. Each error below names the command that mends it.",
    ),
    "PARTIAL": ("partial", "Partial data", "No error in what could be read. Nothing is said of the whole."),
}


def write_report(out: Path, result: Result, collection: Collection, answers: Answers | None) -> Path:
    """Write the page into a folder and return its path. `answers` None: no question was asked."""
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
        not_judged=[(each.server, in_words(each)) for each in result.not_judged],
        one_instant=collection.is_cut,
        servers=collection.snapshots,
        audits=result.audits,
        errors=sum(audit.errors for audit in result.audits),
        warnings=sum(audit.warnings for audit in result.audits),
        troubles=_by_audit(troubles[:FINDINGS_SHOWN_LIMIT]),
        left_out=max(0, len(troubles) - FINDINGS_SHOWN_LIMIT),
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


def _by_audit(findings: Sequence[Finding]) -> list[tuple[str, list[Finding]]]:
    grouped: dict[str, list[Finding]] = {}
    for finding in findings:
        grouped.setdefault(finding.audit, []).append(finding)
    return list(grouped.items())


def _pictures(answers: Answers) -> Mapping[str, Markup]:
    """The drawing of each question that has one."""
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
