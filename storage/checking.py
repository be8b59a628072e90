"""Try what `open_store` would do with a database, without creating a file, a table or a row.

place and rights --> lock: held? --> kind, layout and damage --> whose it is
                       |
                       +--yes--> `DatabaseInUseError`, but whose it is can still be read
"""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from sqlalchemy import URL, Connection, select, text

from namegraph import ServerId
from storage.errors import DatabaseInUseError, DatabaseUnavailableError
from storage.file_lock import FileLock, lock_path
from storage.identity import settle_identity
from storage.inspection import inspect, log_path, read_only, refuse_foreign, row_of_server
from storage.models import NODES, PROTOCOL_ROWS
from storage.open import require_psycopg
from storage.schema import NEWEST_REVISION, stated_revision
from storage.sqlite import check_place, translating
from storage.urls import parse_database_url, show_url

_MAY_MAKE_TABLES = text("SELECT has_schema_privilege(current_schema(), 'CREATE'), pg_is_in_recovery()")


@dataclass(frozen=True, slots=True)
class CheckedDatabase:
    """Contents of a database that could be opened."""

    server: ServerId | None
    """Server that owns the database. None if the database is new."""
    nodes: tuple[tuple[str, int], ...] = ()
    """Ids and kinds of all nodes. Empty for an older layout, which the next start upgrades."""
    subnets_of_others: frozenset[str] = frozenset()
    """Subnets of servers that this server has met."""
    in_use: DatabaseInUseError | None = None
    """Error of an open now, if a server is using the database. None otherwise."""


def check_database(url: str, *, server: ServerId | None, owner_part: str) -> CheckedDatabase:
    """Check whether `open_store` would open a database; raise `StorageError` if it would not.

    A database that a running server uses is no error: `in_use` is set. `owner_part` is the part of the protocol rows
    whose keys are the subnets of other servers.
    """
    parsed = parse_database_url(url)
    if parsed.get_backend_name() == "sqlite":
        return _check_sqlite(parsed, server, owner_part)
    require_psycopg(show_url(parsed))
    return _check_postgresql(parsed, server, owner_part)


def _check_sqlite(url: URL, server: ServerId | None, owner_part: str) -> CheckedDatabase:
    path = check_place(url)
    for place in (path.parent, lock_path(path)):
        if place.exists() and not os.access(place, os.W_OK, effective_ids=True):
            raise DatabaseUnavailableError(
                database=str(path),
                problem=f"{place} cannot be written",
                remedy="let this user write the folder and what is in it",
            )
    with translating(str(path)):
        if not lock_path(path).exists():
            # No server has used this file, so a check without a lock delays no server.
            refuse_foreign(path)
            return _look(path, server, owner_part)
        try:
            lock = FileLock.of_existing(path)
        except DatabaseInUseError as error:
            with closing(read_only(path)) as connection:
                found = _found(connection, str(path), owner_part)
            settle_identity(stored=found.server, given=server or found.server, database=str(path))
            return replace(found, in_use=error)
        try:
            return _look(path, server, owner_part)
        finally:
            lock.release()


def _look(path: Path, server: ServerId | None, owner_part: str) -> CheckedDatabase:
    index = path.with_name(path.name + "-shm")
    had_index = index.exists()
    try:
        keeper = inspect(path, server=server)
        if not path.exists() or path.stat().st_size == 0:
            return CheckedDatabase(None)
        try:
            with closing(read_only(path)) as connection:
                return _found(connection, str(path), owner_part)
        finally:
            if keeper is not None:
                keeper.close()
    finally:
        if not had_index and log_path(path).exists():
            # SQLite creates the index in order to read the log.
            index.unlink(missing_ok=True)


def _found(connection: Connection, database: str, owner_part: str) -> CheckedDatabase:
    revision = stated_revision(connection, database=database)
    row = None if revision is None else row_of_server(connection, Path(database))
    name = None if row is None else row.name
    if revision != NEWEST_REVISION:
        return CheckedDatabase(name)
    return CheckedDatabase(name, *_rows(connection, owner_part))


def _rows(connection: Connection, owner_part: str) -> tuple[tuple[tuple[str, int], ...], frozenset[str]]:
    nodes = select(NODES.c.node_id, NODES.c.kind)
    of_others = select(PROTOCOL_ROWS.c.key).where(PROTOCOL_ROWS.c.part == owner_part)
    found = tuple((str(node_id), int(kind)) for node_id, kind in connection.execute(nodes))
    return found, frozenset(str(subnet) for (subnet,) in connection.execute(of_others))


def _check_postgresql(url: URL, server: ServerId | None, owner_part: str) -> CheckedDatabase:
    from storage.postgresql import PostgresqlEngine

    engine = PostgresqlEngine(url)
    try:
        in_use = None
        try:
            engine.take_lock()
        except DatabaseInUseError as error:
            in_use = error
        engine.check_settings()
        with engine.translate_errors(), engine.connection.begin():
            found = _found(engine.connection, engine.database, owner_part)
            _require_rights(engine.connection, engine.database)
    finally:
        engine.close()
    settle_identity(stored=found.server, given=server or found.server or ServerId(""), database=engine.database)
    return replace(found, in_use=in_use)


def _require_rights(connection: Connection, database: str) -> None:
    """Raise `StorageError` if the first write of a server would be refused."""
    may_make, is_standby = connection.execute(_MAY_MAKE_TABLES).one()
    if is_standby or connection.scalar(text("SHOW transaction_read_only")) == "on":
        raise DatabaseUnavailableError(
            database=database,
            problem="it takes no writes (it is a standby, or read-only)",
            remedy="give the database that takes writes",
        )
    if not may_make and stated_revision(connection, database=database) != NEWEST_REVISION:
        raise DatabaseUnavailableError(
            database=database,
            problem="this user may not make tables in its schema",
            remedy="GRANT CREATE ON SCHEMA to this user, or use a schema of its own",
        )
