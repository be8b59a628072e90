"""Many ancestry records, or many arcs, as columns: a message has each name once, and reading it makes few objects.

A whole graph, brought by one update, has far more arcs than names. A column is the bytes of its numbers, one after
another, the least significant byte first. Numbers of names, vnids or priorities, and counts of in-arcs, have four
bytes. Kinds and truth values have one byte. All other numbers have eight bytes.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import compress, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from namegraph.model.names import NodeId
from namegraph.model.operations import ChildKind
from namegraph.model.priorities import NUMBER_LIMIT, Priority
from namegraph.model.rows import NodeKind
from namegraph.wire.message_parts import (
    AncestryRecord,
    ArcColumns,
    ArcId,
    InArc,
    KnownArc,
    OperationColumns,
    RecordColumns,
    Vnid,
)

Numbers = NDArray[Any]
"""A column of numbers or truth values, for computing on it as a whole."""

_PLACE = "I"
_NUMBER = "Q"

GONE, PRESENT, SUSPENDED = 0, 1, 2
"""State of an arc after an update, in the column `present`."""

SMALL_COLUMN_BYTES = 4 * 1024
"""Largest size of a column that Python sums. Above it numpy does; it would let other threads in, which takes longer
than a short sum."""

KINDS = (NodeKind.ABSENT, NodeKind.GROUP, NodeKind.PROCESS)
"""Kinds by number."""

_PRESENCES = (False, True, None)
"""`KnownArc.is_present` by state."""


def pack_records(records: Iterable[AncestryRecord]) -> RecordColumns:
    """Return the records in columns, in their order."""
    names: dict[NodeId, int] = {}
    vnids: dict[Vnid, int] = {}
    priorities: dict[Priority, int] = {}
    nodes, degrees, vnid_numbers, version_numbers = array(_PLACE), array(_PLACE), array(_PLACE), array(_PLACE)
    parents, costs, versions, writers = array(_PLACE), array(_NUMBER), array(_NUMBER), array(_NUMBER)
    all_suspended: list[tuple[int, int, int, int, int]] = []
    for node, arcs, vnid, version, suspended in records:
        for parent, cost, arc_version, writer in suspended:
            place = names.setdefault(parent, len(names))
            all_suspended.append((len(nodes), place, cost, arc_version, writer))
        nodes.append(names.setdefault(node, len(names)))
        degrees.append(len(arcs))
        vnid_numbers.append(0 if vnid is None else vnids.setdefault(vnid, len(vnids)) + 1)
        version_numbers.append(priorities.setdefault(version, len(priorities)))
        if arcs:
            tails, arc_costs, arc_versions, arc_writers = zip(*arcs, strict=True)
            parents.extend([names.setdefault(tail, len(names)) for tail in tails])
            costs.extend(arc_costs)
            versions.extend(arc_versions)
            writers.extend(arc_writers)
    return RecordColumns(
        tuple(names),
        column_of(nodes),
        column_of(degrees),
        tuple(vnids),
        column_of(vnid_numbers),
        tuple(priorities),
        column_of(version_numbers),
        column_of(parents),
        column_of(costs),
        column_of(versions),
        column_of(writers),
        tuple(all_suspended),
    )


def unpack_records(columns: RecordColumns) -> Iterator[AncestryRecord]:
    """Yield the records, in their order."""
    names = columns.names
    in_arcs, suspended = in_arcs_of(columns), suspended_in(columns)
    for place, (node, degree, vnid, version) in enumerate(heads_of(columns)):
        found = [InArc(names[parent], *numbers) for parent, *numbers in islice(in_arcs, degree)]
        yield AncestryRecord(names[node], tuple(found), vnid, version, tuple(suspended.get(place, ())))


def heads_of(columns: RecordColumns) -> Iterator[tuple[int, int, Vnid | None, Priority]]:
    """Yield, for each record, the number of its node among the names, the number of its in-arcs, its vnid and its
    version."""
    vnids = (None, *columns.vnids)
    for node, degree, vnid, version in zip(
        places_in(columns.nodes),
        places_in(columns.degrees),
        places_in(columns.vnid_numbers),
        places_in(columns.version_numbers),
        strict=True,
    ):
        yield node, degree, vnids[vnid], columns.priorities[version]


def in_arcs_of(columns: RecordColumns) -> Iterator[tuple[int, int, int, int]]:
    """Yield, for each in-arc of all records, the number of the parent among the names, cost, version and writer."""
    return zip(
        places_in(columns.parents),
        numbers_in(columns.costs),
        numbers_in(columns.versions),
        numbers_in(columns.writers),
        strict=True,
    )


def nodes_in(columns: RecordColumns) -> set[NodeId]:
    """Return the nodes of the records."""
    return {columns.names[number] for number in places_in(columns.nodes)}


def pack_arcs(arcs: Iterable[KnownArc]) -> ArcColumns:
    """Return states of arcs in columns, in their order."""
    names: dict[NodeId, int] = {}
    parents, children, costs, versions = array(_PLACE), array(_PLACE), array(_NUMBER), array(_NUMBER)
    present, kinds = bytearray(), bytearray()
    for (parent, child), is_present, kind, cost, version, _ in arcs:
        parents.append(names.setdefault(parent, len(names)))
        children.append(names.setdefault(child, len(names)))
        present.append(SUSPENDED if is_present is None else is_present)
        kinds.append(kind)
        costs.append(cost)
        versions.append(version)
    return ArcColumns(
        tuple(names),
        column_of(parents),
        column_of(children),
        bytes(present),
        bytes(kinds),
        column_of(costs),
        column_of(versions),
    )


def unpack_arcs(columns: ArcColumns) -> Iterator[KnownArc]:
    """Yield the states of the arcs, in their order, without writers."""
    names = columns.names
    for parent, child, state, kind, cost, version in rows_of(columns):
        arc = ArcId(names[parent], names[child])
        yield KnownArc(arc, _PRESENCES[state], KINDS[kind], cost, version)


def rows_of(columns: ArcColumns) -> Iterator[tuple[int, int, int, int, int, int]]:
    """Yield, for each arc, the numbers of its ends among the names, its state, kind, cost and version."""
    return zip(
        places_in(columns.parents),
        places_in(columns.children),
        columns.present,
        columns.kinds,
        numbers_in(columns.costs),
        numbers_in(columns.versions),
        strict=True,
    )


def children_in(columns: ArcColumns) -> list[NodeId]:
    """Return the children of the arcs, each once, in their order."""
    return [columns.names[number] for number in dict.fromkeys(places_in(columns.children))]


def parents_in(columns: ArcColumns) -> list[NodeId]:
    """Return the parents of the arcs, each once, in their order."""
    return [columns.names[number] for number in dict.fromkeys(places_in(columns.parents))]


def joined_parents_in(columns: ArcColumns) -> list[NodeId]:
    """Return the parents of the arcs that are present afterwards, each once, in the order of names."""
    return chosen_names(columns.names, place_array(columns.parents)[state_array(columns.present) == PRESENT])


def concerning(columns: ArcColumns, *, ends: Sequence[bool], group_children: Sequence[bool]) -> ArcColumns:
    """Return the arcs that have an end in `ends`, or a group in `group_children` as their child. Both hold a flag for
    each name."""
    is_end, is_wanted_below = np.array(ends, bool), np.array(group_children, bool)
    parents, children = place_array(columns.parents), place_array(columns.children)
    present, kinds = state_array(columns.present), state_array(columns.kinds)
    is_group = kinds == NodeKind.GROUP.value
    chosen = is_end[parents] | is_end[children] | (is_group & is_wanted_below[children])
    if chosen.all():
        return columns
    names, (new_parents, new_children) = renumbered(columns.names, parents[chosen], children[chosen])
    return ArcColumns(
        names,
        column_of(new_parents),
        column_of(new_children),
        present[chosen].tobytes(),
        kinds[chosen].tobytes(),
        column_of(number_array(columns.costs)[chosen]),
        column_of(number_array(columns.versions)[chosen]),
    )


def fit_records(columns: RecordColumns) -> bool:
    """Return True if columns of another server belong together, so that they can be read."""
    places = (
        columns.nodes,
        columns.degrees,
        columns.vnid_numbers,
        columns.version_numbers,
        columns.parents,
    )
    if not _are_whole(places, (columns.costs, columns.versions, columns.writers)):
        return False
    count = len(columns.nodes)
    return (
        _are_below(len(columns.names), columns.nodes, columns.parents)
        and _are_below(len(columns.vnids) + 1, columns.vnid_numbers)
        and _are_below(len(columns.priorities), columns.version_numbers)
        and len(columns.degrees) == len(columns.vnid_numbers) == len(columns.version_numbers) == count
        and 4 * _total(columns.degrees) == len(columns.parents)
        and len(columns.costs) == len(columns.versions) == len(columns.writers) == 2 * len(columns.parents)
        and all(0 <= record < count // 4 for record, *_ in columns.suspended)
        and all(0 <= parent < len(columns.names) for _, parent, *_ in columns.suspended)
        and _are_numbers(columns.costs, columns.versions, columns.writers)
    )


def suspended_in(columns: RecordColumns) -> dict[int, list[InArc]]:
    """Return the suspended in-arcs, by the place of their record."""
    found: dict[int, list[InArc]] = {}
    for record, parent, *numbers in columns.suspended:
        found.setdefault(record, []).append(InArc(columns.names[parent], *numbers))
    return found


def fit_arcs(columns: ArcColumns) -> bool:
    """Return True if columns of arcs belong together, so that they can be read."""
    if not _are_whole((columns.parents, columns.children), (columns.costs, columns.versions)):
        return False
    count = len(columns.present)
    return (
        _are_below(len(columns.names), columns.parents, columns.children)
        and len(columns.parents) == len(columns.children) == 4 * count
        and len(columns.costs) == len(columns.versions) == 8 * count
        and len(columns.kinds) == count
        and max(columns.present, default=0) <= SUSPENDED
        and max(columns.kinds, default=0) < len(KINDS)
        and _are_numbers(columns.costs, columns.versions)
    )


def are_possible(columns: ArcColumns) -> bool:
    """Return True if all arcs of an outcome are possible: none leads from a node to itself, and each present one has a
    kind."""
    is_known = state_array(columns.kinds) != NodeKind.ABSENT.value
    is_gone = state_array(columns.present) == GONE
    return bool((is_known | is_gone).all() and (place_array(columns.parents) != place_array(columns.children)).all())


def fit_operations(columns: OperationColumns) -> bool:
    """Return True if the columns of an import's operations belong together, so that they can be read."""
    places = (columns.group_places, columns.groups, columns.arc_places, columns.parents, columns.children)
    count = len(columns.kinds)
    return (
        _are_whole(places, ())
        and _are_below(len(columns.names), columns.groups, columns.parents, columns.children)
        and len(columns.group_places) == len(columns.groups)
        and len(columns.arc_places) == len(columns.parents) == len(columns.children) == 4 * count
        and max(columns.kinds, default=0) <= max(kind.value for kind in ChildKind)
    )


