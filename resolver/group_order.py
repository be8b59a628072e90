"""Groups of one server in the order of their ids.

    nodes 0 to 4,095       nodes 4,096 to 8,191        ...
      sorted groups          sorted groups           sorted groups    each anew where a kind in it changed
           \\______________________|______________________/
                               merge                                 as far as somebody reads

Sorting all groups at once would take too long. A change affects only the slices with its groups.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from heapq import merge
from itertools import islice
from typing import NamedTuple

from namegraph import CoreQueries, NodeId, NodeIndex, NodeKind, Subnet

SLICE_NODES = 4_096
"""Nodes of a slice: sorting their groups takes some 3 ms."""


class _Slice(NamedTuple):
    """State of some nodes when they were sorted, and the groups of this server among them."""

    kinds: bytes
    ownership_changes: int
    groups: list[NodeId]
    """Groups, sorted."""


_NOT_SORTED = _Slice(b"", -1, [])


class GroupOrder:
    """Sorted groups of a core. Slices are kept while they are valid."""

    def __init__(self, core: CoreQueries) -> None:
        self._core = core
        self._slices: list[_Slice] = []
        self._renamed_count = 0
        """Value of `graph.renamed_count` for which the slices hold."""

    def fill(self) -> Iterator[None]:
        """Sort the outdated slices, and yield after each, so that other tasks may run."""
        self._follow_renamed()
        number = 0
        while number * SLICE_NODES < len(self._core.graph.kinds):
            if self._sort(number):
                yield
            number += 1

    def groups(self, *, subnet: Subnet | None, after: NodeId | None) -> Iterator[NodeId]:
        """Return the groups of the present state behind `after`.

        Later changes of the graph do not affect the iterator.
        """
        for _ in self.fill():
            pass
        suffix = "" if subnet is None else f"@{subnet}"
        count = -(-len(self._core.graph.kinds) // SLICE_NODES)
        return merge(*(_after(each.groups, after, suffix) for each in self._slices[:count]))

    def _follow_renamed(self) -> None:
        """Discard the slices in which a number was renamed."""
        graph = self._core.graph
        renamed = graph.renamed_since(self._renamed_count)
        self._renamed_count = graph.renamed_count
        if renamed is None:
            self._slices.clear()
            return
        for number in {node // SLICE_NODES for node in renamed}:
            if number < len(self._slices):
                self._slices[number] = _NOT_SORTED

    def _sort(self, number: int) -> bool:
        """Update one slice. Return True if it had to be sorted."""
        core, graph = self._core, self._core.graph
        nodes = range(number * SLICE_NODES, min((number + 1) * SLICE_NODES, len(graph.kinds)))
        kinds, changes = bytes(graph.kinds[nodes.start : nodes.stop]), core.ownership_changes
        if number < len(self._slices) and self._slices[number][:2] == (kinds, changes):
            return False
        groups = [
            graph.ids[node]
            for node, kind in zip(nodes, kinds, strict=True)
            if kind == NodeKind.GROUP and core.owns(NodeIndex(node))
        ]
        groups.sort()
        self._slices[number : number + 1] = [_Slice(kinds, changes, groups)]
        return True


def _after(groups: list[NodeId], after: NodeId | None, suffix: str) -> Iterator[NodeId]:
    rest = groups if after is None else islice(groups, bisect_right(groups, after), None)
    return (group for group in rest if group.endswith(suffix)) if suffix else iter(rest)
