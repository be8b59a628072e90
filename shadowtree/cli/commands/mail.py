"""`shadowtree mail`: groups as mailing lists. The gateway is loaded only here."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import click

from shadowtree.cli.render.output import print_json, print_lines, warn, warn_unreachable
from shadowtree.cli.support.exit_codes import DONE, FAILED, UNCERTAIN, WRONG_USAGE
from shadowtree.cli.support.options import PATIENCE_S, Session, everywhere, in_session
from shadowtree.cli.support.waiting import Waiting

if TYPE_CHECKING:
    from mailing.config.settings import MailSettings
    from mailing.shell.expansion import Expansion

_config_option = click.option(
    "--config",
    "config_file",
    metavar="FILE",
    required=True,
    type=click.Path(path_type=Path),
    help="A TOML file with the settings.",
)


@click.group("mail")
def mail_command() -> None:
    """Make mailing lists of groups, by a Postfix that looks up who is in them.

    \b
    Examples:
      shadowtree mail serve --config mail.toml
      shadowtree mail postfix --config mail.toml
      shadowtree mail expand all@ubc.example
    """


@mail_command.command("serve")
@_config_option
@click.option("--check-config", is_flag=True, help="Only say whether the settings are good.")
def serve_command(config_file: Path, check_config: bool) -> int:
    """Answer the lookups of a mail server, and say who may post, until SIGTERM or Ctrl-C.

    It prints `serving mail of DOMAINS: maps HOST:PORT, policy HOST:PORT` once it answers. SIGHUP has the settings of
    lists read again.

    \b
    Example:
      shadowtree mail serve --config mail.toml --check-config
    """
    # Whoever asks for the settings to be read again, while they are read for the first time, must not end the gateway.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    from mailing.config.settings import SettingsError, load_settings

    try:
        settings = load_settings(config_file)
    except SettingsError as error:
        return _complain(str(error), WRONG_USAGE)
    if check_config:
        click.echo("the settings are good")
        return DONE
    from mailing.shell.gateway import StartError, run

    try:
        return run(settings, lambda: load_settings(config_file))
    except StartError as error:
        return _complain(str(error), FAILED)


@mail_command.command("postfix")
@_config_option
def postfix_command(config_file: Path) -> int:
    """Print the lines by which Postfix looks up lists here.

    \b
    Example:
      shadowtree mail postfix --config mail.toml >> /etc/postfix/main.cf
    """
    from mailing.config.settings import SettingsError, load_settings
    from mailing.rules.postfix import NoPortError, lookup_lines

    try:
        settings = load_settings(config_file)
        lines = lookup_lines(settings.lists.subnets, maps=settings.maps_listen, policy=settings.policy_listen)
    except SettingsError as error:
        return _complain(str(error), WRONG_USAGE)
    except NoPortError as error:
        return _complain(f"{config_file}: {error}", WRONG_USAGE)
    print_lines(lines)
    return DONE


@mail_command.command("expand")
@click.argument("asked", metavar="LIST...", nargs=-1, required=True)
@click.option("--sender", metavar="ADDRESS", help="Also say whether this sender may post to all of them.")
@click.option(
    "--config",
    "config_file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="The settings of the gateway, which name its server. Without it a list has none, and LIST is a group.",
)
@everywhere()
@in_session
def expand_command(session: Session, asked: tuple[str, ...], sender: str | None, config_file: Path | None) -> int:
    """Say whom a message to LIST... would reach, each once: the addresses, sorted as their names are.

    A LIST is its mail address, or the id of its group. JSON tells of each person the first list and the way into it,
    and who is left out and why.

    Exits with status 3 if the answer is incomplete.

    \b
    Examples:
      shadowtree mail expand all@ubc.example
      shadowtree mail expand all@lists.ubc.example --config mail.toml --sender ann@sfu.example --format json
    """
    from mailing.config.settings import SettingsError, load_settings

    settings = None
    if config_file is not None:
        try:
            settings = load_settings(config_file)
        except SettingsError as error:
            return _complain(str(error), WRONG_USAGE)
    found = asyncio.run(_expand(session, settings, asked, sender))
    if session.is_json:
        print_json(found)
    else:
        print_lines(person.address for person in found.people)
        for left_out in found.left_out:
            warn(f"left out: {left_out.address}: {left_out.reason}")
        for why in found.refused:
            warn(why)
    for hidden in found.hidden:
        warn(f"{hidden.count} members of {hidden.group} are hidden from you")
    if found.unreachable:
        warn_unreachable(found.unreachable)
    if found.in_transition:
        warn("an update was under way; the answer may mix before and after")
    is_told = sender is None or found.may_post is not None
    return DONE if is_told and not (found.unreachable or found.in_transition) else UNCERTAIN


async def _expand(
    session: Session, settings: MailSettings | None, asked: tuple[str, ...], sender: str | None
) -> Expansion:
    from mailing.rules.lists import Lists
    from mailing.shell.expansion import expand, list_of
    from shadowtree.aio import Client

    address = session.server if settings is None else settings.server
    lists = Lists({}) if settings is None else settings.lists
    async with Client(address, timeout=session.timeout, patience=PATIENCE_S, on_wait=Waiting()) as client:
        return await expand(client, lists, [list_of(text, lists) for text in asked], sender, session.at_least_revision)


def _complain(message: str, status: int) -> int:
    click.echo(f"shadowtree: {message}", err=True)
    return status
