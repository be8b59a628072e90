"""PostgreSQL through psycopg 3. Large batches travel by COPY, small ones as pipelined inserts.

Exclusive use is an advisory lock of the session, and every commit goes over that same session. When the connection
breaks, the lock and the ability to commit end together, so a server without its lock cannot commit. The server takes
the lock again over a new connection, and continues if no other server wrote meanwhile.

The lock is tried out whenever it is taken (`storage.session_lock`). Each commit is fenced as well: it replaces exactly
the row of the previous commit, made by this engine, or stores nothing. A failed lock stops a server but never loses an
update.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import psycopg
from sqlalchemy import (
    URL,
    Column,
    Connection,
    MetaData,
    Select,
    Table,
    bindparam,
    create_engine,
    delete,
    event,
    func,
    select,
    text,
    update,
)
from sqlalchemy.dialects.postgresql import ARRAY, insert
from sqlalchemy.dialects.postgresql.psycopg import dialect as psycopg_dialect
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool
from sqlalchemy.schema import CreateTable

from namegraph import ServerId, StoredState
from storage.errors import (
    RESTORE,
    DatabaseDamagedError,
    DatabaseFullError,
    DatabaseInterruptedError,
    DatabaseInUseError,
    DatabaseLostError,
    DatabaseUnavailableError,
    NotOurDatabaseError,
    StorageError,
)
from storage.models import ARCS, CHANGES, LOG, NODES, OUTCOMES, PROTOCOL_ROWS, SERVER, SERVER_KEY, VIRTUAL_NODES
from storage.postgresql_kinds import WITHOUT_LOCKS, is_readable, kind_of
from storage.rows import Row, Slice, sealed
from storage.schema import require_newest
from storage.session_lock import USE_POSTGRESQL, take, try_out
from storage.sql_store import (
    SEE_THAT_IT_IS_RIGHT,
    USED_BY_ANOTHER,
    Generation,
    ServerState,
    SqlStore,
    open_sql_store,
    stored_server,
    stored_state,
)
from storage.urls import has_several_hosts, show_url

LOCK_TIMEOUT_MS = 2_000
"""Wait for a lock, in milliseconds. The session of a server that was just killed takes a moment to end."""

CLIENT_CHECK_MS = 500
"""Interval at which a busy session checks that its server is alive. The session must end within `LOCK_TIMEOUT_MS`."""

CONNECTION_DEFAULTS: Mapping[str, str | int] = {
    "application_name": "shadowtree",
    "client_encoding": "utf8",
    "connect_timeout": 10,
    # Notice a database host that vanished within about half a minute instead of hours.
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 4,
    "tcp_user_timeout": 30_000,
}
"""Connection parameters for all that the URL leaves out."""

DEFAULTS_OF_SEVERAL_HOSTS: Mapping[str, str | int] = {"target_session_attrs": "read-write"}
"""Options for a URL that names several hosts: the primary is the host that accepts writes."""

COPY_FROM_ROWS = 1_000
"""Number of rows from which a COPY pays for its temporary table."""

ROWS_PER_SLICE = 20_000
"""Number of rows copied, deduplicated by key and inserted at once, and fetched or deleted at once."""


_CHECK_CLIENT = text(
    "SELECT set_config(name, :interval_ms, false) FROM pg_settings WHERE name = 'client_connection_check_interval'"
)
"""Statement without effect before PostgreSQL 14, which lacks the setting."""


def open_postgresql_store(url: URL, *, server: ServerId | None) -> SqlStore:
    """Connect to the database that the URL names. See `storage.open_store`."""
    engine = PostgresqlEngine(url)
    try:
        engine.take_lock()
        engine.check_settings()
        store = open_sql_store(engine, server=server)
        store.begin()
    except BaseException:
        engine.close()
        raise
    return store


@contextmanager
def reading_postgresql(url: URL) -> Iterator[StoredState]:
    """Return the state of a database at one instant, while its server runs. Consume it inside the context.

    Raises `StorageError`.
    """
    engine = _ReadingEngine(url)
    try:
        with engine.translate_errors(), engine.connection.begin():
            require_newest(engine.connection, database=engine.database)
            state = stored_server(engine)
            if state is None:
                raise NotOurDatabaseError(
                    database=engine.database, problem="no server has used it", remedy="see that it is the right one"
                )
            yield stored_state(engine, state)
    finally:
        engine.close()


class PostgresqlEngine:
    """The `SqlEngine` of PostgreSQL."""

    def __init__(self, url: URL, *, of: str = "name server") -> None:
        """Connect. `of`: kind of program that uses such a database, for messages."""
        self._of = of
        self._database = show_url(url)
        defaults = {**CONNECTION_DEFAULTS, **(DEFAULTS_OF_SEVERAL_HOSTS if has_several_hosts(url) else {})}
        self._engine = create_engine(
            url,
            poolclass=NullPool,
            connect_args={name: value for name, value in defaults.items() if name not in url.query},
        )
        self._life = secrets.token_hex(8)
        self.cautions: tuple[str, ...] = ()
        """Warnings for the operator about this database, found when the lock was taken."""
        event.listen(self._engine, "do_connect", self._connect_driver)
        self._connect()

    def _connect(self) -> None:
        try:
            self._connection = self._engine.connect()
        except DBAPIError as error:
            raise DatabaseUnavailableError(
                database=self._database,
                problem=f"cannot connect ({_first_line(error.orig)})",
                remedy="check the URL, and that PostgreSQL runs there and lets this user in",
            ) from error
        driver_connection = self._connection.connection.driver_connection
        assert isinstance(driver_connection, psycopg.Connection)
        self._session: psycopg.Connection[Row] = driver_connection

    def _connect_driver(
        self, _dialect: object, _record: object, arguments: list[Any], options: dict[str, Any]
    ) -> psycopg.Connection[Row]:
        """Refuse some databases that imitate PostgreSQL before SQLAlchemy asks for a version that it cannot parse."""
        session = psycopg.connect(*arguments, **options)
        try:
            ((version,),) = session.execute("SELECT version()").fetchall()
            session.rollback()
            self._refuse_look_alike(str(version))
        except BaseException:
            session.close()
            raise
        self._version = str(version)
        return session

    def _refuse_look_alike(self, version: str) -> None:
        kind = kind_of(version)
        if kind is not None and kind in WITHOUT_LOCKS:
            problem = f"this is {kind}: {WITHOUT_LOCKS[kind]}, so that two servers could write to it at once"
        elif not is_readable(version):
            problem = f"it is {kind}, not PostgreSQL"
        else:
            return
        raise NotOurDatabaseError(database=self._database, problem=problem, remedy=USE_POSTGRESQL)

    @property
    def database(self) -> str:
        """Name of the database in error messages."""
        return self._database

    @property
    def connection(self) -> Connection:
        """The one connection."""
        return self._connection

    def take_lock(self) -> None:
        """Take exclusive use of the schema and try it out; raise `DatabaseInUseError`, or why it cannot be had here."""
        try:
            with self.translate_errors(), self._connection.begin():
                self._refuse_standby()
                self._connection.exec_driver_sql(f"SET SESSION lock_timeout = {LOCK_TIMEOUT_MS}")
                self._connection.execute(_CHECK_CLIENT, {"interval_ms": str(CLIENT_CHECK_MS)})
            with self.translate_errors(), self._connection.begin():
                backend = take(self._connection, database=self._database)
        except DatabaseInUseError as error:
            raise DatabaseInUseError(
                database=self._database,
                problem=f"another {self._of} is using it",
                remedy="stop that server, or give this one a database of its own",
            ) from error
        with self.translate_errors():
            trial = try_out(self._engine, self._connection, backend, database=self._database)
        kind = kind_of(self._version) or self._kind_by_catalog()
        untested = None if kind is None else f"not tested with {kind}, only with PostgreSQL itself"
        self.cautions = tuple(filter(None, (untested, trial.caution)))

    def _kind_by_catalog(self) -> str | None:
        """Return the name of a database that imitates PostgreSQL and reports PostgreSQL's own version."""
        with self.translate_errors(), self._connection.begin():
            is_aurora = self._connection.scalar(
                text("SELECT count(*) FROM pg_catalog.pg_proc WHERE proname = 'aurora_version'")
            )
        return "Amazon Aurora" if is_aurora else None

    def _refuse_standby(self) -> None:
        """Refuse a standby.

        A lock on a standby excludes no server from its primary, and the standby may become a primary while the lock is
        held.
        """
        if self._connection.scalar(text("SELECT pg_is_in_recovery()")):
            raise DatabaseUnavailableError(
                database=self._database,
                problem="this is a standby, which cannot be written",
                remedy="name its primary, or both: postgresql://USER@HOST1,HOST2/DATABASE "
                '("Failover" in docs/operators.md)',
            )

    def check_settings(self) -> None:
        """Refuse an encoding that cannot hold every name, and turn durable commits on."""
        with self.translate_errors(), self._connection.begin():
            encoding = self._connection.scalar(text("SHOW server_encoding"))
            if encoding != "UTF8":
                raise NotOurDatabaseError(
                    database=self._database,
                    problem=f"its encoding is {encoding}, which cannot hold every name",
                    remedy="create a database with ENCODING 'UTF8'",
                )
            if self._connection.scalar(text("SHOW synchronous_commit")) == "off":
                self._connection.exec_driver_sql("SET SESSION synchronous_commit = on")

    def check_exclusive(self) -> None:
        """Raise `DatabaseInterruptedError` if the connection is closed.

        SQLAlchemy would replace it by one without the lock.
        """
        if self._session.closed:
            raise self._interrupted()

    def resume(self) -> None:
        """Connect and take the lock again. An old session that still exists holds the lock a little longer."""
        if not self._connection.closed:
            self._connection.invalidate()
            self._connection.close()
        self._connect()
        try:
            self.take_lock()
            self.check_settings()
        except BaseException:
            # Without the lock this session must not be written to.
            self._session.close()
            raise

    def probe(self) -> None:
        """Raise the `StorageError` that a commit would meet."""
        self.check_exclusive()
        with self.translate_errors(), self._connection.begin():
            self._connection.execute(text("SELECT 1"))

    def generation_after(self, _state: ServerState, /) -> Generation:
        """Return the generation of this engine.

        PostgreSQL guards its own log, so a generation is all commits of one engine.
        """
        return Generation(self._life)

    def is_next(self, before: ServerState, found: ServerState) -> bool:
        """Return True if this engine can have made the commit `found` right after `before`."""
        return found.commits == before.commits + 1 and found.generation == self._life

    def write_state(self, before: ServerState, state: ServerState) -> None:
        """Replace the row of the previous commit; raise `DatabaseLostError` if another row is there."""
        (row,) = sealed(SERVER, [state.record])
        values = (*row, SERVER_KEY, before.commits, before.generation)
        if self._connection.exec_driver_sql(_REPLACE_STATE, values).rowcount != 1:
            raise DatabaseLostError(database=self._database, problem=USED_BY_ANOTHER, remedy=SEE_THAT_IT_IS_RIGHT)

    def acknowledge(self, state: ServerState) -> None:
        """Do nothing: PostgreSQL knows the end of its log."""

    def transaction(self) -> AbstractContextManager[object]:
        """Begin a transaction."""
        return self._connection.begin()

    def write(self, table: Table, records: Sequence[Row]) -> None:
        """Insert the records, or replace rows with the same key."""
        if len(records) < COPY_FROM_ROWS:
            self._connection.exec_driver_sql(_UPSERTS[table], sealed(table, records))
        else:
            self._copy(table, records)

    def delete(self, table: Table, keys: Sequence[Row]) -> None:
        """Delete the rows with these primary keys."""
        for start in range(0, len(keys), ROWS_PER_SLICE):
            columns = zip(*keys[start : start + ROWS_PER_SLICE], strict=True)
            self._connection.exec_driver_sql(_DELETES[table], tuple(map(list, columns)))

    def cut(self, number: Column[int], through: int) -> None:
        """Delete the rows with this number or a smaller one in the column."""
        self._connection.execute(delete(number.table).where(number <= through))

    def read(self, statement: Select[Row]) -> Iterator[Slice]:
        """Yield the rows of a statement, `ROWS_PER_SLICE` at a time."""
        self.check_exclusive()
        with self.translate_errors(), self._connection.begin(), self._session.cursor(name="state") as cursor:
            cursor.execute(str(statement.compile(dialect=self._connection.dialect)).encode())
            while rows := cursor.fetchmany(ROWS_PER_SLICE):
                yield rows

    def close(self) -> None:
        """Close the connection, and thereby release exclusive use."""
        self._connection.close()
        self._engine.dispose()

    @contextmanager
    def translate_errors(self) -> Iterator[None]:
        """Translate errors of the driver that are not bugs of the program into `StorageError`."""
        try:
            yield
        except (psycopg.Error, DBAPIError) as error:
            explained = self._explain(error.orig if isinstance(error, DBAPIError) else error)
            if explained is None:
                raise
            raise explained from error

    def _copy(self, table: Table, records: Sequence[Row]) -> None:
        """Copy slices into a temporary table without keys, and insert from that table."""
        incoming, upsert = _incoming(table)
        self._connection.execute(CreateTable(incoming))
        statement = f"COPY {incoming.name} FROM STDIN (FORMAT BINARY)".encode()
        types = [str(column.type.compile(dialect=_DIALECT)).lower() for column in incoming.columns]
        keys = [table.columns.keys().index(column.name) for column in table.primary_key]
        for start in range(0, len(records), ROWS_PER_SLICE):
            # One statement may not touch a row twice, so only the last row of each key goes on.
            latest = {tuple(row[key] for key in keys): row for row in records[start : start + ROWS_PER_SLICE]}
            with self._session.cursor() as cursor, cursor.copy(statement) as copy:
                copy.set_types(types)
                for row in sealed(table, latest.values()):
                    copy.write_row(row)
            self._connection.exec_driver_sql(upsert)
            self._connection.exec_driver_sql(f"TRUNCATE {incoming.name}")

    def _explain(self, error: BaseException | None) -> StorageError | None:
        """Return the error to show for an error of PostgreSQL; None if the error is a bug of the program."""
        if self._session.closed:
            return self._interrupted()
        state = (error.sqlstate or "") if isinstance(error, psycopg.Error) else ""
        known = _KNOWN_ERRORS.get(state) or _KNOWN_ERRORS.get(state[:2])
        if known is None:
            return None
        kind, problem, remedy = known
        return kind(database=self._database, problem=problem.format(what=_first_line(error)), remedy=remedy)

    def _interrupted(self) -> DatabaseInterruptedError:
        return DatabaseInterruptedError(
            database=self._database,
            problem="the connection was lost, and with it exclusive use",
            remedy="see that PostgreSQL runs",
        )


