"""SQLite, the embedded default: one file, write-ahead log, flushed to the disk at every commit.

The setting `synchronous=FULL` makes each commit wait until the log is on the disk, so that an acknowledged commit
survives a power loss. NORMAL would only survive a crash of the process. One flush serves all records of a commit.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from zlib import crc32

from sqlalchemy import URL, Column, Connection, Select, Table, bindparam, create_engine, delete, event
from sqlalchemy.dialects.sqlite import dialect as sqlite_dialect
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import ConnectionPoolEntry, NullPool

from namegraph import ServerId
from storage.checksums import pack_arc
from storage.commit_mark import MarkWriter
from storage.damage import check_layout
from storage.errors import (
    RESTORE,
    DatabaseDamagedError,
    DatabaseFullError,
    DatabaseInterruptedError,
    DatabaseInUseError,
    DatabaseUnavailableError,
    NotOurDatabaseError,
    ServerNotNamedError,
    StorageError,
)
from storage.file_lock import FileLock, lock_path
from storage.inspection import file_size, inspect, log_path, refuse_foreign
from storage.models import ARCS, CHANGES, LOG, NODES, OUTCOMES, PROTOCOL_ROWS, SERVER, VIRTUAL_NODES
from storage.rows import Row, Slice, sealed
from storage.sql_store import Generation, ServerState, SqlStore, open_sql_store

BUSY_TIMEOUT_MS = 5_000
"""Wait for another program that holds the file, such as a database browser that writes."""

LOG_LIMIT_BYTES = 4 * 1024 * 1024
"""Length from which the write-ahead log is copied into the file and begins anew.

The commit that reaches this length pays for the copy, so no later commit waits for it.
"""

LOG_KEPT_BYTES = 2 * LOG_LIMIT_BYTES
"""Length up to which a copied log is overwritten from its beginning. A longer log is truncated."""

CACHE_KIB = 2_048
"""Page cache for the inner pages of a graph of some hundred thousand arcs.

