"""`shadowtree dead-letters`: list, replay and drop messages that a server could not deliver."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import click

from shadowtree.cli.commands.mailbox import subnet_option
from shadowtree.cli.render.complaints import INCOMPLETE_REASON, complain, warn
from shadowtree.cli.render.output import as_json, print_json, print_row
from shadowtree.cli.render.plurals import counted_for_people
from shadowtree.cli.support.exit_codes import DONE, UNCERTAIN
from shadowtree.cli.support.options import Session, everywhere, in_session

if TYPE_CHECKING:
    from shadowtree.messages import DeadLetter


@click.group("dead-letters")
@everywhere()
def dead_letters_command() -> None:
    """Messages that servers did not get, since they were removed for good before, or were away for too long.

    The home of the group that they were sent to keeps them; of those that were queued, the server that queued them.
    """


@dead_letters_command.command("list")
@subnet_option
@everywhere()
@in_session
def list_command(session: Session, subnet: str | None) -> None:
    """List those of one server, the oldest first: number, first message, how many, group, why, servers that lack them.

    \b
    Example:
      shadowtree dead-letters list --subnet ubc.example
    """
    with session.connect() as names:
        found = names.dead_letters(subnet)
    if session.is_json:
        print_json(
            {
                "server": found.server,
                "dead_letters": [as_json(letter) for letter in found],
                "messages_lost": found.messages_lost,
            }
        )
        return
    for letter in found:
        print_row(
            letter.number,
            letter.id or "-",
            letter.messages,
            letter.group,
            _reason(letter),
            ",".join(_shown(letter)) or "-",
        )
    if found.messages_lost:
        lost = counted_for_people(found.messages_lost, "message")
        warn(f"there was no room for the dead letters of {lost}: they are gone")


def _reason(letter: DeadLetter) -> str:
    return f"{letter.reason}: {letter.why}" if letter.why else letter.reason or "-"


def _shown(letter: DeadLetter) -> list[str]:
    return [f"{server} (under way)" if server in letter.replayed_to else server for server in letter.servers]


def _chosen(command: Callable[..., Any]) -> Callable[..., Any]:
    numbers = click.argument("numbers", metavar="[NUMBER]...", nargs=-1, type=click.IntRange(min=1))
    all_of_them = click.option("--all", "are_all", is_flag=True, help="All of them.")
    return numbers(all_of_them(command))


@dead_letters_command.command("replay")
@_chosen
@subnet_option
@everywhere()
@in_session
def replay_command(session: Session, numbers: tuple[int, ...], are_all: bool, subnet: str | None) -> int:
    """Send them to the servers that lack them, once these are there again. They keep their ids, and are late.

    Exit status 3: some are left, for their servers are not there, or too much is under way. May be repeated.

    \b
    Example:
      shadowtree dead-letters replay --all
    """
    chosen = _numbers(numbers, are_all)
    session.is_write = True
    with session.connect() as names:
        found = names.replay(chosen, subnet=subnet)
    if session.is_json:
        print_json(found)
    else:
        print_row(found.replayed)
    if found.left:
        complain(
            f"{found.left} are left: the servers that lack them are not there, or too much is under way",
            INCOMPLETE_REASON,
        )
    return UNCERTAIN if found.left else DONE


@dead_letters_command.command("drop")
@_chosen
@subnet_option
@everywhere()
@in_session
def drop_command(session: Session, numbers: tuple[int, ...], are_all: bool, subnet: str | None) -> None:
    """Forget them; how many there were is printed.

    \b
    Example:
      shadowtree dead-letters drop 1204 1207
    """
    chosen = _numbers(numbers, are_all)
    session.is_write = True
    with session.connect() as names:
        dropped = names.drop(chosen, subnet=subnet)
    if session.is_json:
        print_json({"dropped": dropped})
    else:
        print_row(dropped)


def _numbers(numbers: tuple[int, ...], are_all: bool) -> tuple[int, ...] | Literal["all"]:
    if are_all == bool(numbers):
        raise click.UsageError("give the numbers of dead letters, or --all")
    return "all" if are_all else numbers
