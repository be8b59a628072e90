"""Runs all audits over a folder of snapshots and writes what they found.

    findings.jsonl     one finding a line, errors first
    findings.parquet   the same
    summary.json       the verdict, and of each audit what it found and how long it took
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from spark_graph_jobs import (
    agreement,
    ancestry,
    deliveries,
    ends,
    exactly_once,
    levels,
    rd_records,
    sinks,
    virtual_nodes,
)
from spark_graph_jobs.finding import Finding, Severity
from spark_graph_jobs.snapshots import AUDIT as SNAPSHOTS
from spark_graph_jobs.snapshots import Collection
from spark_graph_jobs.tables import Tables, load

Audit = Callable[[], DataFrame]
Progress = Callable[[str], None]


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


def run(spark: SparkSession, collection: Collection, out: Path, *, progress: Progress) -> Result:
    """Judge the snapshots of a collection and write the results to `out`."""
    found = list(collection.findings)
    results = [_count(SNAPSHOTS, found, 0.0)]
    if collection.snapshots:
        for name, findings, seconds in _judge(spark, collection, progress):
            results.append(_count(name, findings, seconds))
            found += findings
    found.sort(key=_place)
    result = Result(_verdict(collection, found), tuple(results), tuple(found))
    write(result, collection, out)
    return result


def _judge(
    spark: SparkSession, collection: Collection, progress: Progress
) -> Iterator[tuple[str, list[Finding], float]]:
    started = time.perf_counter()
    with load(spark, collection) as tables:
        gathered = sinks.gather(tables).persist(StorageLevel.DISK_ONLY)
        compared = ends.compare(tables).persist(StorageLevel.DISK_ONLY)
        progress(f"{tables.nodes.count():,} nodes and {tables.arcs.count():,} arcs, counted at each server that has them")
        for name, audit in audits(tables, gathered, compared).items():
            findings = collect(audit())
            seconds = time.perf_counter() - started
            progress(f"{name}: {_in_words(findings)} ({seconds:.1f} s)")
            yield name, findings, seconds
            started = time.perf_counter()
        gathered.unpersist()
        compared.unpersist()


def audits(tables: Tables, gathered: DataFrame, compared: DataFrame) -> Mapping[str, Audit]:
    """All audits by name, in the order in which they run."""
    return {
        levels.AUDIT: lambda: levels.audit(tables),
        virtual_nodes.AUDIT: lambda: virtual_nodes.audit(tables),
        agreement.AUDIT: lambda: agreement.audit(tables, compared),
        ancestry.AUDIT: lambda: ancestry.audit(tables, gathered, compared),
        exactly_once.AUDIT: lambda: exactly_once.audit(tables, gathered),
        rd_records.AUDIT: lambda: rd_records.audit(tables),
        deliveries.AUDIT: lambda: deliveries.audit(tables),
    }


def collect(findings: DataFrame) -> list[Finding]:
    """The findings of one audit; each of its checks reports so many at most (`trouble.FINDINGS_LIMIT`)."""
    return [
        Finding(
            row["audit"], Severity(row["severity"]), row["subject"], row["message"], tuple(row["evidence"]), row["fix"]
        )
        for row in findings.toArrow().to_pylist()
    ]


_SEVERITIES: Final = {severity: place for place, severity in enumerate(Severity)}


def _place(finding: Finding) -> tuple[Any, ...]:
    return _SEVERITIES[finding.severity], finding.audit, finding.subject, finding.message


def _count(name: str, findings: list[Finding], seconds: float) -> AuditResult:
    severities = [finding.severity for finding in findings]
    return AuditResult(name, severities.count(Severity.ERROR), severities.count(Severity.WARNING), round(seconds, 1))


def _in_words(findings: list[Finding]) -> str:
    count = _count("", findings, 0.0)
    if not findings:
        return "nothing wrong"
    return f"{count.errors} errors, {count.warnings} warnings"


def _verdict(collection: Collection, findings: list[Finding]) -> Verdict:
    """An error is one, whatever else is missing; without errors, "consistent" is said of whole data only."""
    if any(finding.severity is Severity.ERROR for finding in findings):
        return Verdict.ERRORS
    return Verdict.PARTIAL if collection.is_partial else Verdict.CONSISTENT


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
        "audits": [asdict(audit) for audit in result.audits],
    }
    (out / "summary.json").write_text(json.dumps(summary, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def clear(out: Path) -> None:
    """Remove the results of an earlier run, so that none are taken for those of a run that fails."""
    for name in ("findings.jsonl", "findings.parquet", "summary.json"):
        path = out / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