A larger cache would fill up as the record of changes grows. Pages outside the cache come from the memory of the system
in microseconds.
"""

ROWS_PER_SLICE = 256
"""Slice size at which the rows are freed before the garbage collector would traverse them."""


def open_sqlite_store(url: URL, *, server: ServerId | None) -> SqlStore:
    """Open or create the file that the URL names. See `storage.open_store`."""
    path = check_place(url)
    if server is None and not path.exists():
        raise ServerNotNamedError(
            database=str(path),
            problem="it does not exist and no server is named",
            remedy="name the server",
        )
    if not lock_path(path).exists():
        # No server has used this file: the check creates nothing beside a file of another program.
        with translating(str(path)):
            refuse_foreign(path)
    lock = FileLock(path)
    try:
        engine = _SqliteEngine(path, lock, server=server)
    except BaseException:
        lock.release()
        raise
    try:
        store = open_sql_store(engine, server=server)
        with engine.translate_errors(), engine.connection.begin():
            check_layout(engine.connection, database=engine.database)
        engine.watch_files()
    except BaseException:
        engine.close()
        raise
    return store


def check_place(url: URL) -> Path:
    """Return the real path of the file; refuse an unusable path before anything is created."""
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
    if exists and not os.access(path, os.W_OK, effective_ids=True):
        raise DatabaseUnavailableError(
            database=str(path),
            problem="the file cannot be written",
            remedy="let this user write the file and its folder",
        )
    return path


class _SqliteEngine:
    """The `SqlEngine` of SQLite."""

    cautions = ()

    def __init__(self, path: Path, lock: FileLock, *, server: ServerId | None) -> None:
        self._path = path
        self._log_path = log_path(path)
        self._lock = lock
        self._mark: MarkWriter | None = None
        self._generation: Generation | None = None
        self._begins_log_anew = False
        """True if the next commit begins a generation."""
        self._overwritten_bytes = 0
        """Length of the log before it began anew, while the new contents are shorter; 0 if the log was truncated."""
        self._watched: dict[Path, tuple[int, int]] = {}
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
            # The connection is kept until the first write, so that a file that is refused before stays unchanged.
            self._keeper = inspect(path, server=server)
            try:
                self._connection = self._engine.connect()
            except BaseException:
                self._release_log()
                raise
        driver_connection = self._connection.connection.driver_connection
        assert isinstance(driver_connection, sqlite3.Connection)
        self._driver = driver_connection

    @property
    def database(self) -> str:
        return str(self._path)

    @property
    def connection(self) -> Connection:
        return self._connection

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Begin a transaction with the driver alone: SQLAlchemy takes longer for a small commit than SQLite."""
        self._driver.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._driver.commit()
        except BaseException:
            self._driver.rollback()
            raise

    def write(self, table: Table, records: Sequence[Row]) -> None:
        statement, plain_rows = _WRITING[table]
        for start in range(0, len(records), ROWS_PER_SLICE):
            self._driver.executemany(statement, plain_rows(records[start : start + ROWS_PER_SLICE]))

    def delete(self, table: Table, keys: Sequence[Row]) -> None:
        self._driver.executemany(_DELETING[table], keys)

    def cut(self, number: Column[int], through: int) -> None:
        statement = delete(number.table).where(number <= bindparam("through"))
        self._driver.execute(str(statement.compile(dialect=self._connection.dialect)), (through,))

    def read(self, statement: Select[Row]) -> Iterator[Slice]:
        with self.translate_errors(), self._connection.begin():
            cursor = self._driver.cursor()
            cursor.execute(str(statement.compile(dialect=self._connection.dialect)))
            while rows := cursor.fetchmany(ROWS_PER_SLICE):
                yield rows

    def check_exclusive(self) -> None:
        """Raise `DatabaseInterruptedError` if a file was replaced: SQLite would go on writing to a removed file."""
        missing = [path.name for path, identity in self._watched.items() if _identity(path) != identity]
        if not self._lock.is_in_place():
            missing.append(self._lock.path.name)
        if missing:
            raise DatabaseInterruptedError(
                database=self.database,
                problem=f"{' and '.join(missing)} was removed, renamed or replaced while in use",
                remedy="put it back, or stop this server, restore a backup and start again",
            )

    def watch_files(self) -> None:
        """Require from here on that the file, its log and the log's index stay in place."""
        index = self._path.with_name(self._path.name + "-shm")
        for path in (self._path, self._log_path, index):
            identity = _identity(path)
            if identity is not None:
                self._watched[path] = identity

    def resume(self) -> None:
        """Check that the file, which is still open, is in its place again."""
        self.check_exclusive()

    def probe(self) -> None:
        self.check_exclusive()

    def generation_after(self, state: ServerState, /) -> Generation:
        """Begin a generation of the log with the first commit, and after each copy of the log into the file.

        A copy of the database that is used elsewhere has other generations after that point.
        """
        self._release_log()
        if self._mark is None:
            self._mark = MarkWriter(self._path)
        if self._generation is None:
            self._begins_log_anew = self._copy_log()
        if self._begins_log_anew:
            self._generation = Generation(secrets.token_hex(8), base=state.commit_id)
            self._begins_log_anew = False
        return self._generation or Generation(state.generation, state.base)

    def is_next(self, before: ServerState, found: ServerState) -> bool:
        """Return True if this engine can have made the commit `found` right after `before`."""
        return found.commits == before.commits + 1

    def write_state(self, _before: ServerState, state: ServerState, /) -> None:
        """Replace the row. The lock of the file excludes other servers."""
        self.write(SERVER, [state.record])

    def acknowledge(self, state: ServerState) -> None:
        """Note the commit in the mark, and copy the log into the file if the log has become long."""
        assert self._mark is not None
        self._mark.note(commits=state.commits, server=state.name)
        size = file_size(self._log_path)
        if size >= LOG_LIMIT_BYTES and size > self._overwritten_bytes:
            self._begins_log_anew = self._copy_log()

    def close(self) -> None:
        if _identity(self._log_path) is None:
            # The contents of a removed log are lost unless they are copied into the file now.
            self._release_log()
        self._connection.close()
        self._engine.dispose()
        self._release_log()
        if self._mark is not None:
            self._mark.close()
        self._lock.release()

    def _release_log(self) -> None:
        if self._keeper is not None:
            self._keeper.close()
            self._keeper = None

    def _copy_log(self) -> bool:
        """Copy the log into the file, so that the log begins anew; return False if another program is reading the log.

        The old bytes of the log are overwritten: a write inside a file is durable sooner than a write that extends it.
        """
        size = file_size(self._log_path)
        is_kept = LOG_LIMIT_BYTES <= size <= LOG_KEPT_BYTES
        cursor = self._driver.cursor()
        try:
            ((timeout_ms,),) = cursor.execute("PRAGMA busy_timeout").fetchall()
            cursor.execute("PRAGMA busy_timeout = 0").fetchall()
            try:
                mode = "RESTART" if is_kept else "TRUNCATE"
                ((is_busy, _, _),) = cursor.execute(f"PRAGMA wal_checkpoint({mode})").fetchall()
            finally:
                cursor.execute(f"PRAGMA busy_timeout = {timeout_ms}").fetchall()
        except sqlite3.OperationalError:
            # The log keeps growing. A commit that fails reports the cause.
            return False
        finally:
            cursor.close()
        if not is_busy:
            self._overwritten_bytes = size if is_kept else 0
        return not is_busy

    def translate_errors(self) -> AbstractContextManager[None]:
        return translating(self.database)


