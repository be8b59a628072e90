"""`shadowtree check`: test the membership of a person or group in a group."""

from __future__ import annotations

import click

from shadowtree.cli.render.complaints import complain
from shadowtree.cli.render.output import is_terminal, print_json, print_lines
from shadowtree.cli.support.exit_codes import DONE, NO, UNCERTAIN
from shadowtree.cli.support.options import Session, everywhere, in_session
from shadowtree.errors import Unavailable
from shadowtree.results import Check


@click.command("check")
@click.argument("group")
@click.argument("member")
@click.option("--explain", is_flag=True, help="Also print one path of memberships that proves a yes.")
@everywhere()
@in_session
def check_command(session: Session, group: str, member: str, explain: bool) -> int:
    """Say whether MEMBER, a person or a group, is in GROUP, directly or through other groups.

    Prints `yes` or `no`; the exit status is 0 for yes, 1 for no, and 3 if a part of the graph out of reach could
    change the answer.

    \b
    Examples:
      shadowtree check staff@ubc.example ann@ubc.example && echo come in
      shadowtree check staff@ubc.example ann@ubc.example --explain
    """
    with session.connect() as names:
        try:
            answer = names.check(group, member, explain, at_least_revision=session.at_least_revision)
        except Unavailable as error:
            if not error.unreachable:
                raise
            complain(error.message, error.reason, error.facts)
            revision = error.facts.get("revision", "")
            asked = error.facts.get("group", group), error.facts.get("member", member)
            answer = Check(*asked, None, unreachable=error.unreachable, revision=revision)
    if session.is_json:
        print_json(answer)
    elif answer.is_member is not None:
        print_lines(["yes" if answer.is_member else "no", *_path(answer)])
    if answer.is_member is None:
        return UNCERTAIN
    return DONE if answer.is_member else NO


def _path(answer: Check) -> list[str]:
    if not is_terminal():
        return list(answer.pathname)
    return [f"  {'  ' * depth}{'> ' if depth else ''}{node}" for depth, node in enumerate(answer.pathname)]
