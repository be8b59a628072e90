"""Messages and the ledger of their recipients, on disk."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from sqlalchemy import Table, delete, insert, inspect, select, update

from mailing.rules.events import Change, Spooled
from mailing.rules.failures import Digest, Failing
from mailing.rules.spooled import FINAL_STATES, Chunk, MailMessage
from mailing.spool.batch import SpoolBatch
from mailing.spool.engines import SpoolEngine, may_open, open_engine
from mailing.spool.tables import CHUNKS, CONTENTS, DIGESTS, FAILING, FIRST_LAYOUT, MESSAGES, METADATA, SPOOL
from storage.checksums import IMPOSSIBLE_VALUES, row_checksum
from storage.errors import (
    DatabaseDamagedError,
    DatabaseInterruptedError,
    DatabaseInUseError,
    DatabaseLostError,
    DatabaseVersionError,
    NotOurDatabaseError,
    StorageError,
)

SpoolError = StorageError
SpoolInUseError = DatabaseInUseError
SpoolInterruptedError = DatabaseInterruptedError
SpoolLostError = DatabaseLostError

LAYOUT = 3
"""Layout of the tables.

Layout 3 adds messages that wait for owners to decide about a request to join. Messages of layout 2 are read unchanged.
"""
WHOLE_SINCE = 2
"""First layout that has all tables."""
SPOOL_KEY = 1
SECRET_BYTES = 32
ROWS_AT_A_TIME = 100

_MESSAGES = msgspec.json.Decoder(MailMessage)
_CHUNKS = msgspec.json.Decoder(Chunk)
_FAILING = msgspec.json.Decoder(Failing)
_DIGESTS = msgspec.json.Decoder(Digest)

_RESTORE = "put a backup of it back, or an empty database: then what waited in it is lost, and may be sent twice"

Row = Sequence[Any]


@dataclass(frozen=True, slots=True)
class SpoolContents:
    """Content of a spool at its opening."""

    unfinished: tuple[Spooled, ...]
    finished: tuple[MailMessage, ...]
    failing: tuple[Failing, ...] = ()
    digests: tuple[Digest, ...] = ()


class Spool:
    """An open spool. Its calls block, come from one thread at a time, and raise `SpoolError`."""

    def __init__(self, engine: SpoolEngine, *, secret: bytes, opened: str) -> None:
        self._engine = engine
        self._opened = opened
        self._commits = 0
        self._found = self._next = opened
        """Value of `opened` in the stored spool row, and the value that the commit under way writes."""
        self._is_open = True
        self.secret = secret
        """Secret that signs return paths and traces."""

    def commit(self, changes: Iterable[Change]) -> None:
        """Make all changes durable, or none of them.

        Raises `SpoolLostError` if the database differs from the state that the last commit left.
        """
        engine, batch = self._engine, SpoolBatch(changes)
        with engine.translate_errors():
            engine.check_exclusive()
            self._commits += 1
            self._next = f"{self._opened}:{self._commits}"
            with engine.connection.begin():
                batch.write(engine.connection)
                self._replace_row()
        self._found = self._next

    @property
    def cautions(self) -> Sequence[str]:
        """Warnings for the operator about this database, found when it is opened."""
        return self._engine.cautions

    def load(self, id_: str) -> Spooled | None:
        """Return a message with its chunks. None if the spool lacks the message."""
        with self._engine.translate_errors(), self._engine.connection.begin():
            rows = self._rows(MESSAGES, id_)
            if not rows:
                return None
            chunks = sorted(self._rows(CHUNKS, id_), key=lambda row: int(row[1]))
        return Spooled(_MESSAGES.decode(rows[0][1]), tuple(_CHUNKS.decode(row[2]) for row in chunks))

    def content(self, id_: str) -> bytes:
        """Return the bytes of a message as received. The message must not be final."""
        with self._engine.translate_errors(), self._engine.connection.begin():
            ((_, content),) = self._rows(CONTENTS, id_)
        return bytes(content)

    def resume(self) -> None:
        """Take the database again after its connection was lost.

        Raises `SpoolLostError` if another gateway used the database meanwhile, or if an older copy replaced it.
        """
        self._engine.resume()
        with self._engine.translate_errors(), self._engine.connection.begin():
            opened = self._engine.connection.execute(select(SPOOL.c.opened)).scalar_one()
        if opened not in (self._found, self._next):
            raise self._lost()
        self._found = opened

    def _replace_row(self) -> None:
        """Replace the spool row of the last commit, within a transaction."""
        row = (SPOOL_KEY, LAYOUT, self.secret, self._next)
        replaced = self._engine.connection.execute(
            update(SPOOL).where(SPOOL.c.opened == self._found).values(opened=self._next, checksum=row_checksum(row))
        )
        if replaced.rowcount != 1:
            raise self._lost()

    def _lost(self) -> SpoolLostError:
        return SpoolLostError(
            database=self._engine.database,
            problem="another mail gateway has used it, or an older copy was put in its place",
            remedy="see that it is the right one and has one gateway, and start this gateway again",
        )

    def close(self) -> None:
        """Release the database. A second call does nothing."""
        if self._is_open:
            self._is_open = False
            self._engine.close()

    def find(self) -> SpoolContents:
        """Read and check every row, or raise `DatabaseDamagedError` with the damaged row."""
        with self._engine.translate_errors(), self._engine.connection.begin():
            return self.look()

    def look(self) -> SpoolContents:
        """Read and check every row within a transaction that is under way."""
        messages = [self._message_of(row) for row in self._all(MESSAGES)]
        chunks: dict[str, list[Chunk]] = {each.id: [] for each in messages if each.state not in FINAL_STATES}
        for row in self._all(CHUNKS):
            if row[0] in chunks:
                chunks[row[0]].append(_CHUNKS.decode(row[2]))
        contents = {row[0] for row in self._all(CONTENTS)}
        failing = tuple(_FAILING.decode(row[1]) for row in self._all(FAILING))
        digests = tuple(_DIGESTS.decode(row[1]) for row in self._all(DIGESTS))
        for id_, found in chunks.items():
            if id_ not in contents:
                self._refuse(CONTENTS, (id_,), "is missing")
            found.sort(key=lambda chunk: chunk.number)
            if [chunk.number for chunk in found] != [*range(len(found))]:
                self._refuse(CHUNKS, (id_, len(found)), "or one before it is missing")
        return SpoolContents(
            tuple(Spooled(each, tuple(chunks[each.id])) for each in messages if each.id in chunks),
            tuple(each for each in messages if each.id not in chunks),
            failing,
            digests,
        )

    def _rows(self, table: Table, id_: str) -> list[Row]:
        found = self._engine.connection.execute(select(table).where(table.c.id == id_)).all()
        return [self._checked(table, tuple(row)) for row in found]

    def _all(self, table: Table) -> Iterator[Row]:
        statement = select(table).execution_options(yield_per=ROWS_AT_A_TIME)
        result = self._engine.connection.execute(statement)
        for row in result:
            yield self._checked(table, tuple(row))

    def _checked(self, table: Table, row: Row) -> Row:
        if not _is_right(row):
            self._refuse(table, row, "is not what was written: its checksum is wrong")
        return row[:-1]

    def _message_of(self, row: Row) -> MailMessage:
        return _MESSAGES.decode(row[1])

    def _refuse(self, table: Table, row: Row, what: str) -> None:
        refuse_row(table, row, what, database=self._engine.database)


def refuse_row(table: Table, row: Row, what: str, *, database: str) -> None:
    """Raise `DatabaseDamagedError` with the keys of the damaged row."""
    keys = ", ".join(
        f"{column.name} {value!r}" for column, value in zip(table.columns, row, strict=False) if column.primary_key
    )
    raise DatabaseDamagedError(
        database=database, problem=f"in the table {table.name}, the row with {keys} {what}", remedy=_RESTORE
    )


def open_spool(url: str) -> Spool:
    """Open a database for this gateway alone, and create missing tables. Raises `SpoolError`."""
    engine = open_engine(url)
    opened = secrets.token_hex(16)
    try:
        with engine.translate_errors(), engine.connection.begin():
            secret = _settle(engine)
            row = (SPOOL_KEY, LAYOUT, secret, opened)
            engine.connection.execute(delete(SPOOL))
            engine.connection.execute(
                insert(SPOOL), dict(zip(SPOOL.columns.keys(), (*row, row_checksum(row)), strict=True))
            )
    except BaseException:
        engine.close()
        raise
    return Spool(engine, secret=secret, opened=opened)


def try_spool(url: str) -> None:
    """Raise `SpoolError` if a gateway could not start with this database. The database stays unchanged."""
    if not may_open(url):
        return
    engine = open_engine(url)
    try:
        with engine.translate_errors(), engine.connection.begin() as transaction:
            Spool(engine, secret=_settle(engine), opened="").look()
            transaction.rollback()
    finally:
        engine.close()


def _settle(engine: SpoolEngine) -> bytes:
    names = set(inspect(engine.connection).get_table_names())
    if not names:
        METADATA.create_all(engine.connection)
        return secrets.token_bytes(SECRET_BYTES)
    missing = {table.name for table in METADATA.sorted_tables} - names
    if missing & {table.name for table in FIRST_LAYOUT}:
        raise NotOurDatabaseError(
            database=engine.database,
            problem="it holds tables of another program",
            remedy="give a new or empty database; that of a name server is its own",
        )
    found = [tuple(row) for row in engine.connection.execute(select(SPOOL))]
    if len(found) != 1 or not _is_right(found[0]):
        refuse_row(SPOOL, found[0] if found else (SPOOL_KEY,), "is not what was written", database=engine.database)
    _, layout, secret, _, _ = found[0]
    if layout > LAYOUT:
        raise DatabaseVersionError(
            database=engine.database,
            problem=f"a newer shadowtree wrote it (layout {layout}, known up to {LAYOUT})",
            remedy="run that newer shadowtree",
        )
    if missing and layout >= WHOLE_SINCE:
        raise DatabaseDamagedError(database=engine.database, problem=f"it has no table {min(missing)}", remedy=_RESTORE)
    METADATA.create_all(engine.connection)
    return bytes(secret)


def _is_right(row: Row) -> bool:
    try:
        return bool(row_checksum(row[:-1]) == row[-1])
    except IMPOSSIBLE_VALUES:
        return False
