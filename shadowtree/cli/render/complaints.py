"""Errors and warnings on standard error: one line of text, or one line of JSON with `--format json`.

    text    shadowtree: there is no group staff@ubc.example
    JSON    {"error": {"reason": "GROUP_NOT_FOUND", "message": "there is no group ...", "facts": {"group": "..."}}}
            {"warning": {"message": "..."}}

A command prints at most one error, and every status from 2 to 4 comes with one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, Protocol

import click

from shadowtree.cli.support.standard_streams import OutputError

WRONG_USAGE_REASON: Final = "INVALID_REQUEST"
"""Reason of an invalid command line: the reason that a server gives for such a request."""

INCOMPLETE_REASON: Final = "UNAVAILABLE"
"""Reason of an answer that lacks the data of a server."""

SERVER_FAILED_REASON: Final = "SERVER_FAULT"

FAILED_REASON: Final = "COMMAND_FAILED"
"""Reason of a failure on this computer for which Python has its own exceptions: a missing library, a full disk."""


class Speaker(Protocol):
    """The part of a session that decides how errors are printed."""

    has_complained: bool
    """True if an error was printed."""

    @property
    def is_json(self) -> bool:
        """True if answers and errors are JSON."""


def complain(
    message: str, reason: str, facts: Mapping[str, str] | None = None, *, hint: str = "", speaker: Speaker | None = None
) -> None:
    """Print the error of a command. `speaker`: None for the session of the command that is running."""
    speaker = speaker or _speaker()
    one_line = " ".join(message.split())
    if speaker is not None and speaker.is_json:
        if speaker.has_complained:
            _print_json("warning", {"message": one_line})
        else:
            _print_json(
                "error", {"reason": reason, "message": one_line + hint, "facts": dict(sorted((facts or {}).items()))}
            )
    else:
        _print(f"shadowtree: {one_line}{hint}")
    if speaker is not None:
        speaker.has_complained = True


def warn(message: str) -> None:
    """Print a warning. The exit status does not depend on it."""
    speaker = _speaker()
    if speaker is not None and speaker.is_json:
        _print_json("warning", {"message": " ".join(message.split())})
    else:
        click.echo(f"shadowtree: {message}", err=True)


def _speaker() -> Speaker | None:
    context = click.get_current_context(silent=True)
    return None if context is None else context.find_root().obj


def _print_json(kind: str, value: dict[str, Any]) -> None:
    text = json.dumps({kind: value}, ensure_ascii=False)
    # Control characters, which would act on a terminal, are escaped.
    _print(text if text.isprintable() else json.dumps({kind: value}))


def _print(text: str) -> None:
    # If standard error fails too, the exit status still reports the error.
    with suppress(OutputError):
        click.echo(text, err=True)
