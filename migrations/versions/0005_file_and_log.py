"""The state of the SQLite file from which the write-ahead log continues, in the row of the server.

PostgreSQL leaves both columns empty. The checksum column is dropped and added again, so that it stays the last column.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from storage.checksums import seal

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.drop_column("server", "checksum")
    op.add_column("server", sa.Column("generation", sa.String(), nullable=True))
    op.add_column("server", sa.Column("base", sa.String(), nullable=True))
    op.add_column("server", sa.Column("checksum", sa.BigInteger(), nullable=True))
    seal(op.get_bind(), "server")


def downgrade() -> None:
    op.drop_column("server", "base")
    op.drop_column("server", "generation")
    seal(op.get_bind(), "server")
