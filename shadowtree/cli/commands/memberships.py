"""`shadowtree memberships`: list the groups of a person or group."""

from __future__ import annotations

import click

from shadowtree.cli.render.output import hint_at_terminal, print_json, print_lines, warn_unreachable
from shadowtree.cli.support.exit_codes import DONE, UNCERTAIN
from shadowtree.cli.support.options import Session, everywhere, in_session


@click.command("memberships")
@click.argument("member")
@click.option("--direct", is_flag=True, help="Only groups that MEMBER is an immediate member of: those it can leave.")
@everywhere()
@in_session
def memberships_command(session: Session, member: str, direct: bool) -> int:
    """Print every group that MEMBER, a person or a group, is in, directly or not, sorted, one a line.

    Exits with status 3 if the answer is incomplete.

    \b
    Examples:
      shadowtree memberships ann@ubc.example
      shadowtree memberships ann@ubc.example --direct
    """
    with session.connect() as names:
        found = names.memberships(member, direct=direct, at_least_revision=session.at_least_revision)
    if session.is_json:
        print_json(found)
    else:
        print_lines(found.groups)
    if found.unreachable:
        warn_unreachable(found.unreachable)
        return UNCERTAIN
    if not found.groups and not session.is_json:
        hint_at_terminal(f"{found.member} is in no group")
    return DONE
