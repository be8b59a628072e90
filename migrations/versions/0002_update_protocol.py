"""State of the update protocol that must survive a crash: rows of its parts, and the server of a node's version."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("nodes", sa.Column("version_server", sa.String(), nullable=True))
    op.create_table(
        "protocol_rows",
        sa.Column("part", sa.String(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("value", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("part", "key"),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    op.drop_table("protocol_rows")
    op.drop_column("nodes", "version_server")