@contextmanager
def translating(database: str) -> Iterator[None]:
    """Translate errors of the driver that are not bugs of the program into `StorageError`."""
    try:
        yield
    except (sqlite3.Error, DBAPIError) as error:
        explained = _explain(error.orig if isinstance(error, DBAPIError) else error, database)
        if explained is None:
            raise
        raise explained from error
    except UnicodeDecodeError as error:
        raise DatabaseDamagedError(
            database=database, problem="the file is damaged (a text in it is no text)", remedy=RESTORE
        ) from error


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _set_up(connection: sqlite3.Connection, _entry: ConnectionPoolEntry) -> None:
    """Prepare a new connection. The first statement that reads also detects a file that is no database."""
    (journal,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    if journal != "wal":
        raise sqlite3.OperationalError("this file system cannot hold a write-ahead log")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
    # The engine decides when a generation of the log begins: see `storage.inspection`.
    connection.execute("PRAGMA wal_autocheckpoint = 0")


def _begin(connection: Connection) -> None:
    """Begin immediately: the driver's own way leaves changes of the layout outside the transaction."""
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


def _plain_changes(records: Sequence[Row]) -> list[Row]:
    return sealed(CHANGES, records)


def _plain_log(records: Sequence[Row]) -> list[Row]:
    return sealed(LOG, records)


def _plain_protocol_rows(records: Sequence[Row]) -> list[Row]:
    return sealed(PROTOCOL_ROWS, records)


def _plain_servers(records: Sequence[Row]) -> list[Row]:
    return sealed(SERVER, records)


_WRITING: Mapping[Table, tuple[str, Callable[[Sequence[Row]], list[Row]]]] = {
    NODES: (_upsert(NODES), _plain_nodes),
    ARCS: (_upsert(ARCS), _plain_arcs),
    VIRTUAL_NODES: (_upsert(VIRTUAL_NODES), _plain_virtual_nodes),
    OUTCOMES: (_upsert(OUTCOMES), _plain_outcomes),
    PROTOCOL_ROWS: (_upsert(PROTOCOL_ROWS), _plain_protocol_rows),
    CHANGES: (_upsert(CHANGES), _plain_changes),
    LOG: (_upsert(LOG), _plain_log),
    SERVER: (_upsert(SERVER), _plain_servers),
}

_DELETING: Mapping[Table, str] = {table: _delete(table) for table in (ARCS, PROTOCOL_ROWS, VIRTUAL_NODES, LOG)}


def _explain(error: BaseException | None, database: str) -> StorageError | None:
    """Return the error to show for an error of SQLite; None if the error is a bug of the program."""
    if not isinstance(error, sqlite3.Error) or isinstance(
        error, sqlite3.IntegrityError | sqlite3.ProgrammingError | sqlite3.InterfaceError | sqlite3.DataError
    ):
        return None
    what = " ".join(str(error).split())
    if what.startswith("Could not decode"):
        return DatabaseDamagedError(database=database, problem=f"the file is damaged ({what})", remedy=RESTORE)
    # The lower byte is the error; the upper bytes say where it occurred.
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
