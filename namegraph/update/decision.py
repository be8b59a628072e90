"""Decision of a coordinator: the outcome of an update, computed alone from the ancestry that participants sent.

The coordinator knows all nodes above the parents of the update's arcs. From these nodes it knows if a child is an
ancestor of a parent, and every derived node on a way between them. The computation is that of one server
(`virtual_node_changes`), over the collected graph.

The *relay* carries the nodes above a joined parent, which are now above all nodes below the child. All participants
get the records that any participant holds in another version or lacks. All other records are changed by the
difference, which names the version to which it applies.

Source: NG 4.5 to 4.7; docs/protocol-updates.md, "The outcome".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from namegraph.graph.delta import GraphDelta
from namegraph.graph.virtual_node_changes import Topology
from namegraph.model.changes import NO_ORIGIN, Origin
from namegraph.model.names import NodeId, ServerId
from namegraph.model.outcomes import EffectKind
from namegraph.model.priorities import Priority
from namegraph.model.rows import ArcKey, NodeIndex, NodeKind
from namegraph.replication.ancestry_store import newest
from namegraph.replication.scratch_graph import ScratchGraph
from namegraph.update.arc_outcomes import UnsaidError, unite_arcs
from namegraph.wire.arc_sets import (
    children_of,
    each_arc,
    each_record,
    joined_count,
    joined_parents_of,
    nodes_of,
    numbered_arcs,
    records_of,
)
from namegraph.wire.columns import PRESENT
from namegraph.wire.message_parts import Ancestry, AncestryRecord, Arcs, InArc, UpdateId, Vnid
from namegraph.wire.update_messages import Ready, UpdateOutcome


@dataclass(frozen=True, slots=True)
class Decision:
    """An outcome, and the facts that its caller must learn."""

    outcome: UpdateOutcome
    after: ScratchGraph
    effects: list[tuple[EffectKind, list[NodeIndex]]]
    joined_parents: list[NodeId]
    """Parents of joined arcs, each once."""
    joined_count: int
    """Number of joined arcs."""
    already_there: int
    """Number of arcs that were to be joined if needed, and were present."""
    unchanged: tuple[int, ...]
    """Places of operations marked "if needed" that were not needed, sorted."""


def decide(
    update_id: UpdateId,
    readies: Mapping[ServerId, Ready],
    *,
    final: Priority,
    origin: Origin = NO_ORIGIN,
    renames: tuple[tuple[NodeId, NodeId], ...] = (),
) -> Decision:
    """Compute the outcome of an update for which all participants are ready. Raises `UnsaidError`."""
    found = [readies[server] for server in sorted(readies)]
    records: dict[NodeId, AncestryRecord] = {}
    for ready in found:
        records = newest(each_record(ready.ancestry), records)
    arcs = _arc_outcomes(found)
    children = children_of(arcs)
    # If no child is above a parent, the update changes none of the collected records, and no virtual node.
    in_order = [] if records.keys().isdisjoint(children) else [records[node] for node in sorted(records)]
    after, topology = ScratchGraph(in_order), Topology()
    if in_order:
        changes = _changes(after, arcs, records)
        topology = after.topology(changes, final=final)
        after.apply(changes, topology, final=final)
        del changes
    renamed = _renamed(after, topology)
    groups = tuple([change for ready in found for change in ready.groups])
    bases = {node: records[node].version for node, _ in renamed}
    for ready in found:
        bases.update([(child, version) for child, _, version in ready.children])
    changed = {*dict(renamed), *children, *[change.group for change in groups]}
    held_by_all = set(found[0].held).intersection(*[ready.held for ready in found[1:]])
    relay = _relay(records, after if in_order else None, arcs, changed, dict(held_by_all), final=final)
    relayed = nodes_of(relay)
    return Decision(
        UpdateOutcome(
            update_id,
            final,
            groups,
            arcs,
            renamed,
            relay,
            tuple(sorted([base for base in bases.items() if base[0] not in relayed])),
            origin,
            renames,
        ),
        after,
        [(kind, list(components)) for kind, components in topology.effects],
        joined_parents_of(arcs),
        joined_count(arcs),
        sum([ready.already_there for ready in found]),
        tuple(sorted({place for ready in found for place in ready.unchanged})),
    )


def _arc_outcomes(readies: Sequence[Ready]) -> Arcs:
    declined = {arc for ready in readies for arc in ready.declined}
    found = [(ready.arcs, {child: kind for child, kind, _ in ready.children}) for ready in readies]
    told = [told for ready in readies for told in ready.told]
    return unite_arcs(found, declined=declined, told=told)


def _changes(graph: ScratchGraph, arcs: Arcs, records: Mapping[NodeId, AncestryRecord]) -> GraphDelta:
    """Return the arcs that matter above the parents: those whose child is above a parent too."""
    changes = GraphDelta()
    group = NodeKind.GROUP.value
    names, rows = numbered_arcs(arcs)
    numbers = [graph.graph.index.get(name) if name in records else None for name in names]
    for parent_place, child_place, is_present, kind, cost, _ in rows:
        child = numbers[child_place]
        if child is None or (is_present == PRESENT and kind != group):
            continue
        parent = numbers[parent_place]
        if parent is None:
            raise UnsaidError(names[parent_place])
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


def _relay(
    records: Mapping[NodeId, AncestryRecord],
    after: ScratchGraph | None,
    arcs: Arcs,
    changed: Set[NodeId],
    held_by_all: Mapping[NodeId, Priority],
    *,
    final: Priority,
) -> Ancestry:
    """Return the records above joined parents, as after the update, except those that all servers held before it.

    `after`: None if no arc among them changed.
    """
    tails = joined_parents_of(arcs)
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

    # Each record is made when it is packed, because all together may be as large as a graph.
    return records_of(read(name) for name in sorted(above) if held_by_all.get(name) != records[name].version)


def _above(records: Mapping[NodeId, AncestryRecord], tails: Iterable[NodeId]) -> set[NodeId]:
    found: set[NodeId] = set()
    pending = list(tails)
    while pending:
        name = pending.pop()
        if name not in found and name in records:
            found.add(name)
            pending += [arc.parent for arc in records[name].in_arcs]
    return found


def _other_versions(after: ScratchGraph, arcs: Arcs, *, final: Priority) -> dict[ArcKey, int]:
    """Return the versions of the update's arcs for which the collected graph has another state after the update."""
    graph = after.graph
    names, rows = numbered_arcs(arcs)
    numbers = [graph.index.get(name) for name in names]
    found = {}
    for parent_place, child_place, is_present, _, _, version in rows:
        parent, child = numbers[parent_place], numbers[child_place]
        if is_present != PRESENT or parent is None or child is None:
            continue
        arc = graph.parents[child].get(parent)
        if arc is not None and (arc.version != version or arc.writer != final.counter):
            found[parent, child] = version
    return found


def _still_suspended(record: AncestryRecord, arcs: Arcs) -> tuple[InArc, ...]:
    if not record.suspended:
        return ()
    touched = {known.arc for known in each_arc(arcs)}
    return tuple(arc for arc in record.suspended if (arc.parent, record.node) not in touched)


def _read(
    after: ScratchGraph,
    name: NodeId,
    versions: Mapping[ArcKey, int],
    suspended: tuple[InArc, ...],
    *,
    final: Priority,
) -> AncestryRecord:
    """Return the record of a group that the update changed."""
    graph, ids = after.graph, after.graph.ids
    node = graph.index[name]
    new_row = tuple.__new__  # This takes half the time of calling the class, and an import relays half a million
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
