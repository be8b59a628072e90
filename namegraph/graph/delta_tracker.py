"""What one commit of an update over several servers changes of this server's graph, noted while it is applied.

Its own arcs, the records relayed with it, and what is pruned afterwards change the graph in any order. When all is done
the net change is followed: by the ancestor sets, and by the log that tells readers which of the plans they keep still
hold. Both cost what lies below the change, not what the graph holds.

Source: protocol.md sections 3.2 and 5, item 6.
"""

from __future__ import annotations

from collections.abc import Iterable

from namegraph.graph.ancestor_sets import ARCS_FOLLOWED_LIMIT, AncestorSets
from namegraph.graph.name_graph import NameGraph
from namegraph.model.rows import ArcKey, ArcRecord, NodeIndex


class DeltaTracker:
    """The net change since it was last followed."""

    def __init__(self, graph: NameGraph, ancestors: AncestorSets) -> None:
        self._graph = graph
        self._ancestors = ancestors
        self._arcs_before: dict[ArcKey, ArcRecord | None] = {}
        """Arcs in ancestry records that were touched."""
        self._new_records: dict[NodeIndex, None] = {}
        """Nodes that had no arc in their ancestry record but those, and got a whole record."""
        self._read_anew: dict[NodeIndex, None] = {}
        """Nodes from which readers must look again."""
        self._regrouped: dict[NodeIndex, None] = {}
        """Components of virtual nodes that are others now."""

    @property
    def is_followed(self) -> bool:
        """Whether nothing was noted since."""
        return not (self._arcs_before or self._new_records or self._read_anew)

    def arc(self, ends: ArcKey) -> None:
        """An arc in the record of its child is about to change; `ends`: (parent, child)."""
        parent, child = ends
        before = None if child in self._new_records else self._graph.parents[child].get(parent)
        self._arcs_before.setdefault(ends, before)

    def new_record(self, node: NodeIndex) -> None:
        """All arcs of a node's record are about to be written; there are none as yet."""
        self._new_records[node] = None

    def read_anew(self, node: NodeIndex) -> None:
        """A node's kind changes, or which arcs leave it."""
        self._read_anew[node] = None

    def regroup(self, components: Iterable[NodeIndex]) -> None:
        """All of a virtual node that is about to change, or to form of nodes that are in none."""
        self._read_anew.update(dict.fromkeys(components))
        if self._ancestors.holds_any(components):
            self._regrouped.update(dict.fromkeys(components))

    def follow(self) -> None:
        """Follow what was noted, and forget it."""
        if self.is_followed:
            return
        graph = self._graph
        added: list[ArcKey] = []
        removed: list[ArcKey] = []
        for (parent, child), before in self._arcs_before.items():
            now = graph.parents[child].get(parent)
            if now is None and before is not None:
                removed.append((parent, child))
            elif now is not None and before is None:
                added.append((parent, child))
            elif now is None or before is None or now.cost == before.cost:
                continue
            self._read_anew[parent] = None
        for child in self._new_records:
            new = [parent for parent in graph.parents[child] if (parent, child) not in self._arcs_before]
            self._read_anew.update(dict.fromkeys(new))
            if len(added) <= ARCS_FOLLOWED_LIMIT:
                # Beyond, they are too many anyway.
                added += [(parent, child) for parent in new]
        self._ancestors.follow(added=added, removed=removed, regrouped=self._regrouped)
        if self._read_anew:
            graph.note_changed(self._read_anew)
        self._arcs_before, self._new_records, self._read_anew, self._regrouped = {}, {}, {}, {}
