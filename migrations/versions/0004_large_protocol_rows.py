"""Keep the rows of the update protocol apart from their index in SQLite: some hold letters of several megabytes.

A table that is its own index reads the whole row, value included, for each key that a search compares.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _make_anew(with_rowid=True)


def downgrade() -> None:
    _make_anew(with_rowid=False)


def _make_anew(*, with_rowid: bool) -> None:
    if op.get_bind().dialect.name != "sqlite":
        return
    op.rename_table("protocol_rows", "protocol_rows_before")
    op.create_table(
        "protocol_rows",
        sa.Column("part", sa.String(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("value", sa.LargeBinary(), nullable=False),
        sa.Column("checksum", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("part", "key"),
        sqlite_with_rowid=with_rowid,
    )
    op.execute("INSERT INTO protocol_rows SELECT part, key, value, checksum FROM protocol_rows_before")
    op.drop_table("protocol_rows_before")
