"""First layout: the server, nodes, arcs, virtual nodes and outcomes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "server",
        sa.Column("key", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("counter", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("key"),
    )
    op.create_table(
        "nodes",
        sa.Column("node", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("node_id", sa.String(), nullable=False),
        sa.Column("kind", sa.SmallInteger(), nullable=False),
        sa.Column("virtual_node", sa.BigInteger(), nullable=True),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("node"),
    )
    op.create_table(
        "arcs",
        sa.Column("parent", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("child", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("cost", sa.BigInteger(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("writer", sa.BigInteger(), nullable=False),
        sa.Column("present", sa.Boolean(), nullable=False),
        sa.Column("suspended", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("parent", "child"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "virtual_nodes",
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("smallest", sa.String(), nullable=False),
        sa.Column("counter", sa.BigInteger(), nullable=False),
        sa.Column("server", sa.String(), nullable=False),
        sa.Column("present", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("number"),
    )
    op.create_table(
        "outcomes",
        sa.Column("request_id", sa.String(), nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("outcome", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("request_id"),
    )
    op.create_index("outcomes_by_sequence", "outcomes", ["sequence"])


def downgrade() -> None:
    op.drop_index("outcomes_by_sequence", table_name="outcomes")
    for table in ("outcomes", "virtual_nodes", "arcs", "nodes", "server"):
        op.drop_table(table)
