"""The record of changes: each update's changes to the groups of this server, and the origin of the update.

The record begins empty. A server that already has updates leaves out number 1, so that no reader takes the record for
complete.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "changes",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False),
        sa.Column("counter", sa.BigInteger(), nullable=False),
        sa.Column("revision", sa.String(), nullable=False),
        sa.Column("request_id", sa.String(), nullable=False),
        sa.Column("told_at", sa.BigInteger(), nullable=False),
        sa.Column("caller", sa.String(), nullable=False),
        sa.Column("server", sa.String(), nullable=False),
        sa.Column("changes", sa.LargeBinary(), nullable=False),
        sa.Column("checksum", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("number"),
    )


def downgrade() -> None:
    op.drop_table("changes")
