"""SQLite, the embedded default: one file, write-ahead log, flushed to the disk at every commit.

`synchronous=FULL` makes each commit wait until the log is on the disk, so that an acknowledged commit
survives a power loss; NORMAL would only survive a crash of the process. One flush serves all records of a
commit.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from zlib import crc32

from sqlalchemy import URL, Connection, Select, Table, bindparam, create_engine, delete, event
from sqlalchemy.dialects.sqlite import dialect as sqlite_dialect
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import ConnectionPoolEntry, NullPool

from namegraph.names import ServerId
from storage.checksums import pack_arc
from storage.commit_mark import CommitMark
from storage.damage import check_layout, check_pages
from storage.errors import (
    RESTORE,
    DatabaseDamagedError,
    DatabaseFullError,
    DatabaseInterruptedError,
    DatabaseInUseError,
    DatabaseUnavailableError,
    NotOurDatabaseError,
    ServerIdentityError,
    StorageError,
)
from storage.file_lock import FileLock
from storage.models import ARCS, NODES, OUTCOMES, PROTOCOL_ROWS, VIRTUAL_NODES
from storage.rows import Row, Slice, sealed
from storage.sql_store import SqlStore, take_over

BUSY_TIMEOUT_MS = 5_000
"""How long to wait for another program that holds the file, such as a database browser that writes."""

CACHE_KIB = 16_384
"""Keeps the inner pages of a graph of some hundred thousand arcs in memory while a batch is written."""

LOG_SIZE_LIMIT_BYTES = 64 * 1024 * 1024
"""The log shrinks back to this after a large import."""

ROWS_PER_SLICE = 256
"""Few enough that the rows of a slice are gone again before the garbage collector would look at them."""


def open_sqlite_store(url: URL, *, server: ServerId | None) -> SqlStore:
    """Open, or make, the file that the URL names. See `storage.open_store`."""
    path = _check_place(url, server=server)
    lock = FileLock(path)
    try:
        engine = _SqliteEngine(path, lock)
    except BaseException:
        lock.release()
        raise
    try:
        state = take_over(engine, server=server)
        with engine.translate_errors(), engine.connection.begin():
            check_layout(engine.connection, database=engine.database)
        return SqlStore(engine, state)
    except BaseException:
        engine.close()
        raise


def _check_place(url: URL, *, server: ServerId | None) -> Path:
    """Return the real path of the file, having refused what can be refused before anything is created."""
    assert url.database is not None
    try:
        path = Path(url.database).resolve()
        has_folder, is_folder, exists = path.parent.is_dir(), path.is_dir(), path.exists()
    except (OSError, RuntimeError) as error:
        raise DatabaseUnavailableError(
            database=url.database,
            problem=f"the file cannot be reached ({getattr(error, 'strerror', None) or 'a loop of symbolic links'})",
            remedy="give a file in a folder that this user may read and write",
        ) from error
    if not has_folder:
        raise DatabaseUnavailableError(
            database=str(path),
            problem=f"the folder {path.parent} does not exist",
            remedy="create that folder first",
        )
    if is_folder:
        raise NotOurDatabaseError(
            database=str(path),
            problem="it is a folder, not a file",
            remedy="name a file in it, such as names.db",
        )
    if server is None and not exists:
        raise ServerIdentityError(
            database=str(path),
            problem="it does not exist and no server is named",
            remedy="name the server",
        )
    return path


class _SqliteEngine:
    """The `SqlEngine` of SQLite."""

    def __init__(self, path: Path, lock: FileLock) -> None:
        self._path = path
        self._lock = lock
        self._engine = create_engine(
            URL.create("sqlite", database=str(path)),
            poolclass=NullPool,
            connect_args={
                "check_same_thread": False,
                "timeout": BUSY_TIMEOUT_MS / 1000,
                "isolation_level": None,
            },
        )
        event.listen(self._engine, "connect", _set_up)
        event.listen(self._engine, "begin", _begin)
        with self.translate_errors():
            check_pages(path)
            self._connection = self._engine.connect()
        self._mark = CommitMark(path)
        found = path.stat()
        self._identity = (found.st_dev, found.st_ino)

    @property
    def database(self) -> str:
        return str(self._path)

    @property
    def connection(self) -> Connection:
        return self._connection

    def write(self, table: Table, records: Sequence[Row]) -> None:
        statement, plain_rows = _WRITING[table]
        for start in range(0, len(records), ROWS_PER_SLICE):
            self._connection.exec_driver_sql(statement, plain_rows(records[start : start + ROWS_PER_SLICE]))

    def delete(self, table: Table, keys: Sequence[Row]) -> None:
        self._connection.exec_driver_sql(_DELETING[table], list(keys))

    def read(self, statement: Select[Row]) -> Iterator[Slice]:
        with self.translate_errors(), self._connection.begin():
            cursor = self._connection.connection.cursor()
            cursor.execute(str(statement.compile(dialect=self._connection.dialect)))
            while rows := cursor.fetchmany(ROWS_PER_SLICE):
                yield rows

    def check_exclusive(self) -> None:
        """Notice that the file or its lock file was exchanged: SQLite would go on writing to a removed
        one."""
        if not (self._lock.is_in_place() and self._is_in_place()):
            raise DatabaseInterruptedError(
                database=self.database,
                problem="the file or its lock file was removed, renamed or replaced while in use",
                remedy="put it back, or stop this server, restore a backup and start again",
            )

    def resume(self) -> None:
        """The file is still open: all that matters is that it is in its place again."""
        self.check_exclusive()

    def probe(self) -> None:
        self.check_exclusive()

    def require_commits(self, commits: int) -> None:
        self._mark.require(commits)

    def acknowledge(self, commits: int) -> None:
        self._mark.note(commits)

    def close(self) -> None:
        self._connection.close()
        self._engine.dispose()
        self._mark.close()
        self._lock.release()

    @contextmanager
    def translate_errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, DBAPIError) as error:
            explained = _explain(error.orig if isinstance(error, DBAPIError) else error, self.database)
            if explained is None:
                raise
            raise explained from error
        except UnicodeDecodeError as error:
            raise DatabaseDamagedError(
                database=self.database, problem="the file is damaged (a text in it is no text)", remedy=RESTORE
            ) from error

    def _is_in_place(self) -> bool:
        try:
            found = self._path.stat()
        except OSError:
            return False
        return (found.st_dev, found.st_ino) == self._identity


def _set_up(connection: sqlite3.Connection, _entry: ConnectionPoolEntry) -> None:
    """Prepare a new connection; the first statement that reads also finds out whether this is a database."""
    (journal,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    if journal != "wal":
        raise sqlite3.OperationalError("this file system cannot hold a write-ahead log")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
    connection.execute(f"PRAGMA journal_size_limit = {LOG_SIZE_LIMIT_BYTES}")


def _begin(connection: Connection) -> None:
    """Begin for real: the driver's own way leaves changes of the layout outside the transaction."""
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _upsert(table: Table) -> str:
    statement = insert(table)
    keys = list(table.primary_key.columns)
    others = {column.name: statement.excluded[column.name] for column in table.columns if column not in keys}
    return str(statement.on_conflict_do_update(index_elements=keys, set_=others).compile(dialect=sqlite_dialect()))


