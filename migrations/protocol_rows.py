"""The rows of the update protocol as migrations read and write them: one at a time, for some are several megabytes.

A row whose checksum does not fit is left as it is: who opens the database is told of it.
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
    """The keys of the rows of a part."""
    return list(op.get_bind().execute(sa.select(ROWS.c.key).where(ROWS.c.part == part)).scalars())


def value_of(part: str, key: str) -> bytes | None:
    """The value of a row that is there; None where it is damaged."""
    query = sa.select(ROWS.c.value, ROWS.c.checksum).where(ROWS.c.part == part, ROWS.c.key == key)
    value, checksum = op.get_bind().execute(query).one()
    return value if row_checksum((part, key, value)) == checksum else None


def replace(part: str, key: str, value: bytes) -> None:
    """Give a row another value."""
    values = {"value": value, "checksum": row_checksum((part, key, value))}
    op.get_bind().execute(sa.update(ROWS).where(ROWS.c.part == part, ROWS.c.key == key).values(values))


def add(part: str, key: str, value: bytes) -> None:
    """Write a row that is not there."""
    values = {"part": part, "key": key, "value": value, "checksum": row_checksum((part, key, value))}
    op.get_bind().execute(sa.insert(ROWS).values(values))
