"""A checksum in every row, and the number of the last commit."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from storage.checksums import seal

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_TABLES = ("server", "nodes", "arcs", "virtual_nodes", "outcomes", "protocol_rows")


def upgrade() -> None:
    op.add_column("server", sa.Column("commits", sa.BigInteger(), nullable=True))
    op.execute("UPDATE server SET commits = 0")
    for table in _TABLES:
        op.add_column(table, sa.Column("checksum", sa.BigInteger(), nullable=True))
        seal(op.get_bind(), table)


def downgrade() -> None:
    for table in _TABLES:
        op.drop_column(table, "checksum")
    op.drop_column("server", "commits")
