"""Findings of an audit, each with its evidence and a command that corrects it or shows more."""

from __future__ import annotations

import shlex
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

READ_COMMANDS: Final = ("check", "describe", "memberships", "peers", "resolve", "status")
"""Commands that change nothing."""

_READS: Final = tuple(f"shadowtree {command} " for command in READ_COMMANDS)


class Severity(Enum):
    """Severity of a finding."""

    ERROR = "error"
    """An invariant is violated."""
    WARNING = "warning"
    """No violation is known, but one may follow, or something could not be checked."""
    INFO = "info"
    """Information that is worth knowing."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One result of an audit or question."""

    audit: str
    severity: Severity
    subject: str
    """Node, arc, virtual node, update or server of the finding; an arc as `parent -> child`."""
    message: str
    evidence: tuple[str, ...] = ()
    """Evidence; a path from node to node if there is one."""
    fix: str = ""
    """Command of `shadowtree` that corrects an error or a warning, or shows what to correct. Empty if there is none."""
    see: str = ""
    """Command of `shadowtree` that shows more and changes nothing. Empty if there is none."""

    def __post_init__(self) -> None:
        assert self.severity is not Severity.INFO or not self.fix, f"{self.audit}: what is right needs no {self.fix}"
        assert not self.see or self.see.startswith(_READS), f"{self.audit}: not known to change nothing: {self.see}"


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: `1 arc`, `2,000 arcs`, `2 processes`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}{'es' if noun.endswith('s') else 's'}"


def on_one_line(text: str) -> str:
    """Return the text for a terminal: snapshots may contain control characters and line breaks, which are replaced."""
    return "".join("\N{REPLACEMENT CHARACTER}" if _acts(character) else character for character in text)


def _acts(character: str) -> bool:
    return unicodedata.category(character) in {"Cc", "Cf", "Co", "Cs", "Zl", "Zp"}


def shell_line(*words: str, names: Sequence[str] = ()) -> str:
    """Return a command of `shadowtree` that a shell splits into exactly these words.

    `names` come last. They come from snapshots: a name that begins with a dash is separated from the options by `--`.
    """
    apart = ("--",) if any(name.startswith("-") for name in names) else ()
    return shlex.join(("shadowtree", *words, *apart, *names))


def rejoin(parent: str, child: str) -> str:
    """Return the command that leaves and joins an arc.

    The join computes all data about the arc again, at all servers concerned.
    """
    return f"{shell_line('leave', names=(parent, child))} && {shell_line('join', names=(parent, child))}"
