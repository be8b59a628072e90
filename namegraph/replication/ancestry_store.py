"""The ancestry of owned nodes as versioned records, one for each node: its in-arcs with their costs, and its vnid.

The records live in the name graph itself. `graph.parents[n]` is the record of every owned node and of every node
above one. `graph.children[p]` of an owned p is the truth about the arcs that leave p. While updates are under way
the two may differ: a relayed record can come before the commit that brings its arcs here. A node that is only below
owned nodes has no record; the graph shows the arcs that lead to it from here.

A record has one version, the final priority of the last update that changed it. The highest version wins. A
difference applies only to the version for which it was made. A record of another version is dropped, because it is
not needed here then.

Source: docs/protocol-updates.md, "Ancestry records"; invariant I5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from namegraph.graph.delta_tracker import DeltaTracker
from namegraph.graph.name_graph import VirtualNode
from namegraph.model.moments import DictTable, Table, shallow
from namegraph.model.names import NodeId, ServerId, Subnet, subnet_of
from namegraph.model.priorities import Priority
from namegraph.model.rows import ArcKey, ArcRecord, NodeIndex, NodeKind, Records
from namegraph.replication.dirty_rows import DirtyRows
from namegraph.state.context import NEVER, ServerContext
from namegraph.wire.arc_sets import numbered_arcs, numbered_records
from namegraph.wire.columns import GONE, KINDS, PRESENT, SUSPENDED
from namegraph.wire.message_parts import Ancestry, AncestryRecord, ArcId, Arcs, InArc, KnownArc, Vnid


class AncestryStore:
    """The records of one server."""

    def __init__(self, context: ServerContext) -> None:
        self._context = context
        self._graph = context.graph
        self.above: Table[NodeIndex, None] = Table()
        """Nodes of other servers whose record is held here."""
        self.leaving: DictTable[NodeIndex, NodeIndex, ArcRecord] = DictTable()
        """Arcs from owned nodes to nodes of other servers, by child, then parent."""
        self._renamed: dict[NodeIndex, Vnid | None] = {}
        self._dropped: dict[NodeIndex, None] = {}
        """Nodes of which perhaps no arc is known any more."""
        self._rows_of = DirtyRows(context)
        self.change = DeltaTracker(context.graph, context.ancestors)
        """Net change since it was last followed."""
        self._in_question: dict[NodeIndex, None] = {}
        """Nodes with a held record that may no longer be above an owned node."""

    def hold(self, context: ServerContext) -> AncestryStore:
        """Return the present records, for readers of a held site."""
        held = shallow(self)
        held._context, held._graph = context, context.graph
        held.above, held.leaving = self.above.hold(), self.leaving.hold()
        return held

    def end_holds(self) -> None:
        """Note that nobody reads held records any more."""
        self.above.end_moments()
        self.leaving.end_moments()

    def is_held(self, node: NodeIndex) -> bool:
        """Return True if the whole record of a node is known here."""
        return node in self.above or self._context.owns(node)

    def version_of(self, node: NodeIndex) -> Priority:
        """Return the version of a node's record. `NEVER` if none is held, or no update changed it yet."""
        counter = self._graph.versions[node]
        if counter == 0 or not self.is_held(node):
            return NEVER
        return Priority(counter, self._graph.version_servers.get(node, self._context.server))

    def vnid_of(self, node: NodeIndex) -> Vnid | None:
        """Return the vnid of the virtual node that contains a node. None if it is in no virtual node."""
        virtual_node = self._graph.virtual_node_of.get(node)
        return None if virtual_node is None else Vnid(virtual_node.smallest, virtual_node.made_at)

    def collect(self, starts: Iterable[NodeIndex]) -> list[AncestryRecord]:
        """Return the records of the starts and of all nodes above them, sorted by id."""
        nodes = sorted(self._graph.ancestors(starts), key=self._context.id_of)
        return [self._read(node) for node in nodes]

    def ancestry_of(self, tails: Iterable[NodeId]) -> tuple[AncestryRecord, ...]:
        """Return the records of groups and of all nodes above them, sorted by id. The groups exist, or are about to be
        created."""
        index = self._graph.index
        found = self.collect([index[tail] for tail in tails if tail in index])
        found += [AncestryRecord(tail, (), None, NEVER) for tail in tails if tail not in index]
        return tuple(sorted(found))

    def above_of(self, tails: Iterable[NodeId]) -> tuple[NodeId, ...]:
        """Return these groups, and all groups above those that exist, sorted."""
        graph = self._graph
        known = [number for tail in tails if (number := graph.index.get(tail)) is not None]
        return tuple(sorted({*tails, *(graph.ids[node] for node in graph.ancestors(known))}))

    def held_of(self, names: Iterable[NodeId]) -> tuple[tuple[NodeId, Priority], ...]:
        """Return the versions of those groups' records that are held here, in the order of the names."""
        index, kinds = self._graph.index, self._graph.kinds
        return tuple(
            (name, self.version_of(node))
            for name in names
            if (node := index.get(name)) is not None and kinds[node] == NodeKind.GROUP and self.is_held(node)
        )

    def install(self, relay: Ancestry) -> None:
        """Install relayed records, except those that are older than a held record."""
        graph, context = self._graph, self._context
        names, records = numbered_records(relay)
        numbers = [graph.index.get(name) for name in names]
        is_owned = [home is None or home == context.server for home in context.table.homes_of(names)]
        is_group = bytearray(len(numbers))
        new_row = tuple.__new__  # This takes half the time of calling the class, and an import brings half a million
        for place, in_arcs, vnid, version, suspended in records:
            node = numbers[place]
            if node is None:
                node = numbers[place] = graph.intern(names[place])
            if version < self.version_of(node):
                continue
            if not is_owned[place]:
                self.above[node] = None
                self._in_question[node] = None
            is_new = not graph.parents[node]
            if is_new:
                # The record is noted as a whole, because an import brings half a million arcs.
                self.change.new_record(node)
                self._rows_of.records[node] = None
            else:
                kept = {numbers[parent_place] for parent_place, *_ in in_arcs}
                for gone in [parent for parent in graph.parents[node] if parent not in kept]:
                    self._erase(gone, node)
            self._set_version(node, version)
            self._set_kind(node, NodeKind.GROUP)
            record = graph.parents.to_change(node)
            for parent_place, cost, arc_version, writer in in_arcs:
                parent = numbers[parent_place]
                if parent is None:
                    parent = numbers[parent_place] = graph.intern(names[parent_place])
                arc = new_row(ArcRecord, (parent, node, cost, arc_version, writer, True, False))
                if not is_new:
                    self._note_write((parent, node))
                self._write(arc, record, owns_parent=is_owned[parent_place])
                if not (is_owned[parent_place] or is_group[parent_place]):
                    is_group[parent_place] = True
                    self._set_kind(parent, NodeKind.GROUP)
            self._renamed[node] = vnid
            if not is_owned[place]:
                # Commits report the suspended arcs into owned nodes.
                self._install_suspended(node, suspended)

    def _install_suspended(self, node: NodeIndex, in_arcs: Iterable[InArc]) -> None:
        graph = self._graph
        self._forget_suspended_into(node)
        for name, cost, version, writer in in_arcs:
            parent = graph.intern(name)
            if not self._context.owns(parent):
                graph.suspend(ArcRecord(parent, node, cost, version, writer, present=True, suspended=True))
                self._rows_of.arcs[parent, node] = None

    def _forget_suspended_into(self, node: NodeIndex) -> None:
        """Forget the suspended arcs into a node. Arcs that leave owned nodes stay: they are true, whatever a record
        says."""
        graph = self._graph
        for parent in list(graph.suspended_into.get(node, ())):
            if not self._context.owns(parent):
                graph.unsuspend(parent, node)
                self._rows_of.arcs[parent, node] = None

    def suspend_leaving(self, servers: Callable[[ServerId], bool]) -> list[ArcId]:
        """Suspend the arcs from here to some servers, because the nodes below are not known any more. Return the
        arcs."""
        graph, context = self._graph, self._context
        found = []
        for child, parents in list(self.leaving.items()):
            if not servers(context.home_of(graph.ids[child])):
                continue
            for parent, arc in list(parents.items()):
                suspended = arc._replace(suspended=True)
                self._apply_truth(arc._replace(present=False), owns_child=False)
                if child not in self.above:
                    self._mirror(arc._replace(present=False))
                graph.suspend(suspended)
                self._rows_of.arcs[parent, child] = None
                found.append(ArcId(graph.ids[parent], graph.ids[child]))
        return found

    def entering_from(self, servers: Callable[[ServerId], bool]) -> list[ArcId]:
        """Return the arcs into nodes of this server from some other servers, sorted."""
        graph, context = self._graph, self._context
        return sorted(
            ArcId(graph.ids[parent], graph.ids[child])
            for parent in self.above
            if servers(context.home_of(graph.ids[parent]))
            for child in graph.recorded_children(parent)
            if context.owns(child)
        )

    def take_over(self, known: KnownArc) -> None:
        """Take over a change of an arc while the home of its other end is away: the arc becomes suspended, or left.

        A process of this server that is in no other group ceases to exist when it is left.
        """
        graph = self._graph
        parent, child = graph.intern(known.arc.parent), graph.intern(known.arc.child)
        graph.unsuspend(parent, child)
        is_there = bool(known.is_present)
        arc = ArcRecord(parent, child, known.cost, known.version, known.writer, present=is_there, suspended=is_there)
        if is_there:
            graph.unbury((parent, child))
            graph.suspend(arc)
            if graph.kinds[child] == NodeKind.ABSENT:
                self._set_kind(child, known.kind)
        else:
            graph.bury(arc)
            is_left_alone = graph.kinds[child] == NodeKind.PROCESS and not graph.arcs_into(child)
            if is_left_alone and not self._context.owns(parent):
                self._set_kind(child, NodeKind.ABSENT)
        if self._context.owns(parent):
            self.change.read_anew(parent)
        self._rows_of.arcs[parent, child] = None

    def set_group(self, group: NodeId, *, is_present: bool, final: Priority) -> None:
        """Create or delete a group that is owned here."""
        graph = self._graph
        node = graph.intern(group)
        self._set_kind(node, NodeKind.GROUP if is_present else NodeKind.ABSENT)
        self._set_version(node, final)
        graph.group_changes += 1
        self._context.note_group(group, final, is_present=is_present)

    def drop_unless_at(self, name: NodeId, base: Priority, *, final: Priority) -> None:
        """Drop a record if the change of this final priority does not fit it."""
        node = self._graph.index.get(name)
        if node is None or node not in self.above:
            return
        version = self.version_of(node)
        if version < final and version != base:
            self._drop(node)

    def apply_arcs(self, outcomes: Arcs, *, final: Priority) -> list[ArcId]:
        """Apply the outcomes of arcs to both their ends, as far as these are known here.

        Return the arcs that are no longer there for resolution: they were left, or are suspended.
        """
        graph, server = self._graph, self._context.server
        names, rows = numbered_arcs(outcomes)
        homes = self._context.table.homes_of(names)
        is_owned = [home is None or home == server for home in homes]
        numbers = [graph.index.get(name) for name in names]
        new_row = tuple.__new__  # as in `install`
        gone = []
        for parent_place, child_place, state, kind, cost, version in rows:
            if state != PRESENT:
                gone.append(ArcId(names[parent_place], names[child_place]))
            owns_parent = is_owned[parent_place]
            # A foreign process lives where its parent does.
            owns_child = is_owned[child_place] if homes[child_place] is not None else owns_parent
            parent, child = numbers[parent_place], numbers[child_place]
            if not (owns_parent or owns_child) and (child is None or child not in self.above):
                continue
            if parent is None:
                parent = numbers[parent_place] = graph.intern(names[parent_place])
            if child is None:
                child = numbers[child_place] = graph.intern(names[child_place])
            is_suspended = state == SUSPENDED
            known = graph.parents[child].get(parent) if is_suspended else None
            # An arc that is suspended stays as it was written.
            writer = final.counter if known is None else known.writer
            arc = new_row(ArcRecord, (parent, child, cost, version, writer, state != GONE, is_suspended))
            self._apply_arc(arc, KINDS[kind], owns_parent=owns_parent, owns_child=owns_child, final=final)
        return gone

    def _apply_arc(
        self, arc: ArcRecord, kind: NodeKind, *, owns_parent: bool, owns_child: bool, final: Priority
    ) -> None:
        graph = self._graph
        parent, child = ends = arc.parent, arc.child
        is_there = arc.present and not arc.suspended
        has_record = owns_child or child in self.above
        # Most versions are older, and this is asked for each arc.
        is_news = has_record and (graph.versions[child] < final.counter or self.version_of(child) <= final)
        if owns_parent or is_news:
            graph.unsuspend(parent, child)
        if owns_parent:
            self._apply_truth(arc, owns_child=owns_child)
        if is_news:
            self._set_version(child, final)
            if is_there:
                self._note_write(ends)
                self._write(arc, graph.parents.to_change(child), owns_parent=owns_parent)
            else:
                self._erase(parent, child)
        elif owns_parent and not has_record:
            self._mirror(arc)
        if arc.suspended and (owns_parent or is_news):
            graph.suspend(arc)
        if not (owns_parent or owns_child):
            if is_there and is_news:
                # The parent is a group already if the coordinator relayed all records that it had to.
                self._set_kind(parent, NodeKind.GROUP)
            return
        if not arc.suspended or graph.kinds[child] == NodeKind.ABSENT:
            self._apply_kind(arc, kind, owns_child=owns_child)
        if not owns_parent and arc.present:
            self._set_kind(parent, NodeKind.GROUP)
        if arc.present:
            graph.unbury(ends)
        else:
            graph.bury(arc)
        self._rows_of.arcs[ends] = None

    def rename(self, name: NodeId, vnid: Vnid | None, *, final: Priority) -> None:
        """Record the virtual node of a group since the update of this final priority."""
        node = self._graph.index.get(name)
        if node is not None and self.is_held(node) and self.version_of(node) <= final:
            self._set_version(node, final)
            self._renamed[node] = vnid

    def settle(self) -> None:
        """Make virtual nodes agree with the recorded vnids. Call once after a commit's records."""
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
        """Drop the records of nodes that are no longer above an owned node.

        Only three kinds of node can be such: those that lost an arc to a node below, those that were relayed, and
        the nodes above.
        """
        graph = self._graph
        needed: set[NodeIndex] = set()
        while self._in_question:
            node, _ = self._in_question.popitem()
            if node not in self.above or node in needed:
                continue
            for one in self._superfluous_from(node, needed):
                # Dropping a record puts the nodes above it in question.
                self._drop(one)
        self.settle()
        for node in self._dropped:
            is_apart = node in graph.suspended_into or node in graph.suspended_from
            if node not in self.above and not graph.parents[node] and not graph.children[node] and not is_apart:
                self._set_kind(node, NodeKind.ABSENT)
                self._context.ancestors.forget([node])
        self._dropped = {}

    def forget_unused(self, subnet: Subnet) -> None:
        """Forget the kinds of nodes in another server's subnet to or from which no known arc leads."""
        graph = self._graph
        for number, name in enumerate(graph.ids):
            node = NodeIndex(number)
            if graph.kinds[node] == NodeKind.ABSENT or subnet_of(name) != subnet:
                continue
            arcs = graph.parents[node], graph.children[node]
            if not (any(arcs) or node in graph.suspended_into or node in graph.suspended_from or self.is_held(node)):
                self._set_kind(node, NodeKind.ABSENT)
                self._context.ancestors.forget([node])

    def is_above_owned(self, node: NodeIndex) -> bool:
        """Return True if a node leads to an owned node. Until `prune`, records of other nodes may still be held."""
        return not self._superfluous_from(node, set())

    def _superfluous_from(self, start: NodeIndex, needed: set[NodeIndex]) -> list[NodeIndex]:
        """Search downwards for an owned node. Nodes on the way to one are added to `needed`.

        Return an empty list if one is found. Otherwise return the searched nodes: all of them are above no owned
        node.
        """
        children, above = self._graph.children, self.above
        found = {start}
        way = [(start, iter(children[start]))]
        while way:
            child = next(way[-1][1], None)
            if child is None:
                way.pop()
            elif child in needed or child not in above:
                needed.update(node for node, _ in way)
                return []
            elif child not in found:
                found.add(child)
                way.append((child, iter(children[child])))
        return sorted(found)

    def _read(self, node: NodeIndex) -> AncestryRecord:
        graph = self._graph
        in_arcs = sorted(
            InArc(graph.ids[arc.parent], arc.cost, arc.version, arc.writer) for arc in graph.parents[node].values()
        )
        suspended = [graph.suspended[parent, node] for parent in graph.suspended_into.get(node, ())]
        apart = sorted(InArc(graph.ids[arc.parent], arc.cost, arc.version, arc.writer) for arc in suspended)
        return AncestryRecord(graph.ids[node], tuple(in_arcs), self.vnid_of(node), self.version_of(node), tuple(apart))

    def take_rows(self, records: Records) -> None:
        """Add the rows of the graph that changed since the last call."""
        self._rows_of.take(records)

    @property
    def is_settled(self) -> bool:
        """True if all changes by commits were followed. All node numbers noted here then belong to existing nodes."""
        return not (self._renamed or self._dropped) and self.change.is_followed

    def knows(self, node: NodeIndex) -> bool:
        """Return True if a node of another server is above or below an owned node."""
        return node in self.above or node in self.leaving

    def forget_arcs(self, arcs: Iterable[ArcKey]) -> None:
        """Drop tombstones."""
        graph = self._graph
        for ends in arcs:
            graph.unbury(ends)
            self._rows_of.arcs[ends] = None
            for end in ends:
                if graph.kinds[end] == NodeKind.ABSENT:
                    graph.idle[end] = None

    def forget_names(self, nodes: list[NodeIndex]) -> None:
        """Forget blank nodes. Their numbers become free, in memory and in the rows."""
        self._context.ancestors.forget(nodes)
        self._graph.forget_names(nodes)
        self._rows_of.nodes.update(dict.fromkeys(nodes))

    def all_recorded(self) -> None:
        """Record that every node has a row by now."""
        self._graph.take_interned(self._rows_of.recorded)
        self._rows_of.recorded = len(self._graph.ids)

    def restore(self) -> None:
        """Restore the records of a restored graph."""
        graph, context = self._graph, self._context
        self._rows_of.restore()
        if context.is_alone:
            return
        owned = context.owned(range(len(context.graph.ids)))
        for number, is_owned in enumerate(owned):
            node = NodeIndex(number)
            if is_owned:
                for child, arc in graph.children[node].items():
                    if not owned[child]:
                        self.leaving.put(child, node, arc)
            elif graph.kinds[node] == NodeKind.GROUP and graph.versions[node]:
                self.above[node] = None
                # A restart forgets the nodes in question, so every held node is checked.
                self._in_question[node] = None

    def _set_kind(self, node: NodeIndex, kind: NodeKind) -> None:
        if self._graph.kinds[node] != kind:
            self._graph.set_kind(node, kind)
            self._rows_of.nodes[node] = None
            self.change.read_anew(node)

    def _set_version(self, node: NodeIndex, version: Priority) -> None:
        graph, (counter, server) = self._graph, version
        self._rows_of.nodes[node] = None
        # An update often has several arcs to one node, and readers need no note if nothing changes.
        if graph.versions[node] != counter:
            graph.versions[node] = counter
        if graph.version_servers.get(node) != server:
            graph.version_servers[node] = server
        virtual_node = graph.virtual_node_of.get(node)
        if virtual_node is not None:
            graph.forget_shadow_tree(virtual_node)

    def _note_write(self, ends: ArcKey) -> None:
        """Note a coming `_write`, unless the whole record of the child is noted."""
        self._rows_of.arcs[ends] = None
        self.change.arc(ends)

    def _write(self, arc: ArcRecord, record: dict[NodeIndex, ArcRecord], *, owns_parent: bool) -> None:
        """Put an arc into its child's record, which can be changed."""
        graph = self._graph
        if owns_parent:
            # Use one object if truth and record agree.
            truth = graph.children[arc.parent].get(arc.child)
            record[arc.parent] = truth if truth == arc else arc
            graph.compare(arc.parent, arc.child)
        else:
            record[arc.parent] = arc
            graph.children.to_change(arc.parent)[arc.child] = arc

    def _erase(self, parent: NodeIndex, child: NodeIndex) -> None:
        self._rows_of.arcs[parent, child] = None
        self.change.arc((parent, child))
        self._graph.parents.to_change(child).pop(parent, None)
        if self._context.owns(parent):
            self._graph.compare(parent, child)
        else:
            self._graph.children.to_change(parent).pop(child, None)
            self._in_question[parent] = None

    def _apply_truth(self, arc: ArcRecord, *, owns_child: bool) -> None:
        graph = self._graph
        is_there = arc.present and not arc.suspended
        self.change.read_anew(arc.parent)
        if is_there:
            graph.children.to_change(arc.parent)[arc.child] = arc
        else:
            graph.children.to_change(arc.parent).pop(arc.child, None)
        graph.compare(arc.parent, arc.child)
        if owns_child:
            return
        if is_there:
            self.leaving.put(arc.child, arc.parent, arc)
        else:
            self.leaving.drop(arc.child, arc.parent)

    def _mirror(self, arc: ArcRecord) -> None:
        self.change.arc((arc.parent, arc.child))
        if arc.present and not arc.suspended:
            self._graph.parents.to_change(arc.child)[arc.parent] = arc
        else:
            self._graph.parents.to_change(arc.child).pop(arc.parent, None)
        self._graph.compare(arc.parent, arc.child)

    def _apply_kind(self, arc: ArcRecord, kind: NodeKind, *, owns_child: bool) -> None:
        graph, child = self._graph, arc.child
        before = graph.kinds[child]
        if arc.present:
            self._set_kind(child, kind)
        elif child in graph.suspended_into or graph.parents[child] or graph.children[child] or child in self.above:
            pass
        elif before == NodeKind.PROCESS or not owns_child:
            self._set_kind(child, NodeKind.ABSENT)

    def _drop(self, node: NodeIndex) -> None:
        graph = self._graph
        for parent in list(graph.parents[node]):
            self._erase(parent, node)
        for parent, arc in self.leaving.get(node, {}).items():
            self.change.arc((parent, node))
            graph.parents.to_change(node)[parent] = arc
            graph.compare(parent, node)
            self._rows_of.arcs[parent, node] = None
        self._forget_suspended_into(node)
        del self.above[node]
        self._dropped[node] = None
        self._rows_of.nodes[node] = None
        graph.versions[node] = 0
        graph.version_servers.pop(node, None)
        self._renamed[node] = None

    def _dissolve(self, virtual_node: VirtualNode) -> None:
        graph = self._graph
        graph.forget_shadow_tree(virtual_node)
        self.change.regroup(virtual_node.components)
        self._rows_of.virtual_nodes[virtual_node.number] = virtual_node
        del graph.virtual_nodes[virtual_node.number]
        for component in virtual_node.components:
            self._rows_of.nodes[component] = None
            del graph.virtual_node_of[component]

    def _form(self, vnid: Vnid, components: set[NodeIndex], before: VirtualNode | None) -> None:
        graph = self._graph
        number = graph.next_virtual_node if before is None else before.number
        graph.next_virtual_node = max(graph.next_virtual_node, number + 1)
        formed = VirtualNode(number, vnid.smallest, vnid.made_at, tuple(sorted(components)))
        self.change.regroup(formed.components)
        graph.virtual_nodes[number] = formed
        self._rows_of.virtual_nodes[number] = formed
        for component in formed.components:
            self._rows_of.nodes[component] = None
            graph.virtual_node_of[component] = formed


def newest(records: Iterable[AncestryRecord], known: Mapping[NodeId, AncestryRecord]) -> dict[NodeId, AncestryRecord]:
    """Return, for each node, the newest of its known record and the others."""
    found = dict(known)
    for record in records:
        held = found.get(record.node)
        if held is None or held.version < record.version:
            found[record.node] = record
    return found
