"""Load and commit over any SQL engine: the rows, their order and their transactions.

All statements go over ONE connection. Where the engine ties exclusive use to a connection, this connection holds it.
Therefore no commit can succeed after exclusive use was lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from sqlalchemy import Column, Connection, Select, Table, func, select

from namegraph import FORGET_EVERY, ROW_BYTES, UPDATE, LogRecord, Records, ServerId, StoredState
from storage.checksums import IMPOSSIBLE_VALUES, server_checksum
from storage.deletions import part_deletions
from storage.errors import DatabaseInterruptedError, DatabaseLostError
from storage.identity import settle_identity
from storage.models import ARCS, CHANGES, LOG, NODES, OUTCOMES, PROTOCOL_ROWS, SERVER, SERVER_KEY, VIRTUAL_NODES
from storage.rows import (
    Row,
    Slice,
    read_arcs,
    read_changes,
    read_log,
    read_nodes,
    read_outcomes,
    read_protocol_rows,
    read_virtual_nodes,
    refuse_row,
)
from storage.schema import bring_up_to_date
from storage.store import LOG_RECORDS_PER_READ, ChangesFound, ChangesWanted, LogWanted


class SqlEngine(Protocol):
    """Interface of an engine. Each engine's module has one implementation."""

    @property
    def database(self) -> str:
        """Name of the database in error messages."""
        ...

    @property
    def connection(self) -> Connection:
        """The one connection."""
        ...

    @property
    def cautions(self) -> Sequence[str]:
        """Warnings for the operator about this database, found when it is opened."""
        ...

    def translate_errors(self) -> AbstractContextManager[None]:
        """Translate errors of the driver that are not bugs of the program into `StorageError`."""
        ...

    def check_exclusive(self) -> None:
        """Raise `DatabaseInterruptedError` if exclusive use of the database is lost, or may be."""
        ...

    def resume(self) -> None:
        """Take exclusive use again after a `DatabaseInterruptedError`, or raise `StorageError`."""
        ...

    def probe(self) -> None:
        """Raise the `StorageError` that a commit would raise, as far as that shows without writing."""
        ...

    def generation_after(self, state: ServerState, /) -> Generation:
        """Prepare the commit that follows this state; return the generation for the row of that commit."""
        ...

    def is_next(self, before: ServerState, found: ServerState) -> bool:
        """Return True if this engine can have made the commit `found` right after `before`."""
        ...

    def write_state(self, before: ServerState, state: ServerState) -> None:
        """Replace the previous commit's row, in a transaction; raise `DatabaseLostError` if another row is there."""
        ...

    def acknowledge(self, state: ServerState) -> None:
        """Take note of a commit that is durable."""
        ...

    def transaction(self) -> AbstractContextManager[object]:
        """Begin a transaction for `write`, `delete` and `cut`. At its end it is durable, or nothing of it is stored."""
        ...

    def write(self, table: Table, records: Sequence[Row]) -> None:
        """Insert the records with their checksums, or replace rows with the same key. The later of two records wins."""
        ...

    def delete(self, table: Table, keys: Sequence[Row]) -> None:
        """Delete the rows with these primary keys, as far as they exist."""
        ...

    def cut(self, number: Column[int], through: int) -> None:
        """Delete the rows of a table with this number or a smaller one in the column."""
        ...

    def read(self, statement: Select[Row]) -> Iterator[Slice]:
        """Yield the rows of a statement as plain tuples, some hundreds or thousands at a time."""
        ...

    def close(self) -> None:
        """Close the connection and release exclusive use."""
        ...


USED_BY_ANOTHER = "while it was out of reach, another server used it, or an older copy was put in its place"
SEE_THAT_IT_IS_RIGHT = "see that this database is the right one and has one server, and start this server again"


@dataclass(frozen=True, slots=True)
class Generation:
    """Generation of a commit: in SQLite of the write-ahead log (`storage.inspection`), in PostgreSQL of the engine."""

    generation: str | None = None
    base: str | None = None


class ServerState(NamedTuple):
    """The one row of `server`. Layouts before 0005 have no generation."""

    name: ServerId
    counter: int
    commits: int
    generation: str | None = None
    base: str | None = None

    @property
    def commit_id(self) -> str:
        """Id of the last commit, unique among the commits of all copies of the database."""
        return f"{self.generation}:{self.commits}"

    def next(self, *, counter: int | None, generation: Generation) -> ServerState:
        """Return the row after one more commit."""
        return self._replace(
            counter=self.counter if counter is None else counter,
            commits=self.commits + 1,
            generation=generation.generation,
            base=generation.base,
        )

    @property
    def record(self) -> Row:
        """Row without its checksum."""
        return (SERVER_KEY, *self)


