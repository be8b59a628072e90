"""`shadowtree status`: show the state of the server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from shadowtree.cli.render.complaints import SERVER_FAILED_REASON, complain
from shadowtree.cli.render.first_few import first_few
from shadowtree.cli.render.output import is_terminal, print_json, print_lines
from shadowtree.cli.support.exit_codes import DONE, FAILED
from shadowtree.cli.support.options import Session, everywhere, in_session

if TYPE_CHECKING:
    from shadowtree.results import ServerStatus


@click.command("status")
@everywhere()
@in_session
def status_command(session: Session) -> int:
    """Show which subnets the server owns, how much it holds, and what it is waiting for.

    A server that judges its callers tells operators alone the counts, and all that it waits for.

    The exit status is 4 while the server cannot write its database, and so refuses updates.

    \b
    Example:
      shadowtree status --server 127.0.0.1:7400
    """
    with session.connect() as names:
        found = names.status()
    if session.is_json:
        print_json(found)
    elif is_terminal():
        from shadowtree.cli.render.terminal import show_status

        show_status(found)
    else:
        print_lines("\t".join(str(part) for part in fact) for fact in _facts(found))
    if found.database_failure:
        complain(f"the server cannot write its database: {found.database_failure}", SERVER_FAILED_REASON)
        return FAILED
    return DONE


def _facts(found: ServerStatus) -> Iterator[tuple[object, ...]]:
    yield "server", found.server
    for subnet in found.subnets:
        yield "subnet", subnet
    if found.is_public_part:
        yield "version", found.version or "-"
        yield "protocol_version", found.protocol_version or "-"
        return
    yield "groups", found.groups
    yield "processes", found.processes
    yield "arcs", found.arcs
    yield "virtual_nodes", found.virtual_nodes
    yield "tombstones", found.tombstones
    yield "node_numbers", found.node_numbers
    yield "free_node_numbers", found.free_node_numbers
    yield "arcs_suspended", found.arcs_suspended
    yield "mailboxes", found.mailboxes
    yield "log_entries", found.log_entries
    yield "log_bytes", found.log_bytes
    yield "parcels_unsettled", found.parcels_unsettled
    for pending in found.parcels_pending:
        yield "parcels_pending", pending.server, pending.parcels
    yield "memory_entries", found.memory_entries
    yield "memory_bytes", found.memory_bytes
    yield "memory_parcels_unsettled", found.memory_parcels_unsettled
    yield "memory_parcels_lost", found.memory_parcels_lost
    yield "messages_queued", found.messages_queued
    yield "messages_refused_by_rate", found.messages_refused_by_rate
    yield "datagrams_sent", found.datagrams_sent
    yield "datagrams_handed", found.datagrams_handed
    yield "datagrams_dropped", found.datagrams_dropped
    for undelivered in found.undelivered:
        yield "undelivered", undelivered.reason, undelivered.messages
    yield "version", found.version or "-"
    yield "protocol_version", found.protocol_version or "-"
    yield "started", found.started or "-"
    yield "uptime_seconds", found.uptime_seconds
    yield "revision", found.revision
    if found.database_failure:
        yield "database_failure", found.database_failure
    for revision in found.in_doubt:
        yield "in_doubt", revision
    for arc in found.suspended:
        yield "suspended", arc.parent, arc.child, arc.reason
    for server in found.view:
        yield "view", server
    for peer in found.peers:
        yield "peer", peer.address, peer.state, *first_few(peer.subnets)