def _delete(table: Table) -> str:
    keys = [column == bindparam(column.name) for column in table.primary_key]
    return str(delete(table).where(*keys).compile(dialect=sqlite_dialect()))


# The driver binds an exact int several times faster than a bool or an enum, hence the `+`.


def _plain_nodes(records: Sequence[Row]) -> list[Row]:
    return sealed(
        NODES,
        ((node, node_id, +kind, group, version, server) for node, node_id, kind, group, version, server in records),
    )


def _plain_arcs(records: Sequence[Row]) -> list[Row]:
    return [
        (parent, child, cost, version, writer, +present, +suspended, crc32(pack_arc(*record)))
        for record in records
        for parent, child, cost, version, writer, present, suspended in (record,)
    ]


def _plain_virtual_nodes(records: Sequence[Row]) -> list[Row]:
    return sealed(
        VIRTUAL_NODES,
        ((number, smallest, counter, server, +present) for number, smallest, counter, server, present in records),
    )


def _plain_outcomes(records: Sequence[Row]) -> list[Row]:
    return sealed(OUTCOMES, records)


def _plain_protocol_rows(records: Sequence[Row]) -> list[Row]:
    return sealed(PROTOCOL_ROWS, records)


_WRITING: Mapping[Table, tuple[str, Callable[[Sequence[Row]], list[Row]]]] = {
    NODES: (_upsert(NODES), _plain_nodes),
    ARCS: (_upsert(ARCS), _plain_arcs),
    VIRTUAL_NODES: (_upsert(VIRTUAL_NODES), _plain_virtual_nodes),
    OUTCOMES: (_upsert(OUTCOMES), _plain_outcomes),
    PROTOCOL_ROWS: (_upsert(PROTOCOL_ROWS), _plain_protocol_rows),
}

