"""`shadowtree group`: create, delete, list and describe groups, and say how messages to them are handled."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

import click

from shadowtree.cli.commands.describe import describe_command
from shadowtree.cli.render.output import print_change, print_json, print_lines, print_row, warn_unreachable
from shadowtree.cli.support.exit_codes import DONE, UNCERTAIN
from shadowtree.cli.support.options import Session, effects_option, everywhere, in_session, request_id_option

if TYPE_CHECKING:
    from shadowtree.vocabulary import Kept, Quality


@click.group("group")
@everywhere()
def group_command() -> None:
    """Create, delete, list and describe groups, and say how messages to them are handled.

    A group is `name@subnet`, and belongs to the server that owns the subnet.
    """


@group_command.command("create")
@click.argument("group")
@effects_option
@request_id_option
@everywhere()
@in_session
def create_command(session: Session, group: str, with_effects: bool, request_id: str | None) -> None:
    """Create GROUP, without members.

    \b
    Example:
      shadowtree group create staff@ubc.example
    """
    with session.connect() as names:
        change = names.create_group(group, effects=with_effects, request_id=request_id)
    print_change(change, is_json=session.is_json)


@group_command.command("delete")
@click.argument("group")
@click.option("--force", is_flag=True, help="Even if it has parents or children: leave them, in the same update.")
@effects_option
@request_id_option
@everywhere()
@in_session
def delete_command(session: Session, group: str, force: bool, with_effects: bool, request_id: str | None) -> None:
    """Delete GROUP, which must be empty and in no other group.

    \b
    Example:
      shadowtree group delete staff@ubc.example --force
    """
    with session.connect() as names, _time_display(f"deleting {group} and its memberships" if force else None):
        change = names.delete_group(group, force, effects=with_effects, request_id=request_id)
    print_change(change, is_json=session.is_json)


def _time_display(what: str | None) -> AbstractContextManager[None]:
    """At a terminal, what is under way: a group of 300,000 members takes seconds."""
    if what is None or not sys.stderr.isatty():
        return nullcontext()
    from shadowtree.cli.render.terminal import time_passing

    return time_passing(what)


@group_command.command("list")
@click.option("--subnet", metavar="SUBNET", help="Only the groups of this subnet.")
@everywhere()
@in_session
def list_command(session: Session, subnet: str | None) -> int:
    """List all groups of all servers, sorted, one a line.

    Exits with status 3 if the list is incomplete, and says which servers were out of reach.

    \b
    Example:
      shadowtree group list --subnet ubc.example
    """
    with session.connect() as names:
        found = names.groups(subnet, at_least_revision=session.at_least_revision)
    if session.is_json:
        print_json(found)
    else:
        print_lines(found)
    if found.unreachable:
        warn_unreachable(found.unreachable)
        return UNCERTAIN
    return DONE


@group_command.command("deliver")
@click.argument("group")
@click.option("--quality", type=click.Choice(["datagram", "fifo"]), help="What its members can rely on.")
@click.option("--senders", metavar="WHO", help="Who may send to it: `anyone`, `members`, or a group.")
@click.option("--kept", type=click.Choice(["disk", "memory"]), help="Where messages wait; memory is lost in a restart.")
@everywhere()
@in_session
def deliver_command(
    session: Session, group: str, quality: Quality | None, senders: str | None, kept: Kept | None
) -> None:
    """Say how messages to GROUP are handled, and print that: quality, where they are kept, who may send.

    \b
    Examples:
      shadowtree group deliver staff@ubc.example
      shadowtree group deliver staff@ubc.example --senders members
    """
    is_change = not (quality is None and senders is None and kept is None)
    with session.connect() as names:
        policy = (
            names.set_delivery(group, quality=quality, kept=kept, senders=senders)
            if is_change
            else names.delivery(group)
        )
    if session.is_json:
        print_json(policy)
    else:
        print_row(policy.group, policy.quality, policy.kept, policy.senders)


group_command.add_command(describe_command)
