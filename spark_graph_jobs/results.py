"""The verdict and the findings of an audit, and the files for them.

findings.jsonl     one finding a line, errors first
findings.parquet   the same
summary.json       the verdict, and of each audit what it found and how long it took
report.html        the same for people, with what an auditor asks (see `report`)
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from enum import IntEnum
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq

from spark_graph_jobs.compare.not_judged import NotJudged
from spark_graph_jobs.compare.suspended import Suspended
from spark_graph_jobs.finding import Finding
from spark_graph_jobs.snapshot.discovery import Collection, ServerSnapshot

if TYPE_CHECKING:
    from spark_graph_jobs.questions.answer import QuestionAnswer
    from spark_graph_jobs.questions.asking import Answers


class Verdict(IntEnum):
    """Result of an audit run. The numbers are exit statuses."""

    CONSISTENT = 0
    ERRORS = 1
    PARTIAL = 3
    FAILED = 4


@dataclass(frozen=True, slots=True)
class AuditResult:
    """Result of one audit."""

    audit: str
    errors: int
    warnings: int
    seconds: float
    checks: str
    """Description of the audit for people, in a sentence or two."""


@dataclass(frozen=True, slots=True)
class Made:
    """Program, times and options of an audit run."""

    version: str
    began: datetime
    """Time of the start, in UTC."""
    ended: datetime
    options: tuple[str, ...]
    """Words of the command line."""


def program_version() -> str:
    """Return the version of the package; "unknown" if only its source was sent along, as by `--py-files`."""
    try:
        return version("shadowtree")
    except PackageNotFoundError:
        return "unknown"


def in_iso(time: datetime) -> str:
    """Return a time with its zone, to the second. The texts of UTC times sort by time."""
    return time.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


@dataclass(frozen=True, slots=True)
class Result:
    """Results of all audits."""

    verdict: Verdict
    audits: tuple[AuditResult, ...]
    findings: tuple[Finding, ...]
    """Findings, errors first."""
    not_judged: tuple[NotJudged, ...] = ()
    """Counts of names and arcs of the servers without a snapshot."""
    is_partial: bool = False
    """True if something could not be read, whatever was found in the rest."""
    suspended: tuple[Suspended, ...] = ()
    """Counts of arcs to servers that were out of reach, sorted."""
    made: Made = field(kw_only=True)


_SCHEMA: Final = pa.schema(
    [
        pa.field("audit", pa.string(), nullable=False),
        pa.field("severity", pa.string(), nullable=False),
        pa.field("subject", pa.string(), nullable=False),
        pa.field("message", pa.string(), nullable=False),
        pa.field("evidence", pa.list_(pa.string()), nullable=False),
        pa.field("fix", pa.string(), nullable=False),
        pa.field("see", pa.string(), nullable=False),
    ]
)


def write(result: Result, collection: Collection, out: Path, answers: Answers | None) -> None:
    """Write findings.jsonl, findings.parquet and summary.json. `answers` is None if no question was asked."""
    out.mkdir(parents=True, exist_ok=True)
    rows = [{**asdict(finding), "severity": finding.severity.value} for finding in result.findings]
    with (out / "findings.jsonl").open("w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
    pq.write_table(pa.Table.from_pylist(rows, _SCHEMA), out / "findings.parquet")
    between = collection.taken_between
    summary = {
        "verdict": result.verdict.name.lower(),
        "audit": {
            "version": result.made.version,
            "began": in_iso(result.made.began),
            "ended": in_iso(result.made.ended),
            "options": list(result.made.options),
        },
        "one_instant": collection.is_cut,
        "taken": None if between is None else {"first": in_iso(between[0]), "last": in_iso(between[1])},
        "servers": [_of_server(snapshot) for snapshot in collection.snapshots],
        "partial": result.is_partial,
        "not_judged": [asdict(each) for each in result.not_judged],
        "suspended": [asdict(each) for each in result.suspended],
        "audits": [asdict(audit) for audit in result.audits],
        "questions": [] if answers is None else [_of_question(*each) for each in answers.answers],
    }
    (out / "summary.json").write_text(json.dumps(summary, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _of_server(snapshot: ServerSnapshot) -> dict[str, object]:
    taken = snapshot.taken
    return {
        "server": snapshot.server,
        "revision": snapshot.revision,
        "cut": snapshot.cut,
        "taken_at": None if taken is None else in_iso(taken.at),
        "taken_by": None if taken is None else taken.by,
        "address": None if taken is None else taken.address,
        "options": None if taken is None else dict(taken.options),
        "rows": dict(snapshot.rows),
    }


def _of_question(answer: QuestionAnswer, seconds: float) -> dict[str, object]:
    return {
        "question": answer.question,
        "answered_by": answer.answered_by,
        "not_asked": answer.not_asked or None,
        "seconds": seconds,
    }


def clear(out: Path) -> None:
    """Remove the results of an earlier run, so that a run that fails leaves none."""
    for name in ("findings.jsonl", "findings.parquet", "summary.json", "report.html"):
        (out / name).unlink(missing_ok=True)
