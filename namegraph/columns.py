"""Many ancestry records, or many arcs, as columns: in a message each name comes once, and reading it makes few objects.

A whole graph, brought by one update, has far more arcs than names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from namegraph.messages import AncestryRecord, ArcChange, ArcColumns, ArcId, InArc, RecordColumns, Vnid
from namegraph.names import NodeId
from namegraph.priorities import Priority


def pack_records(records: Iterable[AncestryRecord]) -> RecordColumns:
    """The records in columns, in their order."""
    names: dict[NodeId, int] = {}
    vnids: dict[Vnid, int] = {}
    priorities: dict[Priority, int] = {}

    def number(name: NodeId) -> int:
        return names.setdefault(name, len(names))

    heads: list[tuple[int, int, int, int]] = []
    in_arcs: list[tuple[int, int, int, int]] = []
    for node, arcs, vnid, version in records:
        heads.append(
            (
                number(node),
                len(arcs),
                0 if vnid is None else vnids.setdefault(vnid, len(vnids)) + 1,
                priorities.setdefault(version, len(priorities)),
            )
        )
        in_arcs += [(number(parent), cost, arc_version, writer) for parent, cost, arc_version, writer in arcs]
    nodes, degrees, vnid_numbers, version_numbers = _columns(heads)
    parents, costs, versions, writers = _columns(in_arcs)
    return RecordColumns(
        tuple(names),
        nodes,
        degrees,
        tuple(vnids),
        vnid_numbers,
        tuple(priorities),
        version_numbers,
        parents,
        costs,
        versions,
        writers,
    )


def unpack_records(columns: RecordColumns) -> Iterator[AncestryRecord]:
    """The records, in their order."""
    names = columns.names
    in_arcs = zip(columns.parents, columns.costs, columns.versions, columns.writers, strict=True)
    for node, degree, vnid, version in heads_of(columns):
        found = [InArc(names[parent], *numbers) for parent, *numbers in islice(in_arcs, degree)]
        yield AncestryRecord(names[node], tuple(found), vnid, version)


def heads_of(columns: RecordColumns) -> Iterator[tuple[int, int, Vnid | None, Priority]]:
    """Of each record the number of its node among the names, how many in-arcs it has, its vnid and its version."""
    vnids = (None, *columns.vnids)
    for node, degree, vnid, version in zip(
        columns.nodes, columns.degrees, columns.vnid_numbers, columns.version_numbers, strict=True
    ):
        yield node, degree, vnids[vnid], columns.priorities[version]


def pack_arcs(changes: Iterable[ArcChange]) -> ArcColumns:
    """What became of arcs in columns, in their order."""
    names: dict[NodeId, int] = {}
    rows = [
        (names.setdefault(arc[0], len(names)), names.setdefault(arc[1], len(names)), is_present, kind, cost, version)
        for arc, is_present, kind, cost, version in changes
    ]
    parents, children, present, kinds, costs, versions = zip(*rows, strict=True) if rows else ((), (), (), (), (), ())
    return ArcColumns(tuple(names), parents, children, present, kinds, costs, versions)


def unpack_arcs(columns: ArcColumns) -> Iterator[ArcChange]:
    """What became of the arcs, in their order."""
    names = columns.names
    for parent, child, is_present, kind, cost, version in zip(
        columns.parents, columns.children, columns.present, columns.kinds, columns.costs, columns.versions, strict=True
    ):
        yield ArcChange(ArcId(names[parent], names[child]), is_present, kind, cost, version)


def children_in(columns: ArcColumns) -> list[NodeId]:
    """The children of the arcs, each once, in the order in which they come."""
    return [columns.names[number] for number in dict.fromkeys(columns.children)]


def fit_records(columns: RecordColumns) -> bool:
    """Whether columns of another server belong together, so that they can be read."""
    count = len(columns.nodes)
    return (
        _are_below(len(columns.names), columns.nodes, columns.parents)
        and _are_below(len(columns.vnids) + 1, columns.vnid_numbers)
        and _are_below(len(columns.priorities), columns.version_numbers)
        and len(columns.degrees) == len(columns.vnid_numbers) == len(columns.version_numbers) == count
        and min(columns.degrees, default=0) >= 0
        and sum(columns.degrees) == len(columns.parents)
        and len(columns.costs) == len(columns.versions) == len(columns.writers) == len(columns.parents)
    )


def fit_arcs(columns: ArcColumns) -> bool:
    """As `fit_records`, for arcs."""
    count = len(columns.parents)
    return _are_below(len(columns.names), columns.parents, columns.children) and all(
        len(column) == count
        for column in (columns.children, columns.present, columns.kinds, columns.costs, columns.versions)
    )


def _are_below(limit: int, *columns: Sequence[int]) -> bool:
    return all(min(column) >= 0 and max(column) < limit for column in columns if column)


def _columns(rows: Sequence[tuple[int, int, int, int]]) -> Sequence[tuple[int, ...]]:
    return list(zip(*rows, strict=True)) if rows else ((), (), (), ())
