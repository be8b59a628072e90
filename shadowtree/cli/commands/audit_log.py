"""`shadowtree audit-log`: export the audit log of a server, verify such a file, and show checkpoints."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from shadowtree.cli.commands.changes import PointInTime
from shadowtree.cli.render.complaints import warn
from shadowtree.cli.render.output import is_terminal, print_json, print_json_line, print_row
from shadowtree.cli.render.plurals import counted
from shadowtree.cli.support.exit_codes import DONE, NO, UNCERTAIN
from shadowtree.cli.support.options import Session, everywhere, in_session
from shadowtree.cli.support.private_files import mode_option, private_files
from shadowtree.errors import ShadowtreeError

if TYPE_CHECKING:
    from shadowtree.results import AuditCheckpoint, AuditVerdict

PEERS: Final = "peers"
"""Word in place of a file of checkpoints: ask the peers themselves."""

PEERS_LIMIT: Final = 1_000
"""Most peers that are asked. No installation has more servers."""

ASKING_SECONDS: Final = 10.0
"""Longest time for a peer to tell its checkpoints."""


@click.group("audit-log")
def audit_log_command() -> None:
    """Export and verify the log of who changed and was refused what."""


@audit_log_command.command("export")
@click.argument("file")
@click.option(
    "--since",
    metavar="T",
    type=PointInTime(),
    help="Begin at the first row of a time (2026-03-01T08:30), or of so long ago (90m, 12h, 7d).",
)
@click.option("--after", metavar="N", type=click.IntRange(min=0), default=0, help="Only rows after row N.")
@click.option("--format", "file_format", type=click.Choice(["jsonl"]), default="jsonl", help="[default: jsonl]")
@mode_option
@everywhere(has_format=False)
@in_session
def export_command(session: Session, file: str, since: datetime | None, after: int, file_format: str, mode: int) -> int:
    """Write the audit log of the server to FILE (`-`: standard output), one row a line, oldest first.

    The file is there whole or not at all. Its user alone may read it, but for --mode. It is read with `verify`, here or
    elsewhere. `--after` goes on from an earlier file: give the number of its last row.

    \b
    Examples:
      shadowtree audit-log export audit.jsonl
      shadowtree audit-log export --since 7d --format jsonl week.jsonl
    """
    assert file_format == "jsonl"
    with private_files(mode), session.connect() as names:
        found = names.export_audit_log(file, after=after, since=since)
    if file != "-":
        which = f"rows {found.first} to {found.last}" if found.rows else "no row"
        click.echo(f"{which} of the audit log of {found.server}")
    return DONE


@audit_log_command.command("verify")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--checkpoints",
    metavar="peers|FILE",
    help="Checkpoints to compare with: those that the server's peers keep, or of a file.",
)
@click.option(
    "--until",
    metavar="T",
    type=PointInTime(),
    help="When FILE was exported. Checkpoints made later do not count. [default: now]",
)
@everywhere()
@in_session
def verify_command(session: Session, file: Path, checkpoints: str | None, until: datetime | None) -> int:
    """Say whether the audit log in FILE is whole: no row changed, removed, inserted or moved since it was written.

    The first wrong row is named, and the exit status is 1. Without checkpoints, a cut end does not show, nor does a log
    whose hashes were all computed anew. With `--checkpoints peers`, the server of --server names its peers, and each is
    asked for the checkpoints that it keeps. If no peer answers, the exit status is 3. With a file, no server is asked:
    it has what a peer printed by `shadowtree audit-log checkpoints --format json`.

    \b
    Examples:
      shadowtree audit-log verify audit.jsonl
      shadowtree audit-log verify audit.jsonl --checkpoints peers
    """
    from shadowtree.client.audit_log import is_genuine, read_checkpoint_file, verify_file

    has_asked = checkpoints == PEERS
    kept = _of_peers(session) if has_asked else read_checkpoint_file(Path(checkpoints)) if checkpoints else ()
    genuine = [each for each in kept if is_genuine(each)]
    if len(genuine) < len(kept):
        warn(f"{counted(len(kept) - len(genuine), 'checkpoint')} with a wrong signature: not counted")
    if until is not None:
        genuine = [each for each in genuine if each.at <= 1e3 * until.timestamp()]
    verdict = verify_file(file, genuine)
    _print_verdict(verdict, session)
    if not verdict.is_whole:
        return NO
    is_uncertain = checkpoints is not None and not any(each.server == verdict.server for each in genuine)
    if is_uncertain:
        warn(f"no checkpoint of {verdict.server} was found: a cut end does not show")
    return UNCERTAIN if is_uncertain else DONE


def _of_peers(session: Session) -> list[AuditCheckpoint]:
    """Return the checkpoints that the peers of the server keep. A peer that does not answer is named."""
    from shadowtree.client.synchronous.client import Client

    found: list[AuditCheckpoint] = []
    with session.connect() as names:
        peers = names.peers()
    for peer in peers.peers[:PEERS_LIMIT]:
        try:
            with Client(peer.address, timeout=ASKING_SECONDS, patience=0) as asked:
                found += [each for each in asked.checkpoints(peers.server) if each.kept_by != peers.server]
        except ShadowtreeError as error:
            warn(f"{peer.address} does not tell its checkpoints: {error.message}")
    return found


def _print_verdict(verdict: AuditVerdict, session: Session) -> None:
    if session.is_json:
        print_json(verdict)
        return
    if not verdict.is_whole:
        click.echo(f"not whole: {verdict.why}")
        return
    rows = f"rows {verdict.first} to {verdict.last}" if verdict.rows else "no row"
    before = f", of which {verdict.before_chain:,} are before the chain" if verdict.before_chain else ""
    covered = (
        f"; {counted(verdict.checkpoints, 'checkpoint')} fit, the newest of row {verdict.checkpoint_row}"
        if verdict.checkpoints
        else ""
    )
    click.echo(f"whole: {rows} of the audit log of {verdict.server}{before}{covered}")


@audit_log_command.command("checkpoints")
@click.option("--of", "of", metavar="SERVER", help="Only those of one server. [default: of all]")
@everywhere()
@in_session
def checkpoints_command(session: Session, of: str | None) -> int:
    """Print the checkpoints of audit logs that the server keeps: its own, and the newest ones of other servers.

    In a pipe: server, number of the row, its hash, milliseconds since 1970, and `signed` or `unsigned`. More than one
    of another server says that it went back to an older copy of its database.

    \b
    Examples:
      shadowtree audit-log checkpoints
      shadowtree audit-log checkpoints --of ubc.example --format json > checkpoints.jsonl
    """
    with session.connect() as names:
        kept = names.checkpoints(of)
    for each in kept:
        signed = "signed" if each.signature else "unsigned"
        if session.is_json:
            print_json_line(each)
        elif is_terminal():
            click.echo(f"{each.server}  row {each.sequence}  {each.hash[:16]}...  {signed}")
        else:
            print_row(each.server, str(each.sequence), each.hash, str(each.at), signed)
    return DONE
