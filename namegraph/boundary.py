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

from collections.abc import Iterable, Mapping
from typing import Final

from namegraph.ancestry_records import AncestryRecords
from namegraph.changes import Changes
from namegraph.collected import CollectedGraph, lost_originators, minimal_nodes
from namegraph.duplication import controlled_arcs
from namegraph.messages import ArcId, Block, RecordVersion, Update, UpdateId
from namegraph.names import NodeId, ServerId
from namegraph.priorities import Priority
from namegraph.records import ArcRecord, NodeIndex
from namegraph.site import NEVER, Site

Minimal = tuple[NodeId, ...]

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

    def store(self, arc: ArcId, nodes: Minimal, version: RecordVersion) -> None:
        """Take what a child's home says about an arc, unless something newer is known."""
        if version < self._versions.get(arc, _FIRST):
            return
        self._versions[arc] = version
        if nodes:
            self.stored[arc] = nodes
        else:
            self.stored.pop(arc, None)

    def arc_left(self, arc: ArcId, *, final: Priority) -> None:
        """Forget what concerns an arc that was left; its version stays."""
        if self._site.home_of(arc.parent) == self._site.server:
            self.store(arc, (), RecordVersion(final, is_block=True))
        self.sent.pop(arc, None)

    def components_owned(self, components: Iterable[NodeIndex], *, final: Priority) -> None:
        """Forget stored records of arcs into a derived node of which a component is owned here: they are computed."""
        leaving = self._records.leaving
        for child in components:
            for parent in leaving.get(child, ()):
                self.store(self._name(parent, child), (), RecordVersion(final, is_block=True))

    def stores(self, arc: ArcId) -> bool:
        """Whether this server stores the record of an arc: it owns its parent, and no component it leads to."""
        child = self._graph.index.get(arc.child)
        if child is None or self._site.home_of(arc.parent) != self._site.server or self._site.owns(child):
            return False
        return not any(self._site.owns(component) for component in self._graph.components(child))

    def take_released(self, records: Iterable[tuple[ArcId, Minimal]]) -> None:
        """Learn what the coordinator left of records that are computed here, so that they are sent again."""
        self.sent.update(records)

    def block(self, nodes: Iterable[NodeIndex], *, final: Priority, told: Mapping[ArcId, Minimal]) -> None:
        """Send the records of arcs into these owned nodes where they changed; `told` came with the commit."""
        owned = sorted(nodes)
        entering = self._entering_from_elsewhere(owned)
        blocked: dict[ArcId, Minimal] = {}
        for sink in dict.fromkeys(self._graph.representative(arc.child) for arc in entering):
            for found in controlled_arcs(self._graph, self._site.ancestors, sink):
                blocked[self._name(found.arc.parent, found.arc.child)] = minimal_nodes(self._graph, found.blocked)
        wanted = {}
        for arc in entering:
            name = self._name(arc.parent, arc.child)
            wanted[name] = minimal = blocked.get(name, ())
            if minimal == self.sent.get(name, ()):
                continue
            self.sent[name] = minimal
            if name not in told:
                self._site.send(
                    self._site.home_of(name.parent), Block(name, minimal, RecordVersion(final, is_block=True))
                )
        names = {self._site.id_of(node) for node in owned}
        for name in [name for name in self.sent if name.child in names and not (wanted.get(name))]:
            del self.sent[name]

    def to_release(self, update: Update, nodes: Iterable[NodeIndex]) -> dict[ArcId, Minimal]:
        """Records that would wrongly block once the update removed its arcs, and what may stay of them."""
        leaving = [wish.arc for wish in update.wishes if not wish.is_join]
        if not leaving or not self.sent:
            return {}
        gone = frozenset(leaving)
        wanted = [
            arc
            for arc in self._entering_from_elsewhere(sorted(nodes))
            if (name := self._name(arc.parent, arc.child)) not in gone and self.sent.get(name)
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
            lost = lost_originators(was, then.get(name), at=after, tail=name.parent)
            if lost:
                found[name] = before.keepable(was, lost)
        return found

    def released(self, update_id: UpdateId, arc: ArcId, keep: Minimal) -> None:
        """Remember what was released for an update, in case it aborts."""
        self._released.setdefault(update_id, {}).setdefault(arc, self.sent.get(arc, ()))
        self.sent[arc] = keep

    def committed(self, update_id: UpdateId) -> None:
        """What was released stays so."""
        self._released.pop(update_id, None)

    def aborted(self, update_id: UpdateId, *, final: Priority | None) -> None:
        """Block again what was released."""
        for arc, nodes in self._released.pop(update_id, {}).items():
            assert final is not None
            self.sent[arc] = nodes
            self._site.send(self._site.home_of(arc.parent), Block(arc, nodes, RecordVersion(final, is_block=True)))

    def _entering_from_elsewhere(self, nodes: Iterable[NodeIndex]) -> list[ArcRecord]:
        """Arcs into these nodes from servers that own no component of the derived node they lead to."""
        graph, site = self._graph, self._site
        if not site.table.has_several_servers:
            return []
        found = []
        for node in nodes:
            remote = [arc for parent, arc in graph.parents[node].items() if not site.owns(parent)]
            if not remote:
                continue
            homes: set[ServerId] = {site.home_of(site.id_of(component)) for component in graph.components(node)}
            found += [arc for arc in remote if site.home_of(site.id_of(arc.parent)) not in homes]
        return sorted(found, key=lambda arc: (site.id_of(arc.child), site.id_of(arc.parent)))

    def _name(self, parent: NodeIndex, child: NodeIndex) -> ArcId:
        return ArcId(self._graph.ids[parent], self._graph.ids[child])
