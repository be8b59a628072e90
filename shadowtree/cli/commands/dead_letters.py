"""`shadowtree dead-letters`: what could not be delivered."""

from __future__ import annotations

import click

from shadowtree.cli.commands.mailbox import subnet_option
from shadowtree.cli.render.output import as_json, print_json, print_row
from shadowtree.cli.support.options import Session, everywhere, in_session

_ids_argument = click.argument("ids", metavar="[ID...]", nargs=-1)
_all_option = click.option("--all", "is_all", is_flag=True, help="All of that server.")


@click.group("dead-letters")
@everywhere()
def dead_letters_command() -> None:
    """Show what could not be delivered; deliver it again, or drop it.

    A server keeps a dead letter of its own for what it could not deliver.
    """


@dead_letters_command.command("list")
@subnet_option
@everywhere()
@in_session
def list_command(session: Session, subnet: str | None) -> None:
    """List dead letters, oldest first: id, cause, how many messages, group, for whom, since when, and if they are kept.

    \b
    Example:
      shadowtree dead-letters list --subnet ubc.example
    """
    with session.connect() as names:
        found = names.dead_letters(subnet)
        if session.is_json:
            print_json({"dead_letters": [as_json(one) for one in found]})
            return
        for one in found:
            kept = "kept" if one.can_be_replayed else "gone"
            print_row(
                one.id, one.cause, one.messages, one.group or "-", one.process or one.server, one.since or "-", kept
            )


@dead_letters_command.command("replay")
@_ids_argument
@_all_option
@subnet_option
@everywhere()
@in_session
def replay_command(session: Session, ids: tuple[str, ...], is_all: bool, subnet: str | None) -> None:
    """Deliver dead letters again, as far as their messages are kept: late, and under their old ids. Prints how many.

    \b
    Example:
      shadowtree dead-letters replay 17 18
    """
    session.is_write = True
    with session.connect() as names:
        _print_count(names.replay(_chosen(ids, is_all=is_all), subnet), session)


@dead_letters_command.command("drop")
@_ids_argument
@_all_option
@subnet_option
@everywhere()
@in_session
def drop_command(session: Session, ids: tuple[str, ...], is_all: bool, subnet: str | None) -> None:
    """Forget dead letters. Prints how many.

    \b
    Example:
      shadowtree dead-letters drop --all --subnet ubc.example
    """
    session.is_write = True
    with session.connect() as names:
        _print_count(names.drop(_chosen(ids, is_all=is_all), subnet), session)


def _chosen(ids: tuple[str, ...], *, is_all: bool) -> tuple[str, ...] | None:
    if is_all == bool(ids):
        raise click.UsageError("give ids of dead letters, or --all")
    return None if is_all else ids


def _print_count(count: int, session: Session) -> None:
    if session.is_json:
        print_json({"count": count})
    else:
        print_row(count)