def column_of(numbers: array[int] | Numbers) -> bytes:
    """Return the column of numbers that are four or eight bytes wide."""
    if sys.byteorder == "big":
        numbers = np.asarray(numbers).byteswap()
    return numbers.tobytes()


def places_in(column: bytes) -> array[int]:
    """Return the numbers of a column that stand for names, vnids or priorities, or count in-arcs."""
    return _own_order(array(_PLACE, column))


def numbers_in(column: bytes) -> array[int]:
    """Return the numbers of a column that may be large."""
    return _own_order(array(_NUMBER, column))


def place_array(column: bytes) -> Numbers:
    """Return the column of `places_in` as a read-only array, for computing on it as a whole."""
    return np.frombuffer(column, "<u4").astype(np.uint32, copy=False)


def number_array(column: bytes) -> Numbers:
    """Return the column of `numbers_in` as a read-only array, for computing on it as a whole."""
    return np.frombuffer(column, "<u8").astype(np.uint64, copy=False)


def state_array(column: bytes) -> Numbers:
    """Return a column of kinds, or of states of arcs, as a read-only array, for computing on it as a whole."""
    return np.frombuffer(column, np.uint8)


def chosen_names(names: Sequence[NodeId], places: Numbers) -> list[NodeId]:
    """Return the names that have one of these numbers, each once, in the order of numbers."""
    return list(compress(names, _are_used(len(names), places)))


