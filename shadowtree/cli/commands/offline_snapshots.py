"""Snapshots of databases, without their servers.

Settings and databases are layers below the client, loaded only here.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from shadowtree.client.snapshots.files import SnapshotSource, forget_snapshots, write_encoded
from shadowtree.client.snapshots_of_all import MissingSnapshot, SnapshotsTaken

if TYPE_CHECKING:
    from nameserver.config.settings import Settings


def take_stored(configs: Sequence[Path], folder: Path, *, java: Path | None = None) -> SnapshotsTaken:
    """Write a snapshot of the database that each configuration names; an unreadable database is reported as missing.

    With `java`, the home of a Java, Spark reads the databases by JDBC. Otherwise psycopg reads them.
    """
    from nameserver.config.declared import SettingsError
    from nameserver.config.settings import load_settings
    from nameserver.snapshots.offline_snapshot import UnreadableDatabaseError, stored_snapshot

    try:
        settings = {config: load_settings(config, {}, _without_settings()) for config in configs}
    except SettingsError as error:
        raise click.UsageError(str(error)) from None
    folder.mkdir(parents=True, exist_ok=True)
    forget_snapshots(folder)
    snapshots, missing = [], []
    with nullcontext(stored_snapshot) if java is None else _copies(settings, java) as chunks_of:
        for config, one in settings.items():
            try:
                origin = SnapshotSource(None, {"config": str(config), "jdbc": java is not None})
                snapshots.append(write_encoded(chunks_of(one), folder, origin))
            except UnreadableDatabaseError as error:
                missing.append(MissingSnapshot(str(config), "", str(error)))
    return SnapshotsTaken(tuple(sorted(snapshots, key=lambda one: one.server)), tuple(missing))


@contextmanager
def _copies(settings: Mapping[Path, Settings], java: Path) -> Iterator[Callable[[Settings], Iterator[bytes]]]:
    """Let Spark copy all databases, and yield a function that reads a copy. The copies are deleted afterwards."""
    from nameserver.snapshots.offline_snapshot import UnreadableDatabaseError, copied_snapshot, copy_request

    requests, failures = [], {}
    with TemporaryDirectory(prefix="shadowtree-") as name:
        folders = {one.database: Path(name, str(number)) for number, one in enumerate(settings.values())}
        for one in settings.values():
            try:
                requests.append(copy_request(one, folders[one.database]))
            except UnreadableDatabaseError as error:
                failures[str(folders[one.database])] = str(error)
        failures |= _copied(requests, java)

        def chunks_of(one: Settings) -> Iterator[bytes]:
            folder = folders[one.database]
            failure = failures.get(str(folder))
            if failure is not None:
                raise UnreadableDatabaseError(failure)
            return copied_snapshot(one, folder)

        yield chunks_of


def _copied(requests: Sequence[Mapping[str, object]], java: Path) -> dict[str, str]:
    """Copy databases in a Spark process; return the reasons of failed copies, by folder."""
    if not requests:
        return {}
    done = subprocess.run(
        [sys.executable, "-m", "spark_graph_jobs.database_copy"],
        env={**os.environ, "JAVA_HOME": str(java)},
        input=json.dumps(requests),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"reading by JDBC ended with status {done.returncode}"]
        raise click.ClickException(lines[-1])
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    return {one["folder"]: one["failure"] for one in answers if one["failure"] is not None}


def _without_settings() -> dict[str, str]:
    """Return the environment without server settings, which would apply to every configuration."""
    return {name: value for name, value in os.environ.items() if not name.startswith("SHADOWTREE_")}
