"""A coordinator's outcome becomes a row of its own, like the outcomes that participants keep for other servers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from migrations.protocol_rows import add, keys_of, replace, value_of

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

_TRANSACTION, _OUTCOME = "coordinated", "decided"
"""Parts of the protocol rows: an update under way, and an outcome. The key of both is the update."""

_PLACE = 6
"""Index of the outcome among the fields of a `coordinated` row in layout 0008."""


def upgrade() -> None:
    kept = set(keys_of(_OUTCOME))
    for key, fields in _transactions():
        outcome = fields.pop(_PLACE)
        replace(_TRANSACTION, key, msgspec.msgpack.encode(fields))
        if outcome and key not in kept:
            add(_OUTCOME, key, outcome)


def downgrade() -> None:
    kept = set(keys_of(_OUTCOME))
    for key, fields in _transactions():
        outcome = value_of(_OUTCOME, key) if key in kept else None
        fields.insert(_PLACE, outcome or b"")
        replace(_TRANSACTION, key, msgspec.msgpack.encode(fields))


def _transactions() -> Iterator[tuple[str, list[Any]]]:
    """Yield the key and the fields of each undamaged `coordinated` row."""
    for key in keys_of(_TRANSACTION):
        value = value_of(_TRANSACTION, key)
        if value is not None:
            yield key, msgspec.msgpack.decode(value)
