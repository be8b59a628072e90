"""What a coordinator decides: the outcome of an update, computed alone over the ancestry that participants sent.

It knows all that is above the parents of the update's arcs, hence whether a child is an ancestor of a parent, and every
derived node on a way between them. The computation is that of one server (`virtual_node_changes`), over the collected
graph.

The *relay*: what is above a joined parent is now above all that is below the child. Each participant gets the records
of which it holds another version; all others are changed by the difference, which names the version it applies to.

Source: NG 4.5 to 4.7; protocol.md section 5, items 4 and 5.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from namegraph.graph.delta import GraphDelta
from namegraph.graph.virtual_node_changes import Topology
from namegraph.model.names import NodeId, ServerId
from namegraph.model.outcomes import EffectKind
from namegraph.model.priorities import Priority
from namegraph.model.rows import ArcKey, NodeIndex, NodeKind
from namegraph.replication.ancestry_store import newest
from namegraph.replication.scratch_graph import ScratchGraph
from namegraph.update.arc_outcomes import ArcOutcomes, UnsaidError
from namegraph.wire.columns import PRESENT, concerning, nodes_in, pack_arcs, pack_records, unpack_records
from namegraph.wire.message_parts import (
    AncestryRecord,
    ArcColumns,
    GroupChange,
    InArc,
    PendingEntry,
    RecordColumns,
    UpdateId,
    Vnid,
)
from namegraph.wire.update_messages import Commit, Ready

HomeOf = Callable[[NodeId], ServerId]


@dataclass(frozen=True, slots=True)
class Decision:
    """An outcome, and what each participant must learn of it."""

    update_id: UpdateId
    final: Priority
    after: ScratchGraph
    groups: tuple[GroupChange, ...]
    arcs: ArcOutcomes
    already_there: int
    """Arcs that were to be joined if needed, and were there."""
    renamed: tuple[tuple[NodeId, Vnid | None], ...]
    relay: Relay
    bases: tuple[tuple[NodeId, Priority], ...]
    effects: list[tuple[EffectKind, list[NodeIndex]]]
    home_of: HomeOf

    def parts(self, readies: Mapping[ServerId, Ready], handed_on: tuple[PendingEntry, ...]) -> dict[ServerId, Commit]:
        """What each participant is sent."""
        groups: dict[ServerId, list[GroupChange]] = {}
        for change in self.groups:
            groups.setdefault(self.home_of(change.group), []).append(change)
        arcs = self.arcs.all_columns()
        homes = list(map(self.home_of, arcs.names))
        return {
            server: self._part_of(
                server, self.relay.columns(dict(ready.held)), handed_on, groups.get(server, ()), arcs, homes
            )
            for server, ready in readies.items()
        }

    def for_all(self, everything: bytes, handed_on: tuple[PendingEntry, ...]) -> Commit:
        """What every participant is sent where each is to take its part by itself (`commit_share`)."""
        nothing, no_records = pack_arcs(()), pack_records(())
        return Commit(self.update_id, self.final, (), nothing, (), no_records, (), handed_on, everything, is_whole=True)

    def everything(self, readies: Mapping[ServerId, Ready]) -> Commit:
        """The whole outcome: every participant can apply its part of it, whatever became of the one it was sent."""
        first, *others = [ready.held for ready in readies.values()]
        held_by_all = set(first).intersection(*others)
        relay = self.relay.columns(dict(held_by_all))
        return Commit(
            self.update_id,
            self.final,
            self.groups,
            self.arcs.all_columns(),
            self.renamed,
            relay,
            self._bases_without(nodes_in(relay)),
            (),
        )

    def _bases_without(self, relayed: Set[NodeId]) -> tuple[tuple[NodeId, Priority], ...]:
        return tuple(base for base in self.bases if base[0] not in relayed)

    def _part_of(
        self,
        server: ServerId,
        relay: RecordColumns,
        handed_on: tuple[PendingEntry, ...],
        groups: Iterable[GroupChange],
        arcs: ArcColumns,
        homes: Sequence[ServerId],
    ) -> Commit:
        """Arcs that end there, or whose child it may hold a record of that stays. `homes`: of the ends of all arcs."""
        relayed = nodes_in(relay)
        return Commit(
            self.update_id,
            self.final,
            tuple(groups),
            concerning(
                arcs,
                ends=[home == server for home in homes],
                group_children=[name not in relayed for name in arcs.names],
            ),
            self.renamed,
            relay,
            self._bases_without(relayed),
            handed_on,
        )


def decide(update_id: UpdateId, readies: Mapping[ServerId, Ready], *, final: Priority, home_of: HomeOf) -> Decision:
    """Compute the outcome of an update for which everybody is ready; raises `UnsaidError`."""
    records: dict[NodeId, AncestryRecord] = {}
    for server in sorted(readies):
        records = newest(unpack_records(readies[server].ancestry), records)
    arcs = _arc_outcomes(readies)
    children = arcs.children()
    # Where no child is above a parent, nothing that was collected changes.
    in_order = [records[node] for node in sorted(records)] if any(child in records for child in children) else []
    after = ScratchGraph(in_order)
    changes = _changes(after, arcs, records)
    topology = after.topology(changes, final=final)
    after.apply(changes, topology, final=final)
    del changes
    renamed = _renamed(after, topology)
    groups = tuple(change for server in sorted(readies) for change in readies[server].groups)
    bases = {node: records[node].version for node, _ in renamed}
    for server in sorted(readies):
        bases.update({child.child: child.version for child in readies[server].children})
    changed = {*dict(renamed), *children, *(change.group for change in groups)}
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
        [(kind, list(components)) for kind, components in topology.effects],
        home_of,
    )


def _arc_outcomes(readies: Mapping[ServerId, Ready]) -> ArcOutcomes:
    kinds = {truth.child: truth.kind for server in sorted(readies) for truth in readies[server].children}
    declined = {arc for ready in readies.values() for arc in ready.declined}
    outcomes = ArcOutcomes()
    for server in sorted(readies):
        # A foreign process lives at each of its parents' homes: what it is there, that home knows.
        kinds_there = {truth.child: truth.kind for truth in readies[server].children}
        outcomes.add(readies[server].arcs, ChainMap(kinds_there, kinds), declined)
    return outcomes


def _changes(graph: ScratchGraph, arcs: ArcOutcomes, records: Mapping[NodeId, AncestryRecord]) -> GraphDelta:
    """The arcs that matter to what is above the parents: those whose child is above one too."""
    changes = GraphDelta()
    group = NodeKind.GROUP.value
    numbers = [graph.graph.index.get(name) if name in records else None for name in arcs.names]
    for parent_place, child_place, is_present, kind, cost, _ in arcs.rows():
        child = numbers[child_place]
        if child is None or (is_present == PRESENT and kind != group):
            continue
        parent = numbers[parent_place]
        if parent is None:
            raise UnsaidError(arcs.names[parent_place])
        held = graph.graph.arc(parent, child)
        if held is not None and not (is_present == PRESENT and held.cost == cost):
            changes.removed.append((parent, child))
            held = None
        if is_present == PRESENT and held is None:
            changes.added.append((parent, child, cost))
    return changes


def _renamed(after: ScratchGraph, topology: Topology) -> tuple[tuple[NodeId, Vnid | None], ...]:
    ids = after.graph.ids
    renamed: dict[NodeId, Vnid | None] = {}
    for dissolved in topology.dissolved:
        renamed.update(dict.fromkeys([ids[component] for component in dissolved.components]))
    for formed in topology.formed:
        vnid = Vnid(formed.smallest, formed.made_at)
        renamed.update(dict.fromkeys([ids[component] for component in formed.components], vnid))
    return tuple(sorted(renamed.items()))


class Relay:
    """The records above joined parents, as they are after the update.

    Each is made when it is asked for: all together may be as large as a graph.
    """

    def __init__(self, before: Mapping[NodeId, Priority], read: Callable[[NodeId], AncestryRecord]) -> None:
        """`before`: the version that each record had before the update, sorted by node."""
        self._before = before
        self._read = read
        self._everything: RecordColumns | None = None

    def columns(self, held: Mapping[NodeId, Priority]) -> RecordColumns:
        """The records for a server that held some, in these versions, before the update."""
        wanted = [node for node, version in self._before.items() if held.get(node) != version]
        if len(wanted) < len(self._before):
            return pack_records(map(self._read, wanted))
        if self._everything is None:
            self._everything = pack_records(map(self._read, wanted))
        return self._everything


def _relay(
    records: Mapping[NodeId, AncestryRecord],
    after: ScratchGraph | None,
    arcs: ArcOutcomes,
    changed: Set[NodeId],
    *,
    final: Priority,
) -> Relay:
    """The records above joined parents. `after`: None where no arc among them changed."""
    tails = arcs.joined_parents()
    versions: dict[ArcKey, int] = {}
    if after is None:
        above = _above(records, tails)
    else:
        graph = after.graph
        unsaid = next((tail for tail in tails if tail not in graph.index), None)
        if unsaid is not None:
            raise UnsaidError(unsaid)
        above = {graph.ids[node] for node in graph.ancestors(graph.index[tail] for tail in tails)} & records.keys()
        versions = _other_versions(after, arcs, final=final)

    def read(name: NodeId) -> AncestryRecord:
        if name not in changed:
            return records[name]
        if after is None:
            return records[name]._replace(version=final)
        return _read(after, name, versions, _still_suspended(records[name], arcs), final=final)

    return Relay({name: records[name].version for name in sorted(above)}, read)


def _above(records: Mapping[NodeId, AncestryRecord], tails: Iterable[NodeId]) -> set[NodeId]:
    found: set[NodeId] = set()
    pending = list(tails)
    while pending:
        name = pending.pop()
        if name not in found and name in records:
            found.add(name)
            pending += [arc.parent for arc in records[name].in_arcs]
    return found


def _other_versions(after: ScratchGraph, arcs: ArcOutcomes, *, final: Priority) -> dict[ArcKey, int]:
    """The versions of the update's arcs, where the collected graph does not say the same of an arc after the update."""
    graph = after.graph
    numbers = [graph.index.get(name) for name in arcs.names]
    found = {}
    for parent_place, child_place, is_present, _, _, version in arcs.rows():
        parent, child = numbers[parent_place], numbers[child_place]
        if is_present != PRESENT or parent is None or child is None:
            continue
        arc = graph.parents[child].get(parent)
        if arc is not None and (arc.version != version or arc.writer != final.counter):
            found[parent, child] = version
    return found


