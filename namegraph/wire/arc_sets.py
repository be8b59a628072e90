"""Arcs and ancestry records of a message: one by one if they are few, in columns if they are many.

    fewer than FEW    a list       a whole outcome of a join is read and applied in the time of packing one column
    more              columns      each name once, and no object for each number (`columns`)

Servers of earlier versions read columns alone (`older_forms`). All servers read both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import NamedTuple

from namegraph.model.names import NodeId
from namegraph.model.priorities import Priority
from namegraph.model.rows import NodeKind
from namegraph.wire import columns
from namegraph.wire.columns import GONE, PRESENT, SUSPENDED, pack_arcs, pack_records, unpack_arcs, unpack_records
from namegraph.wire.message_parts import (
    Ancestry,
    AncestryRecord,
    ArcColumns,
    ArcList,
    Arcs,
    InArc,
    KnownArc,
    RecordColumns,
    RecordList,
    Vnid,
)

FEW = 100
"""Arcs, or records and their in-arcs, from which columns are made. A longer list of another server is refused."""

NO_ARCS, NO_RECORDS = ArcList(()), RecordList(())

_STATES: dict[bool | None, int] = {False: GONE, True: PRESENT, None: SUSPENDED}
"""State by `KnownArc.is_present`."""


def arcs_of(arcs: Sequence[KnownArc]) -> Arcs:
    """Return states of arcs in their form. Columns have no writers."""
    return ArcList(tuple(arcs)) if len(arcs) < FEW else pack_arcs(arcs)


def each_arc(arcs: Arcs) -> Iterable[KnownArc]:
    """Return the states of the arcs, in their order."""
    return arcs.arcs if isinstance(arcs, ArcList) else unpack_arcs(arcs)


def count_of(arcs: Arcs) -> int:
    """Return the number of arcs."""
    return len(arcs.arcs if isinstance(arcs, ArcList) else arcs.present)


def arcs_in_columns(arcs: Arcs) -> ArcColumns:
    """Return arcs in columns, however few they are."""
    return pack_arcs(arcs.arcs) if isinstance(arcs, ArcList) else arcs


class NumberedArcs(NamedTuple):
    """States of arcs with numbers in place of names."""

    names: Sequence[NodeId]
    rows: Iterable[tuple[int, int, int, int, int, int]]
    """Numbers of the ends of each arc among the names, its state (as in `columns`), kind, cost and version. To be read
    once."""


def numbered_arcs(arcs: Arcs) -> NumberedArcs:
    """Return the arcs with numbers in place of names."""
    if isinstance(arcs, ArcColumns):
        return NumberedArcs(arcs.names, columns.rows_of(arcs))
    numbers: dict[NodeId, int] = {}
    rows = []
    for (parent, child), is_present, kind, cost, version, _ in arcs.arcs:
        above = numbers.setdefault(parent, len(numbers))
        rows.append((above, numbers.setdefault(child, len(numbers)), _STATES[is_present], kind, cost, version))
    return NumberedArcs(tuple(numbers), rows)


def children_of(arcs: Arcs) -> list[NodeId]:
    """Return the children of the arcs, each once, in their order."""
    if isinstance(arcs, ArcColumns):
        return columns.children_in(arcs)
    return list(dict.fromkeys([known.arc.child for known in arcs.arcs]))


def parents_of(arcs: Arcs) -> list[NodeId]:
    """Return the parents of the arcs, each once, in their order."""
    if isinstance(arcs, ArcColumns):
        return columns.parents_in(arcs)
    return list(dict.fromkeys([known.arc.parent for known in arcs.arcs]))


def joined_parents_of(arcs: Arcs) -> list[NodeId]:
    """Return the parents of the arcs that are present afterwards, each once."""
    if isinstance(arcs, ArcColumns):
        return columns.joined_parents_in(arcs)
    return list(dict.fromkeys([known.arc.parent for known in arcs.arcs if known.is_present]))


def joined_processes_of(arcs: Arcs) -> list[NodeId]:
    """Return the children of the arcs that are present afterwards and lead to a process, each once."""
    if isinstance(arcs, ArcColumns):
        is_chosen = columns.state_array(arcs.present) == PRESENT
        is_chosen &= columns.state_array(arcs.kinds) == NodeKind.PROCESS.value
        return columns.chosen_names(arcs.names, columns.place_array(arcs.children)[is_chosen])
    found = [known.arc.child for known in arcs.arcs if known.is_present and known.kind is NodeKind.PROCESS]
    return list(dict.fromkeys(found))


def joined_count(arcs: Arcs) -> int:
    """Return the number of arcs that are present afterwards."""
    if isinstance(arcs, ArcColumns):
        return arcs.present.count(PRESENT)
    return sum(known.is_present is True for known in arcs.arcs)


def fit_arcs(arcs: Arcs) -> bool:
    """Return True if arcs of another server can be read: a list is short, and columns belong together."""
    return len(arcs.arcs) < FEW if isinstance(arcs, ArcList) else columns.fit_arcs(arcs)


def are_possible(arcs: Arcs) -> bool:
    """Return True if all arcs of an outcome are possible: none leads from a node to itself, and each arc that is kept
    has a kind."""
    if isinstance(arcs, ArcColumns):
        return columns.are_possible(arcs)
    for (parent, child), is_present, kind, *_ in arcs.arcs:
        if parent == child or (kind is NodeKind.ABSENT and is_present is not False):
            return False
    return True


def records_of(records: Iterable[AncestryRecord]) -> Ancestry:
    """Return ancestry records in their form, in their order."""
    remaining = iter(records)
    found: list[AncestryRecord] = []
    count = 0
    for record in remaining:
        found.append(record)
        count += _arcs_with(record)
        if count >= FEW:
            # Each record is made when it is packed, because all together may be as large as a graph.
            return pack_records(chain(found, remaining))
    return RecordList(tuple(found)) if found else NO_RECORDS


def _arcs_with(record: AncestryRecord) -> int:
    """Return the share of a record in `FEW`: 1, and 1 for each in-arc."""
    return 1 + len(record.in_arcs) + len(record.suspended)


def each_record(records: Ancestry) -> Iterable[AncestryRecord]:
    """Return the records, in their order."""
    return records.records if isinstance(records, RecordList) else unpack_records(records)


def records_in_columns(records: Ancestry) -> RecordColumns:
    """Return records in columns, however few they are."""
    return pack_records(records.records) if isinstance(records, RecordList) else records


NumberedRecord = tuple[int, Sequence[tuple[int, int, int, int]], Vnid | None, Priority, Sequence[InArc]]
"""Number of the node among the names; its in-arcs, each with the number of its parent, cost, version and writer; vnid;
version; suspended in-arcs."""


def numbered_records(records: Ancestry) -> tuple[Sequence[NodeId], Iterator[NumberedRecord]]:
    """Return the names of all nodes and parents, and the records with numbers in place of these names."""
    if isinstance(records, RecordColumns):
        return records.names, _numbered_columns(records)
    numbers: dict[NodeId, int] = {}
    found: list[NumberedRecord] = []
    for node, in_arcs, vnid, version, suspended in records.records:
        place = numbers.setdefault(node, len(numbers))
        arcs = [
            (numbers.setdefault(parent, len(numbers)), cost, arc_version, writer)
            for parent, cost, arc_version, writer in in_arcs
        ]
        found.append((place, arcs, vnid, version, suspended))
    return tuple(numbers), iter(found)


def _numbered_columns(records: RecordColumns) -> Iterator[NumberedRecord]:
    in_arcs, suspended = columns.in_arcs_of(records), columns.suspended_in(records)
    for number, (place, degree, vnid, version) in enumerate(columns.heads_of(records)):
        yield place, list(islice(in_arcs, degree)), vnid, version, suspended.get(number, ())


def nodes_of(records: Ancestry) -> set[NodeId]:
    """Return the nodes of the records."""
    if isinstance(records, RecordColumns):
        return columns.nodes_in(records)
    return {record.node for record in records.records}


def recorded_parents_of(records: Ancestry) -> set[NodeId]:
    """Return the parents of the in-arcs of the records, except those of suspended in-arcs."""
    if isinstance(records, RecordColumns):
        return set(columns.chosen_names(records.names, columns.place_array(records.parents)))
    return {parent for record in records.records for parent, *_ in record.in_arcs}


def fit_records(records: Ancestry) -> bool:
    """Return True if records of another server can be read: a list is short, and columns belong together."""
    if isinstance(records, RecordColumns):
        return columns.fit_records(records)
    return sum([_arcs_with(record) for record in records.records]) < FEW
