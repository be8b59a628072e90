"""Output of answers: JSON with the keys of the results, or plain text, one item a line with tabs between its parts.

At a terminal `shadowtree.cli.render.terminal` prints tables and trees instead. That module is loaded only then.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from typing import Any, Final

import click

from shadowtree import results
from shadowtree.cli.render.complaints import INCOMPLETE_REASON, complain
from shadowtree.cli.support.standard_streams import is_watched

ALREADY_THERE: Final = "already there"
NOT_THERE: Final = "not there"

_NOT_IN_JSON = {"unchanged", "walk", "process_targets", "group_targets", "basis"}
_IN_JSON_WHEN_TRUE = {
    (results.GroupDescription, "rd_records_truncated"),
    (results.GroupDescription, "unreachable"),
    (results.GroupList, "unreachable"),
    (results.ImportSummary, "skipped_count"),
    (results.Resolution, "targets"),
    (results.Resolution, "why_unreachable"),
    (results.Resolution, "counts"),
    (results.Resolution, "elsewhere"),
}


def is_terminal() -> bool:
    """Return True if a person reads standard output."""
    return sys.stdout.isatty()


def print_json(value: Any) -> None:
    """Print a result, or a plain value, as JSON."""
    click.echo(json.dumps(as_json(value), ensure_ascii=False, indent=2 if is_terminal() else None))


def print_json_line(value: Any) -> None:
    """Print one of many results as one line of JSON, and flush."""
    text = json.dumps(as_json(value), ensure_ascii=False)
    # Control characters, which would act on a terminal, are escaped; all other text stays as it was sent.
    click.echo(text if text.isprintable() else json.dumps(as_json(value)))


def as_json(value: Any) -> Any:
    """Convert results to values that `json` can encode, key by key."""
    if is_dataclass(value):
        return {
            field.name: as_json(getattr(value, field.name))
            for field in fields(value)
            if field.name not in _NOT_IN_JSON
            and ((type(value), field.name) not in _IN_JSON_WHEN_TRUE or getattr(value, field.name))
        }
    if isinstance(value, dict):
        return {key: as_json(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return value if value and isinstance(value[0], str) else [as_json(item) for item in value]
    return value


def print_lines(lines: Iterable[str]) -> None:
    """Print many lines with one write."""
    text = "\n".join(lines)
    if text:
        click.echo(text)


def hint_at_terminal(sentence: str) -> None:
    """Tell a person at a terminal why nothing was printed. A pipe gets nothing."""
    if is_terminal() and is_watched():
        click.echo(f"shadowtree: {sentence}", err=True)


def print_row(*columns: object) -> None:
    """Print one line of columns with tabs between."""
    click.echo("\t".join(str(column) for column in columns))


def warn_unreachable(unreachable: tuple[str, ...]) -> None:
    """Report an incomplete answer: groups that could not be entered, or servers that could not be asked."""
    facts = {"unreachable": "\n".join(unreachable)}
    complain(f"incomplete: out of reach: {', '.join(unreachable)}", INCOMPLETE_REASON, facts)


def print_change(change: results.Change, *, is_json: bool) -> None:
    """Print the effects of a write."""
    if is_json:
        print_json(change)
    elif is_terminal():
        from shadowtree.cli.render.terminal import show_change

        show_change(change)
    else:
        print_lines("\t".join((effect.kind, *effect.groups)) for effect in change.effects)


def print_change_if_needed(
    change: results.Change, *, found: str, in_words: str, names: tuple[str, ...], is_json: bool
) -> None:
    """Print the effects of a write that is done only if needed.

    `found`: value of the JSON key `found` if the write was not needed; the key is null if something was done.
    `in_words`: the same text for people and pipes, printed with the names concerned.
    """
    if is_json:
        print_json({**as_json(change), "found": found if change.unchanged else None})
    elif not change.unchanged:
        print_change(change, is_json=False)
    elif is_terminal():
        click.echo(f"nothing to do: {in_words}: {', '.join(names)}")
    else:
        print_row(in_words, *names)
