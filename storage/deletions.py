"""Rows that delete what is stored under their key: parted from the rows to write.

Many commits hold none, among them an import of half a million arcs. So the one value in one column that tells them is
looked for first, which takes some tens of nanoseconds a row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter

from sqlalchemy import Table

from storage.models import ARCS, PROTOCOL_ROWS, VIRTUAL_NODES
from storage.rows import Row

_MARKS: Mapping[Table, tuple[str, object]] = {
    ARCS: ("version", 0),
    PROTOCOL_ROWS: ("value", None),
    VIRTUAL_NODES: ("present", False),
}
"""Column and value of a row that deletes. In other tables no row does."""


def part_deletions(table: Table, rows: Sequence[Row]) -> tuple[Sequence[Row], Sequence[Row]]:
    """Return the rows to write and the primary keys to delete; of several rows of one key the last decides."""
    if table not in _MARKS:
        return rows, ()
    columns = table.columns.keys()
    column, mark = _MARKS[table]
    mark_of = itemgetter(columns.index(column))
    if mark not in map(mark_of, rows):
        return rows, ()
    key_of = _keys_by(*(columns.index(key.name) for key in table.primary_key))
    deleted = {key_of(row) for row in rows if mark_of(row) == mark}
    # Only of these can it matter which row is the last.
    latest = {key_of(row): row for row in rows if key_of(row) in deleted}
    kept = [row for row in rows if key_of(row) not in deleted]
    kept += [row for row in latest.values() if mark_of(row) != mark]
    return kept, [key for key, row in latest.items() if mark_of(row) == mark]


def _keys_by(first: int, *others: int) -> Callable[[Row], tuple[object, ...]]:
    """What gives the primary key of a row, as a tuple."""
    return itemgetter(first, *others) if others else lambda row: (row[first],)
