"""The tables, as SQLAlchemy models: the columns of each are the fields of its record, in that order, and a checksum.

Rows travel as plain tuples between records and the driver, so these classes are never instantiated: they say
what the tables are, SQL statements are compiled from them, and a test compares them with the migrations. Columns that
were added to an older layout may be empty as far as the database knows: SQLite adds no others. None is.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Index, Integer, LargeBinary, SmallInteger, String, Table
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


class Base(DeclarativeBase):
    """Holds the metadata of all tables."""


class ServerRow(Base):
    """The one row that says whose state this is, and its priority counter."""

    __tablename__ = "server"

    key: Mapped[int] = mapped_column(SmallInteger, primary_key=True, autoincrement=False)
    """Always `SERVER_KEY`."""
    name: Mapped[str] = mapped_column(String)
    counter: Mapped[int] = mapped_column(BigInteger)
    commits: Mapped[int | None] = mapped_column(BigInteger)
    """The number of the last commit: rises by one with each."""
    generation: Mapped[str | None] = mapped_column(String)
    """Of SQLite's write-ahead log: drawn at random whenever it begins anew."""
    base: Mapped[str | None] = mapped_column(String)
    """The commit that SQLite's file held when the generation began: GENERATION:NUMBER."""
    checksum: Mapped[int | None] = mapped_column(BigInteger)


SERVER_KEY = 1


class NodeRow(Base):
    """`NodeRecord`."""

    __tablename__ = "nodes"

    node: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    node_id: Mapped[str] = mapped_column(String)
    kind: Mapped[int] = mapped_column(SmallInteger)
    virtual_node: Mapped[int | None] = mapped_column(BigInteger)
    version: Mapped[int] = mapped_column(BigInteger)
    version_server: Mapped[str | None] = mapped_column(String)
    checksum: Mapped[int | None] = mapped_column(BigInteger)


class ArcRow(Base):
    """`ArcRecord`. In SQLite the table is its own index by key, which halves its size and its writing."""

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


class VirtualNodeRow(Base):
    """`VirtualNodeRecord`."""

    __tablename__ = "virtual_nodes"

    number: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    smallest: Mapped[str] = mapped_column(String)
    counter: Mapped[int] = mapped_column(BigInteger)
    server: Mapped[str] = mapped_column(String)
    present: Mapped[bool] = mapped_column(Boolean)
    checksum: Mapped[int | None] = mapped_column(BigInteger)


class OutcomeRow(Base):
    """`OutcomeRecord`, found by its sequence number when the oldest are forgotten."""

    __tablename__ = "outcomes"
    __table_args__ = (Index("outcomes_by_sequence", "sequence"),)

    request_id: Mapped[str] = mapped_column(String, primary_key=True)
    sequence: Mapped[int] = mapped_column(BigInteger)
    digest: Mapped[str] = mapped_column(String)
    outcome: Mapped[str] = mapped_column(String)
    checksum: Mapped[int | None] = mapped_column(BigInteger)


class ChangeRow(Base):
    """`ChangeRecord`. In SQLite its number is the row's own, so the newest is appended."""

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
    checksum: Mapped[int | None] = mapped_column(BigInteger)


class LogRow(Base):
    """`LogRecord`. In SQLite its position is the row's own, so the newest is appended."""

    __tablename__ = "log"

    position: Mapped[int] = mapped_column(
        BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=False
    )
    audience: Mapped[int] = mapped_column(BigInteger)
    encoded: Mapped[bytes] = mapped_column(LargeBinary)
    checksum: Mapped[int | None] = mapped_column(BigInteger)


class ProtocolTableRow(Base):
    """`ProtocolRow`. Its value may be a letter of several megabytes, so the index by key is apart in SQLite too: a
    table that is its own index reads the whole of each row whose key a search compares with.

    Part and key together may take 2,600 bytes of UTF-8: an index entry of PostgreSQL holds little more.
    """

    __tablename__ = "protocol_rows"

    part: Mapped[str] = mapped_column(String, primary_key=True)
    key: Mapped[str] = mapped_column(String, primary_key=True)
    value: Mapped[bytes] = mapped_column(LargeBinary)
    checksum: Mapped[int | None] = mapped_column(BigInteger)


def table_of(model: type[Base]) -> Table:
    """The table of a model."""
    table = model.__table__
    assert isinstance(table, Table)
    return table


SERVER = table_of(ServerRow)
NODES = table_of(NodeRow)
ARCS = table_of(ArcRow)
VIRTUAL_NODES = table_of(VirtualNodeRow)
OUTCOMES = table_of(OutcomeRow)
CHANGES = table_of(ChangeRow)
LOG = table_of(LogRow)
PROTOCOL_ROWS = table_of(ProtocolTableRow)
