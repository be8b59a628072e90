"""`shadowtree mailbox`: open, close and list mailboxes, which keep messages for processes and groups."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from shadowtree.cli.render.complaints import warn
from shadowtree.cli.render.output import as_json, print_json, print_lines
from shadowtree.cli.support.options import Session, everywhere, in_session

if TYPE_CHECKING:
    from shadowtree.messages import Mailbox

subnet_option = click.option(
    "--subnet", metavar="S", help="Of the server that owns this subnet. [default: the server asked]"
)


@click.group("mailbox")
@everywhere()
def mailbox_command() -> None:
    """Manage mailboxes.

    A process gets what comes after its mailbox was opened; the first `shadowtree listen` opens it, too. That of a group
    is its archive: it has what is sent to the group itself, for whoever comes later. That of a pattern, '*' or
    '*@SUBNET', is a gateway: it has what reaches any process here that matches, each message once.
    """


@mailbox_command.command("open")
@click.argument("process")
@everywhere()
@in_session
def open_command(session: Session, process: str) -> None:
    """Keep from now on what reaches PROCESS, or what is sent to a group. One that is open stays as it is.

    The archive of a group is kept whoever has acknowledged it, until the log of its server is full.

    \b
    Examples:
      shadowtree mailbox open ann@ubc.example
      shadowtree mailbox open staff@ubc.example
      shadowtree mailbox open '*@debian.org'
    """
    session.is_write = True
    with session.connect() as names:
        _print(names.open_mailbox(process), session)


@mailbox_command.command("close")
@click.argument("process")
@click.option("--force", is_flag=True, help="Close that of a gateway, on the machine of its server.")
@everywhere()
@in_session
def close_command(session: Session, process: str, *, force: bool) -> None:
    """Keep nothing any more for PROCESS. What was kept is gone, and so are its subscriptions.

    Messages that these had not acknowledged are lost: how many, is told on standard error, and counted in `status`. The
    mailbox of a gateway is closed with --force alone: stop the gateway first.

    \b
    Examples:
      shadowtree mailbox close ann@ubc.example
      shadowtree mailbox close '*@debian.org' --force
    """
    session.is_write = True
    with session.connect() as names:
        closed = names.close_mailbox(process, force=force)
        _print(closed, session)
        if closed.messages_lost:
            warn(f"messages that were not acknowledged are lost: {closed.messages_lost:,} at most")


@mailbox_command.command("list")
@subnet_option
@everywhere()
@in_session
def list_command(session: Session, subnet: str | None) -> None:
    """List the mailboxes of one server: for each subscription its name (`-`: none), position, and whether it listens.

    \b
    Example:
      shadowtree mailbox list --subnet ubc.example
    """
    with session.connect() as names:
        found = names.mailboxes(subnet)
        if session.is_json:
            print_json({"mailboxes": [as_json(mailbox) for mailbox in found]})
            return
        for mailbox in found:
            print_lines(_rows(mailbox))


def _print(mailbox: Mailbox, session: Session) -> None:
    if session.is_json:
        print_json(mailbox)
    else:
        print_lines(_rows(mailbox))


def _rows(mailbox: Mailbox) -> Iterator[str]:
    if not mailbox.subscriptions:
        yield f"{mailbox.process}\t-\t-\taway"
    for one in mailbox.subscriptions:
        listens = "listening" if one.is_listening else "away"
        yield "\t".join((mailbox.process, one.name or "-", one.position or "-", listens))
