"""Duplication-control records of arcs between servers are derived: rows of them go, updates under way are rewritten.

A row whose checksum does not fit is left as it is: who opens the database is told of it.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from migrations.rows_without_stored_records import CHANGED_PARTS, DROPPED_PARTS, as_now, not_covered, releasing
from storage.checksums import row_checksum

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_ROWS = sa.table(
    "protocol_rows",
    sa.column("part", sa.String),
    sa.column("key", sa.String),
    sa.column("value", sa.LargeBinary),
    sa.column("checksum", sa.BigInteger),
)
_SERVER = sa.table("server", sa.column("name", sa.String))


def upgrade() -> None:
    connection = op.get_bind()
    connection.execute(sa.delete(_ROWS).where(_ROWS.c.part.in_(DROPPED_PARTS)))
    server = connection.execute(sa.select(_SERVER.c.name)).scalar_one_or_none()
    if server is None:
        return
    for part in CHANGED_PARTS:
        # One at a time: some are letters of several megabytes.
        for key in connection.execute(sa.select(_ROWS.c.key).where(_ROWS.c.part == part)).scalars().all():
            value = _value_of(part, key)
            if value is None:
                continue
            _write(part, key, as_now(part, value, server=server))
            if part == "entry" and releasing(value):
                cover = _value_of("entry cover", key)
                if cover is not None:
                    _write("entry cover", key, not_covered(cover))


def downgrade() -> None:
    """A server alone has no such rows; another one lacks the records that the layout before holds."""
    connection = op.get_bind()
    if connection.execute(sa.select(_ROWS.c.key).where(_ROWS.c.part.in_((*CHANGED_PARTS, "inbox", "sent")))).first():
        raise RuntimeError("this server has spoken with others: restore a backup that was made before the upgrade")


def _value_of(part: str, key: str) -> bytes | None:
    """None where the row is damaged."""
    query = sa.select(_ROWS.c.value, _ROWS.c.checksum).where(_ROWS.c.part == part, _ROWS.c.key == key)
    value, checksum = op.get_bind().execute(query).one()
    return value if row_checksum((part, key, value)) == checksum else None


def _write(part: str, key: str, value: bytes) -> None:
    values = {"value": value, "checksum": row_checksum((part, key, value))}
    op.get_bind().execute(sa.update(_ROWS).where(_ROWS.c.part == part, _ROWS.c.key == key).values(values))
