"""Conversion of database rows to records and back.

A record is a tuple in the order of the columns; a row adds a checksum.

A start reads half a million arcs. Rows therefore travel in slices, and `tuple.__new__` makes records without calling a
generated Python function for each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, NoReturn
from zlib import crc32

from sqlalchemy import Table

from namegraph import (
    ArcRecord,
    ChangeRecord,
    LogRecord,
    NodeKind,
    NodeRecord,
    OutcomeRecord,
    ProtocolRow,
    VirtualNodeRecord,
)
from storage.checksums import IMPOSSIBLE_VALUES, arc_checksum, checksum_of, pack_arc
from storage.errors import RESTORE, DatabaseDamagedError
from storage.models import ARCS, CHANGES, LOG, NODES, OUTCOMES, PROTOCOL_ROWS, VIRTUAL_NODES

Row = tuple[Any, ...]
Slice = Sequence[Row]
"""Some rows of one table, in the order of the statement."""

_KINDS = {int(kind): kind for kind in NodeKind}
_new = tuple.__new__


def sealed(table: Table, records: Iterable[Row]) -> list[Row]:
    """Return the rows of records: the records with their checksums."""
    compute = checksum_of(table)
    return [(*record, compute(record)) for record in records]


def read_nodes(slices: Iterable[Slice], *, database: str) -> Iterator[NodeRecord]:
    """Make node records of rows sorted by node. A gap in the numbers is damage, like a wrong checksum in any row."""
    rows = _unsealed(NODES, slices, database)
    for expected, (node, node_id, kind, virtual_node, version, server) in enumerate(rows):
        if node != expected or kind not in _KINDS:
            raise DatabaseDamagedError(
                database=database, problem=f"the row of node {expected} is missing or wrong", remedy=RESTORE
            )
        yield _new(NodeRecord, (node, node_id, _KINDS[kind], virtual_node, version, server))


def read_arcs(slices: Iterable[Slice], *, database: str) -> Iterator[ArcRecord]:
    """Make arc records. The engine may return truth values as numbers."""
    return chain.from_iterable(_arcs_of(rows, database) for rows in slices)


def read_virtual_nodes(slices: Iterable[Slice], *, database: str) -> Iterator[VirtualNodeRecord]:
    """Make virtual node records."""
    return (
        _new(VirtualNodeRecord, (number, smallest, counter, server, present != 0))
        for number, smallest, counter, server, present in _unsealed(VIRTUAL_NODES, slices, database)
    )


def read_outcomes(slices: Iterable[Slice], *, database: str) -> Iterator[OutcomeRecord]:
    """Make outcome records."""
    return (_new(OutcomeRecord, row) for row in _unsealed(OUTCOMES, slices, database))


def read_changes(slices: Iterable[Slice], *, database: str) -> Iterator[ChangeRecord]:
    """Make records of changes."""
    return (_new(ChangeRecord, row) for row in _unsealed(CHANGES, slices, database))


def read_log(slices: Iterable[Slice], *, database: str) -> Iterator[LogRecord]:
    """Make records of the log of messages."""
    return (_new(LogRecord, row) for row in _unsealed(LOG, slices, database))


def read_protocol_rows(slices: Iterable[Slice], *, database: str) -> Iterator[ProtocolRow]:
    """Make rows of the update protocol."""
    return (_new(ProtocolRow, row) for row in _unsealed(PROTOCOL_ROWS, slices, database))


def refuse_row(table: Table, row: Row, *, database: str) -> NoReturn:
    """Raise the error for a row whose checksum is wrong."""
    keys = ", ".join(
        f"{column.name} {value!r}" for column, value in zip(table.columns, row, strict=False) if column.primary_key
    )
    raise DatabaseDamagedError(
        database=database,
        problem=f"in the table {table.name}, the row with {keys} is not what was written: its checksum is wrong",
        remedy=RESTORE,
    )


def _unsealed(table: Table, slices: Iterable[Slice], database: str) -> Iterator[Row]:
    compute = checksum_of(table)
    for row in chain.from_iterable(slices):
        values = row[:-1]
        try:
            is_right = compute(values) == row[-1]
        except IMPOSSIBLE_VALUES:
            is_right = False
        if not is_right:
            refuse_row(table, row, database=database)
        yield values


def _arcs_of(rows: Slice, database: str) -> list[ArcRecord]:
    try:
        # The loop body is inlined, because a start reads half a million arcs.
        arcs = [
            _new(ArcRecord, (parent, child, cost, version, writer, present != 0, suspended != 0))
            for parent, child, cost, version, writer, present, suspended, checksum in rows
            if crc32(pack_arc(parent, child, cost, version, writer, present, suspended)) == checksum
        ]
    except IMPOSSIBLE_VALUES:
        arcs = []
    if len(arcs) != len(rows):
        refuse_row(ARCS, next(row for row in rows if not _is_right_arc(row)), database=database)
    return arcs


def _is_right_arc(row: Row) -> bool:
    try:
        return bool(arc_checksum(row[:-1]) == row[-1])
    except IMPOSSIBLE_VALUES:
        return False
