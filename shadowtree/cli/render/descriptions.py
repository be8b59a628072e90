"""One group at a terminal: a short view in the words of users, and a full view with the protocol's data."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from typing import Final

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.tree import Tree

from shadowtree import results
from shadowtree.cli.render.plurals import counted, counted_for_people
from shadowtree.cli.render.terminal import add_some

NAMED_AT_MOST: Final = 3
"""Maximum number of groups above, and of other groups of a loop, that are named. The others are counted."""

SHOWN_AT_LEAST: Final = 12
"""Minimum number of direct members that are shown, on a screen of any height."""

_OTHER_LINES: Final = 10
"""Lines of a description besides its members, and the prompt."""

_STATE_STYLES: Final = {"normal": "default", "shadow": "green", "fade": "dim", "suspended": "red"}


def show_description(found: results.GroupDescription) -> None:
    """Show a group for users, on one screen, with as many of its members as fit."""
    console = Console(highlight=False, soft_wrap=True)
    console.print(f"[bold]{escape(found.group)}[/]  (home: {escape(found.home)})")
    if found.description:
        console.print(escape(found.description))
    console.print(_named("in", found.parents) if found.parents else "in no other group")
    if found.virtual_node is not None:
        others = [results.Parent(group, "normal") for group in found.virtual_node.components if group != found.group]
        console.print(_named("[yellow]on a loop[/] with", others))
    groups = sum(child.kind == "group" for child in found.children)
    if not found.children:
        console.print("no direct members")
    else:
        kinds = f"{counted(groups, 'group')}, {counted(len(found.children) - groups, 'process', 'processes')}"
        console.print(f"{counted(len(found.children), 'direct member')}: {kinds}")
    room = max(SHOWN_AT_LEAST, shutil.get_terminal_size().lines - _OTHER_LINES)
    # Groups come first, because each may contain many members.
    children = sorted(found.children, key=lambda child: (child.kind != "group", child.id))
    table = Table.grid(padding=(0, 2))
    table.add_column(overflow="fold")
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    for child in children[:room]:
        state = "[red]suspended: its server is out of reach[/]" if child.state == "suspended" else ""
        table.add_row(f"  {escape(child.id)}", child.kind, state)
    if children:
        console.print(table)
    if len(children) > room:
        console.print(f"[dim]  and {len(children) - room:,} more (resolve {escape(found.group)} --direct lists all)[/]")


def _named(lead: str, groups: Sequence[results.Parent]) -> str:
    named = (
        f"{escape(group.id)}{' [red](suspended)[/]' if group.state == 'suspended' else ''}"
        for group in groups[:NAMED_AT_MOST]
    )
    more = f", and {len(groups) - NAMED_AT_MOST:,} more" if len(groups) > NAMED_AT_MOST else ""
    return f"{lead} {counted(len(groups), 'group')}: {', '.join(named)}{more}"


def show_internals(found: results.GroupDescription) -> None:
    """Draw one group and all data about the arcs around it."""
    console = Console(highlight=False)
    tree = Tree(f"[bold]{escape(found.group)}[/]  (home: {escape(found.home)})")
    if found.description:
        tree.add(escape(found.description))
    if found.virtual_node is not None:
        node = tree.add(f"virtual node {escape(found.virtual_node.vnid)}: in a loop of")
        add_some(node, [escape(component) for component in found.virtual_node.components])
    add_some(
        tree.add(f"parents ({len(found.parents)})"),
        [f"{escape(parent.id)}  {_state(parent.state)}" for parent in found.parents],
    )
    add_some(
        tree.add(f"children ({len(found.children)})"),
        [f"{escape(child.id)}  {child.kind} {_state(child.state)}" for child in found.children],
    )
    if found.rd_records:
        cut_off = ", and more" if found.rd_records_truncated else ""
        add_some(
            tree.add(f"duplication control ({len(found.rd_records)}{cut_off})"),
            [
                escape(f"{record.parent} -> {record.child}: DL({record.source}, {record.sink})")
                + f", closed to {counted_for_people(len(record.ancestors), 'group')}"
                for record in found.rd_records
            ],
        )
    if found.unreachable:
        missing = tree.add("[red]duplication control of arcs to these servers is missing[/]: out of reach")
        add_some(missing, [escape(server) for server in found.unreachable])
    more = ", and more" if found.pathnames_truncated else ""
    add_some(
        tree.add(f"pathnames ({len(found.pathnames)}{more})"),
        [escape(" > ".join(pathname)) for pathname in found.pathnames],
    )
    console.print(tree)


def _state(state: str) -> str:
    return f"[{_STATE_STYLES[state]}]{state}[/]"
