"""`shadowtree mail`: groups as mailing lists. Only this module loads the gateway."""

from __future__ import annotations

import asyncio
import signal
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from shadowtree.cli.commands.mailman import sync_command
from shadowtree.cli.render.complaints import FAILED_REASON, INCOMPLETE_REASON, WRONG_USAGE_REASON, complain, warn
from shadowtree.cli.render.output import as_json, print_json, print_lines, warn_unreachable
from shadowtree.cli.render.plurals import counted
from shadowtree.cli.support.exit_codes import DONE, FAILED, UNCERTAIN, WRONG_USAGE
from shadowtree.cli.support.options import PATIENCE_S, Session, everywhere, format_option, in_session
from shadowtree.cli.support.waiting import WaitNotice

if TYPE_CHECKING:
    from mailing.config.settings import MailSettings
    from mailing.rules.queue import MessageFate, QueueEntry
    from mailing.shell.control import ControlAnswer, Request, Word
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
    """Make mailing lists of groups, by a Postfix that looks up who is in them, or that has messages distributed.

    \b
    Examples:
      shadowtree mail serve --config mail.toml
      shadowtree mail postfix --config mail.toml
      shadowtree mail expand all@ubc.example
      shadowtree mail queue --config mail.toml
    """


mail_command.add_command(sync_command)


@mail_command.command("serve")
@_config_option
@click.option("--check-config", is_flag=True, help="Only try what a start would: settings, libraries, ports, database.")
def serve_command(config_file: Path, check_config: bool) -> int:
    """Answer the lookups of a mail server, say who may post, and distribute messages, until SIGTERM or Ctrl-C.

    A warning says where DNS has not the public key of seals (`[arc]`).

    It prints `serving mail of DOMAINS: maps HOST:PORT, policy HOST:PORT, lmtp HOST:PORT` once it answers. SIGHUP has
    the settings of lists, and the key of seals, read again.

    \b
    Example:
      shadowtree mail serve --config mail.toml --check-config
    """
    # A request to reload the settings during the first load must not end the gateway.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    from mailing.config.settings import SettingsError, load_settings

    try:
        settings = load_settings(config_file, with_key=True)
    except SettingsError as error:
        return _complain(str(error), WRONG_USAGE)
    from mailing.shell.distributing import GatewayStartError

    if check_config:
        try:
            _check(settings)
        except GatewayStartError as error:
            return _complain(str(error), FAILED)
        click.echo("the settings are good")
        return DONE
    from mailing.shell.gateway import run

    try:
        return run(settings, lambda: load_settings(config_file, with_key=True))
    except GatewayStartError as error:
        return _complain(str(error), FAILED)


@mail_command.command("postfix")
@_config_option
@click.option("--lookup", is_flag=True, help="Those of lookup, also where the settings are for distribution.")
def postfix_command(config_file: Path, lookup: bool) -> int:
    """Print the lines by which Postfix looks up lists here, or has messages to them distributed.

    Those of distribution are for `main.cf` and, behind an empty line, for `master.cf`. They are printed where the
    settings have `lmtp_listen`.

    \b
    Example:
      shadowtree mail postfix --config mail.toml >> /etc/postfix/main.cf
    """
    from mailing.config.settings import SettingsError, load_settings
    from mailing.rules.confirmation import lines_for_postfix
    from mailing.rules.postfix import NoPortError, distribution_lines, lookup_lines

    try:
        settings = load_settings(config_file)
        subnets, maps, policy = settings.lists.subnets, settings.maps_listen, settings.policy_listen
        through = settings.distribution
        if through is None or lookup:
            lines = lookup_lines(subnets, maps=maps, policy=policy)
        else:
            lines = distribution_lines(
                subnets,
                maps=maps,
                policy=policy,
                lmtp=through.lmtp_listen,
                smtp=through.smtp,
                authserv_id=through.authserv_id,
                notes=lines_for_postfix(settings.lists, through.authserv_id),
            )
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
        members = counted(hidden.count, "member") if hidden.count else "members"
        warn(f"{members} of {hidden.group} {'is' if hidden.count == 1 else 'are'} hidden from you")
    if found.unreachable:
        warn_unreachable(found.unreachable)
    if found.in_transition:
        complain("an update was under way; the answer may mix before and after", INCOMPLETE_REASON)
    is_told = sender is None or found.may_post is not None
    return DONE if is_told and not (found.unreachable or found.in_transition) else UNCERTAIN


_id_argument = click.argument("id_", metavar="ID")


@mail_command.command("queue")
@click.argument("id_", metavar="[ID]", required=False)
@_config_option
@format_option
@in_session
def queue_command(session: Session, id_: str | None, config_file: Path) -> int:
    """Say which messages wait or are under way at the running gateway, the oldest first; with ID: of one message.

    \b
    Examples:
      shadowtree mail queue --config mail.toml
      shadowtree mail queue --config mail.toml --format json
    """
    return _tell(session, "queue", id_, config_file)


