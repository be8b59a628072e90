"""The form of an answer: a table for the report, and findings that are worth a line of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from spark_graph_jobs.finding import Finding, Severity, shell_line

ROWS_SHOWN_LIMIT: Final = 20
"""Maximum number of rows of a table. The snapshots have the rest."""

FINDINGS_SHOWN_LIMIT: Final = 5
"""Maximum number of findings of one question."""

AS_PART: Final = "as far as the snapshots go"

Cell = str | int | float


@dataclass(frozen=True, slots=True)
class QuestionAnswer:
    """Result of one question."""

    question: str
    """Name of the question, also in its findings."""
    explanation: str
    """One or two sentences: the meaning of the table and the conclusion."""
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[Cell, ...], ...] = ()
    findings: tuple[Finding, ...] = ()
    answered_by: str = "Spark"
    """Engine that computed the answer; "none" if the question was not asked."""
    not_asked: str = ""
    """Reason why there is no answer. Empty if there is an answer."""


def not_asked(question: str, reason: str) -> QuestionAnswer:
    """Return the replacement for an answer that could not be computed."""
    return QuestionAnswer(question, f"Not asked: {reason}.", answered_by="none", not_asked=reason)


def info(question: str, subject: str, message: str, path: Sequence[str] = (), *, see: str) -> Finding:
    """Return an INFO finding.

    `path` leads from group to member and is its evidence; `see` is a command that shows more.
    """
    return Finding(question, Severity.INFO, subject, message, tuple(path), see=see)


def see_path(path: Sequence[str]) -> str:
    """Return the command that shows why the last node of a path is a member of the first."""
    return shell_line("check", "--explain", names=(path[0], path[-1]))


def as_part(answer: QuestionAnswer) -> QuestionAnswer:
    """Return the answer for incomplete snapshots: its numbers are lower bounds, and more rows may exist."""
    findings = (replace(finding, message=f"{AS_PART}: {finding.message}") for finding in answer.findings)
    return replace(answer, explanation=f"{AS_PART}: {answer.explanation}", findings=tuple(findings))
