"""Load and commit over any SQL engine: what is read and written, in which order, in which transaction.

Everything goes over ONE connection, the one that also holds the exclusive use of the database where the
engine ties that to a connection. So no commit can slip through after the exclusive use was lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from sqlalchemy import Connection, Select, Table, delete, insert, select, update

from namegraph.names import ServerId
from namegraph.records import Records, StoredState
from storage.deletions import part_deletions
from storage.identity import settle_identity
from storage.models import ARCS, NODES, OUTCOMES, PROTOCOL_ROWS, SERVER, SERVER_KEY, VIRTUAL_NODES
from storage.rows import Row, Slice, read_arcs, read_nodes, read_outcomes, read_protocol_rows, read_virtual_nodes
from storage.schema import bring_up_to_date


class SqlEngine(Protocol):
    """What differs between engines; each module of an engine has one implementation."""

    @property
    def database(self) -> str:
        """The database as error messages name it."""
        ...

    @property
    def connection(self) -> Connection:
        """The one connection."""
        ...

    def translate_errors(self) -> AbstractContextManager[None]:
        """Turn errors of the driver that are not our bugs into `StorageError`."""
        ...

    def check_exclusive(self) -> None:
        """Raise `DatabaseLostError` if the database is no longer ours."""
        ...

    def write(self, table: Table, records: Sequence[Row]) -> None:
        """Insert the records or replace those of the same key, the later of two winning."""
        ...

    def delete(self, table: Table, keys: Sequence[Row]) -> None:
        """Delete the rows of these primary keys, as far as they are there."""
        ...

    def read(self, statement: Select[Row]) -> Iterator[Slice]:
        """Yield the rows of a statement as plain tuples, some hundreds or thousands at a time."""
        ...

    def close(self) -> None:
        """Close the connection and give up the exclusive use."""
        ...


def take_over(engine: SqlEngine, *, server: ServerId | None) -> ServerId:
    """Bring the layout up to date and settle whose database it is, in one transaction; return whose."""
    with engine.translate_errors(), engine.connection.begin():
        bring_up_to_date(engine.connection, database=engine.database)
        stored = engine.connection.execute(select(SERVER.c.name)).scalar_one_or_none()
        name = settle_identity(stored=stored, given=server, database=engine.database)
        if stored is None:
            engine.connection.execute(insert(SERVER).values(key=SERVER_KEY, name=name, counter=0))
        else:
            # A database that is read-only shows it here rather than at the first update.
            engine.connection.execute(update(SERVER).values(name=name))
        return name


class SqlStore:
    """A `Store` in a SQL database."""

    def __init__(self, engine: SqlEngine, server: ServerId) -> None:
        self._engine = engine
        self._server = server
        self._is_closed = False

    @property
    def server(self) -> ServerId:
        """See `Store`."""
        return self._server

    def load(self) -> StoredState:
        """See `Store`."""
        assert not self._is_closed, "the store is closed"
        engine = self._engine
        engine.check_exclusive()
        with engine.translate_errors(), engine.connection.begin():
            counter = engine.connection.execute(select(SERVER.c.counter)).scalar_one()
        return StoredState(
            server=self._server,
            counter=counter,
            nodes=read_nodes(engine.read(select(NODES).order_by(NODES.c.node)), database=engine.database),
            virtual_nodes=read_virtual_nodes(engine.read(select(VIRTUAL_NODES))),
            arcs=read_arcs(engine.read(select(ARCS))),
            outcomes=read_outcomes(engine.read(select(OUTCOMES).order_by(OUTCOMES.c.sequence))),
            protocol=read_protocol_rows(engine.read(select(PROTOCOL_ROWS))),
        )

    def commit(self, records: Records) -> None:
        """See `Store`."""
        assert not self._is_closed, "the store is closed"
        assert not self._engine.connection.in_transaction(), "commit while the loaded state is still being read"
        if records.is_empty():
            return
        self._engine.check_exclusive()
        with self._engine.translate_errors(), self._engine.connection.begin():
            self._write(records)
        self._engine.check_exclusive()

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
        )
        for table, rows in tables:
            kept, gone = part_deletions(table, rows)
            if kept:
                self._engine.write(table, kept)
            if gone:
                self._engine.delete(table, gone)
        if records.forget_outcomes_through is not None:
            self._engine.connection.execute(
                delete(OUTCOMES).where(OUTCOMES.c.sequence <= records.forget_outcomes_through)
            )
        if records.counter is not None:
            self._engine.connection.execute(update(SERVER).values(counter=records.counter))