@mail_command.command("held")
@_config_option
@format_option
@in_session
def held_command(session: Session, config_file: Path) -> int:
    """Say which messages are held, because their senders may not post, and who asks to join a list.

    \b
    Example:
      shadowtree mail held --config mail.toml
    """
    return _tell(session, "held", None, config_file)


@mail_command.command("approve")
@_id_argument
@_config_option
@format_option
@in_session
def approve_command(session: Session, id_: str, config_file: Path) -> int:
    """Let a message that is held go to its lists, or let somebody join who asks to.

    \b
    Example:
      shadowtree mail approve 4bf92f3577b34da6a3ce929d0e0e4736 --config mail.toml
    """
    return _tell(session, "approve", id_, config_file)


@mail_command.command("reject")
@_id_argument
@_config_option
@format_option
@in_session
def reject_command(session: Session, id_: str, config_file: Path) -> int:
    """Let a message that is held go nowhere: its author is told nothing. Who asks to join does not, and is told so.

    \b
    Example:
      shadowtree mail reject 4bf92f3577b34da6a3ce929d0e0e4736 --config mail.toml
    """
    return _tell(session, "reject", id_, config_file)


@mail_command.command("retry")
@_id_argument
@_config_option
@format_option
@in_session
def retry_command(session: Session, id_: str, config_file: Path) -> int:
    """Try now what waits of a message.

    \b
    Example:
      shadowtree mail retry 4bf92f3577b34da6a3ce929d0e0e4736 --config mail.toml
    """
    return _tell(session, "retry", id_, config_file)


@mail_command.command("drop")
@_id_argument
@click.option(
    "--server", "away", metavar="SERVER", default="", help="Only wait for this one no longer, as `queue` names it."
)
@_config_option
@format_option
@in_session
def drop_command(session: Session, id_: str, away: str, config_file: Path) -> int:
    """Send a message to nobody more. Who is being sent to right now still gets it.

    With --server the message goes on, and only what waits for that server is given up; the author is told, as of what
    is given up after five days.

    \b
    Examples:
      shadowtree mail drop 4bf92f3577b34da6a3ce929d0e0e4736 --config mail.toml
      shadowtree mail drop 4bf92f3577b34da6a3ce929d0e0e4736 --server sfu.example --config mail.toml
    """
    return _tell(session, "drop", id_, config_file, server=away)


@mail_command.command("why")
@_id_argument
@click.argument("address")
@_config_option
@format_option
@in_session
def why_command(session: Session, id_: str, address: str, config_file: Path) -> int:
    """Say whether a message reached ADDRESS, by which of its lists, and by which way ADDRESS is in that list.

    The way is that of the moment. Messages are known until 7 days after they are done.

    \b
    Example:
      shadowtree mail why 4bf92f3577b34da6a3ce929d0e0e4736 ann@x.example --config mail.toml
    """
    from mailing.shell.control import Request

    answer = _ask(Request("why", id_, address), config_file)
    if isinstance(answer, int):
        return answer
    assert answer.reached is not None, "it was found, or refused"
    if session.is_json:
        print_json(answer.reached)
    else:
        print_lines([_reached_line(answer.reached)])
    return DONE


@mail_command.command("suppressed")
@click.option("--clear", metavar="ADDRESS", help="Send to this person again, and forget what came back.")
@_config_option
@format_option
@in_session
def suppressed_command(session: Session, clear: str | None, config_file: Path) -> int:
    """Say to whom the running gateway sends nothing, since mail came back on 5 days of 30, and a probe after that.

    \b
    Examples:
      shadowtree mail suppressed --config mail.toml
      shadowtree mail suppressed --clear ann@x.example --config mail.toml
    """
    from mailing.shell.control import Request

    answer = _ask(Request("suppressed") if clear is None else Request("clear", address=clear), config_file)
    if isinstance(answer, int):
        return answer
    if session.is_json:
        print_json({"suppressed": answer.suppressed})
    else:
        print_lines(
            f"{each.address} since {datetime.fromtimestamp(each.since, UTC):%Y-%m-%dT%H:%MZ}, {each.list}: {each.why}"
            for each in answer.suppressed
        )
    return DONE


