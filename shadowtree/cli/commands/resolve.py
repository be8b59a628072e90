"""`shadowtree resolve`: list the members of one or several groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from shadowtree.cli.render.complaints import INCOMPLETE_REASON, complain, warn
from shadowtree.cli.render.output import (
    as_json,
    hint_at_terminal,
    is_terminal,
    print_json,
    print_lines,
    warn_unreachable,
)
from shadowtree.cli.render.plurals import counted
from shadowtree.cli.support.exit_codes import DONE, UNCERTAIN
from shadowtree.cli.support.options import Session, everywhere, in_session
from shadowtree.errors import GroupNotFound

if TYPE_CHECKING:
    from shadowtree.cli.render.trees import Drawing
    from shadowtree.client.synchronous.client import Client
    from shadowtree.results import Child, Resolution
    from shadowtree.vocabulary import Consistency, GroupId

_ASKED_AT_ONCE: Final = 8
"""Number of groups in loops that are described at once.

There may be hundreds of them. Asking one after the other takes three times as long.
"""


@click.command("resolve")
@click.argument("asked", metavar="GROUP...", nargs=-1, required=True)
@click.option("--except", "excluding", metavar="G", multiple=True, help="Not who is in this group. May be repeated.")
@click.option("--groups", is_flag=True, help="Also the groups that are reached.")
@click.option("--direct", is_flag=True, help="Only immediate members; with --groups also the direct subgroups.")
@click.option("--tree", is_flag=True, help="Draw the memberships: each member once, below a group that has it.")
@click.option("--walk", is_flag=True, help="Draw the internal walk: how the answer was found, and by which arcs.")
@click.option(
    "--consistency",
    type=click.Choice(["datagram", "ordered"]),
    default="datagram",
    help="datagram: quick, and says so if an update was under way; ordered: as of one instant.",
)
@everywhere()
@in_session
def resolve_command(
    session: Session,
    asked: tuple[str, ...],
    excluding: tuple[str, ...],
    groups: bool,
    direct: bool,
    tree: bool,
    walk: bool,
    consistency: Consistency,
) -> int:
    """Print everybody in GROUP, directly or through other groups, each once, sorted, one a line.

    Of several groups, who is in one of them or more. JSON tells of each member which group is the first that has it.

    With --groups a terminal shows groups and people apart; a pipe gets all ids in one sorted list.

    With --walk each line is a step of the walk: `->` leads to a member, `<-`, inside a loop, to a group of which the
    one above is a member.

    Exits with status 3 if the answer is incomplete.

    \b
    Examples:
      shadowtree resolve staff@ubc.example
      shadowtree resolve staff@ubc.example --groups --format json
      shadowtree resolve staff@ubc.example --direct --groups
      shadowtree resolve staff@ubc.example --tree
      shadowtree resolve staff@ubc.example lab@sfu.example --except guests@ubc.example
    """
    if tree and walk:
        raise click.UsageError("--tree draws memberships, --walk the internal walk: one of them")
    if session.is_json and (tree or walk):
        raise click.UsageError(f"{'--tree' if tree else '--walk'} draws for people: it has no JSON")
    if len(set(asked)) > 1 or excluding:
        _require_one_group(direct=direct, tree=tree, walk=walk, consistency=consistency)
    if direct:
        _require_no_way(tree=tree, walk=walk, consistency=consistency)
    is_drawn, drawing = (tree or walk) and not session.is_json, None
    with session.connect() as names:
        found = names.resolve(
            asked,
            groups,
            consistency,
            is_drawn,
            excluding=excluding,
            direct=direct,
            at_least_revision=session.at_least_revision,
        )
        if is_drawn:
            drawing = _draw(names, found, is_walk=walk)
    if session.is_json:
        print_json(as_json(found) | ({"members": as_json(found.members)} if found.targets else {}))
    elif drawing is not None:
        print_lines(drawing.lines)
    elif groups and is_terminal():
        print_lines([*_section("groups", found.groups), *_section("people", found.processes)])
    else:
        print_lines(sorted({*found.processes, *found.groups}) if found.groups else found.processes)
    if drawing is not None and drawing.missing:
        complain(
            f"memberships changed while they were read; without a place in the tree: {', '.join(drawing.missing)}",
            INCOMPLETE_REASON,
        )
        return UNCERTAIN
    status = _tell_what_is_missing(found)
    if status == DONE and drawing is None and not session.is_json and not (found.processes or found.groups):
        hint_at_terminal(_why_empty(asked, is_direct=direct, are_excepted=bool(excluding), with_groups=groups))
    return status


def _why_empty(asked: tuple[GroupId, ...], *, is_direct: bool, are_excepted: bool, with_groups: bool) -> str:
    member = "direct member" if is_direct else "member"
    found = f"no person is a {member} of {' or '.join(asked)}{', less the exceptions' if are_excepted else ''}"
    return found if with_groups else f"{found}; --groups also prints groups"


def _require_one_group(*, direct: bool, tree: bool, walk: bool, consistency: Consistency) -> None:
    options = (
        (direct, "--direct"),
        (tree, "--tree"),
        (walk, "--walk"),
        (consistency == "ordered", "--consistency ordered"),
    )
    for is_asked, option in options:
        if is_asked:
            raise click.UsageError(f"{option} is for one group without exceptions")


def _require_no_way(*, tree: bool, walk: bool, consistency: Consistency) -> None:
    for is_asked, option in ((tree, "--tree"), (walk, "--walk"), (consistency == "ordered", "--consistency ordered")):
        if is_asked:
            raise click.UsageError(f"--direct and {option} exclude each other: direct members are found without a walk")


def _draw(names: Client, found: Resolution, *, is_walk: bool) -> Drawing:
    from concurrent.futures import ThreadPoolExecutor

    from shadowtree.cli.render.loops import loops_of
    from shadowtree.cli.render.trees import arcs_in_loops, draw_memberships, draw_walk

    def children_of(group: GroupId) -> Sequence[Child]:
        try:
            return names.describe(group, pathname_limit=1).children
        except GroupNotFound:
            # The group was deleted since the walk.
            return ()

    groups = [group for loop in loops_of(found.walk) for group in loop]
    with ThreadPoolExecutor(_ASKED_AT_ONCE) as workers:
        told = dict(zip(groups, workers.map(children_of, groups), strict=True))
    draw = draw_walk if is_walk else draw_memberships
    return draw(found.group, found.walk, arcs_in_loops(found.walk, told.__getitem__), with_guides=is_terminal())


def _section(title: str, ids: Sequence[str]) -> list[str]:
    return [f"{title} ({len(ids):,})", *(f"  {each}" for each in ids)]


def _tell_what_is_missing(found: Resolution) -> int:
    for hidden in found.hidden:
        are = "is" if hidden.count == 1 else "are"
        members = counted(hidden.count, "member") if hidden.count else "members"
        warn(f"{members} of {hidden.group} {are} hidden from you")
    if found.unreachable:
        warn_unreachable(found.unreachable)
    for why in found.why_unreachable if found.targets else ():
        # Servers of the previous release do not know sets, so `unreachable` may be empty.
        complain(why, INCOMPLETE_REASON)
    if found.in_transition:
        complain(
            "an update was under way for as long as you gave; the answer may mix before and after", INCOMPLETE_REASON
        )
    return DONE if found.is_complete else UNCERTAIN