class _ReadingEngine(PostgresqlEngine):
    """Engine with one read-only transaction, which blocks no other session."""

    def _connect(self) -> None:
        super()._connect()
        self._connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)

    def read(self, statement: Select[Row]) -> Iterator[Slice]:
        with self._session.cursor(name="state") as cursor:
            cursor.execute(str(statement.compile(dialect=self._connection.dialect)).encode())
            while rows := cursor.fetchmany(ROWS_PER_SLICE):
                yield rows


def _first_line(error: BaseException | None) -> str:
    return (str(error).splitlines() or ["no reason given"])[0].strip()


_DIALECT = psycopg_dialect(paramstyle="format")  # type: ignore[no-untyped-call]
"""Dialect that compiles placeholders to `%s`, so that parameters can be tuples."""


def _upsert(table: Table, incoming: Table | None = None) -> str:
    """Compile a statement that inserts values, or all rows of another table, and replaces rows with the same key."""
    statement = insert(table)
    if incoming is not None:
        statement = statement.from_select(table.columns.keys(), select(incoming))
    keys = list(table.primary_key.columns)
    others = {column.name: statement.excluded[column.name] for column in table.columns if column not in keys}
    complete = statement.on_conflict_do_update(index_elements=keys, set_=others)
    return str(complete.compile(dialect=_DIALECT))