def _still_suspended(record: AncestryRecord, arcs: ArcOutcomes) -> tuple[InArc, ...]:
    if not record.suspended:
        return ()
    names = arcs.names
    touched = {(names[parent], names[child]) for parent, child, *_ in arcs.rows()}
    return tuple(arc for arc in record.suspended if (arc.parent, record.node) not in touched)


def _read(
    after: ScratchGraph,
    name: NodeId,
    versions: Mapping[ArcKey, int],
    suspended: tuple[InArc, ...],
    *,
    final: Priority,
) -> AncestryRecord:
    """The record of a group that the update changed."""
    graph, ids = after.graph, after.graph.ids
    node = graph.index[name]
    new_row = tuple.__new__  # half the time of calling the class, and an import relays half a million
    in_arcs = []
    for parent, arc in graph.parents[node].items():
        version = versions.get((parent, node)) if versions else None
        if version is None:
            in_arcs.append(new_row(InArc, (ids[parent], arc.cost, arc.version, arc.writer)))
        else:
            in_arcs.append(InArc(ids[parent], arc.cost, version, final.counter))
    virtual_node = graph.virtual_node_of.get(node)
    vnid = None if virtual_node is None else Vnid(virtual_node.smallest, virtual_node.made_at)
    return AncestryRecord(name, tuple(sorted(in_arcs)), vnid, final, suspended)