def open_sql_store(engine: SqlEngine, *, server: ServerId | None) -> SqlStore:
    """Bring the layout up to date and check the owner of the database, in one transaction."""
    with engine.translate_errors(), engine.connection.begin():
        bring_up_to_date(engine.connection, database=engine.database)
        stored = stored_server(engine)
        name = settle_identity(stored=None if stored is None else stored.name, given=server, database=engine.database)
        state = ServerState(name, 0, 0) if stored is None else stored
        if stored is None:
            engine.write(SERVER, [state.record])
    return SqlStore(engine, state, has_begun=stored is None)


def stored_state(engine: SqlEngine, state: ServerState) -> StoredState:
    """Return all rows. The rows are read while the iterables are consumed."""

    def read(table: Table, order: str | None) -> Iterator[Slice]:
        statement = select(table)
        return engine.read(statement if order is None else statement.order_by(table.c[order]))

    return state_of_slices(state, read, database=engine.database)


def state_of_slices(
    state: ServerState, read: Callable[[Table, str | None], Iterable[Slice]], *, database: str
) -> StoredState:
    """Return all rows by a function that reads a table, sorted by the named column if there is one."""
    return StoredState(
        server=state.name,
        counter=state.counter,
        nodes=read_nodes(read(NODES, NODES.c.node.name), database=database),
        virtual_nodes=read_virtual_nodes(read(VIRTUAL_NODES, None), database=database),
        arcs=read_arcs(read(ARCS, None), database=database),
        outcomes=read_outcomes(read(OUTCOMES, OUTCOMES.c.sequence.name), database=database),
        protocol=read_protocol_rows(read(PROTOCOL_ROWS, None), database=database),
    )


def _newest_change(engine: SqlEngine) -> tuple[int, bytes]:
    """Return the number and the hash of the newest row of the audit log."""
    newest = select(CHANGES).order_by(CHANGES.c.number.desc()).limit(1)
    rows = [tuple(row) for row in engine.connection.execute(newest)]
    return next(((row.number, row.hash) for row in read_changes([rows], database=engine.database)), (0, b""))


