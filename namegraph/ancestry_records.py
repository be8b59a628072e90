"""The ancestry of owned nodes as versioned records, one a node: its in-arcs with their costs, and its vnid.

The records live in the name graph itself. `graph.parents[n]` is the record of every owned node and of every node above
one; `graph.children[p]` of an owned p is the truth about the arcs that leave p. While updates are under way the two may
differ: a relayed record can be ahead of the commit that will bring its arcs here. A node that is only below owned ones
has no record; of it the graph shows the arcs that lead there from here.

A record has one version, the final priority of the last update that changed it. The highest wins; a difference is
applied to the version it was made for, or else the record is dropped: it is not needed here then.

Source: protocol.md sections 3.2 and 5, items 5 and 6; invariant I5.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from namegraph.graph import VirtualNode
from namegraph.messages import AncestryRecord, ArcOutcome, InArc, Vnid
from namegraph.names import NodeId
from namegraph.priorities import Priority
from namegraph.records import ArcRecord, NodeIndex, NodeKind
from namegraph.site import NEVER, Site


class AncestryRecords:
    """The records of one server."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._graph = site.graph
        self.above: dict[NodeIndex, None] = {}
        """Nodes of other servers whose record is held here."""
        self.leaving: dict[NodeIndex, dict[NodeIndex, ArcRecord]] = {}
        """Arcs from owned nodes to nodes of other servers, by child, then parent."""
        self._renamed: dict[NodeIndex, Vnid | None] = {}

    def is_held(self, node: NodeIndex) -> bool:
        """Whether the whole record of a node is known here."""
        return node in self.above or self._site.owns(node)

    def version_of(self, node: NodeIndex) -> Priority:
        """The version of a node's record; `NEVER` where none is held or nothing changed it yet."""
        counter = self._graph.versions[node]
        if counter == 0 or not self.is_held(node):
            return NEVER
        return Priority(counter, self._graph.version_servers.get(node, self._site.server))

    def vnid_of(self, node: NodeIndex) -> Vnid | None:
        """The virtual node that a node is in."""
        virtual_node = self._graph.virtual_node_of.get(node)
        return None if virtual_node is None else Vnid(virtual_node.smallest, virtual_node.made_at)

    def collect(self, starts: Iterable[NodeIndex]) -> list[AncestryRecord]:
        """The records of the starts and of all that is above them, sorted by id."""
        nodes = sorted(self._graph.ancestors(starts), key=self._site.id_of)
        return [self._read(node) for node in nodes]

    def held_above(self, starts: Iterable[NodeIndex]) -> tuple[tuple[NodeId, Priority], ...]:
        """Versions of the records of groups that are the starts or above them, sorted by id."""
        graph = self._graph
        nodes = [node for node in graph.ancestors(starts) if graph.kinds[node] == NodeKind.GROUP]
        return tuple(sorted((graph.ids[node], self.version_of(node)) for node in nodes if self.is_held(node)))

    def install(self, record: AncestryRecord) -> None:
        """Take a relayed record, unless a newer one is held."""
        node = self._graph.intern(record.node)
        if record.version < self.version_of(node):
            return
        if not self._site.owns(node):
            self.above[node] = None
        in_arcs = {self._graph.intern(arc.parent): (arc.cost, arc.version, arc.writer) for arc in record.in_arcs}
        for parent in [parent for parent in self._graph.parents[node] if parent not in in_arcs]:
            self._erase(parent, node)
        for parent, (cost, version, writer) in in_arcs.items():
            self._write(ArcRecord(parent, node, cost, version, writer, present=True, suspended=False))
        self._set_version(node, record.version)
        self._graph.kinds[node] = NodeKind.GROUP
        for parent in in_arcs:
            if not self._site.owns(parent):
                self._graph.kinds[parent] = NodeKind.GROUP
        self._renamed[node] = record.vnid

    def drop_unless_at(self, name: NodeId, base: Priority, *, final: Priority) -> None:
        """Drop a record that the change of this final priority does not fit."""
        node = self._graph.index.get(name)
        if node is None or node not in self.above:
            return
        version = self.version_of(node)
        if version < final and version != base:
            self._drop(node)

    def apply_arc(self, outcome: ArcOutcome, *, final: Priority) -> ArcRecord | None:
        """Apply what became of an arc to both its ends, as far as they are known here; return its row."""
        graph, site = self._graph, self._site
        name = outcome.arc
        owns_parent = site.home_of(name.parent) == site.server
        owns_child = site.home_below(parent=name.parent, child=name.child) == site.server
        child = graph.index.get(name.child)
        if not (owns_parent or owns_child) and (child is None or child not in self.above):
            return None
        parent, child = graph.intern(name.parent), graph.intern(name.child)
        arc = ArcRecord(
            parent, child, outcome.cost, outcome.version, final.counter, present=outcome.is_present, suspended=False
        )
        if owns_parent:
            self._apply_truth(arc, owns_child=owns_child)
        has_record = owns_child or child in self.above
        if has_record and self.version_of(child) <= final:
            self._set_version(child, final)
            if arc.present:
                self._write(arc)
            else:
                self._erase(parent, child)
        elif owns_parent and not has_record:
            self._mirror(arc)
        if not (owns_parent or owns_child):
            return None
        self._apply_kind(child, outcome, owns_child=owns_child)
        if not owns_parent and arc.present:
            graph.kinds[parent] = NodeKind.GROUP
        graph.arc_count += 1 if arc.present else -1
        if arc.present:
            graph.tombstones.pop((parent, child), None)
        else:
            graph.tombstones[parent, child] = arc
        return arc

    def rename(self, name: NodeId, vnid: Vnid | None, *, final: Priority) -> None:
        """Say which virtual node a group is in since the update of this final priority."""
        node = self._graph.index.get(name)
        if node is not None and self.is_held(node) and self.version_of(node) <= final:
            self._set_version(node, final)
            self._renamed[node] = vnid

    def settle(self) -> None:
        """Make virtual nodes agree with the vnids that were given. Call once after a commit's records."""
        graph = self._graph
        for node in self._renamed:
            virtual_node = graph.virtual_node_of.get(node)
            if virtual_node is not None:
                graph.forget_shadow_tree(virtual_node)
        changed = {node: vnid for node, vnid in self._renamed.items() if self.vnid_of(node) != vnid}
        self._renamed = {}
        if not changed:
            return
        members: dict[Vnid, set[NodeIndex]] = {}
        known = {Vnid(found.smallest, found.made_at): found for found in graph.virtual_nodes.values()}
        for node, vnid in changed.items():
            for touched in (self.vnid_of(node), vnid):
                if touched is not None and touched not in members:
                    members[touched] = set(known[touched].components) if touched in known else set()
        for node, vnid in changed.items():
            before = self.vnid_of(node)
            if before is not None:
                members[before].discard(node)
            if vnid is not None:
                members[vnid].add(node)
        for vnid in members:
            if vnid in known:
                self._dissolve(known[vnid])
        for vnid, components in members.items():
            if components:
                self._form(vnid, components, known.get(vnid))

    def prune(self) -> None:
        """Drop the records of what is no longer above an owned node."""
        graph = self._graph
        if not self.above:
            return
        entering = [
            node for node in self.above if any(self._is_entered_from(node, child) for child in graph.children[node])
        ]
        needed = graph.ancestors(entering)
        for node in [node for node in self.above if node not in needed]:
            self._drop(node)
        self.settle()

    def _is_entered_from(self, parent: NodeIndex, child: NodeIndex) -> bool:
        return child not in self.above and parent in self._graph.parents[child] and self._site.owns(child)

    def _read(self, node: NodeIndex) -> AncestryRecord:
        graph = self._graph
        in_arcs = sorted(
            InArc(graph.ids[arc.parent], arc.cost, arc.version, arc.writer) for arc in graph.parents[node].values()
        )
        return AncestryRecord(graph.ids[node], tuple(in_arcs), self.vnid_of(node), self.version_of(node))

    def _set_version(self, node: NodeIndex, version: Priority) -> None:
        self._graph.versions[node] = version.counter
        self._graph.version_servers[node] = version.server
        virtual_node = self._graph.virtual_node_of.get(node)
        if virtual_node is not None:
            self._graph.forget_shadow_tree(virtual_node)

    def _write(self, arc: ArcRecord) -> None:
        """Put an arc into its child's record."""
        graph = self._graph
        if self._site.owns(arc.parent):
            # One object where truth and record agree.
            truth = graph.children[arc.parent].get(arc.child)
            graph.parents[arc.child][arc.parent] = truth if truth == arc else arc
        else:
            graph.parents[arc.child][arc.parent] = arc
            graph.children[arc.parent][arc.child] = arc

    def _erase(self, parent: NodeIndex, child: NodeIndex) -> None:
        self._graph.parents[child].pop(parent, None)
        if not self._site.owns(parent):
            self._graph.children[parent].pop(child, None)

    def _apply_truth(self, arc: ArcRecord, *, owns_child: bool) -> None:
        graph = self._graph
        if arc.present:
            graph.children[arc.parent][arc.child] = arc
        else:
            graph.children[arc.parent].pop(arc.child, None)
        if owns_child:
            return
        leaving = self.leaving.setdefault(arc.child, {})
        if arc.present:
            leaving[arc.parent] = arc
            return
        leaving.pop(arc.parent, None)
        if not leaving:
            del self.leaving[arc.child]

    def _mirror(self, arc: ArcRecord) -> None:
        if arc.present:
            self._graph.parents[arc.child][arc.parent] = arc
        else:
            self._graph.parents[arc.child].pop(arc.parent, None)

    def _apply_kind(self, child: NodeIndex, outcome: ArcOutcome, *, owns_child: bool) -> None:
        graph = self._graph
        before = graph.kinds[child]
        if outcome.is_present:
            graph.kinds[child] = outcome.kind
        elif not graph.parents[child] and (before == NodeKind.PROCESS or not owns_child) and child not in self.above:
            graph.kinds[child] = NodeKind.ABSENT
        if owns_child and before != graph.kinds[child]:
            graph.process_count += 1 if outcome.is_present else -1

    def _drop(self, node: NodeIndex) -> None:
        graph = self._graph
        for parent in list(graph.parents[node]):
            self._erase(parent, node)
        graph.parents[node].update(self.leaving.get(node, {}))
        del self.above[node]
        graph.versions[node] = 0
        graph.version_servers.pop(node, None)
        self._renamed[node] = None

    def _dissolve(self, virtual_node: VirtualNode) -> None:
        graph = self._graph
        graph.forget_shadow_tree(virtual_node)
        del graph.virtual_nodes[virtual_node.number]
        for component in virtual_node.components:
            del graph.virtual_node_of[component]

    def _form(self, vnid: Vnid, components: set[NodeIndex], before: VirtualNode | None) -> None:
        graph = self._graph
        number = graph.next_virtual_node if before is None else before.number
        graph.next_virtual_node = max(graph.next_virtual_node, number + 1)
        formed = VirtualNode(number, vnid.smallest, vnid.made_at, tuple(sorted(components)))
        graph.virtual_nodes[number] = formed
        for component in formed.components:
            graph.virtual_node_of[component] = formed


def newest(records: Iterable[AncestryRecord], known: Mapping[NodeId, AncestryRecord]) -> dict[NodeId, AncestryRecord]:
    """The known records and the others, of each node the newest."""
    found = dict(known)
    for record in records:
        held = found.get(record.node)
        if held is None or held.version < record.version:
            found[record.node] = record
    return found
