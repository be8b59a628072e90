"""`shadowtree describe`, also `shadowtree group describe`: show one group and its place in the graph."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from shadowtree.cli.render.output import is_terminal, print_json, print_lines, warn_unreachable
from shadowtree.cli.support.exit_codes import DONE, UNCERTAIN
from shadowtree.cli.support.options import Session, everywhere, in_session

if TYPE_CHECKING:
    from shadowtree.results import GroupDescription


@click.command("describe")
@click.argument("group")
@click.option(
    "--pathnames",
    "pathname_limit",
    metavar="N",
    type=click.IntRange(min=1, max=100_000),
    default=None,
    help="List at most so many pathnames. [default: as the server likes]",
)
@click.option(
    "--internal",
    "is_internal",
    is_flag=True,
    help="Also how messages and answers are kept from coming twice: arc states, duplication control, pathnames.",
)
@everywhere()
@in_session
def describe_command(session: Session, group: str, pathname_limit: int | None, is_internal: bool) -> int:
    """Show GROUP: the server it belongs to, the groups it is in, its direct members, and its loop if it is in one.

    In a pipe each line is one fact, with tabs between its parts. A member whose server is out of reach is `suspended`:
    it counts as no member until that server is back. JSON always has everything.

    With --internal the state of each arc is printed: `normal`; in a loop `shadow` (walked, both ways) or `fade` (not
    needed to reach everybody). The exit status of --internal, and of JSON, is 3 if the duplication-control records of
    some arcs are missing, because the server that the arcs lead to is out of reach; says which server.

    \b
    Examples:
      shadowtree describe staff@ubc.example
      shadowtree describe staff@ubc.example --internal
    """
    is_internal = is_internal or pathname_limit is not None
    is_short = not (is_internal or session.is_json)
    with session.connect() as names:
        limit = pathname_limit or (1 if is_short else 0)
        found = names.describe(group, limit, at_least_revision=session.at_least_revision)
    if session.is_json:
        print_json(found)
    elif is_terminal():
        from shadowtree.cli.render.descriptions import show_description, show_internals

        (show_internals if is_internal else show_description)(found)
    else:
        print_lines("\t".join(fact) for fact in (_all_facts(found) if is_internal else _facts(found)))
    if is_short:
        # The short form contains no data of other servers.
        return DONE
    if found.unreachable:
        warn_unreachable(found.unreachable)
        return UNCERTAIN
    return DONE


def _facts(found: GroupDescription) -> Iterator[tuple[str, ...]]:
    yield "group", found.group
    yield "home", found.home
    yield from _details(found)
    for parent in found.parents:
        yield "parent", parent.id, *_state(parent.state)
    for child in found.children:
        yield "child", child.id, child.kind, *_state(child.state)
    if found.virtual_node is not None:
        for component in found.virtual_node.components:
            yield "loop", component


def _details(found: GroupDescription) -> Iterator[tuple[str, ...]]:
    if found.description:
        yield "description", found.description


def _state(state: str) -> tuple[str, ...]:
    return (state,) if state == "suspended" else ()


def _all_facts(found: GroupDescription) -> Iterator[tuple[str, ...]]:
    yield "group", found.group
    yield "home", found.home
    yield from _details(found)
    if found.virtual_node is not None:
        yield "virtual_node", found.virtual_node.vnid
        for component in found.virtual_node.components:
            yield "component", component
    for parent in found.parents:
        yield "parent", parent.id, parent.state
    for child in found.children:
        yield "child", child.id, child.kind, child.state
    for record in found.rd_records:
        yield "rd_record", record.source, record.sink, record.parent, record.child, *record.ancestors
    if found.rd_records_truncated:
        yield ("rd_records_truncated",)
    for server in found.unreachable:
        yield "unreachable", server
    for pathname in found.pathnames:
        yield "pathname", *pathname
    if found.pathnames_truncated:
        yield ("pathnames_truncated",)