def renumbered(names: Sequence[NodeId], *columns: Numbers) -> tuple[tuple[NodeId, ...], list[Numbers]]:
    """Return the names that these columns of numbers use, each once, and the columns renumbered to those names."""
    is_used = _are_used(len(names), *columns)
    places = np.cumsum(is_used, dtype=np.uint32) - np.uint32(1)
    return tuple(compress(names, is_used)), [places[column] for column in columns]


def _are_used(count: int, *columns: Numbers) -> Numbers:
    is_used = np.zeros(count, bool)
    for column in columns:
        is_used[column] = True
    return is_used


def _own_order(numbers: array[int]) -> array[int]:
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def _are_whole(places: Sequence[bytes], numbers: Sequence[bytes]) -> bool:
    return not any(len(column) % 4 for column in places) and not any(len(column) % 8 for column in numbers)


def _total(column: bytes) -> int:
    if len(column) <= SMALL_COLUMN_BYTES:
        return sum(places_in(column))
    return int(place_array(column).sum(dtype=np.uint64))


def _are_below(limit: int, *columns: bytes) -> bool:
    return all(not column or int(place_array(column).max()) < limit for column in columns)


def _are_numbers(*columns: bytes) -> bool:
    return all(not column or int(number_array(column).max()) <= NUMBER_LIMIT for column in columns)
