"""`shadowtree group`: create, change, delete, list and describe groups, and set their delivery options."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

import click

from shadowtree.cli.commands.describe import describe_command
from shadowtree.cli.render.complaints import warn
from shadowtree.cli.render.output import (
    ALREADY_THERE,
    NOT_THERE,
    hint_at_terminal,
    print_change,
    print_change_if_needed,
    print_json,
    print_lines,
    warn_unreachable,
)
from shadowtree.cli.support.exit_codes import DONE, UNCERTAIN
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
from shadowtree.cli.support.suggestions import suggest_command

if TYPE_CHECKING:
    from shadowtree.vocabulary import Kept, Quality


class _Group(click.Group):
    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        suggest_command(ctx, args, self.commands)
        return super().resolve_command(ctx, args)


description_option = click.option(
    "--description", metavar="TEXT", help="A text for people: one line of at most 1,000 characters."
)


@click.group("group", cls=_Group)
@everywhere()
def group_command() -> None:
    """Create, change, delete, list and describe groups, and say who may send to them.

    A group is `name@subnet`, and belongs to the server that owns the subnet.
    """


@group_command.command("create")
@click.argument("group")
@if_missing_option
@description_option
@click.option("--take-over", is_flag=True, help="If a process of this name is in groups, it becomes the group.")
@strict_option
@effects_option
@request_id_option
@everywhere()
@in_session
def create_command(
    session: Session,
    group: str,
    description: str | None,
    if_missing: bool,
    take_over: bool,
    is_strict: bool,
    with_effects: bool,
    request_id: str | None,
) -> None:
    """Create GROUP, without members.

    Names are compared with case: a warning says so where GROUP differs in letter case alone from another name, and
    --strict refuses that.

    With --if-missing a group that exists stays as it is: the line `already there` says so (JSON: `found`).

    A name that joined groups before its group was created is a process, such as a person. With --take-over it becomes
    GROUP, and stays in these groups. Refused while the server of one of them is out of reach.

    \b
    Examples:
      shadowtree group create staff@ubc.example
      shadowtree group create staff@ubc.example --if-missing
      shadowtree group create lab@ubc.example --description "The robotics laboratory"
    """
    from shadowtree.client.calls import as_kept

    with session.connect() as names:
        if is_strict:
            refuse_other_spellings(names, (group,))
        change = names.create_group(
            group,
            description=description or "",
            if_missing=if_missing,
            take_over=take_over,
            effects=with_effects,
            request_id=request_id,
        )
        told = () if is_strict else tuple(sentences(names, (group,)))
    for sentence in told:
        warn(sentence)
    if not if_missing:
        print_change(change, is_json=session.is_json)
        return
    print_change_if_needed(
        change, found=ALREADY_THERE, in_words="already there", names=(as_kept(group),), is_json=session.is_json
    )


@group_command.command("set")
@click.argument("group")
@description_option
@request_id_option
@everywhere()
@in_session
def set_command(session: Session, group: str, description: str | None, request_id: str | None) -> None:
    """Change what the server of GROUP keeps about it. What is not given stays as it is; an empty text removes it.

    \b
    Examples:
      shadowtree group set lab@ubc.example --description "Robots, and who repairs them"
      shadowtree group set lab@ubc.example --description ""
    """
    if description is None:
        raise click.UsageError("no new detail of the group is given: give --description TEXT")
    with session.connect() as names:
        change = names.set_group(group, description=description, request_id=request_id)
    print_change(change, is_json=session.is_json)


@group_command.command("delete")
@click.argument("group")
@click.option("--force", is_flag=True, help="Even if it has parents or children: leave them, in the same update.")
@if_there_option
@effects_option
@request_id_option
@everywhere()
@in_session
def delete_command(
    session: Session, group: str, force: bool, if_there: bool, with_effects: bool, request_id: str | None
) -> None:
    """Delete GROUP, which must be empty and in no other group.

    With --if-there a group that does not exist is no error: the line `not there` says so (JSON: `found`).

    \b
    Examples:
      shadowtree group delete staff@ubc.example --force
      shadowtree group delete staff@ubc.example --if-there
    """
    from shadowtree.client.calls import as_kept

    with session.connect() as names, _time_display(f"deleting {group} and its memberships" if force else None):
        change = names.delete_group(group, force, if_there=if_there, effects=with_effects, request_id=request_id)
    if not if_there:
        print_change(change, is_json=session.is_json)
        return
    print_change_if_needed(
        change, found=NOT_THERE, in_words="not there", names=(as_kept(group),), is_json=session.is_json
    )


@group_command.command("rename")
@click.argument("group")
@click.argument("new_name")
@effects_option
@request_id_option
@everywhere()
@in_session
def rename_command(session: Session, group: str, new_name: str, with_effects: bool, request_id: str | None) -> None:
    """Give GROUP the name NEW_NAME, of the same subnet, in one update.

    Parents, members, what holds for messages to GROUP, and its archive go along; so do the groups with `+owners` and
    `+muted` behind its name. Refused, with nothing done, if NEW_NAME is in use, or the server of a parent or member is
    out of reach. For 30 days whoever asks for the old name is told the new one.

    \b
    Example:
      shadowtree group rename lab@ubc.example workshop@ubc.example
    """
    with session.connect() as names, _time_display(f"renaming {group}"):
        change = names.rename_group(group, new_name, effects=with_effects, request_id=request_id)
    print_change(change, is_json=session.is_json)


def _time_display(what: str | None) -> AbstractContextManager[None]:
    """Show at a terminal that the call is running: a group of 300,000 members takes seconds."""
    if what is None or not sys.stderr.isatty():
        return nullcontext()
    from shadowtree.cli.render.terminal import time_passing

    return time_passing(what)


@group_command.command("list")
@click.option("--subnet", metavar="SUBNET", help="Only the groups of this subnet.")
@click.option("--contains", metavar="TEXT", help="Only groups with this text in name or description, in any case.")
@everywhere()
@in_session
def list_command(session: Session, subnet: str | None, contains: str | None) -> int:
    """List all groups of all servers, sorted, one a line.

    Exits with status 3 if the list is incomplete, and says which servers were out of reach.

    \b
    Examples:
      shadowtree group list --subnet ubc.example
      shadowtree group list --contains robot
    """
    with session.connect() as names:
        found = names.groups(subnet, contains=contains, at_least_revision=session.at_least_revision)
    if session.is_json:
        print_json(found)
    else:
        print_lines(found)
    if found.unreachable:
        warn_unreachable(found.unreachable)
        return UNCERTAIN
    if not found.groups and not session.is_json:
        of = f" of {subnet}" if subnet else ""
        hint_at_terminal(f"there are no groups{of}{' with this text' if contains else ''}")
    return DONE


group_command.add_command(describe_command)


@group_command.command("deliver")
@click.argument("group")
@click.option(
    "--senders",
    metavar="anyone|members|GROUP",
    help="Who may send: anyone; who is below GROUP itself; or who is below another group, of any server.",
)
@click.option(
    "--quality",
    type=click.Choice(["fifo", "datagram"]),
    help="What receivers can rely on, where who sends asks for no less.",
)
@click.option(
    "--kept",
    type=click.Choice(["durable", "memory"]),
    help="Where messages are until they are handed over; a restart of a server loses what is in its memory.",
)
@everywhere()
@in_session
def deliver_command(
    session: Session, group: str, senders: str | None, quality: Quality | None, kept: Kept | None
) -> None:
    """Show or set the delivery options of GROUP.

    It holds until it is set again, or GROUP is deleted. Who sends says so with `shadowtree send --as PROCESS`, and is
    believed: nobody is authenticated.

    \b
    Examples:
      shadowtree group deliver staff@ubc.example --senders members
      shadowtree group deliver ticks@ubc.example --kept memory
      shadowtree group deliver staff@ubc.example
    """
    is_change = not (senders is None and quality is None and kept is None)
    session.is_write = is_change
    with session.connect() as names:
        if is_change:
            found = names.set_delivery(group, senders=senders, quality=quality, kept=kept)
        else:
            found = names.delivery(group)
    if session.is_json:
        print_json(found)
    else:
        print_lines((f"quality\t{found.quality}", f"senders\t{found.senders}", f"kept\t{found.kept}"))