def _delete(table: Table) -> str:
    """Compile a statement that deletes rows. The keys come as one array for each column of the key."""
    keys = list(table.primary_key.columns)
    arrays = (bindparam(key.name, type_=ARRAY(key.type)) for key in keys)
    gone = func.unnest(*arrays).table_valued(*(key.name for key in keys)).render_derived(name="gone")
    statement = delete(table).where(*(key == gone.c[key.name] for key in keys))
    return str(statement.compile(dialect=_DIALECT))


def _incoming(table: Table) -> tuple[Table, str]:
    """Return a temporary table of the same columns, and the statement that inserts its rows into `table`."""
    incoming = Table(
        f"incoming_{table.name}",
        MetaData(),
        *(Column(column.name, column.type) for column in table.columns),
        prefixes=["TEMPORARY"],
        postgresql_on_commit="DROP",
    )
    return incoming, _upsert(table, incoming)


_UPSERTS: Mapping[Table, str] = {
    table: _upsert(table) for table in (NODES, ARCS, VIRTUAL_NODES, OUTCOMES, PROTOCOL_ROWS, CHANGES, LOG, SERVER)
}
_DELETES: Mapping[Table, str] = {table: _delete(table) for table in (ARCS, PROTOCOL_ROWS, VIRTUAL_NODES, LOG)}


