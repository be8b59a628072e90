"""What a coordinator has decided is a row of its own, as it is of participants that keep it for others.

A row whose checksum does not fit is left as it is: who opens the database is told of it.
"""

from __future__ import annotations

import msgspec
import sqlalchemy as sa
from alembic import op

from storage.checksums import row_checksum

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

_ROWS = sa.table(
    "protocol_rows",
    sa.column("part", sa.String),
    sa.column("key", sa.String),
    sa.column("value", sa.LargeBinary),
    sa.column("checksum", sa.BigInteger),
)
_TRANSACTION, _OUTCOME = "coordinated", "decided"
"""The parts: an update under way, and an outcome, both by update."""

_PLACE = 6
"""Of the outcome among the fields of the former, in layout 0008."""


def upgrade() -> None:
    kept = _keys_of(_OUTCOME)
    for key in sorted(_keys_of(_TRANSACTION)):
        value = _value_of(_TRANSACTION, key)
        if value is None:
            continue
        fields = msgspec.msgpack.decode(value)
        outcome = fields.pop(_PLACE)
        _write(_TRANSACTION, key, msgspec.msgpack.encode(fields))
        if outcome and key not in kept:
            _insert(_OUTCOME, key, outcome)


def downgrade() -> None:
    outcomes = _keys_of(_OUTCOME)
    for key in sorted(_keys_of(_TRANSACTION)):
        value = _value_of(_TRANSACTION, key)
        if value is None:
            continue
        fields = msgspec.msgpack.decode(value)
        fields.insert(_PLACE, (_value_of(_OUTCOME, key) or b"") if key in outcomes else b"")
        _write(_TRANSACTION, key, msgspec.msgpack.encode(fields))


def _keys_of(part: str) -> set[str]:
    return set(op.get_bind().execute(sa.select(_ROWS.c.key).where(_ROWS.c.part == part)).scalars())


def _value_of(part: str, key: str) -> bytes | None:
    """None where the row is damaged."""
    query = sa.select(_ROWS.c.value, _ROWS.c.checksum).where(_ROWS.c.part == part, _ROWS.c.key == key)
    value, checksum = op.get_bind().execute(query).one()
    return value if row_checksum((part, key, value)) == checksum else None


def _write(part: str, key: str, value: bytes) -> None:
    values = {"value": value, "checksum": row_checksum((part, key, value))}
    op.get_bind().execute(sa.update(_ROWS).where(_ROWS.c.part == part, _ROWS.c.key == key).values(values))


def _insert(part: str, key: str, value: bytes) -> None:
    values = {"part": part, "key": key, "value": value, "checksum": row_checksum((part, key, value))}
    op.get_bind().execute(sa.insert(_ROWS).values(values))
