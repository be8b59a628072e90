"""The checksum in the last column of each row, which proves that the disk returned what was written.

SQLite detects damage to its pages, but not a changed bit inside a row. The checksum covers the values of all other
columns. Every engine computes the same checksum, and every row is compared when it is read
([why](docs/decisions/0006-damage.md)).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from zlib import crc32

from sqlalchemy import Connection, MetaData, Table, bindparam, select, update

from storage.models import ARCS, SERVER

CHECKSUM_COLUMN = "checksum"

pack_arc = struct.Struct("<7q").pack
"""Pack the values of an arc as bytes. A precompiled struct, because a start reads half a million arcs."""

IMPOSSIBLE_VALUES = (TypeError, ValueError, struct.error)
"""Errors of computing a checksum over values that no record has; damage can leave such values behind."""

_ROWS_AT_A_TIME = 10_000


def arc_checksum(row: Sequence[Any]) -> int:
    """Return the checksum of a row of `arcs`, whose values are all numbers or truth values."""
    return crc32(pack_arc(*row))


def row_checksum(row: Sequence[Any]) -> int:
    """Return the checksum of a row of any other table. A truth value counts as 0 or 1."""
    checksum = 0
    for value in row:
        match value:
            case str():
                part = value.encode("utf-8", "surrogatepass")
            case int():
                part = b"%d" % value
            case None:
                part = b"\0"
            case _:
                part = value
        checksum = crc32(part, crc32(b"\0", checksum))
    return checksum


def server_checksum(row: Sequence[Any]) -> int:
    """Return the checksum of the row of `server`. The key is left out: it is constant."""
    return row_checksum(row[1:])


_OF_TABLES: Mapping[str, Callable[[Sequence[Any]], int]] = {ARCS.name: arc_checksum, SERVER.name: server_checksum}


def checksum_of(table: Table) -> Callable[[Sequence[Any]], int]:
    """Return the function that computes the checksum of a row from its values in the order of the columns."""
    return _OF_TABLES.get(table.name, row_checksum)


def seal(connection: Connection, name: str) -> None:
    """Write the checksum of every row of a table, for migrations that changed its columns or rows."""
    table = Table(name, MetaData(), autoload_with=connection)
    sealed = table.columns[CHECKSUM_COLUMN]
    keys = list(table.primary_key.columns)
    others = [column for column in table.columns if column is not sealed]
    compute = checksum_of(table)
    change = (
        update(table)
        .where(*(key == bindparam(f"of_{key.name}") for key in keys))
        .values({CHECKSUM_COLUMN: bindparam("computed")})
    )
    found = connection.execute(select(*others)).fetchall()
    for start in range(0, len(found), _ROWS_AT_A_TIME):
        connection.execute(
            change,
            [
                {
                    **{f"of_{key.name}": row._mapping[key] for key in keys},
                    "computed": compute([row._mapping[column] for column in others]),
                }
                for row in found[start : start + _ROWS_AT_A_TIME]
            ],
        )
