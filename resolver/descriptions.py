"""Description of one group: its place in both views of the graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

from pyroaring import BitMap

from namegraph import (
    AncestorSets,
    ArcRecord,
    ArcState,
    NameGraph,
    NodeId,
    NodeIndex,
    NodeKind,
    ServerId,
    pathnames,
    sources,
)

RD_ANCESTORS_LIMIT = 20_000
"""Most originators listed in all duplication-control records of one description together."""


@dataclass(frozen=True, slots=True)
class VirtualNodeDescription:
    """A virtual node and its components, sorted."""

    vnid: str
    components: tuple[NodeId, ...]


@dataclass(frozen=True, slots=True)
class Neighbour:
    """Node at the other end of an immediate arc."""

    node_id: NodeId
    kind: NodeKind
    state: ArcState


@dataclass(frozen=True, slots=True)
class DescribedRecord:
    """Duplication-control record in NG's form, DL(source, sink): ancestors.

    Messages that `ancestors` originate do not cross parent -> child. `source` and `sink` are vnids if they are virtual
    nodes.
    """

    source: str
    sink: str
    parent: NodeId
    child: NodeId
    ancestors: tuple[NodeId, ...]


@dataclass(frozen=True, slots=True)
class GroupRecord:
    """Description of one group. Neighbours are sorted by id, records by (child, source), pathnames by their nodes."""

    group: NodeId
    home: ServerId
    virtual_node: VirtualNodeDescription | None
    parents: tuple[Neighbour, ...]
    children: tuple[Neighbour, ...]
    rd_records: tuple[DescribedRecord, ...]
    rd_records_truncated: bool
    pathnames: tuple[tuple[str, ...], ...]
    pathnames_truncated: bool


def describe(
    graph: NameGraph,
    ancestors: AncestorSets,
    node: NodeIndex,
    *,
    blocked: Callable[[ArcRecord], BitMap],
    home: ServerId,
    pathname_limit: int,
) -> GroupRecord:
    """Describe a group that exists, with at most `pathname_limit` pathnames.

    `blocked`: returns the originators that must not cross a normal arc from the group.
    """
    ids = graph.ids
    virtual_node = graph.virtual_node_of.get(node)
    listed = list(islice(pathnames(graph, node), pathname_limit + 1))
    rd_records, rd_records_truncated = _rd_records(graph, ancestors, node, blocked)
    return GroupRecord(
        group=ids[node],
        home=home,
        virtual_node=None
        if virtual_node is None
        else VirtualNodeDescription(
            virtual_node.vnid, tuple(sorted(ids[component] for component in virtual_node.components))
        ),
        parents=tuple(
            Neighbour(ids[parent], NodeKind.GROUP, graph.arc_state(arc))
            for parent, arc in sorted(graph.arcs_into(node), key=lambda item: ids[item[0]])
        ),
        children=tuple(
            Neighbour(ids[child], graph.kind(child), graph.arc_state(arc))
            for child, arc in sorted(graph.arcs_from(node), key=lambda item: ids[item[0]])
        ),
        rd_records=rd_records,
        rd_records_truncated=rd_records_truncated,
        pathnames=tuple(sorted(listed[:pathname_limit])),
        pathnames_truncated=len(listed) > pathname_limit,
    )


def describe_told(
    graph: NameGraph,
    node: NodeIndex,
    *,
    home: ServerId,
    pathname_limit: int,
    is_readable: Callable[[NodeId], bool],
    tells_parents: bool,
) -> GroupRecord:
    """Describe a group by the arcs that a caller may know: all arcs from the group, and those from readable groups.

    Loops and records of duplication control rest on all arcs. They are left out, and every arc counts as normal.

    `is_readable`: returns True for a group whose arcs the caller may know. `tells_parents`: True if the caller may know
    all arcs to the group.
    """
    ids = graph.ids
    listed = list(islice(_told_pathnames(graph, node, is_readable), pathname_limit + 1))
    parents = [parent for parent, _ in graph.arcs_into(node) if tells_parents or is_readable(ids[parent])]
    return GroupRecord(
        group=ids[node],
        home=home,
        virtual_node=None,
        parents=tuple(
            Neighbour(name, NodeKind.GROUP, ArcState.NORMAL) for name in sorted(map(ids.__getitem__, parents))
        ),
        children=tuple(
            Neighbour(ids[child], graph.kind(child), ArcState.NORMAL)
            for child, _ in sorted(graph.arcs_from(node), key=lambda item: ids[item[0]])
        ),
        rd_records=(),
        rd_records_truncated=False,
        pathnames=tuple(sorted(listed[:pathname_limit])),
        pathnames_truncated=len(listed) > pathname_limit,
    )


def _told_pathnames(
    graph: NameGraph, node: NodeIndex, is_readable: Callable[[NodeId], bool]
) -> Iterator[tuple[NodeId, ...]]:
    """Yield the pathnames to a group over arcs from readable groups. Each begins at a group that no other such arc
    enters, or that ends a loop."""
    ids = graph.ids
    pending: list[tuple[NodeIndex, ...]] = [(node,)]
    while pending:
        path = pending.pop()
        above = sorted((parent for parent, _ in graph.arcs_into(path[0])), key=ids.__getitem__, reverse=True)
        longer = [(parent, *path) for parent in above if parent not in path and is_readable(ids[parent])]
        if longer:
            pending += longer
        else:
            yield tuple(ids[step] for step in path)


def _rd_records(
    graph: NameGraph, ancestors: AncestorSets, node: NodeIndex, blocked_from: Callable[[ArcRecord], BitMap]
) -> tuple[tuple[DescribedRecord, ...], bool]:
    """Return the records of the group's own out-arcs, and True if some could not be listed."""
    ids = graph.ids
    records: list[DescribedRecord] = []
    room = RD_ANCESTORS_LIMIT
    for child, arc in sorted(graph.children[node].items(), key=lambda item: ids[item[0]]):
        if graph.arc_state(arc) is not ArcState.NORMAL:
            continue
        blocked = blocked_from(arc)
        if not blocked:
            continue
        for source in sorted(sources(graph, ancestors, blocked), key=graph.label):
            above = ancestors.of(source)
            room -= len(above)
            if room < 0:
                return tuple(records), True
            records.append(
                DescribedRecord(
                    source=graph.label(source),
                    sink=graph.label(child),
                    parent=ids[node],
                    child=ids[child],
                    ancestors=tuple(sorted(ids[ancestor] for ancestor in above)),
                )
            )
    return tuple(records), False
