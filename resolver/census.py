"""Counts of the nodes and arcs that live on one server.

Each node and arc of a distributed graph is counted by one server.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import compress

from namegraph import CoreQueries, NodeKind

LOOKED_AT_ONCE = 10_000
"""Nodes whose homes are found in one slice: some milliseconds."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Numbers of nodes and arcs that one server owns.

    An arc counts with its parent, a virtual node with its smallest component.
    """

    groups: int
    processes: int
    arcs: int
    """Number of arcs, including suspended arcs."""
    virtual_nodes: int


class Census:
    """Reads a core. It counts again only after the graph or the owners have changed."""

    def __init__(self, core: CoreQueries) -> None:
        self._core = core
        self._counted: tuple[tuple[int, ...], Counts] | None = None
        """State at the last count, and the result."""
        self._owned = bytearray()
        """Flag of each node that was looked at, by number: 1 if this server owns it."""
        self._owned_at = 0
        """Value of `core.ownership_changes` for which `_owned` holds."""
        self._renamed_count = 0
        """Value of `graph.renamed_count` for which `_owned` holds."""
        self.counts()  # The first count takes several times longer. It happens here, while a server starts.

    def counts(self) -> Counts:
        """Return the present counts."""
        core, graph = self._core, self._core.graph
        state = (graph.update_count, len(graph.suspended), core.ownership_changes)
        if self._counted is None or self._counted[0] != state:
            self._counted = (state, self._count())
        return self._counted[1]

    def look_at_some(self) -> bool:
        """Find the owners of some nodes that were not looked at. Return True if more are left.

        A caller that cannot wait for all nodes after a large change calls this repeatedly before it counts.
        """
        core = self._core
        if self._owned_at != core.ownership_changes:
            self._owned, self._owned_at = bytearray(), core.ownership_changes
        self._follow_renamed()
        begin = len(self._owned)
        self._owned += core.owned(range(begin, begin + LOOKED_AT_ONCE))
        return len(self._owned) < len(core.graph.ids)

    def _count(self) -> Counts:
        """Count with a few passes that run in C: some milliseconds for half a million arcs."""
        core, graph = self._core, self._core.graph
        while self.look_at_some():
            pass
        owned = self._owned
        kinds = bytearray(graph.kinds)
        groups, processes = (_both(owned, kinds.translate(_IS[kind])) for kind in _IS)
        arcs = sum(map(len, compress(graph.children, groups))) + sum(
            map(len, compress(graph.suspended_from.values(), map(owned.__getitem__, graph.suspended_from)))
        )
        virtual_nodes = sum(
            core.home_of(min(graph.ids[component] for component in virtual_node.components)) == core.server
            for virtual_node in graph.virtual_nodes.values()
        )
        return Counts(groups.count(1), processes.count(1), arcs, virtual_nodes)

    def _follow_renamed(self) -> None:
        """Find the owners of renamed numbers again."""
        core, graph = self._core, self._core.graph
        renamed = graph.renamed_since(self._renamed_count)
        self._renamed_count = graph.renamed_count
        if renamed is None:
            self._owned = bytearray()
            return
        for node in renamed:
            if node < len(self._owned):
                self._owned[node] = core.owns(node)


_IS = {kind: bytes(number == kind for number in range(256)) for kind in (NodeKind.GROUP, NodeKind.PROCESS)}
"""Tables for `bytes.translate` by kind: 1 for the kind itself, 0 for any other kind."""


def _both(some: bytearray, others: bytearray) -> bytes:
    """Return 1 at each place at which both arguments have 1. The shorter argument is extended with 0."""
    both = int.from_bytes(some, "little") & int.from_bytes(others, "little")
    return both.to_bytes(max(len(some), len(others)), "little")
