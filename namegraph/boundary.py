"""Duplication-control records at the boundary between servers, so that no duplicate crosses it.

A server that owns a component of a derived node knows all of its ancestry, and computes what blocks the arcs into it.
Only for an arc whose parent's home owns none is a record *stored* there: the child's home computes it, and sends its
minimal nodes whenever they change. The parent's home expands them by its own ancestry.

    before an update that would make a record block wrongly     Release ... Released, then `Ready` or the decision
    in the commit, before `Done`                                Block

A record's version is (final priority, release before block); the highest wins, also for an arc that is not known yet.

Source: NG 4.5; protocol.md section 4.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Set
from functools import cache
from typing import Final, NamedTuple

import msgspec
from pyroaring import BitMap

from namegraph.ancestry import Shift
from namegraph.ancestry_records import AncestryRecords
from namegraph.boundary_records import BoundaryRecords
from namegraph.changes import Changes
from namegraph.collected import CollectedGraph, lost_originators
from namegraph.columns import PRESENT, rows_of
from namegraph.duplication import blocked_originators
from namegraph.message_parts import ArcColumns, ArcId, RecordVersion, UpdateId
from namegraph.messages import Block
from namegraph.names import NodeId, ServerId
from namegraph.ordering import row_key
from namegraph.priorities import Priority
from namegraph.records import ArcRecord, NodeIndex, ProtocolRow
from namegraph.releases import Removal
from namegraph.settled import ArcKey, Minimal, Settled
from namegraph.site import NEVER, Site

BOUNDARY = "boundary record"
"""Rows: what is stored and what was sent of an arc's record."""
RELEASES = "releases"
"""Rows: records released for an update, as they were."""

RECORDS_IN_MESSAGE_LIMIT = 5_000
"""Records that one message brings, so that it stays within some megabytes."""

_FIRST: Final = RecordVersion(NEVER, is_block=False)


