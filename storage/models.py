"""The tables as SQLAlchemy models. The columns of a table are the fields of its record, in that order, and a checksum.

Rows travel as plain tuples between records and the driver, so these classes are never instantiated. The classes define
the tables, SQL statements are compiled from them, and a test compares them with the migrations. Columns added to an
older layout are nullable, because SQLite adds only nullable columns. No row has a null there.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Index, Integer, LargeBinary, SmallInteger, String, Table
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


class Base(DeclarativeBase):
    """Base class with the metadata of all tables."""


class ServerRow(Base):
    """The single row with the server's name, its priority counter and its last commit."""

    __tablename__ = "server"

    key: Mapped[int] = mapped_column(SmallInteger, primary_key=True, autoincrement=False)
    """Always `SERVER_KEY`."""
    name: Mapped[str] = mapped_column(String)
    counter: Mapped[int] = mapped_column(BigInteger)
    commits: Mapped[int | None] = mapped_column(BigInteger)
    """Number of the last commit. Each commit adds one."""
    generation: Mapped[str | None] = mapped_column(String)
    """Name of the generation of SQLite's write-ahead log, drawn at random for each generation."""
    base: Mapped[str | None] = mapped_column(String)
    """Commit that the SQLite file held when the generation began, as GENERATION:NUMBER."""
    checksum: Mapped[int | None] = mapped_column(BigInteger)


SERVER_KEY = 1


class NodeModel(Base):
    """`NodeRecord`."""

    __tablename__ = "nodes"

    node: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    node_id: Mapped[str] = mapped_column(String)
    kind: Mapped[int] = mapped_column(SmallInteger)
    virtual_node: Mapped[int | None] = mapped_column(BigInteger)
    version: Mapped[int] = mapped_column(BigInteger)
    version_server: Mapped[str | None] = mapped_column(String)
    checksum: Mapped[int | None] = mapped_column(BigInteger)


class ArcModel(Base):
    """`ArcRecord`. In SQLite the table is its own index by key, which halves its size and the bytes written."""

    __tablename__ = "arcs"
    __table_args__ = ({"sqlite_with_rowid": False},)

    parent: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    child: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    cost: Mapped[int] = mapped_column(BigInteger)
    version: Mapped[int] = mapped_column(BigInteger)
    writer: Mapped[int] = mapped_column(BigInteger)
    present: Mapped[bool] = mapped_column(Boolean)
    suspended: Mapped[bool] = mapped_column(Boolean)
    checksum: Mapped[int | None] = mapped_column(BigInteger)


class VirtualNodeModel(Base):
    """`VirtualNodeRecord`."""

    __tablename__ = "virtual_nodes"

    number: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    smallest: Mapped[str] = mapped_column(String)
    counter: Mapped[int] = mapped_column(BigInteger)
    server: Mapped[str] = mapped_column(String)
    present: Mapped[bool] = mapped_column(Boolean)
    checksum: Mapped[int | None] = mapped_column(BigInteger)


class OutcomeRow(Base):
    """`OutcomeRecord`. The index by sequence number finds the oldest outcomes to delete."""

    __tablename__ = "outcomes"
    __table_args__ = (Index("outcomes_by_sequence", "sequence"),)

    request_id: Mapped[str] = mapped_column(String, primary_key=True)
    sequence: Mapped[int] = mapped_column(BigInteger)
    digest: Mapped[str] = mapped_column(String)
    outcome: Mapped[str] = mapped_column(String)
    checksum: Mapped[int | None] = mapped_column(BigInteger)


class ChangeRow(Base):
    """`ChangeRecord`. In SQLite the number is the row id, so a new record is appended."""

    __tablename__ = "changes"

    number: Mapped[int] = mapped_column(
        BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=False
    )
    counter: Mapped[int] = mapped_column(BigInteger)
    revision: Mapped[str] = mapped_column(String)
    request_id: Mapped[str] = mapped_column(String)
    told_at: Mapped[int] = mapped_column(BigInteger)
    caller: Mapped[str] = mapped_column(String)
    server: Mapped[str] = mapped_column(String)
    changes: Mapped[bytes] = mapped_column(LargeBinary)
    kind: Mapped[str | None] = mapped_column(String)
    principal: Mapped[str | None] = mapped_column(String)
    how: Mapped[str | None] = mapped_column(String)
    credential: Mapped[str | None] = mapped_column(String)
    via: Mapped[str | None] = mapped_column(String)
    decision: Mapped[str | None] = mapped_column(String)
    rule: Mapped[str | None] = mapped_column(String)
    previous: Mapped[bytes | None] = mapped_column(LargeBinary)
    hash: Mapped[bytes | None] = mapped_column(LargeBinary)
    checksum: Mapped[int | None] = mapped_column(BigInteger)


class LogRow(Base):
    """`LogRecord`. In SQLite the position is the row id, so a new record is appended."""

    __tablename__ = "log"

    position: Mapped[int] = mapped_column(
        BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=False
    )
    audience: Mapped[int] = mapped_column(BigInteger)
    encoded: Mapped[bytes] = mapped_column(LargeBinary)
    checksum: Mapped[int | None] = mapped_column(BigInteger)


class ProtocolTableRow(Base):
    """`ProtocolRow`. The index by key is separate in SQLite too, because a value may be a letter of several megabytes.

    A table that is its own index reads the whole of each row whose key a search compares. Part and key together may
    take 2,600 bytes of UTF-8: an index entry of PostgreSQL holds little more.
    """

    __tablename__ = "protocol_rows"

    part: Mapped[str] = mapped_column(String, primary_key=True)
    key: Mapped[str] = mapped_column(String, primary_key=True)
    value: Mapped[bytes] = mapped_column(LargeBinary)
    checksum: Mapped[int | None] = mapped_column(BigInteger)


def table_of(model: type[Base]) -> Table:
    """Return the table of a model."""
    table = model.__table__
    assert isinstance(table, Table)
    return table


SERVER = table_of(ServerRow)
NODES = table_of(NodeModel)
ARCS = table_of(ArcModel)
VIRTUAL_NODES = table_of(VirtualNodeModel)
OUTCOMES = table_of(OutcomeRow)
CHANGES = table_of(ChangeRow)
LOG = table_of(LogRow)
PROTOCOL_ROWS = table_of(ProtocolTableRow)
