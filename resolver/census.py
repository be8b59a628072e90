"""Counts what lives on one server: of a graph over several, each node and arc is counted by one of them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import compress

from namegraph import CoreQueries, NodeKind

LOOKED_AT_ONCE = 10_000
"""Nodes whose homes are found in one go: some milliseconds."""


@dataclass(frozen=True, slots=True)
class Counts:
    """What one server owns. An arc is counted with its parent, a virtual node with its smallest component."""

    groups: int
    processes: int
    arcs: int
    """Suspended ones too."""
    virtual_nodes: int


class Census:
    """Reads a core; counts anew only where the graph has changed, or who owns what."""

    def __init__(self, core: CoreQueries) -> None:
        self._core = core
        self._counted: tuple[tuple[int, ...], Counts] | None = None
        """What was counted, and the state in which it was."""
        self._owned = bytearray()
        """Of each node that was looked at, by number: 1 where it lives here."""
        self._owned_at = 0
        """How often the owners of subnets had changed then."""
        self._renamed_count = 0
        """How many numbers had got another name then."""
        self.counts()  # The first time takes several times longer; it is while a server starts.

    def counts(self) -> Counts:
        """What this server owns now."""
        core, graph = self._core, self._core.graph
        state = (graph.update_count, len(graph.suspended), core.ownership_changes)
        if self._counted is None or self._counted[0] != state:
            self._counted = (state, self._count())
        return self._counted[1]

    def look_at_some(self) -> bool:
        """Find out where some of the nodes live that were not looked at; returns whether there are more of them.

        Who cannot wait for all after a large change looks at some at a time before it counts.
        """
        core = self._core
        if self._owned_at != core.ownership_changes:
            self._owned, self._owned_at = bytearray(), core.ownership_changes
        self._follow_renamed()
        begin = len(self._owned)
        self._owned += core.owned(range(begin, begin + LOOKED_AT_ONCE))
        return len(self._owned) < len(core.graph.ids)

    def _count(self) -> Counts:
        """A few passes that run in C: some milliseconds for half a million arcs."""
        core, graph = self._core, self._core.graph
        while self.look_at_some():
            pass
        owned = self._owned
        groups, processes = (_both(owned, graph.kinds.translate(_IS[kind])) for kind in _IS)
        arcs = sum(map(len, compress(graph.children, groups))) + sum(
            map(len, compress(graph.suspended_from.values(), map(owned.__getitem__, graph.suspended_from)))
        )
        virtual_nodes = sum(
            core.home_of(min(graph.ids[component] for component in virtual_node.components)) == core.server
            for virtual_node in graph.virtual_nodes.values()
        )
        return Counts(groups.count(1), processes.count(1), arcs, virtual_nodes)

    def _follow_renamed(self) -> None:
        """Look again at the numbers that got another name since."""
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
"""Tables that translate kinds: 1 for this one, 0 for others."""


def _both(some: bytearray, others: bytearray) -> bytes:
    """Where both hold 1; the shorter one is filled up with 0."""
    both = int.from_bytes(some, "little") & int.from_bytes(others, "little")
    return both.to_bytes(max(len(some), len(others)), "little")
