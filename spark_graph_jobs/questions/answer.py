"""The form of an answer: a table for the report, and the findings that are worth a line of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from spark_graph_jobs.finding import Finding, Severity, shell_line

ROWS_SHOWN_LIMIT: Final = 20
"""Rows of a table. What comes after the twentieth largest is in the snapshots."""

FINDINGS_SHOWN_LIMIT: Final = 5
"""Findings of one question."""

AS_PART: Final = "as far as the snapshots go"

Cell = str | int | float


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of one question."""

    question: str
    """Its name, also that of its findings."""
    explanation: str
    """One or two sentences: what the table says, and what to make of it."""
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[Cell, ...], ...] = ()
    findings: tuple[Finding, ...] = ()
    answered_by: str = "Spark"
    """The engine that computed it; "none" where the question was not asked."""
    not_asked: str = ""
    """Why there is no answer; empty where there is one."""


def not_asked(question: str, reason: str) -> Answer:
    """Return what stands in place of an answer."""
    return Answer(question, f"Not asked: {reason}.", answered_by="none", not_asked=reason)


def info(question: str, subject: str, message: str, path: Sequence[str] = (), *, see: str) -> Finding:
    """Something worth knowing; `path` leads from group to member and is its evidence; `see` shows more of it."""
    return Finding(question, Severity.INFO, subject, message, tuple(path), see=see)


def see_path(path: Sequence[str]) -> str:
    """Return the command that shows why the last of a path is a member of the first."""
    return shell_line("check", "--explain", names=(path[0], path[-1]))


def as_part(answer: Answer) -> Answer:
    """The answer where a server has no snapshot: numbers are at least so large, and more may be there."""
    findings = (replace(finding, message=f"{AS_PART}: {finding.message}") for finding in answer.findings)
    return replace(answer, explanation=f"{AS_PART}: {answer.explanation}", findings=tuple(findings))
