"""Migration from Mailman 3: `shadowtree mail sync`, and the import of Mailman's rosters by `shadowtree import`."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from shadowtree.cli.render.complaints import FAILED_REASON, complain, warn
from shadowtree.cli.render.output import print_json, print_lines
from shadowtree.cli.render.plurals import counted
from shadowtree.cli.support.exit_codes import DONE, FAILED
from shadowtree.cli.support.options import Session, everywhere, in_session, request_id_option
from shadowtree.errors import InvalidName, Unavailable

if TYPE_CHECKING:
    from mailing.rules.following_mailman import Difference
    from mailing.rules.from_mailman import Note, Subnets, Wanted
    from mailing.rules.rosters import Rosters
    from shadowtree.client.imports import ImportProgress
    from shadowtree.client.synchronous.client import Client
    from shadowtree.updates import Arc
    from shadowtree.vocabulary import GroupId

PASSWORD_VARIABLE: Final = "SHADOWTREE_MAILMAN_PASSWORD"  # noqa: S105 it is no password
NOTES_SHOWN: Final = 20
"""Maximum number of notes of one kind at a terminal. JSON has all."""

_Command = TypeVar("_Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class MailmanOptions:
    """Values of the options that `mailman_options` adds."""

    config_file: Path | None
    domains: tuple[str, ...]
    user: str | None
    password_file: Path | None

    @property
    def are_given(self) -> bool:
        """True if any of the options is given."""
        return bool(self.domains) or self.without_domains

    @property
    def without_domains(self) -> bool:
        """True if any option other than the domains is given."""
        return any((self.config_file, self.user, self.password_file))


def mailman_options(command: _Command) -> _Command:
    """Add the options for rosters of Mailman; the command gets them as `mailman`."""

    def gather(context: click.Context, _: click.Parameter, value: Any) -> Any:
        found = context.params
        given = (found.pop("config_file", None), found.pop("domains", ()), found.pop("user", None))
        found["mailman"] = MailmanOptions(*given, password_file=value)

    path = click.Path(path_type=Path)
    for option in (
        # This option is read last, so its callback finds the values of the others.
        click.option(
            "--password-file",
            metavar="FILE",
            type=path,
            expose_value=False,
            callback=gather,
            help=f"Of Mailman's REST API: the password is the first line of FILE. [default: {PASSWORD_VARIABLE}]",
        ),
        click.option("--user", metavar="USER", is_eager=True, help="Of Mailman's REST API. [default: restadmin]"),
        click.option(
            "--domain",
            "domains",
            metavar="DOMAIN[=SUBNET]",
            multiple=True,
            is_eager=True,
            help="Lists of Mailman in this mail domain are groups of this subnet [default: that of the same name]."
            " Without SUBNET: the domain of names in an alias table that have none.",
        ),
        click.option(
            "--config",
            "config_file",
            metavar="FILE",
            type=path,
            is_eager=True,
            help="The settings of the mail gateway, whose `domains` say the same, and which name its server.",
        ),
    ):
        command = option(command)
    return command


def import_from_mailman(
    session: Session,
    source: str,
    mailman: MailmanOptions,
    *,
    subnet: str | None,
    progress: ImportProgress | None,
    request_id: str | None,
) -> int:
    """Add the lists of Mailman from a file or a URL as one atomic update."""
    from mailing.rules.rosters import RosterError

    try:
        rosters, given = _read(source, mailman, session)
        with session.connect() as names:
            wanted, _ = _wanted(names, source, rosters, given)
            arcs = [arc for arc in _rows(wanted) if subnet is None or arc.parent.endswith(f"@{_checked(subnet)}")]
            summary = names.import_arcs(arcs, progress=progress, request_id=request_id)
    except RosterError as error:
        return _complain(str(error))
    if session.is_json:
        print_json(
            {
                "arcs": summary.arcs,
                "groups_created": summary.groups_created,
                "already_there": summary.already_there,
                **_notes_as_json(wanted.notes),
                "revision": summary.revision,
            }
        )
        return DONE
    _show_notes(source, wanted.notes)
    added = f"{counted(summary.arcs, 'arc')} added, {counted(summary.groups_created, 'group')} created"
    there = f"{counted(summary.already_there, 'arc')} already there"
    noted = counted(len(wanted.notes), "thing")
    click.echo(f"{added}, {there}, {noted} noted" if wanted.notes else f"{added}, {there}")
    return DONE


@click.command("sync")
@click.argument("source", metavar="URL")
@click.option("--from", "kind", type=click.Choice(["mailman3"]), required=True, help="What is followed.")
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@click.option("--force", is_flag=True, help="Also where more than 20 % of the memberships would be removed.")
@mailman_options
@request_id_option
@everywhere()
@in_session
def sync_command(
    session: Session,
    source: str,
    kind: str,  # noqa: ARG001 there is one
    dry_run: bool,
    force: bool,
    mailman: MailmanOptions,
    request_id: str | None,
) -> int:
    """Make the groups of lists as the Mailman 3 at URL has them, or a file of its rosters, in one atomic update.

    Mailman decides: who is in the group of a list, among its owners or among those who muted it, and not in Mailman,
    is taken out. Groups that are no list of Mailman stay as they are. The password of the REST API is in the
    environment (SHADOWTREE_MAILMAN_PASSWORD), or in a file.

    Exits with status 4, and changes nothing, if more than 20 % of the memberships would be removed; --force removes
    them.

    \b
    Examples:
      shadowtree mail sync --from mailman3 http://127.0.0.1:8001 --config mail.toml --dry-run
      shadowtree mail sync --from mailman3 http://127.0.0.1:8001 --config mail.toml
    """
    from mailing.rules.following_mailman import difference
    from mailing.rules.rosters import RosterError

    session.is_write = not dry_run
    try:
        rosters, given = _read(source, mailman, session)
        with session.connect() as names:
            wanted, groups = _wanted(names, source, rosters, given)
            found = difference(wanted, groups, _arcs_of(names, wanted))
            why_not, revision = found.why_not(is_forced=force), ""
            if why_not is None and not dry_run:
                revision = _carry_out(names, found, request_id)
    except RosterError as error:
        return _complain(str(error))
    if why_not is None or dry_run:
        _show_difference(session, source, found, wanted.notes, is_dry_run=dry_run, revision=revision)
    if why_not is not None:
        return _complain(why_not if dry_run else f"{why_not}; --dry-run shows which. Nothing was done")
    return DONE


def _carry_out(names: Client, found: Difference, request_id: str | None) -> str:
    from shadowtree.updates import Arc

    revision = ""
    if found.created:
        # Groups must exist before an update joins them.
        revision = names.import_arcs([Arc(group, "", "group") for group in found.created]).revision
    operations = found.operations()
    return names.apply(operations, request_id=request_id).revision if operations else revision


def _read(source: str, mailman: MailmanOptions, session: Session) -> tuple[Rosters, Subnets]:
    """Return the rosters, and the subnet of each mail domain. The mapping is empty if no subnet was given."""
    from mailing.shell.mailman import DEFAULT_USER, MailmanApi, is_url, read_file

    given = _given_domains(mailman, session)
    if is_url(source):
        api = MailmanApi(source, mailman.user or DEFAULT_USER, _password(mailman), seconds=session.timeout)
        return api.read(), given
    if mailman.user is not None or mailman.password_file is not None:
        raise click.UsageError("--user and --password-file are for a REST API, http://HOST:PORT")
    return read_file(source), given


def _given_domains(mailman: MailmanOptions, session: Session) -> Subnets:
    from namegraph import InvalidNameError, parse_subnet

    found: dict[str, str] = {}
    if mailman.config_file is not None:
        from mailing.config.settings import SettingsError, load_settings

        try:
            settings = load_settings(mailman.config_file)
        except SettingsError as error:
            raise click.UsageError(str(error)) from None
        session.server = settings.server
        found |= settings.lists.subnets
    for text in mailman.domains:
        try:
            domain, subnet = (parse_subnet(part.strip()) for part in text.split("="))
        except (InvalidNameError, ValueError):
            raise click.BadParameter(f"{text!r:.80} is no DOMAIN=SUBNET", param_hint="--domain") from None
        found[domain] = subnet
    return found


def _password(mailman: MailmanOptions) -> str:
    if mailman.password_file is None:
        found = os.environ.get(PASSWORD_VARIABLE, "")
    else:
        try:
            found, _, _ = mailman.password_file.read_text("utf-8").partition("\n")
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is no UTF-8"
            raise click.UsageError(f"{mailman.password_file}: cannot read the password: {why}") from None
    if not found.strip():
        raise click.UsageError(f"there is no password for the REST API; give {PASSWORD_VARIABLE} or --password-file")
    return found.rstrip("\r")


def _wanted(names: Client, source: str, rosters: Rosters, given: Subnets) -> tuple[Wanted, frozenset[GroupId]]:
    """Return the groups and arcs that the rosters require, and the existing groups of the subnets concerned."""
    from mailing.rules.from_mailman import subnets_of_members, wanted_of
    from mailing.rules.rosters import RosterError
    from shadowtree.client.files.lines import shown_name
    from shadowtree.client.imports import known_subnets

    known = known_subnets(names.status())
    subnets = given or {subnet: subnet for subnet in known}
    existing: set[GroupId] = set()
    for subnet in sorted(subnets_of_members(rosters, subnets) & known):
        listed = names.groups(subnet)
        if listed.unreachable:
            lacking = ", ".join(listed.unreachable)
            raise Unavailable(
                f"which groups {subnet} has cannot be told: out of reach: {lacking}",
                {"unreachable": "\n".join(listed.unreachable)},
            )
        existing.update(listed.groups)
    try:
        return wanted_of(rosters, subnets, existing), frozenset(existing)
    except RosterError as error:
        raise RosterError(f"{shown_name(source)}: {error}") from None


def _rows(wanted: Wanted) -> Iterable[Arc]:
    from shadowtree.updates import Arc

    parents = {arc.parent for arc in wanted.arcs}
    yield from (Arc(group, "", "group") for group in wanted.groups if group not in parents)
    yield from wanted.arcs


def _arcs_of(names: Client, wanted: Wanted) -> Iterable[Arc]:
    for subnet in sorted({group.rpartition("@")[2] for group in wanted.lists}):
        yield from names.export(subnet)


def _checked(subnet: str) -> str:
    from namegraph import InvalidNameError, parse_subnet

    try:
        return parse_subnet(subnet)
    except InvalidNameError as error:
        raise InvalidName(str(error), {"name": f"{subnet:.80}", "why": error.why, "field": "subnet"}) from None


def _show_difference(
    session: Session, source: str, found: Difference, notes: tuple[Note, ...], *, is_dry_run: bool, revision: str
) -> None:
    if session.is_json:
        print_json(
            {
                "dry_run": is_dry_run,
                "groups_created": list(found.created),
                "joined": [_arc_as_json(arc) for arc in found.joined],
                "left": [_arc_as_json(arc) for arc in found.left],
                "unchanged": found.unchanged,
                "removed_per_cent": round(found.removed_per_cent, 2),
                **_notes_as_json(notes),
                "revision": revision,
            }
        )
        return
    print_lines(f"created\t{group}" for group in found.created)
    print_lines(f"joined\t{arc.parent}\t{arc.child}\t{arc.kind}" for arc in found.joined)
    print_lines(f"left\t{arc.parent}\t{arc.child}\t{arc.kind}" for arc in found.left)
    _show_notes(source, notes)
    joined, left, created = len(found.joined), len(found.left), counted(len(found.created), "group")
    if is_dry_run:
        click.echo(f"{joined} would join, {left} would leave, {created} would be created, {found.unchanged} stay")
    else:
        click.echo(f"{joined} joined, {left} left, {created} created, {found.unchanged} as they were")


def _arc_as_json(arc: Arc) -> dict[str, str]:
    return {"group": arc.parent, "member": arc.child, "kind": arc.kind}


def _notes_as_json(notes: tuple[Note, ...]) -> dict[str, list[dict[str, object]]]:
    def told(*, is_left_out: bool) -> list[dict[str, object]]:
        return [
            {"line": note.line, "list": note.list, "address": note.address, "reason": note.reason}
            for note in notes
            if note.is_left_out == is_left_out
        ]

    return {"skipped": told(is_left_out=True), "notes": told(is_left_out=False)}


def _show_notes(source: str, notes: tuple[Note, ...]) -> None:
    from shadowtree.client.files.lines import shown_name

    seen = Counter[str]()
    for note in notes:
        seen[note.kind.value] += 1
        if seen[note.kind.value] <= NOTES_SHOWN:
            place = note.list if note.line is None else f"{shown_name(source)}:{note.line}: {note.list}"
            who = "" if note.address is None else f" {note.address}:"
            warn(f"{'left out: ' if note.is_left_out else ''}{place}:{who} {note.reason}")
    for kind, count in seen.items():
        if count > NOTES_SHOWN:
            warn(f"{count - NOTES_SHOWN} more of the kind {kind!r}; --format json has all")


def _complain(message: str) -> int:
    complain(message, FAILED_REASON)
    return FAILED
