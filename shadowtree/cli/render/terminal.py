"""Output for a person at a terminal: tables, trees and progress bars. The only module that loads rich."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Final

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.tree import Tree

from shadowtree import results
from shadowtree.cli.render.first_few import first_few
from shadowtree.cli.render.plurals import counted_for_people

SHOWN_AT_MOST: Final = 50
"""Maximum number of lines of one list. A pipe or JSON has all of them."""

_EFFECT_SENTENCES: Final = {
    "formed": "a loop was closed; these groups are now one virtual node",
    "grown": "a virtual node grew to",
    "changed": "arcs changed inside the virtual node of",
    "broken": "a loop was broken, of",
    "controlled": "now reached in several ways, one of which delivers",
    "released": "no longer reached in several ways",
}


def show_change(change: results.Change) -> None:
    """Print the effects of a write."""
    console = Console(highlight=False)
    console.print(f"[green]done[/], revision {escape(change.revision)}")
    for effect in change.effects:
        tree = Tree(f"[bold]{effect.kind}[/]: {_EFFECT_SENTENCES[effect.kind]} ({len(effect.groups)})")
        add_some(tree, [escape(group) for group in effect.groups])
        console.print(tree)


_COUNTS = (
    "groups",
    "processes",
    "arcs",
    "virtual_nodes",
    "tombstones",
    "node_numbers",
    "free_node_numbers",
    "arcs_suspended",
    "mailboxes",
    "log_entries",
    "log_bytes",
    "parcels_unsettled",
    "memory_entries",
    "memory_bytes",
    "memory_parcels_unsettled",
    "memory_parcels_lost",
    "messages_queued",
    "messages_refused_by_rate",
)


def show_status(found: results.ServerStatus) -> None:
    """Print the state of a server, as a table."""
    table = Table(title=f"name server {escape(found.server)}", show_header=False)
    table.add_column(style="bold")
    table.add_column()
    table.add_row("subnets", escape(", ".join(first_few(found.subnets))))
    if found.is_public_part:
        table.add_row("version", escape(f"{found.version}, protocol {found.protocol_version}"))
        table.add_row("more", "is for operators: call the local socket, or with the credential of an operator")
        Console(highlight=False).print(table)
        return
    if found.version:
        table.add_row("version", escape(f"{found.version}, protocol {found.protocol_version}"))
        table.add_row("started", escape(f"{found.started}, {timedelta(seconds=round(found.uptime_seconds))} ago"))
    for label in _COUNTS:
        table.add_row(label.replace("_", " "), f"{getattr(found, label):,}")
    for pending in found.parcels_pending:
        table.add_row("parcels pending", escape(f"{pending.server}: {pending.parcels:,}"))
    for undelivered in found.undelivered:
        table.add_row(
            "undelivered", escape(f"{counted_for_people(undelivered.messages, 'message')}: {undelivered.reason}")
        )
    table.add_row("revision", escape(found.revision))
    if found.database_failure:
        table.add_row("database", escape(f"cannot be written: {found.database_failure}"))
    for revision in found.in_doubt:
        table.add_row("in doubt", escape(revision))
    for arc in found.suspended:
        table.add_row("suspended", escape(f"{arc.parent} -> {arc.child}: {arc.reason}"))
    if found.view:
        table.add_row("view", escape(", ".join(found.view)))
    for peer in found.peers:
        table.add_row("peer", escape(f"{peer.address} ({peer.state}): {', '.join(first_few(peer.subnets))}"))
    Console(highlight=False).print(table)


def show_peers(found: results.PeerList) -> None:
    """Print the state of the connections with other servers, as a table."""
    title = "other name servers"
    if found.version:
        title += f" (asked: {escape(found.server)}, version {escape(found.version)}, protocol {found.protocol_version})"
    table = Table(title=title)
    for column in ("address", "server", "version", "subnets", "state", "life", "waiting", "faults"):
        table.add_column(column, overflow="fold")
    for peer in found.peers:
        table.add_row(
            *map(escape, (peer.address, peer.server, _version(peer), ", ".join(first_few(peer.subnets)), peer.state)),
            escape(_life(peer)),
            f"{peer.letters_waiting:,}",
            escape("; ".join(f"{fault.kind}: {fault.count:,}" for fault in peer.faults)),
        )
    console = Console(highlight=False)
    console.print(table)
    for fault in found.strangers:
        console.print(
            escape(f"connections refused from servers that are not in the table: {fault.count:,} ({fault.kind})")
        )
    for unknown in found.unknown:
        console.print(
            escape(
                f"{unknown.server} is not in the table here, but known to {', '.join(unknown.known_to)}: answers leave "
                f"out what only it knows, and say so; add its subnets ({', '.join(first_few(unknown.subnets))})"
            )
        )


def _version(peer: results.PeerState) -> str:
    """Return the versions of a peer's program and of the protocol between the two; empty if they have not met."""
    return f"{peer.version or 'older'}, protocol {peer.protocol_version}" if peer.protocol_version else ""


def _life(peer: results.PeerState) -> str:
    """Return the status of a server, its relay, the reason and the measurements."""
    life = f"{peer.life} via {peer.via}" if peer.via else peer.life
    heard = [] if peer.last_heard_seconds is None else [f"heard {peer.last_heard_seconds:.1f} s ago"]
    way = [] if peer.round_trip_ms is None else [f"round trip {peer.round_trip_ms:.1f} ms"]
    measured = "; ".join([*heard, f"phi {peer.phi:.1f}", *way])
    return f"{life}: {peer.why} ({measured})" if peer.why else f"{life} ({measured})"


@contextmanager
def import_progress() -> Iterator[Callable[[str, int, int], None]]:
    """Show the phases of an import on standard error."""
    with _progress() as display:
        checking = display.add_task("checking the file", total=None)
        sending = display.add_task("sending", total=None, visible=False)
        waiting = display.add_task("the server takes it in", total=None, visible=False)

        def show(phase: str, done: int, total: int) -> None:
            if phase == "checking":
                display.update(checking, completed=done, total=total or None)
                return
            display.update(sending, completed=done, total=total, visible=True)
            if done == total:
                display.update(waiting, visible=True)

        yield show
        display.update(waiting, total=1, completed=1)


@contextmanager
def export_progress() -> Iterator[Callable[[int], None]]:
    """Count the lines of an export on standard error."""
    with _progress() as display:
        task = display.add_task("writing", total=None)
        yield lambda lines: display.update(task, description=f"writing: {counted_for_people(lines, 'line')}")


@contextmanager
def snapshot_progress() -> Iterator[Callable[[str, int], None]]:
    """Count the rows that come from each server on standard error."""
    with _progress() as display:
        tasks: dict[str, TaskID] = {}

        def show(address: str, rows: int) -> None:
            if address not in tasks:
                tasks[address] = display.add_task(address, total=None)
            display.update(tasks[address], description=f"snapshot of {address}: {counted_for_people(rows, 'row')}")

        yield show


@contextmanager
def time_passing(what: str) -> Iterator[None]:
    """Show on standard error that an operation is running, and its duration."""
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    ) as display:
        display.add_task(escape(what), total=None)
        yield


def _progress() -> Progress:
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )


def add_some(tree: Tree, lines: list[str]) -> None:
    """Add lines to a tree, up to SHOWN_AT_MOST, and the number of the rest."""
    for line in lines[:SHOWN_AT_MOST]:
        tree.add(line)
    if len(lines) > SHOWN_AT_MOST:
        tree.add(f"[dim]and {len(lines) - SHOWN_AT_MOST:,} more (--format json has all)[/]")