def _change_sizes(engine: SqlEngine) -> list[tuple[int, int]]:
    hundreds = (CHANGES.c.number - CHANGES.c.number % FORGET_EVERY).label("first")
    size = func.sum(func.length(CHANGES.c.changes)) + ROW_BYTES * func.count()
    sizes = select(hundreds, size).group_by(hundreds).order_by(hundreds)
    return [(int(first) // FORGET_EVERY, int(size)) for first, size in engine.connection.execute(sizes)]


def stored_server(engine: SqlEngine) -> ServerState | None:
    """Return the row of the server; None in a new database."""
    row = engine.connection.execute(select(SERVER)).one_or_none()
    return None if row is None else server_of_row(tuple(row), database=engine.database)


def server_of_row(row: Row, *, database: str) -> ServerState:
    """Convert the row of the server to its state; raise `DatabaseDamagedError` if the row is damaged."""
    *record, checksum = row
    key, *values = record
    try:
        is_right = key == SERVER_KEY and server_checksum(record) == checksum
    except IMPOSSIBLE_VALUES:
        is_right = False
    if not is_right:
        refuse_row(SERVER, row, database=database)
    return ServerState(*values)


class SqlStore:
    """A `Store` in a SQL database."""

    def __init__(self, engine: SqlEngine, state: ServerState, *, has_begun: bool) -> None:
        self._engine = engine
        self._state = state
        self._is_closed = False
        self._is_interrupted = False
        self._has_begun = has_begun

    @property
    def server(self) -> ServerId:
        """See `Store`."""
        return self._state.name

    @property
    def cautions(self) -> Sequence[str]:
        """See `Store`."""
        return self._engine.cautions

    def load(self) -> StoredState:
        """See `Store`."""
        assert not self._is_closed, "the store is closed"
        self._engine.check_exclusive()
        with self._engine.translate_errors(), self._engine.connection.begin():
            (newest, newest_hash), sizes = _newest_change(self._engine), _change_sizes(self._engine)
        state = stored_state(self._engine, self._state)
        return replace(state, last_change=newest, change_sizes=sizes, last_change_hash=newest_hash)

    def read_changes(self, wanted: ChangesWanted) -> ChangesFound:
        """See `Store`."""
        assert not self._is_closed, "the store is closed"
        engine, columns = self._engine, CHANGES.c
        with engine.translate_errors(), engine.connection.begin():
            # SQLite finds each of the two in the index if it is asked for one at a time.
            oldest = engine.connection.execute(select(func.min(columns.number))).scalar_one()
            newest = engine.connection.execute(select(func.max(columns.number))).scalar_one()
            if oldest is not None and wanted.newest is not None:
                oldest = max(oldest, newest - wanted.newest + 1)
            conditions = [columns.number > max(wanted.after, (oldest or 0) - 1)]
            if wanted.through is not None:
                conditions.append(columns.number <= wanted.through)
            if not wanted.with_events:
                conditions += [
                    columns.kind == UPDATE,
                    columns.counter >= wanted.counter_from,
                    columns.told_at >= wanted.told_from,
                ]
            if wanted.revision is not None:
                conditions.append(columns.revision == wanted.revision)
            statement = select(CHANGES).where(*conditions).order_by(columns.number).limit(wanted.limit)
            rows = [tuple(row) for row in engine.connection.execute(statement)]
        return ChangesFound(list(read_changes([rows], database=engine.database)), oldest, newest)

    def read_log(self, wanted: LogWanted) -> list[LogRecord]:
        """See `Store`."""
        assert not self._is_closed, "the store is closed"
        engine, columns = self._engine, LOG.c
        conditions = [columns.position > wanted.after]
        if wanted.through is not None:
            conditions.append(columns.position <= wanted.through)
        # No engine reads a value to find its length, and SQLite stops where the caller stops fetching.
        lengths = (
            select(columns.position, func.length(columns.encoded))
            .where(*conditions)
            .order_by(columns.position)
            .limit(LOG_RECORDS_PER_READ)
        )
        last, size = wanted.after, 0
        with engine.translate_errors(), engine.connection.begin():
            with engine.connection.execute(lengths) as found:
                for position, length in found:
                    last, size = position, size + length
                    if size >= wanted.bytes_limit:
                        break
            piece = select(LOG).where(columns.position > wanted.after, columns.position <= last)
            rows = [tuple(row) for row in engine.connection.execute(piece.order_by(columns.position))]
        return list(read_log([rows], database=engine.database))

    def commit(self, records: Records) -> None:
        """See `Store`."""
        assert not self._is_closed, "the store is closed"
        assert not self._engine.connection.in_transaction(), "commit while the loaded state is still being read"
        if records.is_empty():
            return
        with self._noticing_interruptions():
            self.begin()
            self._commit(records)

    def begin(self) -> None:
        """Count the start as a commit, so that a disconnected server detects that another server used the database.

        The first commit calls this method. Before that nothing is written to an up-to-date database, because loading
        may still refuse it.
        """
        if not self._has_begun:
            self._commit(Records())
            self._has_begun = True

    def probe(self) -> None:
        """See `Store`."""
        assert not self._is_closed, "the store is closed"
        with self._noticing_interruptions():
            self._engine.probe()

    @contextmanager
    def _noticing_interruptions(self) -> Iterator[None]:
        if self._is_interrupted:
            self._resume()
        try:
            yield
        except DatabaseInterruptedError:
            self._is_interrupted = True
            raise

    def _resume(self) -> None:
        """Take exclusive use again; raise `StorageError` if that fails or another server wrote to the database."""
        self._engine.resume()
        with self._engine.translate_errors(), self._engine.connection.begin():
            found = stored_server(self._engine)
        before = self._state
        # The interrupted commit may have been stored. An opening and a commit by another server would be two commits.
        if found is None or not (
            found == before or (found.name == before.name and self._engine.is_next(before, found))
        ):
            raise DatabaseLostError(
                database=self._engine.database, problem=USED_BY_ANOTHER, remedy=SEE_THAT_IT_IS_RIGHT
            )
        self._state = found
        self._is_interrupted = False

    def _commit(self, records: Records) -> None:
        self._engine.check_exclusive()
        generation = self._engine.generation_after(self._state)
        state = self._state.next(counter=records.counter, generation=generation)
        with self._engine.translate_errors(), self._engine.transaction():
            self._write(records)
            self._engine.write_state(self._state, state)
        self._engine.check_exclusive()
        self._state = state
        self._engine.acknowledge(state)

    def close(self) -> None:
        """See `Store`."""
        if not self._is_closed:
            self._is_closed = True
            self._engine.close()

    def _write(self, records: Records) -> None:
        tables: tuple[tuple[Table, Sequence[Row]], ...] = (
            (NODES, records.nodes),
            (VIRTUAL_NODES, records.virtual_nodes),
            (ARCS, records.arcs),
            (OUTCOMES, records.outcomes),
            (PROTOCOL_ROWS, records.protocol),
            (CHANGES, records.changes),
            (LOG, records.log),
        )
        for table, rows in tables:
            if not rows:
                continue
            kept, gone = part_deletions(table, rows)
            if kept:
                self._engine.write(table, kept)
            if gone:
                self._engine.delete(table, gone)
        if records.log_gone:
            self._engine.delete(LOG, [(position,) for position in records.log_gone])
        cuts = (
            (OUTCOMES.c.sequence, records.forget_outcomes_through),
            (CHANGES.c.number, records.forget_changes_through),
            (LOG.c.position, records.cut_log_through),
        )
        for number, through in cuts:
            if through is not None:
                self._engine.cut(number, through)
