"""`shadowtree changes` and `shadowtree watch`: recorded changes with time and caller, past and future."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

import click

from shadowtree.cli.render.complaints import warn
from shadowtree.cli.render.output import is_terminal, print_json_line, print_row
from shadowtree.cli.support.exit_codes import DONE
from shadowtree.cli.support.options import Session, everywhere, in_session
from shadowtree.errors import DeadlineExceeded, GroupNotFound, Unavailable
from shadowtree.results import RecordedChange, RecordedUpdate

if TYPE_CHECKING:
    from shadowtree.client.synchronous.client import Client

_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}

_subnet_option = click.option(
    "--subnet", metavar="S", help="Of all groups of the server that owns this subnet. [default: the server asked]"
)


def _require_revision(context: click.Context, option: click.Parameter, revision: str | None) -> str | None:
    if revision == "":
        # An unset variable gives an empty text: changes would be left out without a notice.
        raise click.BadParameter("the revision is empty", context, option)
    return revision


_after_option = click.option(
    "--after", metavar="R", callback=_require_revision, help="Only what came after the update of revision R."
)


class PointInTime(click.ParamType[datetime]):
    """A time of day with its date, or an age."""

    name = "time"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """Return the time. A time without a zone is in the zone of this machine."""
        ago = re.fullmatch(r"(\d{1,6})([smhd])", value)
        if ago is not None:
            return datetime.now(UTC) - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        try:
            return datetime.fromisoformat(value).astimezone(UTC)
        except (ValueError, OverflowError):
            self.fail(
                f"{value!r} is neither a time such as 2026-03-01T08:30 nor an age such as 90m, 12h or 7d.", param, ctx
            )


@click.command("changes")
@click.option("--group", metavar="GROUP", help="Of this group alone.")
@_subnet_option
@click.option(
    "--since",
    metavar="T",
    type=PointInTime(),
    help="Only what was asked for since a time (2026-03-01T08:30), or for so long (90m, 12h, 7d).",
)
@_after_option
@everywhere()
@in_session
def changes_command(
    session: Session, group: str | None, subnet: str | None, since: datetime | None, after: str | None
) -> int:
    """Print what updates changed, oldest first: when, what, who asked, through which server.

    One server records what concerns its own groups, in the order in which it committed the updates. What is older than
    it keeps (changes_kept) is gone. Who asked is the address of the caller, and is not authenticated.

    \b
    Examples:
      shadowtree changes --group staff@ubc.example
      shadowtree changes --since 12h --format json
    """
    _require_one(group, subnet)
    with session.connect() as names:
        has_any = _print(names.changes(group, subnet=subnet, since=since, after_revision=after), session)
        if group is not None and not has_any:
            # A deleted group may have changes. A mistyped name has none, so `describe` reports it.
            names.describe(group, pathname_limit=1)
    return DONE


@click.command("watch")
@click.argument("group", required=False)
@_subnet_option
@_after_option
@everywhere()
@in_session
def watch_command(session: Session, group: str | None, subnet: str | None, after: str | None) -> int:
    """Print changes as they are committed, until Ctrl-C: those of GROUP alone, or of all groups of one server.

    Changes of direct members are told. A server that is started again is waited for, and nothing is left out meanwhile.

    \b
    Examples:
      shadowtree watch staff@ubc.example
      shadowtree watch --after 1042@ubc.example --format json
    """
    _require_one(group, subnet)
    with session.connect() as names:
        updates = names.watch(group, subnet=subnet, after_revision=after)
        if group is not None:
            _tell_if_missing(names, group)
        _print(updates, session)
    return DONE


def _tell_if_missing(names: Client, group: str) -> None:
    """Warn of a group that does not exist: it may be created later, but a mistyped name would be awaited silently."""
    try:
        names.describe(group, pathname_limit=1)
    except GroupNotFound as error:
        warn(f"{error.message}; if it is created, that is told")
    except (Unavailable, DeadlineExceeded):
        pass  # The watch itself reports servers that are out of reach.


def _require_one(group: str | None, subnet: str | None) -> None:
    if group is not None and subnet is not None:
        raise click.UsageError("A group has one home: give the group or --subnet, not both.")


def _print(updates: Iterable[RecordedUpdate], session: Session) -> bool:
    """Print the updates; return True if there was any."""
    has_any = False
    for update in updates:
        has_any = True
        if session.is_json:
            print_json_line(update)
            continue
        for change in update.changes:
            _print_change(update, change)
        if not update.is_listed:
            counts = (
                f"{update.created} created",
                f"{update.deleted} deleted",
                f"{update.joined} joined",
                f"{update.left} left",
            )
            if is_terminal():
                click.echo(f"{update.told_at}  {', '.join(counts)}  {_by(update)}")
            else:
                print_row(update.told_at, "many", *counts, update.revision)
    return has_any


def _print_change(update: RecordedUpdate, change: RecordedChange) -> None:
    if not is_terminal():
        print_row(
            update.told_at, change.kind, change.group, change.member or "", change.member_kind or "", update.revision
        )
        return
    member = f"  {change.member}{' (group)' if change.member_kind == 'group' else ''}" if change.member else ""
    click.echo(f"{update.told_at}  {change.kind:7}  {change.group}{member}  {_by(update)}")


def _by(update: RecordedUpdate) -> str:
    who = f"by {update.caller} " if update.caller else ""
    return f"{who}through {update.server}" if update.server else "when servers met again"
