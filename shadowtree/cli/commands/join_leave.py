"""`shadowtree join` and `shadowtree leave`: add or remove one arc."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from shadowtree.cli.render.complaints import warn
from shadowtree.cli.render.output import (
    ALREADY_THERE,
    NOT_THERE,
    is_terminal,
    print_change,
    print_change_if_needed,
    print_json,
    print_lines,
)
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
from shadowtree.cli.support.standard_streams import is_watched
from shadowtree.errors import DeadlineExceeded, GroupNotFound, Unavailable
from shadowtree.results import Change

if TYPE_CHECKING:
    from shadowtree.client.synchronous.client import Client
    from shadowtree.vocabulary import ChildKind

_group_option = click.option("--group", "is_group", is_flag=True, help="MEMBER is a group, and must exist.")
_process_option = click.option(
    "--process", "is_process", is_flag=True, help="MEMBER is a process: a person, a program."
)


@click.command("join")
@click.argument("parent")
@click.argument("member")
@_group_option
@_process_option
@click.option(
    "--offline",
    "is_offline",
    is_flag=True,
    help="If the server of one of the two is out of reach, let it join when that is back. Needs --group or --process.",
)
@if_missing_option
@strict_option
@effects_option
@request_id_option
@everywhere()
@in_session
def join_command(
    session: Session,
    parent: str,
    member: str,
    is_group: bool,
    is_process: bool,
    is_offline: bool,
    if_missing: bool,
    is_strict: bool,
    with_effects: bool,
    request_id: str | None,
) -> None:
    """Make MEMBER an immediate member of the group PARENT.

    MEMBER is a group if one of that id exists, else a process, as a terminal is told; --group and --process say which.
    Prints what the join changed: a loop that was closed (formed, grown); with --effects also who is now reached in
    several ways (controlled).

    With --if-missing a membership that exists stays as it is: the line `already a member` says so (JSON: `found`).

    Names are compared with case: a warning says so where PARENT or MEMBER differs in letter case alone from another
    name, and --strict refuses that.

    With --offline a member whose server is out of reach, or that of PARENT, is remembered, and joined when that is
    back; `shadowtree status` of the other server shows it as suspended until then, and says so if it cannot be.

    \b
    Examples:
      shadowtree join staff@ubc.example ann@ubc.example
      shadowtree join staff@ubc.example lab@sfu.example --group
    """
    from shadowtree.client.calls import as_kept

    with session.connect() as names:
        kind = _kind(is_group=is_group, is_process=is_process)
        if is_strict:
            refuse_other_spellings(names, (parent, member))
        change = names.join(
            parent,
            member,
            kind,
            offline=is_offline,
            if_missing=if_missing,
            effects=with_effects,
            request_id=request_id,
        )
        if if_missing:
            print_change_if_needed(
                change,
                found=ALREADY_THERE,
                in_words="already a member",
                names=(as_kept(parent), as_kept(member)),
                is_json=session.is_json,
            )
        else:
            print_change(change, is_json=session.is_json)
        if not is_strict:
            for sentence in sentences(names, (parent, member)):
                warn(sentence)
        if not change.unchanged and kind == "auto" and is_watched() and _is_no_group(names, member):
            warn(f"{as_kept(member)} joined as a person: there is no group of that name")


@click.command("leave")
@click.argument("parent")
@click.argument("member", required=False)
@click.option("--everywhere", "is_everywhere", is_flag=True, help="MEMBER alone is given; it leaves all its groups.")
@click.option("--subnet", metavar="SUBNET", help="With --everywhere: only groups of this subnet.")
@_group_option
@_process_option
@if_there_option
@effects_option
@request_id_option
@everywhere()
@in_session
def leave_command(
    session: Session,
    parent: str,
    member: str | None,
    is_everywhere: bool,
    subnet: str | None,
    is_group: bool,
    is_process: bool,
    if_there: bool,
    with_effects: bool,
    request_id: str | None,
) -> None:
    """Take MEMBER out of the immediate members of the group PARENT.

    MEMBER may still be in PARENT through another group: `shadowtree check` tells. Prints what the leave changed: a
    loop that was broken; with --effects also who is no longer reached in several ways (released).

    With --if-there a MEMBER that is no immediate member is no error: the line `not a member` says so (JSON: `found`).
    The group must exist.

    With --everywhere MEMBER leaves all groups that `shadowtree memberships --direct` tells, in one update. Prints these
    groups, sorted, one a line. Refused, with nothing done, if a server is out of reach that may know of more groups.

    \b
    Examples:
      shadowtree leave staff@ubc.example ann@ubc.example
      shadowtree leave --everywhere ann@ubc.example
      shadowtree leave --everywhere ann@ubc.example --subnet sfu.example
    """
    from shadowtree.client.calls import as_kept

    if is_everywhere:
        if member is not None or is_group or is_process or if_there:
            raise click.UsageError("--everywhere takes MEMBER alone, without PARENT, --group, --process and --if-there")
        _leave_everywhere(session, parent, subnet, with_effects=with_effects, request_id=request_id)
        return
    if subnet is not None:
        raise click.UsageError("--subnet is for --everywhere")
    if member is None:
        raise click.UsageError("Missing argument 'MEMBER'.")
    with session.connect() as names:
        kind = _kind(is_group=is_group, is_process=is_process)
        change = names.leave(parent, member, kind, if_there=if_there, effects=with_effects, request_id=request_id)
    if not if_there:
        print_change(change, is_json=session.is_json)
        return
    as_what = "" if kind == "auto" else f" as a {kind}"
    print_change_if_needed(
        change,
        found=NOT_THERE,
        in_words=f"not a member{as_what}",
        names=(as_kept(parent), as_kept(member)),
        is_json=session.is_json,
    )


def _leave_everywhere(
    session: Session, member: str, subnet: str | None, *, with_effects: bool, request_id: str | None
) -> None:
    with session.connect() as names:
        found = names.leave_everywhere(member, subnet, effects=with_effects, request_id=request_id)
    if session.is_json:
        print_json(found)
        return
    print_lines(found.left)
    if is_terminal():
        print_change(Change(found.revision, found.effects), is_json=False)


def _is_no_group(names: Client, member: str) -> bool:
    """Return True if there is no such group. Only a person is warned, because a mistyped name shows nowhere else."""
    try:
        names.describe(member, pathname_limit=1)
    except GroupNotFound:
        return True
    except (Unavailable, DeadlineExceeded):
        # The join succeeded. The kind of the member can be looked up later.
        return False
    return False


def _kind(*, is_group: bool, is_process: bool) -> ChildKind:
    if is_group and is_process:
        raise click.UsageError("--group and --process exclude each other")
    if is_group:
        return "group"
    return "process" if is_process else "auto"
