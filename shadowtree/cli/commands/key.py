"""`shadowtree key`: make, list and revoke the API keys of a server."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from shadowtree.cli.render.complaints import warn
from shadowtree.cli.render.output import is_terminal, print_json, print_lines
from shadowtree.cli.support.options import Session, everywhere, in_session
from shadowtree.cli.support.private_files import PRIVATE

if TYPE_CHECKING:
    from shadowtree.results import ApiKey

DAY_SECONDS: Final = 24 * 3600


@click.group("key")
@everywhere()
def key_command() -> None:
    """Make, list and revoke API keys, by which programs prove their principal to a server.

    These are commands of operators: call the local socket of the server (--server unix:PATH), or be one of its
    operators.
    """


@key_command.command("create")
@click.argument("principal")
@click.option("--days", type=click.FloatRange(min=0, min_open=True), help="How long it lasts. [default: until revoked]")
@click.option(
    "--privilege", "privileges", multiple=True, metavar="P", help="Good for this privilege alone; repeatable."
)
@click.option("--network", "networks", multiple=True, metavar="CIDR", help="Taken from this network alone; repeatable.")
@click.option("--note", default="", metavar="TEXT", help="What it is for.")
@click.option(
    "--out", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Write it there, for its user alone."
)
@everywhere()
@in_session
def create_command(
    session: Session,
    principal: str,
    days: float | None,
    privileges: tuple[str, ...],
    networks: tuple[str, ...],
    note: str,
    out: Path | None,
) -> None:
    """Make an API key for PRINCIPAL, a person or program such as backup@ubc.example.

    The key is shown once, or written to the FILE of --out, and nobody can ask for it again. A principal has two keys
    at most: make the second one, let the program use it, then revoke the first.

    \b
    Examples:
      shadowtree key create backup@ubc.example --privilege read --days 90 --out backup.key
      shadowtree key create mail+gateway@ubc.example --network 192.0.2.0/24
    """
    session.is_write = True
    file = None if out is None else _opened(out)
    try:
        with session.connect() as names:
            made = names.create_key(
                principal,
                life=None if days is None else days * DAY_SECONDS,
                privileges=privileges,
                networks=networks,
                note=note,
            )
        if file is not None:
            os.write(file, f"{made.secret}\n".encode())
            os.fsync(file)
    except BaseException:
        if out is not None:
            out.unlink(missing_ok=True)
        raise
    finally:
        if file is not None:
            os.close(file)
    if session.is_json:
        print_json(made.key if out is not None else made)
    elif out is not None:
        print_lines([made.key.id])
    else:
        print_lines([made.secret])
        if is_terminal():
            warn("this is the only time that the key is shown")


def _opened(path: Path) -> int:
    """Make the file of a key before the key: a key without its file would be lost."""
    try:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE)
    except FileExistsError:
        raise click.BadParameter(f"{path} is there already; a key overwrites no file", param_hint="--out") from None
    except OSError as error:
        raise click.BadParameter(f"{path} cannot be written: {error.strerror}", param_hint="--out") from None


@key_command.command("list")
@everywhere()
@in_session
def list_command(session: Session) -> None:
    """List all API keys, without their secrets.

    In a pipe: id, principal, when it was made, when it ends, when it was used last (to the minute), privileges and
    networks with commas, note (`-`: none, or never).

    \b
    Example:
      shadowtree key list --format json
    """
    with session.connect() as names:
        found = names.keys()
    if session.is_json:
        print_json(found)
    else:
        print_lines("\t".join(_columns(key)) for key in found)


@key_command.command("revoke")
@click.argument("id")
@everywhere()
@in_session
def revoke_command(session: Session, id: str) -> None:
    """End an API key at once, and the streams of its user. `key list` shows the ids.

    \b
    Example:
      shadowtree key revoke 4f9a01c2d3e4
    """
    session.is_write = True
    with session.connect() as names:
        found = names.revoke_key(id)
    if session.is_json:
        print_json(found)
    else:
        print_lines(["\t".join(_columns(found))])


def _columns(key: ApiKey) -> list[str]:
    privileges, networks = ",".join(key.privileges), ",".join(key.networks)
    told = (key.id, key.principal, key.created, key.expires, key.last_used, privileges, networks, key.note)
    return [text or "-" for text in told]
