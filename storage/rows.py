"""Database rows to records. The way back needs nothing: a record is a tuple in the order of the columns.

Half a million arcs are read when a server starts, so rows travel in slices, and records are made by
`tuple.__new__`, which spares each of them the call of a generated Python function.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from namegraph.records import ArcRecord, NodeKind, NodeRecord, OutcomeRecord, ProtocolRow, VirtualNodeRecord
from storage.errors import DatabaseDamagedError

Row = tuple[Any, ...]
Slice = Sequence[Row]
"""Some rows of one table, in the order of the statement."""

_KINDS = {int(kind): kind for kind in NodeKind}
_new = tuple.__new__


def read_nodes(slices: Iterable[Slice], *, database: str) -> Iterator[NodeRecord]:
    """Make node records of rows sorted by node; a gap in the numbers is damage."""
    rows = chain.from_iterable(slices)
    for expected, (node, node_id, kind, virtual_node, version, server) in enumerate(rows):
        if node != expected or kind not in _KINDS:
            raise DatabaseDamagedError(
                database=database,
                problem=f"the row of node {expected} is missing or wrong",
                remedy="restore it from a backup",
            )
        yield _new(NodeRecord, (node, node_id, _KINDS[kind], virtual_node, version, server))


def read_arcs(slices: Iterable[Slice]) -> Iterator[ArcRecord]:
    """Make arc records; the engine may give truth values as numbers."""
    return chain.from_iterable(map(_arcs_of, slices))


def read_virtual_nodes(slices: Iterable[Slice]) -> Iterator[VirtualNodeRecord]:
    """Make virtual node records."""
    return (
        _new(VirtualNodeRecord, (number, smallest, counter, server, present != 0))
        for number, smallest, counter, server, present in chain.from_iterable(slices)
    )


def read_outcomes(slices: Iterable[Slice]) -> Iterator[OutcomeRecord]:
    """Make outcome records."""
    return (_new(OutcomeRecord, row) for row in chain.from_iterable(slices))


def read_protocol_rows(slices: Iterable[Slice]) -> Iterator[ProtocolRow]:
    """Make rows of the update protocol."""
    return (_new(ProtocolRow, row) for row in chain.from_iterable(slices))


def _arcs_of(rows: Slice) -> list[ArcRecord]:
    return [
        _new(ArcRecord, (parent, child, cost, version, writer, present != 0, suspended != 0))
        for parent, child, cost, version, writer, present, suspended in rows
    ]
