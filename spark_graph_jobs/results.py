"""The verdict and the findings of an audit, and how they are written.

findings.jsonl     one finding a line, errors first
findings.parquet   the same
summary.json       the verdict, and of each audit what it found and how long it took
report.html        the same for people, with what an auditor asks (see `report`)
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import IntEnum
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from spark_graph_jobs.compare.not_judged import NotJudged
from spark_graph_jobs.finding import Finding
from spark_graph_jobs.snapshot.discovery import Collection


class Verdict(IntEnum):
    """What came out; the numbers are exit statuses."""

    CONSISTENT = 0
    ERRORS = 1
    PARTIAL = 3
    FAILED = 4


@dataclass(frozen=True, slots=True)
class AuditResult:
    """What one audit found."""

    audit: str
    errors: int
    warnings: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Result:
    """What all audits found."""

    verdict: Verdict
    audits: tuple[AuditResult, ...]
    findings: tuple[Finding, ...]
    """Errors first."""
    not_judged: tuple[NotJudged, ...] = ()
    """What the servers without a snapshot keep from being judged."""
    is_partial: bool = False
    """Whether something could not be read, whatever was found in the rest."""


_SCHEMA: Final = pa.schema(
    [
        pa.field("audit", pa.string(), nullable=False),
        pa.field("severity", pa.string(), nullable=False),
        pa.field("subject", pa.string(), nullable=False),
        pa.field("message", pa.string(), nullable=False),
        pa.field("evidence", pa.list_(pa.string()), nullable=False),
        pa.field("fix", pa.string(), nullable=False),
    ]
)


def write(result: Result, collection: Collection, out: Path) -> None:
    """Write findings.jsonl, findings.parquet and summary.json."""
    out.mkdir(parents=True, exist_ok=True)
    rows = [{**asdict(finding), "severity": finding.severity.value} for finding in result.findings]
    with (out / "findings.jsonl").open("w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
    pq.write_table(pa.Table.from_pylist(rows, _SCHEMA), out / "findings.parquet")
    summary = {
        "verdict": result.verdict.name.lower(),
        "one_instant": collection.is_cut,
        "servers": [
            {"server": snapshot.server, "revision": snapshot.revision, "rows": dict(snapshot.rows)}
            for snapshot in collection.snapshots
        ],
        "partial": result.is_partial,
        "not_judged": [asdict(each) for each in result.not_judged],
        "audits": [asdict(audit) for audit in result.audits],
    }
    (out / "summary.json").write_text(json.dumps(summary, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def clear(out: Path) -> None:
    """Remove the results of an earlier run, so that none are taken for those of a run that fails."""
    for name in ("findings.jsonl", "findings.parquet", "summary.json", "report.html"):
        (out / name).unlink(missing_ok=True)
