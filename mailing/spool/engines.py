"""A spool's database for itself: locked, durable at every commit, as those of name servers are."""

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
    """What differs between databases."""

    @property
    def database(self) -> str:
        """The database as error messages name it."""

    @property
    def connection(self) -> Connection:
        """The one connection."""

    @property
    def cautions(self) -> Sequence[str]:
        """Warnings for the operator about this database, found when it is opened."""

    def translate_errors(self) -> AbstractContextManager[None]:
        """Turn errors of the driver that are not our bugs into `StorageError`."""

    def check_exclusive(self) -> None:
        """Raise `StorageError` if exclusive use of the database is gone, or may be."""

    def resume(self) -> None:
        """Take exclusive use again after that, or raise `StorageError`."""

    def close(self) -> None:
        """Give the database up."""


def may_open(url: str) -> bool:
    """Return True if a URL names a database that can be looked at, False if its file will be made.

    Raises `StorageError` if the file could not be made.
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
    """Lock the database that a URL names; raises `StorageError`."""
    parsed = parse_database_url(url)
    if parsed.get_backend_name() == "sqlite":
        return _SqliteEngine(check_place(parsed))
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


class _SqliteEngine:
    """A file, and its lock."""

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
        """The lock is ours as long as the process lives."""

    def resume(self) -> None:
        """The file is still open."""

    def close(self) -> None:
        self._connection.close()
        self._engine.dispose()
        self._lock.release()


def _set_up(connection: sqlite3.Connection, _entry: ConnectionPoolEntry) -> None:
    # Before anything is written: a file of another program stays as it is.
    names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not names or "mail_spool" in names:
        connection.execute("PRAGMA journal_mode = WAL").fetchone()
    connection.execute("PRAGMA synchronous = FULL")


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")