class Boundary:
    """Stored records of arcs that leave this server, and what was last sent about arcs that enter it."""

    def __init__(self, site: Site, records: AncestryRecords) -> None:
        self._site = site
        self._graph = site.graph
        self._records = records
        self.stored: dict[ArcId, Minimal] = {}
        self.sent: dict[ArcId, Minimal] = {}
        self._versions: dict[ArcId, RecordVersion] = {}
        self._released: dict[UpdateId, dict[ArcId, Minimal]] = {}
        self._changed: dict[ArcId, None] = {}
        self._changed_releases: dict[UpdateId, None] = {}
        self._sent_into: dict[NodeId, dict[NodeId, None]] = {}
        """Parents by child, of `sent`."""
        self._naming: dict[NodeId, set[NodeId]] = {}
        """By minimal node: children of arcs of which a record that was sent named it, now or before."""
        self._settled = Settled(site)

    def store(self, arc: ArcId, nodes: Minimal, version: RecordVersion) -> None:
        """Take what a child's home says about an arc, unless something newer is known."""
        if version < self._versions.get(arc, _FIRST):
            return
        self._versions[arc] = version
        self._changed[arc] = None
        if nodes:
            self.stored[arc] = nodes
        else:
            self.stored.pop(arc, None)

    def take_block(self, arc: ArcId, nodes: Minimal, version: RecordVersion) -> None:
        """As `store`, for what another server says at some later time.

        Of an arc that is not there it may come before the update that brings the arc, but no update of a view before
        will any more, nor does one of a server that is in another view, as after this one has gone back.
        """
        graph = self._graph
        is_in_view = self._site.is_in_view(self._site.home_of(arc.child))
        if version.final < self._site.view_begins or not is_in_view:
            parent, child = graph.index.get(arc.parent), graph.index.get(arc.child)
            if parent is None or child is None or child not in graph.children[parent]:
                return
        self.store(arc, nodes, version)

    def arcs_joined(self, arcs: ArcColumns, *, final: Priority) -> None:
        """Forget what was stored of arcs before they were left or suspended, unless their new records came already.

        Called before they are applied.
        """
        index, children, names = self._graph.index, self._graph.children, arcs.names
        for parent, child, state, *_ in rows_of(arcs):
            # As a plain pair it is found as quickly as can be: of the arcs of an import hardly any had a record.
            if state != PRESENT or (names[parent], names[child]) not in self._versions:
                continue
            arc = ArcId(names[parent], names[child])
            if self._site.home_of(arc.parent) != self._site.server:
                continue
            if arc.child not in index or index[arc.child] not in children[index[arc.parent]]:
                self.store(arc, (), RecordVersion(final, is_block=False))

    def arc_left(self, arc: ArcId, *, final: Priority) -> None:
        """Forget what concerns an arc that was left; its version stays."""
        if self._site.home_of(arc.parent) == self._site.server:
            self.store(arc, (), RecordVersion(final, is_block=True))
        self._send_nothing(arc)

    def components_owned(self, components: Iterable[NodeIndex], *, final: Priority) -> None:
        """Forget stored records of arcs into a derived node of which a component is owned here: they are computed.

        An update of a later priority may have brought the derived node before this one brings an arc into it. Then
        records that come later, and are of updates before that, are not to be kept either.
        """
        leaving = self._records.leaving
        for child in components:
            version = RecordVersion(max(final, self._records.version_of(child)), is_block=True)
            for parent in leaving.get(child, ()):
                self.store(self._name(parent, child), (), version)

    def version_of(self, arc: ArcId) -> Priority | None:
        """The final priority of the update that a stored record is of."""
        version = self._versions.get(arc)
        return None if version is None else version.final

    def stores(self, arc: ArcId) -> bool:
        """Whether this server stores the record of an arc: it owns its parent, and no component it leads to."""
        child = self._graph.index.get(arc.child)
        if child is None or self._site.home_of(arc.parent) != self._site.server or self._site.owns(child):
            return False
        return not any(self._site.owns(component) for component in self._graph.components(child))

    def blocked(self, arc: ArcRecord) -> BitMap:
        """Who must not cross a normal arc that leaves this server's groups, stored or computed."""
        name = self._name(arc.parent, arc.child)
        if not self.stores(name):
            return blocked_originators(self._graph, self._site.ancestors, arc)
        index = self._graph.index
        minimal = [index[node] for node in self.stored.get(name, ()) if node in index]
        return BitMap().union(*(self._site.ancestors.of(node) for node in minimal))

    def take_released(self, records: Iterable[tuple[ArcId, Minimal]]) -> None:
        """Learn what the coordinator left of records that are computed here, so that they are sent again."""
        for arc, nodes in records:
            self._remember_sent(arc, nodes)

    def changed(self, shift: Shift | None) -> None:
        """Learn what a commit did to ancestor sets; None: anything."""
        if shift is None:
            self._settled.forget_all()
        else:
            self._settled.follow(shift, self._naming)

    def block(self, nodes: Iterable[NodeIndex], *, final: Priority, told: Mapping[ArcId, Minimal]) -> None:
        """Send the records of arcs into these owned nodes where they changed; `told` came with the commit."""
        computed = self._computed()
        wholly, partly = self._settled.take(nodes)
        entering = self._entering_from_elsewhere(wholly)
        wanted = computed.of(entering)
        changed = computed.differing(partly, is_wanted=self._comes_from_elsewhere)
        changed += [(arc, wanted.get((arc.parent, arc.child), ())) for arc in entering]
        blocks: dict[ServerId, list[tuple[ArcId, Minimal]]] = {}
        for name, minimal in self._in_order({(arc.parent, arc.child): minimal for arc, minimal in changed}):
            if minimal == self.sent.get(name, ()):
                continue
            self._changed[name] = None
            self._note_sent(name, minimal)
            if name not in told:
                blocks.setdefault(self._site.home_of(name.parent), []).append((name, minimal))
        version = RecordVersion(final, is_block=True)
        for server, records in blocks.items():
            for start in range(0, len(records), RECORDS_IN_MESSAGE_LIMIT):
                some = tuple(records[start : start + RECORDS_IN_MESSAGE_LIMIT])
                self._site.send(server, Block(some, version))
        said = {self._name(*ends) for ends in wanted}
        for child in map(self._site.id_of, wholly):
            for name in [ArcId(parent, child) for parent in self._sent_into.get(child, ())]:
                if name not in said:
                    self._forget_sent(name)
        for arc, minimal in changed:
            if not minimal:
                self._forget_sent(self._name(arc.parent, arc.child))
        self._settled.settle(wholly, entered_from_elsewhere={arc.child for arc in entering})

    def _computed(self) -> BoundaryRecords:
        return BoundaryRecords(self._graph, self._site.ancestors, self._sent_of)

    def _sent_of(self, arc: ArcRecord) -> Minimal:
        return self.sent.get(self._name(arc.parent, arc.child), ())

    def to_release(
        self, leaving: Collection[ArcId], nodes: Iterable[NodeIndex], *, only_leaves: bool
    ) -> dict[ArcId, Minimal]:
        """Records that would wrongly block once an update removed these arcs, and what may stay of them.

        Where the update `only_leaves`, an originator that no longer reaches an arc may stay blocked there: it does not
        matter. Any other update may put it below one that does reach the arc, and would be blocked with it.
        """
        if not leaving or not self.sent:
            return {}
        index, parents = self._graph.index, self._graph.parents
        gone = {
            (index[arc.parent], index[arc.child])
            for arc in leaving
            if arc.parent in index and arc.child in index and index[arc.parent] in parents[index[arc.child]]
        }
        representative = self._graph.representative
        if any(representative(parent) == representative(child) for parent, child in gone):
            after = None
        else:
            after = self._site.ancestors.without(gone)
        if after is None:
            found = self._to_release_by_collecting(frozenset(leaving), nodes, only_leaves=only_leaves)
        else:
            removal = Removal(self._graph, self._site.ancestors, gone=gone, after=after, only_leaves=only_leaves)
            found = self._to_release_of_normal_arcs(removal, nodes)
        return dict(self._in_order(found))

    def _to_release_of_normal_arcs(self, removal: Removal, nodes: Iterable[NodeIndex]) -> dict[ArcKey, Minimal]:
        computed = self._computed()
        found: dict[ArcKey, Minimal] = {}
        for sink, wanted in self._sent_into_sinks(nodes, removal).items():
            if self._settled.is_settled(sink):
                lost = removal.lost(sink, wanted)
                blocked = {ends: computed.expanded(self.sent[self._name(*ends)]) for ends in lost}
            else:
                blocked = removal.blocked(sink, wanted)
                lost = removal.lost(sink, blocked)
            for ends in lost:
                kept = removal.keepable(ends[0], blocked[ends], lost[ends])
                sent = self.sent[self._name(*ends)]
                found[ends] = computed.minimal(kept, likely=sent)
        return found

    def _sent_into_sinks(self, nodes: Iterable[NodeIndex], removal: Removal) -> dict[NodeIndex, dict[ArcKey, None]]:
        """Arcs into these owned nodes for which there are records that an update may make wrong, by derived node."""
        graph, ids, index = self._graph, self._graph.ids, self._graph.index
        sinks = removal.sinks
        found: dict[NodeIndex, dict[ArcKey, None]] = {}
        for child in sorted(nodes):
            sink = graph.representative(child)
            if sink not in sinks:
                continue
            for name in self._sent_into.get(ids[child], ()):
                parent = index.get(name)
                arc = None if parent is None else graph.parents[child].get(parent)
                if arc is None or not self.sent[ArcId(name, ids[child])] or (parent, child) in removal.gone:
                    continue
                if self._comes_from_elsewhere(arc):
                    found.setdefault(sink, {})[arc.parent, child] = None
        return found

    def _to_release_by_collecting(
        self, leaving: Set[ArcId], nodes: Iterable[NodeIndex], *, only_leaves: bool
    ) -> dict[ArcKey, Minimal]:
        """The same where a virtual node may break: computed as a coordinator computes an outcome."""
        wanted = [
            arc
            for arc in self._entering_from_elsewhere(nodes)
            if (name := self._name(arc.parent, arc.child)) not in leaving and self.sent.get(name)
        ]
        if not wanted:
            return {}
        collected = self._records.collect({arc.child for arc in wanted})
        before, after = CollectedGraph(collected), CollectedGraph(collected)
        removed = [ends for arc in leaving if (ends := after.numbers(arc)) and after.graph.arc(*ends) is not None]
        changes = Changes(removed=removed)
        # No virtual node made here outlives this computation; any priority will do.
        after.apply(changes, after.topology(changes, final=NEVER), final=NEVER)
        sinks = [before.graph.index[self._site.id_of(arc.child)] for arc in wanted]
        now, then = before.blocked(sinks), after.blocked(sinks)
        found = {}
        for arc in wanted:
            name = self._name(arc.parent, arc.child)
            was = now.get(name)
            if was is None:
                continue
            lost = lost_originators(was, then.get(name))
            if only_leaves:
                lost &= after.ancestors.of(after.graph.index[name.parent])
            if lost:
                found[arc.parent, arc.child] = before.keepable(was, lost)
        return found

    def released(self, update_id: UpdateId, arc: ArcId, keep: Minimal) -> None:
        """Remember what was released for an update, in case it aborts."""
        self._released.setdefault(update_id, {}).setdefault(arc, self.sent.get(arc, ()))
        self._changed_releases[update_id] = None
        self._remember_sent(arc, keep)

    def committed(self, update_id: UpdateId) -> None:
        """What was released stays so."""
        if self._released.pop(update_id, None) is not None:
            self._changed_releases[update_id] = None

    def aborted(self, update_id: UpdateId, *, final: Priority | None) -> None:
        """Block again what was released."""
        released = self._released.get(update_id, {})
        self.committed(update_id)
        for arc, nodes in released.items():
            assert final is not None
            self._remember_sent(arc, nodes)
            version = RecordVersion(final, is_block=True)
            self._site.send(self._site.home_of(arc.parent), Block(((arc, nodes),), version))

    def block_again(self, arcs: Iterable[ArcId], *, final: Priority) -> None:
        """Undo what a coordinator released for an update that came to nothing."""
        for arc in arcs:
            if self._site.home_of(arc.child) == self._site.server:
                version = RecordVersion(final, is_block=True)
                self._site.send(self._site.home_of(arc.parent), Block(((arc, self.sent.get(arc, ())),), version))

    def released_last(self) -> list[ArcId]:
        """Arcs of whose stored records a release was the last that was heard; sorted."""
        return sorted(arc for arc, version in self._versions.items() if not version.is_block)

    def send_again(self, arcs: Iterable[ArcId], *, to: ServerId, final: Priority) -> None:
        """Say what stored records are to hold."""
        records = tuple((arc, self.sent.get(arc, ())) for arc in arcs)
        self._site.send(to, Block(records, RecordVersion(final, is_block=True)))

    def _entering_from_elsewhere(self, nodes: Iterable[NodeIndex]) -> list[ArcRecord]:
        """Arcs into these nodes from servers that own no component of the derived node they lead to."""
        if not self._site.table.has_several_servers:
            return []
        parents = self._graph.parents
        return [arc for node in nodes for arc in parents[node].values() if self._comes_from_elsewhere(arc)]

    def _comes_from_elsewhere(self, arc: ArcRecord) -> bool:
        """Whether the record of an arc into an owned node is stored at another server: it owns no component of it."""
        site = self._site
        if site.owns(arc.parent):
            return False
        components = self._graph.components(arc.child)
        if len(components) == 1:
            return True
        home = site.home_of(site.id_of(arc.parent))
        return all(site.home_of(site.id_of(component)) != home for component in components)

    def _in_order(self, records: Mapping[ArcKey, Minimal]) -> list[tuple[ArcId, Minimal]]:
        """By name, sorted by child, then parent."""
        named = [(self._name(*ends), nodes) for ends, nodes in records.items()]
        return sorted(named, key=lambda record: (record[0].child, record[0].parent))

    def _name(self, parent: NodeIndex, child: NodeIndex) -> ArcId:
        return ArcId(self._graph.ids[parent], self._graph.ids[child])

    def _remember_sent(self, arc: ArcId, nodes: Minimal) -> None:
        """What was sent need not be what the graph says."""
        index = self._graph.index
        if arc.parent in index and arc.child in index:
            self._settled.replaced((index[arc.parent], index[arc.child]), self.sent.get(arc, ()))
        self._changed[arc] = None
        self._note_sent(arc, nodes)

    def _note_sent(self, arc: ArcId, nodes: Minimal) -> None:
        self.sent[arc] = nodes
        self._sent_into.setdefault(arc.child, {})[arc.parent] = None
        for node in nodes:
            self._naming.setdefault(node, set()).add(arc.child)

    def _send_nothing(self, arc: ArcId) -> None:
        if self._forget_sent(arc):
            child = self._graph.index.get(arc.child)
            if child is not None:
                self._settled.unsettle(child)

    def _forget_sent(self, arc: ArcId) -> bool:
        """Whether there was a record."""
        if self.sent.pop(arc, None) is None:
            return False
        del self._sent_into[arc.child][arc.parent]
        self._changed[arc] = None
        return True

    def take_rows(self) -> list[ProtocolRow]:
        """The rows of records that changed since this was last asked."""
        rows = []
        shorten = cache(self._shortened)  # very many records hold the same nodes
        for arc in self._changed:
            sent = self.sent.get(arc)
            row = _BoundaryRow(
                arc,
                self._versions.get(arc),
                shorten(self.stored.get(arc, ())),
                None if sent is None else shorten(sent),
            )
            is_empty = row.version is None and row.sent is None
            rows.append(ProtocolRow(BOUNDARY, " ".join(arc), None if is_empty else _ENCODER.encode(row)))
        for update_id in self._changed_releases:
            released = self._released.get(update_id)
            value = None if released is None else _ENCODER.encode((update_id, tuple(released.items())))
            rows.append(ProtocolRow(RELEASES, row_key(update_id), value))
        self._changed, self._changed_releases = {}, {}
        return rows

    def restore(self, rows: Iterable[ProtocolRow]) -> None:
        """Take up the records as they were when the rows were written. The graph is restored already."""
        lengthen = cache(self._lengthened)
        for row in rows:
            assert row.value is not None
            if row.part == BOUNDARY:
                arc, version, stored, sent = _ROW_DECODER.decode(row.value)
                if version is not None:
                    self._versions[arc] = version
                if stored:
                    self.stored[arc] = lengthen(stored)
                if sent is not None:
                    self._note_sent(arc, lengthen(sent))
            elif row.part == RELEASES:
                update_id, released = _RELEASES_DECODER.decode(row.value)
                self._released[update_id] = dict(released)

    def _shortened(self, nodes: Minimal) -> _Shortened:
        index = self._graph.index
        return tuple([index.get(node, node) for node in nodes])

    def _lengthened(self, nodes: _Shortened) -> Minimal:
        ids = self._graph.ids
        return tuple([node if isinstance(node, str) else ids[node] for node in nodes])


def by_home_of_parent(
    records: Iterable[tuple[ArcId, Minimal]], site: Site
) -> dict[ServerId, tuple[tuple[ArcId, Minimal], ...]]:
    """Records by the server of this view that stores them, so that one message tells it of all."""
    found: dict[ServerId, list[tuple[ArcId, Minimal]]] = {}
    for arc, nodes in records:
        home = site.home_of(arc.parent)
        if site.is_in_view(home):
            found.setdefault(home, []).append((arc, nodes))
    return {server: tuple(found[server]) for server in sorted(found)}


_Shortened = tuple[NodeIndex | NodeId, ...]
"""As `Minimal`, by number where a node has one, which it keeps: after an import, tens of megabytes less to write."""


class _BoundaryRow(NamedTuple):
    arc: ArcId
    version: RecordVersion | None
    stored: _Shortened
    sent: _Shortened | None


_ENCODER = msgspec.msgpack.Encoder()
_ROW_DECODER = msgspec.msgpack.Decoder(_BoundaryRow)
_RELEASES_DECODER = msgspec.msgpack.Decoder(tuple[UpdateId, tuple[tuple[ArcId, Minimal], ...]])