_DELETING: Mapping[Table, str] = {table: _delete(table) for table in (ARCS, PROTOCOL_ROWS)}


def _explain(error: BaseException | None, database: str) -> StorageError | None:
    """What to tell people about an error of SQLite; None if it is our bug."""
    if not isinstance(error, sqlite3.Error) or isinstance(
        error, sqlite3.IntegrityError | sqlite3.ProgrammingError | sqlite3.InterfaceError | sqlite3.DataError
    ):
        return None
    what = " ".join(str(error).split())
    if what.startswith("Could not decode"):
        return DatabaseDamagedError(database=database, problem=f"the file is damaged ({what})", remedy=RESTORE)
    # The lower byte is the error, the upper ones say where it was met.
    kind, problem, remedy = _KNOWN_ERRORS.get(getattr(error, "sqlite_errorcode", -1) & 0xFF, _UNKNOWN_ERROR)
    return kind(database=database, problem=problem.format(what=what), remedy=remedy)


_KNOWN_ERRORS: Mapping[int, tuple[type[StorageError], str, str]] = {
    sqlite3.SQLITE_NOTADB: (NotOurDatabaseError, "the file is no SQLite database", "give a new file"),
    sqlite3.SQLITE_CORRUPT: (
        DatabaseDamagedError,
        "the file is damaged ({what})",
        RESTORE,
    ),
    sqlite3.SQLITE_ERROR: (
        DatabaseDamagedError,
        "its tables are not as expected ({what})",
        RESTORE,
    ),
    sqlite3.SQLITE_FULL: (DatabaseFullError, "the disk is full", "make room on the disk"),
    sqlite3.SQLITE_IOERR: (
        DatabaseUnavailableError,
        "the disk refuses to read or write ({what})",
        "look at the disk, its quota and its room",
    ),
    sqlite3.SQLITE_READONLY: (
        DatabaseUnavailableError,
        "the file cannot be written ({what})",
        "let this user write the file and its folder",
    ),
    sqlite3.SQLITE_CANTOPEN: (
        DatabaseUnavailableError,
        "the file cannot be opened ({what})",
        "let this user read and write the file and its folder",
    ),
    sqlite3.SQLITE_PERM: (
        DatabaseUnavailableError,
        "access is refused ({what})",
        "let this user write the file",
    ),
    sqlite3.SQLITE_BUSY: (
        DatabaseInUseError,
        f"another program has kept it locked for {BUSY_TIMEOUT_MS // 1000} seconds",
        "close that program",
    ),
    sqlite3.SQLITE_PROTOCOL: (DatabaseInUseError, "another program keeps it locked", "close that program"),
}
_UNKNOWN_ERROR: tuple[type[StorageError], str, str] = (
    DatabaseUnavailableError,
    "SQLite reports: {what}",
    "give a file on a local disk",
)
