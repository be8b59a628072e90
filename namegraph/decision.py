"""What a coordinator decides: the outcome of an update, computed alone over the ancestry that participants sent.

It knows all that is above the parents of the update's arcs, hence whether a child is an ancestor of a parent, and every
derived node on a way between them. The computation is that of one server (`virtual_nodes`), over the collected graph.

The *relay*: what is above a joined parent is now above all that is below the child. Each participant gets the records
of which it holds another version; all others are changed by the difference, which names the version it applies to.

Source: NG 4.5 to 4.7; protocol.md section 5, items 4 and 5.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from namegraph.ancestry_records import newest
from namegraph.changes import Changes
from namegraph.collected import CollectedGraph, lost_originators, minimal_nodes
from namegraph.events import EffectKind
from namegraph.messages import (
    AncestryRecord,
    ArcId,
    ArcOutcome,
    Commit,
    InArc,
    PendingEntry,
    Ready,
    Update,
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
    arcs: tuple[ArcOutcome, ...]
    renamed: tuple[tuple[NodeId, Vnid | None], ...]
    relay: tuple[tuple[AncestryRecord, Priority], ...]
    """Records above joined parents, each with the version that it had before."""
    bases: tuple[tuple[NodeId, Priority], ...]
    releases: dict[ArcId, Minimal]
    """Stored records that the new order of arcs into a virtual node makes wrong, and what may stay of them."""
    stored: tuple[tuple[ArcId, Minimal], ...]
    effects: list[tuple[EffectKind, list[NodeIndex]]]
    home_of: HomeOf

    def part_of(self, server: ServerId, ready: Ready, handed_on: tuple[PendingEntry, ...]) -> Commit:
        """What one participant is sent."""
        held = dict(ready.held)
        return Commit(
            self.update_id,
            self.final,
            self.arcs,
            self.renamed,
            tuple(record for record, before in self.relay if held.get(record.node) != before),
            self.bases,
            handed_on,
            tuple((arc, keep) for arc, keep in self.releases.items() if self.home_of(arc.child) == server),
            tuple(
                (arc, nodes)
                for arc, nodes in self.stored
                if server in (self.home_of(arc.parent), self.home_of(arc.child))
            ),
        )


def decide(update: Update, readies: Mapping[ServerId, Ready], *, final: Priority, home_of: HomeOf) -> Decision:
    """Compute the outcome of an update for which everybody is ready."""
    records: dict[NodeId, AncestryRecord] = {}
    for server in sorted(readies):
        records = newest(readies[server].ancestry, records)
    in_order = [records[node] for node in sorted(records)]
    before, after = CollectedGraph(in_order), CollectedGraph(in_order)
    arcs = _arc_outcomes(update, readies)
    changes = _changes(after, arcs, records)
    topology = after.topology(changes, final=final)
    after.apply(changes, topology, final=final)
    renamed = _renamed(after, topology)
    old_versions = {node: record.version for node, record in records.items()}
    bases = {node: old_versions[node] for node, _ in renamed}
    for server in sorted(readies):
        bases.update({child.child: child.version for child in readies[server].children})
    return Decision(
        update.update_id,
        final,
        after,
        arcs,
        renamed,
        _relay(after, update, arcs, old_versions, dict(renamed), final=final),
        tuple(sorted(bases.items())),
        _releases(before, after, topology, home_of),
        _stored(after, topology),
        [(kind, list(components)) for kind, components in topology.effects],
        home_of,
    )


def _arc_outcomes(update: Update, readies: Mapping[ServerId, Ready]) -> tuple[ArcOutcome, ...]:
    truths = {truth.arc: truth for server in sorted(readies) for truth in readies[server].arcs}
    kinds = {truth.child: truth.kind for server in sorted(readies) for truth in readies[server].children}
    outcomes = []
    for wish in update.wishes:
        truth = truths[wish.arc]
        kind = kinds[wish.arc.child] if wish.is_join else truth.kind
        cost = wish.cost if wish.is_join else truth.cost
        outcomes.append(ArcOutcome(wish.is_join, wish.arc, kind, cost, truth.version + 1))
    return tuple(outcomes)


def _changes(graph: CollectedGraph, arcs: tuple[ArcOutcome, ...], records: Mapping[NodeId, AncestryRecord]) -> Changes:
    """The arcs that matter to what is above the parents: those whose child is above one too."""
    changes = Changes()
    for outcome in arcs:
        if outcome.arc.child not in records or outcome.kind is not NodeKind.GROUP:
            continue
        ends = graph.numbers(outcome.arc)
        assert ends is not None, "the ancestry of every parent was collected"
        is_there = graph.graph.arc(*ends) is not None
        if outcome.is_present and not is_there:
            changes.added.append((*ends, outcome.cost))
        elif not outcome.is_present and is_there:
            changes.removed.append(ends)
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
    after: CollectedGraph,
    update: Update,
    arcs: tuple[ArcOutcome, ...],
    old_versions: Mapping[NodeId, Priority],
    renamed: Mapping[NodeId, Vnid | None],
    *,
    final: Priority,
) -> tuple[tuple[AncestryRecord, Priority], ...]:
    graph = after.graph
    tails = [graph.index[wish.arc.parent] for wish in update.wishes if wish.is_join]
    if not tails:
        return ()
    changed = {outcome.arc.child for outcome in arcs}
    versions = {outcome.arc: outcome.version for outcome in arcs}
    relay = []
    for node in sorted(graph.ancestors(tails), key=graph.ids.__getitem__):
        name = graph.ids[node]
        if name not in old_versions:
            continue
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
        before = old_versions[name]
        version_after = final if name in renamed or name in changed else before
        relay.append((AncestryRecord(name, tuple(sorted(in_arcs)), vnid, version_after), before))
    return tuple(relay)


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
            lost = lost_originators(was, now_blocked.get(name), at=after, tail=name.parent)
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
                    stored[name] = minimal_nodes(graph, blocked[name]) if name in blocked else ()
    return tuple(sorted(stored.items()))
