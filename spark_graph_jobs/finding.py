"""Findings of an audit, each with its evidence and the command that mends it or shows more."""

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
    """How bad a finding is."""

    ERROR = "error"
    """Something that must hold does not."""
    WARNING = "warning"
    """Nothing is known to be wrong, but something may become so, or could not be looked at."""
    INFO = "info"
    """Worth knowing."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was found."""

    audit: str
    severity: Severity
    subject: str
    """The node, arc, virtual node, update or server that it is about; an arc as `parent -> child`."""
    message: str
    evidence: tuple[str, ...] = ()
    """What shows it; a path from node to node where there is one."""
    fix: str = ""
    """A command of `shadowtree` that mends an error or a warning, or shows what to mend. Empty if there is none."""
    see: str = ""
    """A command of `shadowtree` that shows more and changes nothing. Empty if there is none."""

    def __post_init__(self) -> None:
        assert self.severity is not Severity.INFO or not self.fix, f"{self.audit}: what is right needs no {self.fix}"
        assert not self.see or self.see.startswith(_READS), f"{self.audit}: not known to change nothing: {self.see}"


def counted(number: int, noun: str) -> str:
    """Return a number and what it counts: `1 arc`, `2,000 arcs`, `2 processes`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}{'es' if noun.endswith('s') else 's'}"


def on_one_line(text: str) -> str:
    """The text for a terminal: what servers wrote into a snapshot may act on one, or begin another line."""
    return "".join("\N{REPLACEMENT CHARACTER}" if _acts(character) else character for character in text)


def _acts(character: str) -> bool:
    return unicodedata.category(character) in {"Cc", "Cf", "Co", "Cs", "Zl", "Zp"}


def shell_line(*words: str, names: Sequence[str] = ()) -> str:
    """A command of `shadowtree` for a shell: whatever the names hold, it is read as these words.

    `names` come last. They are the words of others: one that begins like an option is told apart from one.
    """
    apart = ("--",) if any(name.startswith("-") for name in names) else ()
    return shlex.join(("shadowtree", *words, *apart, *names))


def rejoin(parent: str, child: str) -> str:
    """Joining again computes everything about an arc anew, at all servers concerned."""
    return f"{shell_line('leave', names=(parent, child))} && {shell_line('join', names=(parent, child))}"