@mail_command.command("stats")
@_config_option
@format_option
@in_session
def stats_command(session: Session, config_file: Path) -> int:
    """Say how the running gateway is, and what there was since it started, in numbers.

    \b
    Example:
      shadowtree mail stats --config mail.toml
    """
    from mailing.shell.control import Request

    answer = _ask(Request("stats"), config_file)
    if isinstance(answer, int):
        return answer
    if session.is_json:
        print_json(answer.stats)
        return DONE
    numbers = as_json(answer.stats)
    oldest = numbers["oldest"]
    numbers["oldest"] = f"{datetime.fromtimestamp(oldest, UTC):%Y-%m-%dT%H:%M:%SZ}" if oldest else "none"
    for key, value in numbers.items():
        told = value if isinstance(value, dict) else {"": value}
        print_lines(f"{key} {name}: {count}" if name else f"{key}: {count}" for name, count in told.items())
    return DONE


def _tell(session: Session, word: Word, id_: str | None, config_file: Path, *, server: str = "") -> int:
    from mailing.shell.control import Request

    answer = _ask(Request(word, id_, server=server), config_file)
    if isinstance(answer, int):
        return answer
    if session.is_json:
        print_json({"messages": answer.messages})
    else:
        print_lines(_line(message) for message in answer.messages)
    return DONE


def _ask(request: Request, config_file: Path) -> ControlAnswer | int:
    """Return the answer of the running gateway, or an exit status after the error was printed."""
    from mailing.config.settings import SettingsError, load_settings
    from mailing.shell.control import ControlError, ask

    try:
        settings = load_settings(config_file)
    except SettingsError as error:
        return _complain(str(error), WRONG_USAGE)
    if settings.distribution is None:
        return _complain(f"{config_file}: lmtp_listen: no value; messages pass through no gateway", WRONG_USAGE)
    try:
        return asyncio.run(ask(settings.distribution.control, request, patience=PATIENCE_S, on_wait=WaitNotice()))
    except ControlError as error:
        return _complain(str(error), FAILED)


def _reached_line(found: MessageFate) -> str:
    said = "reached" if found.reached else "not reached"
    by = f" by {found.list}" if found.list is not None else ""
    way = f": {' -> '.join(found.pathname)}" if found.pathname else ""
    why = f" ({found.why})" if found.why else ""
    return f"{found.address} {said}{by}{way}{why}"


def _line(message: QueueEntry) -> str:
    why = "; ".join(share.why for share in message.shares if share.why)
    counts = f"{message.done} of {counted(message.people, 'person', 'people')}, {message.bounced} bounced"
    line = f"{message.id} {message.state} {','.join(message.lists)} from <{message.author}>: {counts}"
    return f"{line}: {why}" if why else line


async def _expand(
    session: Session, settings: MailSettings | None, asked: tuple[str, ...], sender: str | None
) -> Expansion:
    from mailing.rules.lists import Lists
    from mailing.shell.expansion import expand, list_of
    from shadowtree.aio import Client

    address = session.server if settings is None else settings.server
    lists = Lists({}) if settings is None else settings.lists
    async with Client(
        address, timeout=session.timeout, patience=PATIENCE_S, on_wait=WaitNotice(), **session.credentials()
    ) as client:
        groups = [list_of(text, lists) for text in asked]
        if settings is None or settings.distribution is None:
            return await expand(client, lists, groups, sender, session.at_least_revision)
        return await expand(
            client,
            lists,
            groups,
            sender,
            session.at_least_revision,
            gateway=min(settings.lists.subnets),
            suppressed=await _suppressed(settings.distribution.control),
        )


async def _suppressed(control: Path) -> frozenset[str]:
    """Return the addresses to which the running gateway sends nothing."""
    from mailing.shell.control import ControlError, Request, ask

    try:
        answer = await ask(control, Request("suppressed"))
    except ControlError as error:
        warn(f"it is not known who is suppressed: {error}")
        return frozenset()
    return frozenset(each.address for each in answer.suppressed)


def _check(settings: MailSettings) -> None:
    """Try what `mail serve` would do, and warn of functions that would be limited; raises `GatewayStartError`."""
    from mailing.rules.confirmation import nobody_confirms
    from mailing.shell.trial import try_start

    for warning in try_start(settings):
        warn(warning)
    through = settings.distribution
    unconfirmed = None if through is None else nobody_confirms(settings.lists, through.authserv_id)
    if unconfirmed is not None:
        warn(unconfirmed)
    _warn_unless_published(settings)


def _warn_unless_published(settings: MailSettings) -> None:
    """Warn if DNS lacks the key of seals.

    The settings are valid all the same: DNS may be out of reach, or the key new.
    """
    arc = None if settings.distribution is None else settings.distribution.arc
    if arc is None or arc.numbers is None:
        return
    from mailing.shell.published_key import SECONDS, why_not_published

    why = why_not_published(arc.domain, arc.selector, arc.numbers, seconds=SECONDS)
    if why is not None:
        warn(f"seals: {why}")


def _complain(message: str, status: int) -> int:
    complain(message, WRONG_USAGE_REASON if status == WRONG_USAGE else FAILED_REASON)
    return status
