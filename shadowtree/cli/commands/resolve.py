"""`shadowtree resolve`: who is in a group."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from shadowtree.cli.render.output import is_terminal, print_json, print_lines, warn, warn_unreachable
from shadowtree.cli.support.exit_codes import DONE, UNCERTAIN
from shadowtree.cli.support.options import Session, everywhere, in_session

if TYPE_CHECKING:
    from shadowtree.results import Resolution
    from shadowtree.vocabulary import Consistency


@click.command("resolve")
@click.argument("group")
@click.option("--groups", is_flag=True, help="Also the groups that are reached.")
@click.option("--tree", is_flag=True, help="Draw the walk: through which group each member is reached.")
@click.option(
    "--consistency",
    type=click.Choice(["datagram", "ordered"]),
    default="datagram",
    help="datagram: quick, and says so if an update was under way; ordered: as of one instant.",
)
@everywhere()
@in_session
def resolve_command(session: Session, group: str, groups: bool, tree: bool, consistency: Consistency) -> int:
    """Print everybody in GROUP, directly or through other groups, each once, sorted, one a line.

    Exits with status 3 if the answer is incomplete.

    \b
    Examples:
      shadowtree resolve staff@ubc.example
      shadowtree resolve staff@ubc.example --groups --format json
      shadowtree resolve staff@ubc.example --tree
    """
    with session.connect() as names:
        found = names.resolve(group, groups, consistency, walk=tree, at_least_revision=session.at_least_revision)
    if session.is_json:
        print_json(found)
    elif tree:
        from shadowtree.cli.render.walk_tree import draw_walk

        print_lines(draw_walk(group, found.walk, with_guides=is_terminal()))
    else:
        print_lines(sorted({*found.processes, *found.groups}) if found.groups else found.processes)
    return _tell_what_is_missing(found)


def _tell_what_is_missing(found: Resolution) -> int:
    for hidden in found.hidden:
        warn(f"{hidden.count} members of {hidden.group} are hidden from you")
    if found.unreachable:
        warn_unreachable(found.unreachable)
    if found.in_transition:
        warn("an update was under way for as long as you gave; the answer may mix before and after")
    return DONE if found.is_complete else UNCERTAIN
