"""A server's part in updates: it votes, waits for its turn, gets ready or refuses, and applies what was decided.

    Order --> Vote --> Final --> (turn) --> Release... --> Ready --> Commit --> Block..., Done
                 \\                   \\                        \\
                  Abort               Refuse --> Abort         Abort: blocks again what it released

`Ready` is a yes vote; who gave it never decides alone. It is given again when the coordinator asks for more entry
nodes.

Source: NG 6.2, 6.4; protocol.md section 5.
"""

from __future__ import annotations

from collections.abc import Iterable

from namegraph.ancestry_records import AncestryRecords
from namegraph.boundary import Boundary
from namegraph.changes import group_not_found
from namegraph.messages import (
    ArcId,
    ArcTruth,
    ArcWish,
    ChildTruth,
    Commit,
    Done,
    Drop,
    Final,
    Holding,
    Order,
    PendingEntry,
    Ready,
    RecordVersion,
    Refuse,
    Release,
    UpdateId,
    Vote,
)
from namegraph.names import NodeId
from namegraph.ordering import Entries, Entry
from namegraph.records import NodeIndex, NodeKind
from namegraph.refusals import Reason, RefusedError, refuse
from namegraph.site import Site


class Participant:
    """Handles what coordinators ask of this server."""

    def __init__(self, site: Site, records: AncestryRecords, entries: Entries, boundary: Boundary) -> None:
        self._site = site
        self._graph = site.graph
        self._records = records
        self._entries = entries
        self._boundary = boundary

    def order(self, order: Order) -> None:
        """Make an entry, or extend it; vote where the final priority is not known."""
        site = self._site
        update_id = order.update.update_id
        entry = self._entries.by_update.setdefault(update_id, Entry(order.update))
        entry.ends |= order.cover.ends
        entry.entry_nodes |= order.cover.entry_nodes
        entry.asked = order.cover
        site.see(order.tentative)
        if order.final is not None:
            site.see(order.final)
            entry.final = order.final
            return
        vote = site.next_priority()
        if entry.final is None:
            entry.bound = max(entry.bound, vote)
        leads = self._entries.part(entry, with_ready=True).leads
        site.send(update_id.coordinator, Vote(update_id, vote, leads))

    def final(self, final: Final) -> None:
        """Learn an update's place in the order."""
        self._site.see(final.priority)
        entry = self._entries.by_update.get(final.update_id)
        if entry is not None:
            entry.final = final.priority

    def abort(self, update_id: UpdateId) -> None:
        """Forget an update that leaves no trace."""
        entry = self._entries.by_update.get(update_id)
        self._boundary.aborted(update_id, final=None if entry is None else entry.final)
        self._forget(update_id)

    def drop(self, drop: Drop) -> None:
        """Forget an entry that was handed on here too late to matter."""
        self._forget(drop.update_id)

    def take_next_turn(self) -> bool:
        """Let the first update whose turn has come check, release and answer; return whether there was one."""
        entry = self._entries.next_turn()
        if entry is None:
            return False
        assert entry.asked is not None
        assert entry.final is not None
        update = entry.update
        entry.covered = entry.asked
        try:
            for wish in update.wishes:
                self._check(wish)
        except RefusedError as error:
            self._site.send(update.update_id.coordinator, Refuse(update.update_id, error.refusal))
            return True
        entry.is_ready = True
        releases = self._boundary.to_release(update, self._owned(self._entries.part(entry).nodes))
        for arc, keep in releases.items():
            self._boundary.released(update.update_id, arc, keep)
            version = RecordVersion(entry.final, is_block=False)
            self._site.send(self._site.home_of(arc.parent), Release(update.update_id, arc, keep, version))
        entry.releases_due += len(releases)
        if not entry.releases_due:
            self._say_ready(entry)
        return True

    def released(self, update_id: UpdateId) -> bool:
        """Count the answer to a `Release` of this participant; False where it sent none that is unanswered."""
        entry = self._entries.by_update.get(update_id)
        if entry is None or not entry.releases_due:
            return False
        entry.releases_due -= 1
        if not entry.releases_due:
            self._say_ready(entry)
        return True

    def release(self, release: Release) -> None:
        """As the parent's home: let a stored record block less."""
        self._boundary.store(release.arc, release.keep, release.version)

    def commit(self, commit: Commit) -> None:
        """Apply this server's part of an outcome, in one step."""
        entry = self._entries.by_update.pop(commit.update_id)
        entry.narrow()
        before = self._entries.part(entry).nodes
        self._apply(commit)
        self._install_entries(commit.handed_on, entry.entry_nodes)
        after = self._entries.part(entry).nodes
        self._boundary.committed(commit.update_id)
        self._records_after_commit()
        self._boundary.take_released(commit.released)
        for arc, nodes in commit.stored:
            if self._boundary.stores(arc):
                self._boundary.store(arc, nodes, RecordVersion(commit.final, is_block=True))
        self._forget_computed(commit)
        self._boundary.block(self._owned(before | after), final=commit.final, told=dict(commit.stored))
        self._site.send(commit.update_id.coordinator, Done(commit.update_id))

    def pending_at(self, parents: Iterable[NodeId], *, but: UpdateId) -> tuple[PendingEntry, ...]:
        """Entries to hand on to what becomes reachable from these owned parents."""
        found = {
            pending.update.update_id: pending
            for parent in parents
            for pending in self._entries.following(parent, but=but)
        }
        return tuple(found[update_id] for update_id in sorted(found))

    def _apply(self, commit: Commit) -> None:
        records = self._records
        relayed = {record.node for record in commit.relay}
        for record in commit.relay:
            records.install(record)
        for node, base in commit.bases:
            if node not in relayed:
                records.drop_unless_at(node, base, final=commit.final)
        for outcome in commit.arcs:
            records.apply_arc(outcome, final=commit.final)
            if not outcome.is_present:
                self._boundary.arc_left(outcome.arc, final=commit.final)
        for node, vnid in commit.renamed:
            if node not in relayed:
                records.rename(node, vnid, final=commit.final)
        records.settle()
        self._graph_changed()

    def _install_entries(self, handed_on: Iterable[PendingEntry], entry_nodes: set[NodeId]) -> None:
        if not entry_nodes:
            return
        for pending in handed_on:
            if self._entries.install(pending, sorted(entry_nodes)):
                update_id = pending.update.update_id
                self._site.send(update_id.coordinator, Holding(update_id))

    def _forget_computed(self, commit: Commit) -> None:
        """Drop stored records of arcs into virtual nodes that the update changed and that have a component here."""
        graph = self._graph
        touched = [outcome.arc.child for outcome in commit.arcs] + [node for node, _ in commit.renamed]
        done: set[int] = set()
        for name in touched:
            node = graph.index.get(name)
            virtual_node = None if node is None else graph.virtual_node_of.get(node)
            if virtual_node is None or virtual_node.number in done:
                continue
            done.add(virtual_node.number)
            if any(self._site.owns(component) for component in virtual_node.components):
                self._boundary.components_owned(virtual_node.components, final=commit.final)

    def _check(self, wish: ArcWish) -> None:
        """Raise `RefusedError` where this server knows that an arc cannot be joined or left."""
        site, graph = self._site, self._graph
        parent, child = wish.arc
        child_number = graph.index.get(child)
        if site.home_of(parent) == site.server:
            parent_number = graph.group(parent)
            if parent_number is None:
                raise group_not_found(parent, site.server, known_subnet=True)
            is_there = child_number is not None and graph.arc(parent_number, child_number) is not None
            fits = wish.kind is None or (child_number is not None and graph.kind(child_number) is wish.kind)
            if wish.is_join and is_there:
                raise refuse(
                    Reason.ALREADY_MEMBER,
                    f"{child} is an immediate member of {parent} already",
                    group=parent,
                    member=child,
                )
            if not wish.is_join and not (is_there and fits):
                raise refuse(
                    Reason.NOT_A_MEMBER, f"{child} is no immediate member of {parent}", group=parent, member=child
                )
        if wish.is_join and site.home_below(parent=parent, child=child) == site.server:
            is_group = child_number is not None and graph.kind(child_number) is NodeKind.GROUP
            if wish.kind is NodeKind.GROUP and not is_group:
                raise group_not_found(child, site.server, known_subnet=site.table.home_of(child) is not None)
            if wish.kind is NodeKind.PROCESS and is_group:
                raise refuse(Reason.WRONG_KIND, f"{child} is a group; join it as one", group=parent, member=child)

    def _say_ready(self, entry: Entry) -> None:
        site, graph = self._site, self._graph
        update = entry.update
        part = self._entries.part(entry)
        assert entry.covered is not None
        children, arcs, tails, joined_below = [], [], [], []
        for wish in update.wishes:
            parent, child = wish.arc
            if site.home_below(parent=parent, child=child) == site.server:
                children.append(self._child_truth(child))
            if site.home_of(parent) == site.server:
                tails.append(graph.index[parent])
                arcs.append(self._arc_truth(wish.arc))
                if wish.is_join:
                    joined_below.append(parent)
        above = [number for node in part.nodes if (number := graph.index.get(node)) is not None]
        ready = Ready(
            update.update_id,
            entry.covered,
            part.leads,
            self._records.held_above(above),
            tuple(children),
            tuple(arcs),
            tuple(self._records.collect(tails)),
            self.pending_at(joined_below, but=update.update_id),
        )
        site.send(update.update_id.coordinator, ready)

    def _child_truth(self, child: NodeId) -> ChildTruth:
        node = self._graph.intern(child)
        kind = self._graph.kind(node)
        if kind is NodeKind.ABSENT:
            kind = NodeKind.PROCESS
        return ChildTruth(child, kind, self._records.version_of(node))

    def _arc_truth(self, arc: ArcId) -> ArcTruth:
        graph = self._graph
        parent, child = graph.index[arc.parent], graph.intern(arc.child)
        known = graph.arc(parent, child) or graph.tombstones.get((parent, child))
        if known is None:
            return ArcTruth(arc, 0, 0, NodeKind.ABSENT)
        return ArcTruth(arc, known.version, known.cost, graph.kind(child))

    def _forget(self, update_id: UpdateId) -> None:
        self._entries.by_update.pop(update_id, None)
        self._records_after_commit()

    def _records_after_commit(self) -> None:
        # A difference under way may need what would be pruned.
        if not any(entry.is_ready for entry in self._entries.by_update.values()):
            self._records.prune()
            self._graph_changed()

    def _graph_changed(self) -> None:
        self._site.ancestors.forget_all()
        self._graph.update_count += 1
        self._graph.changed_tails.append((self._graph.update_count, None))

    def _owned(self, nodes: Iterable[NodeId]) -> list[NodeIndex]:
        found = [number for node in nodes if (number := self._graph.index.get(node)) is not None]
        return sorted(number for number in found if self._site.owns(number))
