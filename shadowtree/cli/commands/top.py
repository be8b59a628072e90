"""`shadowtree top`: show the state of a server and its peers on one screen, updated periodically."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from shadowtree.cli.render.output import as_json, is_terminal, print_json, print_lines
from shadowtree.cli.support.exit_codes import DONE
from shadowtree.cli.support.options import Session, everywhere, in_session
from shadowtree.errors import Unavailable

if TYPE_CHECKING:
    from shadowtree.client.synchronous.client import Client
    from shadowtree.results import PeerList, ServerStatus

EVERY_SECONDS = 1.0


@click.command("top")
@click.option("--once", is_flag=True, help="Look once, and end. So it is in a pipe, too.")
@everywhere()
@in_session
def top_command(session: Session, once: bool) -> int:
    """Watch a server: what it holds, what waits, what is suspended, and how its peers are. Ends with Ctrl-C.

    In a pipe: the server, its revision, groups, processes, arcs, updates in doubt, suspended arcs, letters that wait,
    and what is wrong with its database, one fact a line; then `peer`, server, address, what is thought of it, letters
    that wait for it, seconds since it was heard (`-`: not).

    \b
    Examples:
      shadowtree top
      shadowtree top --once --format json
    """
    with session.connect() as names:
        if session.is_json:
            status, peers = names.status(), names.peers()
            print_json({"status": as_json(status), "peers": as_json(peers.peers)})
        elif once or not is_terminal():
            print_lines("\t".join(map(str, fact)) for fact in _facts(names.status(), names.peers()))
        else:
            _watch(names)
    return DONE


def _watch(names: Client) -> None:
    from shadowtree.cli.render.top_screen import TopScreen

    with TopScreen() as screen:
        while True:
            try:
                screen.show(names.status(), names.peers())
            except Unavailable as error:
                screen.show_trouble(error.message)
            time.sleep(EVERY_SECONDS)


def _facts(status: ServerStatus, peers: PeerList) -> Iterator[tuple[object, ...]]:
    yield "server", status.server
    yield "revision", status.revision
    yield "groups", status.groups
    yield "processes", status.processes
    yield "arcs", status.arcs
    yield "in_doubt", len(status.in_doubt)
    yield "suspended", status.arcs_suspended
    yield "letters_waiting", sum(peer.letters_waiting for peer in peers)
    if status.database_failure:
        yield "database_failure", status.database_failure
    for peer in peers:
        heard = "-" if peer.last_heard_seconds is None else f"{peer.last_heard_seconds:.1f}"
        yield "peer", peer.server or "-", peer.address, peer.life, peer.letters_waiting, heard
