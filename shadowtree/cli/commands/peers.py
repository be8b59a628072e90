"""`shadowtree peers`: show, add and remove the servers of other subnets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from shadowtree.cli.render.first_few import first_few
from shadowtree.cli.render.output import is_terminal, print_json, print_lines
from shadowtree.cli.support.fingerprints import fingerprints_in
from shadowtree.cli.support.options import Session, everywhere, in_session

if TYPE_CHECKING:
    from shadowtree.results import PeerList


@click.group("peers", invoke_without_command=True)
@everywhere()
@click.pass_context
@in_session
def peers_command(session: Session, context: click.Context) -> None:
    """Show which other servers the server knows, and how the connections with them stand.

    A state is `connecting`, `connected`, `refused` with the reason, `silent since` or `stopped since` a time. One that
    is connected, but cannot be dialled, says so, and through whom calls go meanwhile. A server that is connected and
    has confirmed no message for a minute is `stuck since` a time: messages to it wait, and are refused at 64 MiB. The
    status of the server is `up`, `one way` (it dials this one, and no call reaches it), `suspected`, `restarting`,
    `lost`, `stopped` or `never met`, and why; phi says how unlikely its silence is. Letters that wait are those which
    the other server has not confirmed yet. Faults are what it did wrong since this server started.

    In a pipe: `peer`, address, state, server, letters that wait, the first subnets (JSON has all); then `life`,
    address, what is thought of it, phi, seconds since it was heard, milliseconds there and back (`-`: not known),
    through which server, what it sent through this one, why; then its faults; then, if it has not confirmed all
    messages, `backlog`, address, bytes of these in memory, seconds for which it is stuck (`-`: it is not). After all
    of them, `version`, address, its program's version, and the version of the protocol between the two; `server`, the
    name of the server that is asked, its version, and the newest protocol that it speaks; `refused`, the reason and a
    count, for connections from servers that are not in the table; and `unknown`, a server, who of the others knows it
    (with commas), and its first subnets: it is missing in the table of the server that is asked.

    \b
    Example:
      shadowtree peers --server 127.0.0.1:7400
    """
    if context.invoked_subcommand is None:
        with session.connect() as names:
            _print_peers(names.peers(), session)


@peers_command.command("add")
@click.argument("peer", metavar="SUBNET=HOST:PORT")
@click.option(
    "--trust",
    "trust_file",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The authority that may vouch for it: the ca.pem of its organisation.",
)
@everywhere()
@in_session
def add_command(session: Session, peer: str, trust_file: Path | None) -> None:
    """Tell the server where that of another subnet is reached. It holds at once, and after a restart.

    With --trust, the server there must prove itself by a certificate of that authority, whose fingerprint is printed
    first (in a pipe: `authority`, subnet, fingerprint). Compare it with what the other organisation says.

    \b
    Examples:
      shadowtree peers add sfu.example=127.0.0.1:7401
      shadowtree peers add sfu.example=names.sfu.example:7401 --trust sfu-ca.pem
    """
    from shadowtree.client.channel import UNIX_PREFIX, checked_address
    from shadowtree.errors import InvalidRequest

    subnet, _, text = peer.partition("=")
    try:
        is_socket = text.strip().startswith(UNIX_PREFIX)
        address = checked_address(text) if subnet.strip() and not is_socket else ""
    except InvalidRequest:
        address = ""
    if not address:
        raise click.BadParameter(f"{peer!r} is not SUBNET=HOST:PORT", param_hint="SUBNET=HOST:PORT")
    trust = "" if trust_file is None else _read_authority(trust_file)
    with session.connect() as names:
        found = names.add_peer(subnet.strip(), address, trust=trust)
    if trust and not session.is_json:
        print_lines(f"authority\t{subnet.strip()}\t{each}" for each in fingerprints_in(trust))
    _print_peers(found, session)


def _read_authority(file: Path) -> str:
    """Return the text of a file with certificates. The server judges it."""
    try:
        text = file.read_text("ascii") if file.is_file() else None
    except (OSError, UnicodeDecodeError):
        text = None
    if text is None or not fingerprints_in(text):
        raise click.BadParameter(f"{str(file)!r} holds no certificate that can be read", param_hint="--trust")
    return text


@peers_command.command("remove")
@click.argument("subnet")
@click.option(
    "--force", is_flag=True, help="Its server is gone for good: first end all memberships between it and this server."
)
@everywhere()
@in_session
def remove_command(session: Session, subnet: str, force: bool) -> None:
    """Tell the server that SUBNET is nobody's any more. Nothing of it may be in use.

    With --force, which a server takes only while that of SUBNET is out of reach, all memberships between groups and
    processes of SUBNET and those of the server that is asked end first, and it is said how many there were (in a pipe:
    `ended` and the number, last). Repeat it at each of the other servers.

    \b
    Examples:
      shadowtree peers remove sfu.example
      shadowtree peers remove sfu.example --force
    """
    with session.connect() as names:
        found = names.remove_peer(subnet, force)
    _print_peers(found, session)
    if force and not session.is_json:
        ended = found.memberships_ended
        print_lines([f"{ended:,} memberships were ended" if is_terminal() else f"ended\t{ended}"])


def _print_peers(found: PeerList, session: Session) -> None:
    if session.is_json:
        print_json(found)
    elif is_terminal():
        from shadowtree.cli.render.terminal import show_peers

        show_peers(found)
    else:
        print_lines("\t".join(str(part) for part in row) for row in _rows(found))


def _rows(found: PeerList) -> Iterator[tuple[object, ...]]:
    for peer in found.peers:
        yield "peer", peer.address, peer.state, peer.server, peer.letters_waiting, *first_few(peer.subnets)
        measured = (_or_dash(peer.last_heard_seconds), _or_dash(peer.round_trip_ms))
        yield "life", peer.address, peer.life, peer.phi, *measured, peer.via or "-", peer.relayed, peer.why
        for fault in peer.faults:
            yield "fault", peer.address, fault.kind, fault.count
        if peer.backlog_bytes:
            yield "backlog", peer.address, peer.backlog_bytes, _or_dash(peer.stuck_seconds)
    for peer in found.peers:
        yield "version", peer.address, peer.version or "-", peer.protocol_version or "-"
    if found.server:
        yield "server", found.server, found.version or "-", found.protocol_version or "-"
    for fault in found.strangers:
        yield "refused", fault.kind, fault.count
    for unknown in found.unknown:
        yield "unknown", unknown.server, ",".join(unknown.known_to), *first_few(unknown.subnets)


def _or_dash(number: float | None) -> object:
    return "-" if number is None else number
