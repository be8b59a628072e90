"""Access of migrations to the rows of the update protocol, one row at a time: some rows are several megabytes.

A row with a wrong checksum is left as it is. Opening the database reports that row.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from storage.checksums import row_checksum

ROWS = sa.table(
    "protocol_rows",
    sa.column("part", sa.String),
    sa.column("key", sa.String),
    sa.column("value", sa.LargeBinary),
    sa.column("checksum", sa.BigInteger),
)


def keys_of(part: str) -> list[str]:
    """Return the keys of the rows of a part."""
    return list(op.get_bind().execute(sa.select(ROWS.c.key).where(ROWS.c.part == part)).scalars())


def value_of(part: str, key: str) -> bytes | None:
    """Return the value of an existing row; None if the row is damaged."""
    query = sa.select(ROWS.c.value, ROWS.c.checksum).where(ROWS.c.part == part, ROWS.c.key == key)
    value, checksum = op.get_bind().execute(query).one()
    return value if row_checksum((part, key, value)) == checksum else None


def replace(part: str, key: str, value: bytes) -> None:
    """Replace the value of a row."""
    values = {"value": value, "checksum": row_checksum((part, key, value))}
    op.get_bind().execute(sa.update(ROWS).where(ROWS.c.part == part, ROWS.c.key == key).values(values))


def add(part: str, key: str, value: bytes) -> None:
    """Insert a row whose key is not there yet."""
    values = {"part": part, "key": key, "value": value, "checksum": row_checksum((part, key, value))}
    op.get_bind().execute(sa.insert(ROWS).values(values))
