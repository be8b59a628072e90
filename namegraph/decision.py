"""What a coordinator decides: the outcome of an update, computed alone over the ancestry that participants sent.

It knows all that is above the parents of the update's arcs, hence whether a child is an ancestor of a parent, and every
derived node on a way between them. The computation is that of one server (`virtual_nodes`), over the collected graph.

The *relay*: what is above a joined parent is now above all that is below the child. Each participant gets the records
of which it holds another version; all others are changed by the difference, which names the version it applies to.

Source: NG 4.5 to 4.7; protocol.md section 5, items 4 and 5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass

from namegraph.ancestry_records import newest
from namegraph.changes import Changes
from namegraph.collected import CollectedGraph, lost_originators, minimal_nodes
from namegraph.columns import nodes_in, pack_arcs, pack_records, unpack_arcs, unpack_records
from namegraph.events import EffectKind
from namegraph.messages import (
    AncestryRecord,
    ArcChange,
    ArcId,
    Commit,
    GroupChange,
    InArc,
    PendingEntry,
    Ready,
    RecordColumns,
    UpdateId,
    Vnid,
)
from namegraph.names import NodeId, ServerId
from namegraph.priorities import Priority
from namegraph.records import NodeIndex, NodeKind
from namegraph.virtual_nodes import Topology

HomeOf = Callable[[NodeId], ServerId]
Minimal = tuple[NodeId, ...]


@dataclass(frozen=True, slots=True)
class Decision:
    """An outcome, and what each participant must learn of it."""

    update_id: UpdateId
    final: Priority
    after: CollectedGraph
    groups: tuple[GroupChange, ...]
    arcs: tuple[ArcChange, ...]
    already_there: int
    """Arcs that were to be joined if needed, and were there."""
    renamed: tuple[tuple[NodeId, Vnid | None], ...]
    relay: tuple[tuple[AncestryRecord, Priority], ...]
    """Records above joined parents, each with the version that it had before."""
    bases: tuple[tuple[NodeId, Priority], ...]
    releases: dict[ArcId, Minimal]
    """Stored records that the new order of arcs into a virtual node makes wrong, and what may stay of them."""
    stored: tuple[tuple[ArcId, Minimal], ...]
    effects: list[tuple[EffectKind, list[NodeIndex]]]
    home_of: HomeOf

    def parts(self, readies: Mapping[ServerId, Ready], handed_on: tuple[PendingEntry, ...]) -> dict[ServerId, Commit]:
        """What each participant is sent."""
        homes = {change.group: self.home_of(change.group) for change in self.groups}
        for arc in (*[outcome.arc for outcome in self.arcs], *self.releases, *[arc for arc, _ in self.stored]):
            for node in arc:
                if node not in homes:
                    homes[node] = self.home_of(node)
        everything: RecordColumns | None = None
        found = {}
        for server, ready in readies.items():
            held = dict(ready.held)
            relay = [record for record, before in self.relay if held.get(record.node) != before]
            is_everything = len(relay) == len(self.relay)
            packed = everything if is_everything and everything is not None else pack_records(relay)
            if is_everything:
                everything = packed
            found[server] = self._part_of(server, packed, handed_on, homes)
        return found

    def _part_of(
        self,
        server: ServerId,
        relay: RecordColumns,
        handed_on: tuple[PendingEntry, ...],
        homes: Mapping[NodeId, ServerId],
    ) -> Commit:
        """Arcs that end there, or whose child it may hold a record of that stays."""
        relayed = nodes_in(relay)
        return Commit(
            self.update_id,
            self.final,
            tuple(change for change in self.groups if homes[change.group] == server),
            pack_arcs(
                outcome
                for outcome in self.arcs
                if homes[outcome.arc.parent] == server
                or homes[outcome.arc.child] == server
                or (outcome.kind is NodeKind.GROUP and outcome.arc.child not in relayed)
            ),
            self.renamed,
            relay,
            self.bases,
            handed_on,
            tuple((arc, keep) for arc, keep in self.releases.items() if homes[arc.child] == server),
            tuple((arc, nodes) for arc, nodes in self.stored if server in (homes[arc.parent], homes[arc.child])),
        )


def decide(update_id: UpdateId, readies: Mapping[ServerId, Ready], *, final: Priority, home_of: HomeOf) -> Decision:
    """Compute the outcome of an update for which everybody is ready."""
    records: dict[NodeId, AncestryRecord] = {}
    for server in sorted(readies):
        records = newest(unpack_records(readies[server].ancestry), records)
    arcs = _arc_outcomes(readies)
    # Where no child is above a parent, nothing that was collected changes.
    in_order = [records[node] for node in sorted(records)] if any(arc.arc.child in records for arc in arcs) else []
    after = CollectedGraph(in_order)
    changes = _changes(after, arcs, records)
    topology = after.topology(changes, final=final)
    after.apply(changes, topology, final=final)
    renamed = _renamed(after, topology)
    groups = tuple(change for server in sorted(readies) for change in readies[server].groups)
    old_versions = {node: record.version for node, record in records.items()}
    bases = {node: old_versions[node] for node, _ in renamed}
    for server in sorted(readies):
        bases.update({child.child: child.version for child in readies[server].children})
    changed = {*dict(renamed), *(outcome.arc.child for outcome in arcs), *(change.group for change in groups)}
    return Decision(
        update_id,
        final,
        after,
        groups,
        arcs,
        sum(ready.already_there for ready in readies.values()),
        renamed,
        _relay(records, after if in_order else None, arcs, changed, final=final),
        tuple(sorted(bases.items())),
        _releases(CollectedGraph(in_order), after, topology, home_of) if topology.formed else {},
        _stored(after, topology),
        [(kind, list(components)) for kind, components in topology.effects],
        home_of,
    )


def _arc_outcomes(readies: Mapping[ServerId, Ready]) -> tuple[ArcChange, ...]:
    kinds = {truth.child: truth.kind for server in sorted(readies) for truth in readies[server].children}
    outcomes = []
    for server in sorted(readies):
        # A foreign process lives at each of its parents' homes: what it is there, that home knows.
        kinds_there = {**kinds, **{truth.child: truth.kind for truth in readies[server].children}}
        for change in unpack_arcs(readies[server].arcs):
            kind = kinds_there[change.arc.child] if change.is_present else change.kind
            outcomes.append(change._replace(kind=kind))
    return tuple(outcomes)


def _changes(graph: CollectedGraph, arcs: tuple[ArcChange, ...], records: Mapping[NodeId, AncestryRecord]) -> Changes:
    """The arcs that matter to what is above the parents: those whose child is above one too."""
    changes = Changes()
    for outcome in arcs:
        if outcome.arc.child not in records or (outcome.is_present and outcome.kind is not NodeKind.GROUP):
            continue
        ends = graph.numbers(outcome.arc)
        assert ends is not None, "the ancestry of every parent was collected"
        held = graph.graph.arc(*ends)
        if held is not None and not (outcome.is_present and held.cost == outcome.cost):
            changes.removed.append(ends)
            held = None
        if outcome.is_present and held is None:
            changes.added.append((*ends, outcome.cost))
    return changes


def _renamed(after: CollectedGraph, topology: Topology) -> tuple[tuple[NodeId, Vnid | None], ...]:
    ids = after.graph.ids
    renamed: dict[NodeId, Vnid | None] = {}
    for dissolved in topology.dissolved:
        renamed.update(dict.fromkeys([ids[component] for component in dissolved.components]))
    for formed in topology.formed:
        vnid = Vnid(formed.smallest, formed.made_at)
        renamed.update(dict.fromkeys([ids[component] for component in formed.components], vnid))
    return tuple(sorted(renamed.items()))


def _relay(
    records: Mapping[NodeId, AncestryRecord],
    after: CollectedGraph | None,
    arcs: tuple[ArcChange, ...],
    changed: Set[NodeId],
    *,
    final: Priority,
) -> tuple[tuple[AncestryRecord, Priority], ...]:
    """The records above joined parents. `after`: None where no arc among them changed."""
    tails = [outcome.arc.parent for outcome in arcs if outcome.is_present]
    if not tails:
        return ()
    if after is None:
        above = _above(records, tails)
    else:
        graph = after.graph
        above = {graph.ids[node] for node in graph.ancestors(graph.index[tail] for tail in tails)} & records.keys()
    versions = {outcome.arc: outcome.version for outcome in arcs} if after is not None else {}
    relay = []
    for name in sorted(above):
        record = records[name]
        if name not in changed:
            relay.append((record, record.version))
        elif after is None:
            relay.append((record._replace(version=final), record.version))
        else:
            relay.append((_read(after, name, versions, final=final), record.version))
    return tuple(relay)


def _above(records: Mapping[NodeId, AncestryRecord], tails: Iterable[NodeId]) -> set[NodeId]:
    found: set[NodeId] = set()
    pending = list(tails)
    while pending:
        name = pending.pop()
        if name not in found and name in records:
            found.add(name)
            pending += [arc.parent for arc in records[name].in_arcs]
    return found


def _read(after: CollectedGraph, name: NodeId, versions: Mapping[ArcId, int], *, final: Priority) -> AncestryRecord:
    """The record of a group that the update changed."""
    graph = after.graph
    node = graph.index[name]
    in_arcs = []
    for arc in graph.parents[node].values():
        named = after.name_arc(arc)
        version = versions.get(named)
        if version is None:
            in_arcs.append(InArc(named.parent, arc.cost, arc.version, arc.writer))
        else:
            in_arcs.append(InArc(named.parent, arc.cost, version, final.counter))
    virtual_node = graph.virtual_node_of.get(node)
    vnid = None if virtual_node is None else Vnid(virtual_node.smallest, virtual_node.made_at)
    return AncestryRecord(name, tuple(sorted(in_arcs)), vnid, final)


def _releases(
    before: CollectedGraph, after: CollectedGraph, topology: Topology, home_of: HomeOf
) -> dict[ArcId, Minimal]:
    """Stored records into virtual nodes that form or grow which would block wrongly, and what may stay of them."""
    found: dict[ArcId, Minimal] = {}
    for formed in topology.formed:
        was_blocked = before.blocked(formed.components)
        if not was_blocked:
            continue
        now_blocked = after.blocked(formed.components)
        for arc in after.graph.entering_arcs(formed.representative):
            name = after.name_arc(arc)
            was = was_blocked.get(name)
            if was is None:
                continue
            computed_at = {home_of(before.graph.ids[node]) for node in before.graph.components(arc.child)}
            if home_of(name.parent) in computed_at:
                continue
            lost = lost_originators(was, now_blocked.get(name))
            if lost:
                found[name] = before.keepable(was, lost)
    return {arc: found[arc] for arc in sorted(found)}


def _stored(after: CollectedGraph, topology: Topology) -> tuple[tuple[ArcId, Minimal], ...]:
    """Records of the arcs that were inside a virtual node which is dissolved, and now lead between derived nodes."""
    graph = after.graph
    stored: dict[ArcId, Minimal] = {}
    for dissolved in topology.dissolved:
        inside = frozenset(dissolved.components)
        blocked = after.blocked(dissolved.components)
        for component in dissolved.components:
            for arc in graph.parents[component].values():
                if arc.parent in inside and graph.representative(arc.parent) != graph.representative(component):
                    name = after.name_arc(arc)
                    stored[name] = minimal_nodes(graph, after.ancestors, blocked[name]) if name in blocked else ()
    return tuple(sorted(stored.items()))
