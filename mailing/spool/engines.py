"""Engine of a spool: an exclusively locked database, durable at every commit, like the database of a name server."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

from sqlalchemy import URL, Connection, create_engine, event
from sqlalchemy.pool import ConnectionPoolEntry, NullPool

from storage.errors import DatabaseUnavailableError
from storage.file_lock import FileLock
from storage.open import require_psycopg
from storage.sqlite import BUSY_TIMEOUT_MS, check_place, translating
from storage.urls import parse_database_url, show_url

GATEWAY = "mail gateway"


class SpoolEngine(Protocol):
    """Operations that differ between SQLite and PostgreSQL."""

    @property
    def database(self) -> str:
        """Name of the database in error messages."""

    @property
    def connection(self) -> Connection:
        """The only connection."""

    @property
    def cautions(self) -> Sequence[str]:
        """Warnings for the operator about this database, found when it is opened."""

    def translate_errors(self) -> AbstractContextManager[None]:
        """Turn driver errors that are not our bugs into `StorageError`."""

    def check_exclusive(self) -> None:
        """Raise `StorageError` if exclusive use of the database is lost or in doubt."""

    def resume(self) -> None:
        """Take exclusive use again after its loss, or raise `StorageError`."""

    def close(self) -> None:
        """Release the database."""


def may_open(url: str) -> bool:
    """Return True if a URL names a database that can be opened now, False if opening would create its file.

    Raises `StorageError` if the file could not be created.
    """
    parsed = parse_database_url(url)
    if parsed.get_backend_name() != "sqlite":
        return True
    path = check_place(parsed)
    if path.exists():
        return True
    if not os.access(path.parent, os.W_OK | os.X_OK, effective_ids=True):
        raise DatabaseUnavailableError(
            database=str(path),
            problem=f"the folder {path.parent} cannot be written",
            remedy="let this user write the folder",
        )
    return False


def shown_database(url: str) -> str:
    """Return a URL without its password."""
    return show_url(parse_database_url(url))


def open_engine(url: str) -> SpoolEngine:
    """Open and lock the database that a URL names, or raise `StorageError`."""
    parsed = parse_database_url(url)
    if parsed.get_backend_name() == "sqlite":
        return _SpoolEngine(check_place(parsed))
    require_psycopg(show_url(parsed))
    from storage.postgresql import PostgresqlEngine

    engine = PostgresqlEngine(parsed, of=GATEWAY)
    try:
        engine.take_lock()
        engine.check_settings()
    except BaseException:
        engine.close()
        raise
    return engine


class _SpoolEngine:
    """A SQLite file and its lock."""

    cautions = ()

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = FileLock(path, of=GATEWAY)
        self._engine = create_engine(
            URL.create("sqlite", database=str(path)),
            poolclass=NullPool,
            connect_args={"check_same_thread": False, "timeout": BUSY_TIMEOUT_MS / 1000, "isolation_level": None},
        )
        event.listen(self._engine, "connect", _set_up)
        event.listen(self._engine, "begin", _begin)
        try:
            with self.translate_errors():
                self._connection = self._engine.connect()
        except BaseException:
            self._lock.release()
            raise

    @property
    def database(self) -> str:
        return str(self._path)

    @property
    def connection(self) -> Connection:
        return self._connection

    @contextmanager
    def translate_errors(self) -> Iterator[None]:
        with translating(self.database):
            yield

    def check_exclusive(self) -> None:
        """Do nothing: this process holds the lock until it ends."""

    def resume(self) -> None:
        """Do nothing: the file is still open."""

    def close(self) -> None:
        self._connection.close()
        self._engine.dispose()
        self._lock.release()


def _set_up(connection: sqlite3.Connection, _entry: ConnectionPoolEntry) -> None:
    # The check comes before any write, so that a file of another program stays unchanged.
    names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not names or "mail_spool" in names:
        connection.execute("PRAGMA journal_mode = WAL").fetchone()
    connection.execute("PRAGMA synchronous = FULL")


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")
