"""All checks that can refuse a SQLite file before the first write, over connections that only read.

SQLite takes any write-ahead log beside a file for the log of that file. The first connection that may write copies the
log into the file as it closes. Therefore a log of another file, or of a newer state of this file, must be detected
before. The row of the server ties log and file together. Each commit writes this row:

    names.db                      names.db-wal, a generation of the log
    ... commit a:349        <---  generation b, base a:349, commits 350, 351, ... 400

A generation begins when the file holds every commit (`base`). Only then a name is drawn for the generation. Commits of
the generation reach the file in checkpoints. So whenever a server ends, the row in the file is that of the base, or of
one of the commits of the generation. Pages that are not in the log are pages of the base in either case, and the log
has all others. Any other row belongs to a file that this log does not continue.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import Connection, create_engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from namegraph import ServerId
from storage.commit_mark import mark_path, read_mark
from storage.damage import check_layout, check_pages
from storage.errors import DatabaseDamagedError, NotOurDatabaseError, ServerIdentityError, StorageError
from storage.identity import settle_identity
from storage.schema import NEWEST_REVISION, stated_revision
from storage.sql_store import ServerState, server_of_row

_FORMAT_VERSIONS = slice(18, 20)
"""Bytes of a file's header that say whether the file may have a write-ahead log."""

_HAS_NO_LOG = b"\1\1"


def log_path(database: Path) -> Path:
    """Return the path of SQLite's write-ahead log of a file."""
    return database.with_name(database.name + "-wal")


def refuse_foreign(database: Path) -> None:
    """Raise `StorageError`, or an error of the driver, if another program or a newer version wrote the file."""
    if file_size(database) > 0:
        with closing(read_only(database)) as connection:
            stated_revision(connection, database=str(database))


def inspect(database: Path, *, server: ServerId | None) -> Connection | None:
    """Raise `StorageError`, or an error of the driver, if this server must not use the file.

    Return a connection to the file if the file exists and has a log. While this connection is open, no other connection
    of this process copies the log into the file as it closes.
    """
    has_log = file_size(log_path(database)) > 0
    mark = read_mark(database)
    if file_size(database) == 0:
        mark.require(database, commits=0)
        if has_log:
            raise DatabaseDamagedError(
                database=str(database),
                problem=f"it is missing or empty, but {log_path(database).name} is there",
                remedy="put the file back that belongs to the log, or move the log away to begin anew",
            )
        return None
    if database.stat().st_nlink > 1:
        raise NotOurDatabaseError(
            database=str(database),
            problem="it has another name (a hard link), under which a second server might use it with another log",
            remedy="remove the other name, or copy the file",
        )
    connection = read_only(database)
    try:
        if has_log:
            _check_log(database, connection)
        check_pages(connection, database=str(database))
        revision = stated_revision(connection, database=str(database))
        if revision == NEWEST_REVISION:
            check_layout(connection, database=str(database))
        stored = None if revision is None else row_of_server(connection, database)
        if stored is not None:
            mark.require_server(
                database, server=settle_identity(stored=stored.name, given=server, database=str(database))
            )
        mark.require(database, commits=0 if stored is None else stored.commits)
        # An open read transaction would block the server, so end it.
        connection.rollback()
    except BaseException:
        connection.close()
        raise
    if has_log:
        return connection
    connection.close()
    return None


def _check_log(database: Path, connection: Connection) -> None:
    """Raise `StorageError` if the log does not continue from the file, as far as both can be read."""
    log = log_path(database).name
    with database.open("rb") as file:
        header = file.read(_FORMAT_VERSIONS.stop)
    with closing(read_only(database, without_log=True)) as alone:
        in_file = _readable_row(alone, database)
    in_log = _readable_row(connection, database)
    if in_file is not None and header[_FORMAT_VERSIONS] == _HAS_NO_LOG:
        raise _not_its_log(database, "the file was copied without a log")
    if in_file is None or in_log is None:
        return
    if in_file.name != in_log.name:
        raise ServerIdentityError(
            database=str(database),
            problem=f"it belongs to the server {in_file.name!r}, but {log} to the server {in_log.name!r}",
            remedy=f"put the right {log} in its place",
        )
    if in_log.generation is None:
        return
    is_within = in_file.generation == in_log.generation and in_file.commits <= in_log.commits
    if not is_within and in_file.commit_id != in_log.base:
        raise _not_its_log(
            database, f"the file holds commit {in_file.commit_id}, the log goes on from commit {in_log.base}"
        )


def _not_its_log(database: Path, why: str) -> DatabaseDamagedError:
    log = log_path(database).name
    return DatabaseDamagedError(
        database=str(database),
        problem=f"{log} belongs to another copy of it ({why})",
        remedy=f"put the file back that {log} belongs to; to go on from an older copy, knowing what that means "
        f'("Backup and restore" in docs/operators.md), move {log} and {mark_path(database).name} away',
    )


def row_of_server(connection: Connection, database: Path) -> ServerState | None:
    """Return the row of the server in any layout; None in a database that no server has used."""
    row = connection.exec_driver_sql("SELECT * FROM server").mappings().one_or_none()
    if row is None:
        return None
    if "checksum" not in row:
        return ServerState(row["name"], row["counter"], 0)
    return server_of_row(tuple(row.values()), database=str(database))


def _readable_row(connection: Connection, database: Path) -> ServerState | None:
    """Return the row of the server, or None if it cannot be read.

    A crash may leave the file itself without tables, or half written.
    """
    try:
        return row_of_server(connection, database)
    except (sqlite3.Error, DBAPIError, UnicodeDecodeError, StorageError):
        return None


def read_only(database: Path, *, without_log: bool = False) -> Connection:
    """Open a connection that leaves no files behind without a log, and at most the log's index otherwise."""
    mode = "immutable=1" if without_log or file_size(log_path(database)) == 0 else "mode=ro"
    uri = f"file:{quote(str(database))}?{mode}"
    engine = create_engine(
        "sqlite://",
        creator=lambda: sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False),
        poolclass=NullPool,
    )
    return engine.connect()


def file_size(path: Path) -> int:
    """Return the size of a file in bytes; 0 if the file does not exist."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
