"""Duplication-control records of arcs between servers are derived: drop their rows, rewrite updates under way."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from migrations.protocol_rows import ROWS, keys_of, replace, value_of
from migrations.rows_without_stored_records import CHANGED_PARTS, DROPPED_PARTS, as_now, not_covered, releasing

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_SERVER = sa.table("server", sa.column("name", sa.String))


def upgrade() -> None:
    connection = op.get_bind()
    connection.execute(sa.delete(ROWS).where(ROWS.c.part.in_(DROPPED_PARTS)))
    server = connection.execute(sa.select(_SERVER.c.name)).scalar_one_or_none()
    if server is None:
        return
    for part in CHANGED_PARTS:
        for key in keys_of(part):
            value = value_of(part, key)
            if value is None:
                continue
            replace(part, key, as_now(part, value, server=server))
            if part == "entry" and releasing(value):
                cover = value_of("entry cover", key)
                if cover is not None:
                    replace("entry cover", key, not_covered(cover))


def downgrade() -> None:
    """Refuse where the server has rows shared with other servers: the older layout needs records that are gone.

    A server without peers has no such rows.
    """
    connection = op.get_bind()
    if connection.execute(sa.select(ROWS.c.key).where(ROWS.c.part.in_((*CHANGED_PARTS, "inbox", "sent")))).first():
        raise RuntimeError("this server has spoken with others: restore a backup that was made before the upgrade")
