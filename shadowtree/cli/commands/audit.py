"""`shadowtree audit`: take snapshots of all servers, and run the offline audit over them.

The audit is a separate program (`python -m spark_graph_jobs`), so that its verdict about the servers does not depend on
their code. This module starts it as a process.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from shadowtree.cli.render.complaints import FAILED_REASON, INCOMPLETE_REASON, complain
from shadowtree.cli.render.output import print_json, print_lines
from shadowtree.cli.render.plurals import listed
from shadowtree.cli.support.exit_codes import DONE, FAILED, NO, UNCERTAIN
from shadowtree.cli.support.options import Session, everywhere, in_session
from shadowtree.cli.support.private_files import mode_option, private_files
from shadowtree.cli.support.standard_streams import is_watched
from shadowtree.errors import DeadlineExceeded

if TYPE_CHECKING:
    from shadowtree.client.snapshots_of_all import SnapshotsTaken

SNAPSHOTS: Final = "snapshots"
"""Folder for the snapshots that `run` writes, inside the folder of the report."""

FINDINGS: Final = "findings.jsonl"
"""File that exists once the audit has finished."""

NEEDED: Final = ("pyarrow", "numpy")
NEEDED_BY_RUN: Final = (*NEEDED, "pyspark", "pandas")

_out_option = click.option(
    "--out", "folder", type=click.Path(file_okay=False, path_type=Path), required=True, metavar="DIR", help="Where to."
)


_cut_option = click.option(
    "--cut",
    is_flag=True,
    help="Read all servers as of one instant, for which updates wait a moment; all must be there. "
    "Without it, each is read at an instant of its own.",
)

_follow_option = click.option(
    "--follow",
    is_flag=True,
    help="Dial the addresses that the server names: those of its peers, and of their peers.",
)

_config_option = click.option(
    "--config",
    "configs",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Read the PostgreSQL database of the server of this configuration, instead of asking servers; repeated for "
    "several. It may run meanwhile, or not.",
)

_jdbc_option = click.option(
    "--jdbc",
    is_flag=True,
    help="With --config: have Spark read the databases by JDBC, many ranges of a table at once.",
)


@click.group("audit")
def audit_command() -> None:
    """Audit the data of all servers offline.

    \b
    Example:
      shadowtree audit run --server 127.0.0.1:7400 --follow --out report
    """


@audit_command.command("snapshot")
@_out_option
@_follow_option
@_cut_option
@_config_option
@_jdbc_option
@mode_option
@everywhere()
@in_session
def snapshot_command(
    session: Session, folder: Path, follow: bool, cut: bool, configs: tuple[Path, ...], jdbc: bool, mode: int
) -> int:
    """Write what every server holds to Parquet files in DIR, one folder for each server; the servers go on meanwhile.

    With --follow the address of one server suffices: it knows the others. Earlier snapshots in DIR are taken away. If a
    server cannot be read, it is named, and the exit status is 3.

    \b
    Example:
      shadowtree audit snapshot --follow --out snapshots
    """
    _require(NEEDED_BY_RUN if jdbc else NEEDED)
    with private_files(mode):
        taken = _take(session, folder, follow=follow, cut=cut, configs=configs, java=_java() if jdbc else None)
    if session.is_json:
        print_json(taken)
    else:
        print_lines(
            "\t".join(map(str, (one.server, one.consistency, one.revision, one.nodes, one.arcs, one.folder)))
            for one in taken.snapshots
        )
    return UNCERTAIN if taken.missing else DONE


@audit_command.command("run")
@_out_option
@_follow_option
@_cut_option
@_config_option
@_jdbc_option
@mode_option
@click.argument("more", nargs=-1, type=click.UNPROCESSED, metavar="[-- AUDIT-OPTIONS]")
@everywhere()
@in_session
def run_command(
    session: Session,
    folder: Path,
    follow: bool,
    cut: bool,
    configs: tuple[Path, ...],
    jdbc: bool,
    mode: int,
    more: tuple[str, ...],
) -> int:
    """Take snapshots of all servers, judge them, and write findings.jsonl, findings.parquet and report.html to DIR.

    Needs the extra `audit` (pip install '.[audit]' in the sources) and Java 17 or 21. What follows `--` is for
    `python -m spark_graph_jobs`.

    Exit status: 0 no error found, 1 errors found, 2 wrong usage, 3 not all servers could be read, 4 the audit failed.

    \b
    Example:
      shadowtree audit run --server 127.0.0.1:7400 --follow --out report
    """
    _require(NEEDED_BY_RUN)
    java = _java()
    command = [sys.executable, "-m", "spark_graph_jobs", str(folder / SNAPSHOTS), "--out", str(folder), *more]
    environment = {**os.environ, "JAVA_HOME": str(java)}
    with private_files(mode):
        taken = _take(session, folder / SNAPSHOTS, follow=follow, cut=cut, configs=configs, java=java if jdbc else None)
        status = subprocess.run(command, env=environment, check=False).returncode  # noqa: S603 - our own interpreter
    if status < 0:
        complain(f"the audit was ended by signal {-status}", FAILED_REASON)
        return FAILED
    if status == NO and not (folder / FINDINGS).exists():
        # An interpreter that failed with a bug also exits with 1, but has found nothing.
        return FAILED
    # The audit does not know a server that no other server has met.
    return UNCERTAIN if status == DONE and taken.missing else status


def _java() -> Path:
    from shadowtree.cli.support.find_java import find_java, how_to_install

    java = find_java()
    if java is None:
        raise click.ClickException(f"no Java 17 or 21 was found, which Spark needs; install it: {how_to_install()}")
    return java


def _take(
    session: Session, folder: Path, *, follow: bool, cut: bool, configs: tuple[Path, ...], java: Path | None
) -> SnapshotsTaken:
    """Take snapshots of servers or of databases. `java`: home of the Java that reads the databases by JDBC."""
    if cut and configs:
        raise click.UsageError("--cut asks servers, --config reads databases: one of them")
    if follow and configs:
        raise click.UsageError("--follow dials servers, --config reads databases: one of them")
    if java is not None and not configs:
        raise click.UsageError("--jdbc reads databases: name them with --config")
    try:
        taken = (
            _take_stored(configs, folder, java)
            if configs
            else _take_from_servers(session, folder, follow=follow, cut=cut)
        )
    except DeadlineExceeded:
        # DeadlineExceeded is an OSError too, but concerns the server and not a file.
        raise
    except OSError as error:
        raise click.ClickException(f"cannot write {error.filename or folder}: {error.strerror or error}") from None
    for missing in taken.missing:
        facts = {"server": missing.server, "address": missing.address}
        complain(
            f"no snapshot of {missing.server or 'the server'} at {missing.address}: {missing.why}",
            INCOMPLETE_REASON,
            facts,
        )
    return taken


def _take_stored(configs: tuple[Path, ...], folder: Path, java: Path | None) -> SnapshotsTaken:
    from shadowtree.cli.commands.offline_snapshots import take_stored

    return take_stored(configs, folder, java=java)


def _take_from_servers(session: Session, folder: Path, *, follow: bool, cut: bool) -> SnapshotsTaken:
    from shadowtree.client.snapshots_of_all import take_snapshots

    with _progress_display() as progress:
        return take_snapshots(
            session.server, folder, follow=follow, cut=cut, timeout=session.timeout, progress=progress
        )


def _require(modules: tuple[str, ...]) -> None:
    lacking = [module for module in modules if find_spec(module) is None]
    if lacking:
        are = "is" if len(lacking) == 1 else "are"
        raise click.ClickException(f"{listed(lacking)} {are} not installed; in the sources: pip install '.[audit]'")


def _progress_display() -> AbstractContextManager[Callable[[str, int], None] | None]:
    if not is_watched():
        return nullcontext()
    from shadowtree.cli.render.terminal import snapshot_progress

    return snapshot_progress()
