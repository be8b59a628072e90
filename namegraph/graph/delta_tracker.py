"""Net change that one commit of an update over several servers makes to this server's graph.

The commit's own arcs, the records relayed with it, and the pruning afterwards change the graph in any order. Each
change is noted. At the end, the ancestor sets follow the net change. The log for readers follows too; from it
readers learn which plans still hold. Both cost what lies below the change, not what the graph holds.

Source: docs/protocol-updates.md, "The outcome" and "Ancestry records".
"""

from __future__ import annotations

from collections.abc import Iterable

from namegraph.graph.ancestor_sets import ARCS_FOLLOWED_LIMIT, AncestorSets
from namegraph.graph.name_graph import NameGraph
from namegraph.model.rows import ArcKey, ArcRecord, NodeIndex


class DeltaTracker:
    """The net change since the tracker last followed one."""

    def __init__(self, graph: NameGraph, ancestors: AncestorSets) -> None:
        self._graph = graph
        self._ancestors = ancestors
        self._arcs_before: dict[ArcKey, ArcRecord | None] = {}
        """State before the change of each touched arc in an ancestry record. None if the arc was not there."""
        self._new_records: dict[NodeIndex, None] = {}
        """Nodes whose ancestry record had no arc before and was written whole."""
        self._read_anew: dict[NodeIndex, None] = {}
        """Nodes from which readers must look again."""
        self._regrouped: dict[NodeIndex, None] = {}
        """Components of virtual nodes that changed."""

    @property
    def is_followed(self) -> bool:
        """True if no change was noted since the last `follow`."""
        return not (self._arcs_before or self._new_records or self._read_anew)

    def arc(self, ends: ArcKey) -> None:
        """Note that an arc in the record of its child is about to change. `ends`: (parent, child)."""
        parent, child = ends
        before = None if child in self._new_records else self._graph.parents[child].get(parent)
        self._arcs_before.setdefault(ends, before)

    def new_record(self, node: NodeIndex) -> None:
        """Note that all arcs of a node's record are about to be written. The record has none yet."""
        self._new_records[node] = None

    def read_anew(self, node: NodeIndex) -> None:
        """Note that a node's kind or outgoing arcs change."""
        self._read_anew[node] = None

    def regroup(self, components: Iterable[NodeIndex]) -> None:
        """Note all components of a virtual node that is about to change, or of free nodes that are about to form
        one."""
        self._read_anew.update(dict.fromkeys(components))
        if self._ancestors.holds_any(components):
            self._regrouped.update(dict.fromkeys(components))

    def follow(self) -> None:
        """Follow the noted changes, and forget them."""
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
                # Beyond this limit the ancestor sets are forgotten anyway.
                added += [(parent, child) for parent in new]
        self._ancestors.follow(added=added, removed=removed, regrouped=self._regrouped)
        if self._read_anew:
            graph.note_changed(self._read_anew)
        self._arcs_before, self._new_records, self._read_anew, self._regrouped = {}, {}, {}, {}
