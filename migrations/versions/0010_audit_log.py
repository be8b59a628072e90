"""The record of changes becomes an audit log: who asked, what was decided, and a chain of hashes from the newest row.

Older rows stay as they are, without a hash. The checksum column is dropped and added again, so that it stays the last
column.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import msgspec
import sqlalchemy as sa
from alembic import op

from storage.checksums import row_checksum

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

_TEXTS = ("kind", "principal", "how", "credential", "via", "decision", "rule")
_HASHES = ("previous", "hash")
_BEFORE = ("number", "counter", "revision", "request_id", "told_at", "caller", "server", "changes")

_ROWS_AT_A_TIME = 1_000
"""A row may have some tens of kilobytes."""


def upgrade() -> None:
    op.drop_column("changes", "checksum")
    for name in _TEXTS:
        op.add_column("changes", sa.Column(name, sa.String(), nullable=True))
    for name in _HASHES:
        op.add_column("changes", sa.Column(name, sa.LargeBinary(), nullable=True))
    op.add_column("changes", sa.Column("checksum", sa.BigInteger(), nullable=True))
    connection = op.get_bind()
    empty = {**dict.fromkeys(_TEXTS, ""), "kind": "update", **dict.fromkeys(_HASHES, b"")}
    connection.execute(sa.update(_table()).values(empty))
    _chain_newest(connection)
    _seal(connection, (*_BEFORE, *_TEXTS, *_HASHES))


def downgrade() -> None:
    connection, table = op.get_bind(), _table()
    connection.execute(sa.delete(table).where(table.c.kind != "update"))
    for name in (*_HASHES, *_TEXTS):
        op.drop_column("changes", name)
    _seal(connection, _BEFORE)


def _table() -> sa.TableClause:
    return sa.table("changes", *map(sa.column, (*_BEFORE, *_TEXTS, *_HASHES, "checksum")))


def _chain_newest(connection: sa.Connection) -> None:
    """Begin the chain at the newest row, if there is any."""
    table = _table()
    columns = [table.c[name] for name in (*_BEFORE, *_TEXTS)]
    row = connection.execute(sa.select(*columns).order_by(table.c.number.desc()).limit(1)).one_or_none()
    if row is None:
        return
    values: list[Any] = list(row)
    changes = _BEFORE.index("changes")
    values[changes] = msgspec.Raw(bytes(values[changes]))
    previous = bytes(32)
    digest = sha256(previous + msgspec.msgpack.encode(values)).digest()
    chained = {"previous": previous, "hash": digest}
    connection.execute(sa.update(table).where(table.c.number == row[0]).values(chained))


def _seal(connection: sa.Connection, names: tuple[str, ...]) -> None:
    """Write the checksum of each row."""
    table, last = _table(), 0
    change = sa.update(table).where(table.c.number == sa.bindparam("of")).values(checksum=sa.bindparam("computed"))
    while True:
        columns = [table.c[name] for name in names]
        page = sa.select(*columns).where(table.c.number > last).order_by(table.c.number).limit(_ROWS_AT_A_TIME)
        rows = connection.execute(page).fetchall()
        if not rows:
            return
        last = rows[-1][0]
        connection.execute(change, [{"of": row[0], "computed": row_checksum(row)} for row in rows])
