"""`shadowtree apply`: apply a file of joins and leaves as atomic updates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import click

from shadowtree.cli.render.complaints import warn
from shadowtree.cli.render.output import (
    ALREADY_THERE,
    NOT_THERE,
    as_json,
    is_terminal,
    print_change,
    print_json,
    print_lines,
)
from shadowtree.cli.render.plurals import counted_for_people
from shadowtree.cli.support.options import (
    Session,
    effects_option,
    everywhere,
    if_missing_option,
    if_there_option,
    in_session,
    request_id_option,
)
from shadowtree.cli.support.spellings import refuse_other_spellings, sentences, strict_option
from shadowtree.errors import ShadowtreeError
from shadowtree.results import Change, Effect
from shadowtree.updates import Join, Leave

if TYPE_CHECKING:
    from shadowtree.client.files.update_reader import FileUpdate

SHOWN_AT_MOST: Final = 50
"""Maximum number of result lines at a terminal. A pipe and JSON get all."""


@dataclass(frozen=True, slots=True)
class _Line:
    """One line of the file, and True if it changed nothing."""

    number: int
    operation: Join | Leave
    is_unchanged: bool

    @property
    def found(self) -> str:
        """The change made, or the state found."""
        if isinstance(self.operation, Join):
            return "already a member" if self.is_unchanged else "joined"
        return "not a member" if self.is_unchanged else "left"

    @property
    def state_found(self) -> str | None:
        """State that made the operation unnecessary. None if the operation changed something."""
        if not self.is_unchanged:
            return None
        return ALREADY_THERE if isinstance(self.operation, Join) else NOT_THERE


@click.command("apply")
@click.argument("file")
@if_missing_option
@if_there_option
@strict_option
@effects_option
@request_id_option
@everywhere()
@in_session
def apply_command(
    session: Session,
    file: str,
    if_missing: bool,
    if_there: bool,
    is_strict: bool,
    with_effects: bool,
    request_id: str | None,
) -> None:
    """Make the joins and leaves of FILE; `-` is standard input.

    Each line is `+` or `-`, a parent, a child, and perhaps `group` or `member`, with tabs between. The lines up to a
    blank one are one atomic update: all of them are done, or none. Groups must exist. The whole file is checked
    before anything is sent; if the server refuses an update, those before it stay done.

    With --if-missing, joins of what is a member already change nothing; with --if-there, leaves of what is no member.
    The other lines of their update are done all the same, and a line of the answer says of each line of FILE what was
    found: `joined`, `already a member`, `left`, `not a member`.

    Names are compared with case: a warning says so where a joined name differs in letter case alone from another name,
    and --strict refuses the whole file.

    \b
    Example: move ann from one group to another, never in both and never in none:
      printf -- '-\\tred@x.org\\tann@x.org\\n+\\tblue@x.org\\tann@x.org\\n' | shadowtree apply -
    """
    from shadowtree.client.files.lines import shown_name
    from shadowtree.client.files.update_reader import read_updates

    updates = read_updates(file)
    effects: list[Effect] = []
    lines: list[_Line] = []
    revision = ""
    joined = {
        name
        for update in updates
        for operation in update.operations
        if isinstance(operation, Join)
        for name in (operation.parent, operation.member)
    }
    with session.connect() as names:
        if is_strict:
            refuse_other_spellings(names, joined)
        for done, update in enumerate(updates):
            # The request id names the whole file, but each update needs an id of its own.
            own_id = f"{request_id}/{done}" if request_id and len(updates) > 1 else request_id
            operations = [_if_needed(each, if_missing=if_missing, if_there=if_there) for each in update.operations]
            try:
                change = names.apply(operations, effects=with_effects, request_id=own_id)
            except ShadowtreeError as error:
                all_updates = counted_for_people(len(updates), "update")
                error.message = (
                    f"{shown_name(file)}:{update.line}: the update that begins here was refused: {error.message} "
                    f"({done} of {all_updates} {'is' if len(updates) == 1 else 'are'} done)"
                )
                raise
            effects += change.effects
            revision = change.revision
            lines += _lines_of(update, change)
        told = () if is_strict else tuple(sentences(names, joined))
    for sentence in told:
        warn(sentence)
    whole = Change(revision, tuple(effects))
    if if_missing or if_there:
        _print(whole, lines, is_json=session.is_json)
    else:
        print_change(whole, is_json=session.is_json)


def _if_needed(operation: Join | Leave, *, if_missing: bool, if_there: bool) -> Join | Leave:
    if isinstance(operation, Join):
        return replace(operation, if_missing=if_missing)
    return replace(operation, if_there=if_there)


def _lines_of(update: FileUpdate, change: Change) -> Iterator[_Line]:
    unchanged = set(change.unchanged)
    # The lines of one update are consecutive.
    for place, operation in enumerate(update.operations):
        yield _Line(update.line + place, operation, place + 1 in unchanged)


def _print(whole: Change, lines: list[_Line], *, is_json: bool) -> None:
    counts = dict.fromkeys(("joined", "already a member", "left", "not a member"), 0)
    for line in lines:
        counts[line.found] += 1
    if is_json:
        print_json(
            {
                **as_json(whole),
                "joined": counts["joined"],
                "left": counts["left"],
                "already_there": counts["already a member"],
                "not_there": counts["not a member"],
                "found": [
                    {
                        "line": line.number,
                        "parent": line.operation.parent,
                        "member": line.operation.member,
                        "found": line.state_found,
                    }
                    for line in lines
                ],
            }
        )
        return
    told = [f"{line.found}\t{line.operation.parent}\t{line.operation.member}" for line in lines]
    if not is_terminal():
        print_lines(told)
        print_change(whole, is_json=False)
        return
    print_change(whole, is_json=False)
    print_lines(told[:SHOWN_AT_MOST])
    if len(told) > SHOWN_AT_MOST:
        click.echo(f"and {counted_for_people(len(told) - SHOWN_AT_MOST, 'more line')} (--format json has all)")
    click.echo(", ".join(f"{count:,} {state}" for state, count in counts.items() if count))