def _replace_state() -> str:
    """Compile the replacement of the server's row.

    Parameters are all columns in their order, then the key, the commits and the generation of the old row.
    """
    columns = SERVER.columns
    statement = (
        update(SERVER)
        .values({column.name: bindparam(f"new_{column.name}") for column in columns})
        .where(columns.key == bindparam("old_key"), columns.commits == bindparam("old_commits"))
        .where(columns.generation.is_not_distinct_from(bindparam("old_generation")))
    )
    return str(statement.compile(dialect=_DIALECT))


_REPLACE_STATE = _replace_state()

_UNEXPECTED: tuple[type[StorageError], str, str] = (
    DatabaseDamagedError,
    "its tables are not as expected ({what})",
    RESTORE,
)
_DAMAGED: tuple[type[StorageError], str, str] = (
    DatabaseDamagedError,
    "it is damaged ({what})",
    RESTORE,
)
_FORBIDDEN: tuple[type[StorageError], str, str] = (
    DatabaseUnavailableError,
    "it cannot be written ({what})",
    "let this user create and write tables there",
)
_TROUBLED: tuple[type[StorageError], str, str] = (
    DatabaseUnavailableError,
    "PostgreSQL cannot do its work ({what})",
    "look at its log",
)

_KNOWN_ERRORS: Mapping[str, tuple[type[StorageError], str, str]] = {
    # Keys are SQLSTATEs, or their first two characters: the class of the error.
    "53100": (DatabaseFullError, "the disk of PostgreSQL is full", "make room on that disk"),
    "55P03": (
        DatabaseInUseError,
        f"another program has kept its tables locked for {LOCK_TIMEOUT_MS // 1000} seconds",
        "close that program",
    ),
    "25006": _FORBIDDEN,
    "42501": _FORBIDDEN,
    "3F000": _FORBIDDEN,
    "42P01": _UNEXPECTED,
    "42703": _UNEXPECTED,
    "XX001": _DAMAGED,
    "XX002": _DAMAGED,
    "08": _TROUBLED,
    "40": _TROUBLED,
    "53": _TROUBLED,
    "57": _TROUBLED,
    "58": _TROUBLED,
    "XX": _TROUBLED,
}
