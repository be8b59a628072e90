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
    all_suspended: list[tuple[int, int, int, int, int]] = []
    for node, arcs, vnid, version, suspended in records:
        if suspended:
            all_suspended += [(len(heads), number(parent), *rest) for parent, *rest in suspended]
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
        tuple(all_suspended),
    )


def unpack_records(columns: RecordColumns) -> Iterator[AncestryRecord]:
    """The records, in their order."""
    names = columns.names
    in_arcs = zip(columns.parents, columns.costs, columns.versions, columns.writers, strict=True)
    suspended = suspended_in(columns)
    for place, (node, degree, vnid, version) in enumerate(heads_of(columns)):
        found = [InArc(names[parent], *numbers) for parent, *numbers in islice(in_arcs, degree)]
        yield AncestryRecord(names[node], tuple(found), vnid, version, tuple(suspended.get(place, ())))


def suspended_in(columns: RecordColumns) -> dict[int, list[InArc]]:
    """The in-arcs that are suspended, by the place of their record."""
    found: dict[int, list[InArc]] = {}
    for place, parent, *numbers in columns.suspended:
        found.setdefault(place, []).append(InArc(columns.names[parent], *numbers))
    return found


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
    rows = []
    suspended = []
    for arc, is_present, kind, cost, version, is_suspended in changes:
        if is_suspended:
            suspended.append(len(rows))
        ends = names.setdefault(arc[0], len(names)), names.setdefault(arc[1], len(names))
        rows.append((*ends, is_present, kind, cost, version))
    parents, children, present, kinds, costs, versions = zip(*rows, strict=True) if rows else ((), (), (), (), (), ())
    return ArcColumns(tuple(names), parents, children, present, kinds, costs, versions, tuple(suspended))


def unpack_arcs(columns: ArcColumns) -> Iterator[ArcChange]:
    """What became of the arcs, in their order."""
    names = columns.names
    suspended = frozenset(columns.suspended)
    rows = zip(
        columns.parents, columns.children, columns.present, columns.kinds, columns.costs, columns.versions, strict=True
    )
    for place, (parent, child, is_present, kind, cost, version) in enumerate(rows):
        arc = ArcId(names[parent], names[child])
        yield ArcChange(arc, is_present, kind, cost, version, place in suspended)


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
        and _are_below(count, [place for place, *_ in columns.suspended])
        and _are_below(len(columns.names), [parent for _, parent, *_ in columns.suspended])
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
