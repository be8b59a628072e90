"""Checks of a `Commit`: the coordinator's statements about this server's nodes must follow from this server's
agreement.

This server agreed to the operations of the `Order`, and to the changes that it found (`Ready`). If an outcome says
more or less than that of its own groups and arcs, this server refuses the outcome whole. The update then waits as
if no outcome had come, until a view ends it.

    groups, arcs    are compared with the operations, and the findings     here; an import in `commit_rules_import`
    records, loops  are compared with the graph here, and those arcs       `commit_rules_ancestry`
    other nodes     are believed, as long as the state can be read back    here

The findings are kept in memory. After a restart this server looks again. While arcs are suspended here, or updates
in doubt, its findings may differ from those before the restart. Then only the operations are compared. Versions of
arcs and missing arcs are not checked. The findings of other participants are not known here.

Source: docs/protocol-updates.md, "What each server judges", "The outcome" and "What a wrong peer can do"; invariants I5
and
I9.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress

from namegraph.model.names import NodeId, ServerId, subnet_of
from namegraph.model.operations import ChildKind, JoinArc, LeaveArc
from namegraph.model.peer_faults import PeerFault
from namegraph.model.priorities import Priority
from namegraph.model.rows import NodeIndex, NodeKind
from namegraph.replication.ancestry_store import AncestryStore
from namegraph.state.context import ServerContext
from namegraph.state.uncertainty import Uncertainty
from namegraph.update.arc_authority import ArcOperation, authority_over
from namegraph.update.import_plan import groups_wanted
from namegraph.update.order_queue import Entries
from namegraph.update.prepare import CannotError, Findings, prepare_update
from namegraph.verify.commit_columns import are_here, read_said
from namegraph.verify.commit_rules_ancestry import are_loops_agreed, are_records_agreed
from namegraph.verify.commit_rules_import import follow_from_import
from namegraph.wire.arc_sets import each_arc, joined_parents_of, joined_processes_of, nodes_of, recorded_parents_of
from namegraph.wire.message_parts import Ancestry, ArcId, KnownArc, ReconcileArc, SuspendArc, Update
from namegraph.wire.update_messages import UpdateOutcome


def fault_in_share(
    share: UpdateOutcome, *, context: ServerContext, records: AncestryStore, entries: Entries
) -> PeerFault | None:
    """Return the fault in this server's share of an outcome that it waits for. None if there is none."""
    entry, update = entries.by_update[share.update_id], entries.updates[share.update_id]
    if share.final != entry.final:
        return PeerFault.OTHER_PLACE
    if not all(_may_rename(share.update_id.coordinator, *names, context) for names in share.renames):
        return PeerFault.OTHER_GROUPS
    groups = _groups_agreed(share, update, context=context, records=records, entries=entries)
    is_here = are_here([change.group for change in share.groups], context)
    if set(compress(share.groups, is_here)) != groups.items():
        return PeerFault.OTHER_GROUPS
    said = None if update.brought is None else read_said(share, context)
    if said is not None and not said.is_consistent:
        return PeerFault.IMPOSSIBLE
    found = entry.found or _found_again(update, context, records)
    if said is not None and update.brought is not None:
        is_agreed = follow_from_import(said, update.brought, found)
    else:
        is_agreed = _follow(tuple(each_arc(share.arcs)), update, found, groups, share.final, context)
    if not is_agreed:
        return PeerFault.OTHER_ARCS
    if _has_own_nodes(share.relay, context):
        said = read_said(share, context) if said is None else said
        if not are_records_agreed(said, groups, context=context, records=records, entries=entries):
            return PeerFault.OTHER_RECORDS
    if not are_loops_agreed(share, groups, context=context, records=records):
        return PeerFault.OTHER_LOOPS
    return None if _can_be_read_back(share, groups, context, records, entries) else PeerFault.IMPOSSIBLE


def _has_own_nodes(relay: Ancestry, context: ServerContext) -> bool:
    """Return True if a node of this server has a relayed record, or is a parent in one. Most joins relay no such
    record."""
    return any(are_here([*nodes_of(relay), *recorded_parents_of(relay)], context))


def _may_rename(coordinator: ServerId, old: NodeId, new: NodeId, context: ServerContext) -> bool:
    """Return True if the coordinator is the home of both names."""
    return context.table.home_of(old) == coordinator and subnet_of(old) == subnet_of(new)


def _groups_agreed(
    share: UpdateOutcome, update: Update, *, context: ServerContext, records: AncestryStore, entries: Entries
) -> dict[NodeId, bool]:
    """Return the groups of this server that the update creates (True) or deletes (False).

    No other update can have done so meanwhile. But a later update may have brought the record of a group before
    this one creates the group.
    """
    found = entries.by_update[share.update_id].found
    if found is not None:
        return dict(found.groups)
    graph, said, wanted = context.graph, dict(share.groups), groups_wanted(update)

    def is_changed(group: NodeId, *, is_present: bool) -> bool:
        node = graph.group(group)
        is_ahead = node is not None and records.version_of(node) == share.final
        return (is_ahead and said.get(group) is is_present) or (node is not None) is not is_present

    homes = context.table.homes_of(tuple(wanted))
    return {
        group: is_present
        for (group, is_present), home in zip(wanted.items(), homes, strict=True)
        if home == context.server and is_changed(group, is_present=is_present)
    }


def _found_again(update: Update, context: ServerContext, records: AncestryStore) -> Findings | None:
    """Return this server's findings from when it became ready, if the graph alone decided them. Else None.

    The graph still yields the same findings: every update that would change it at the same nodes waits for this
    one.
    """
    if not (update.is_of_client and Uncertainty(context).is_graph_all):
        return None
    joins = [step for _, step in update.operations if isinstance(step, JoinArc)]
    # An arc is joined above the versions of forgotten tombstones, and more may be forgotten by now.
    if any(join.offline for join in joins) or (joins and context.forgotten):
        return None
    try:
        return prepare_update(context, records, update)
    except CannotError:
        return None


def _follow(
    arcs: Sequence[KnownArc],
    update: Update,
    found: Findings | None,
    groups: Mapping[NodeId, bool],
    final: Priority,
    context: ServerContext,
) -> bool:
    """Return True if these arcs follow from operations that came one by one."""
    said = {change.arc: change for change in arcs}
    twice = {change.arc: change for change in arcs if said[change.arc] is not change}
    # If both homes leave an arc that one of them joined by itself, they may know it at different versions.
    if not all(_is_gone(change) and _is_gone(said[arc]) for arc, change in twice.items()):
        return False
    steps: dict[ArcId, list[ArcOperation]] = {}
    for _, step in update.operations:
        match step:
            case (
                JoinArc(parent, child)
                | LeaveArc(parent, child)
                | SuspendArc(parent, child)
                | ReconcileArc(parent, child)
            ):
                steps.setdefault(ArcId(parent, child), []).append(step)
    return (
        all(_follows(change, steps.get(change.arc, ()), update, groups, context) for change in arcs)
        and not any(arc not in said for arc, done in steps.items() if _must_change(done))
        and (found is None or _is_as_found(said, twice, steps, found, final, context))
        and all(_has_left(group, said, context) for group, is_present in groups.items() if not is_present)
    )


def _follows(
    change: KnownArc,
    steps: Sequence[ArcOperation],
    update: Update,
    groups: Mapping[NodeId, bool],
    context: ServerContext,
) -> bool:
    """Return True if the state of an arc follows from these operations on it. An arc without an end here is not
    judged."""
    arc, home_of = change.arc, context.table.home_of
    owns_parent = home_of(arc.parent) == context.server
    child_home = home_of(arc.child)
    owns_child = child_home == context.server or (child_home is None and owns_parent)
    if not (owns_parent or owns_child):
        return True
    if owns_parent and change.is_present and not _is_group(arc.parent, groups, context):
        return False
    if owns_child and not _is_of_right_kind(change, groups, context):
        return False
    if not steps:
        # The child's home suspends the arc. This server, the parent's home, suspended it before.
        return change.is_suspended and arc in update.leaves and not _is_active(arc, context)
    match steps[-1]:
        case JoinArc(offline=offline):
            joins = [step for step in steps if isinstance(step, JoinArc)]
            kinds = {step.kind for step in joins}
            if change.is_suspended:
                return offline and any(step.cost == change.cost for step in joins)
            is_wanted = ChildKind.AUTO in kinds or ChildKind(change.kind.value) in kinds
            return change.is_present is True and is_wanted and any(step.cost == change.cost for step in joins)
        case LeaveArc():
            return _is_gone(change)
        case SuspendArc():
            return change.is_suspended
        case _:
            as_said = (change.is_present, change.cost, change.version)
            return not change.is_suspended and any(
                isinstance(step, ReconcileArc) and (step.is_present, step.cost, step.version) == as_said
                for step in steps
            )


def _is_of_right_kind(change: KnownArc, groups: Mapping[NodeId, bool], context: ServerContext) -> bool:
    is_group = _is_group(change.arc.child, groups, context)
    if change.is_present or change.is_suspended:
        return (change.kind is NodeKind.GROUP) is is_group
    # A server that leaves the arc may have taken the child for a group, which it is not here.
    return change.kind is NodeKind.GROUP or not is_group


def _is_group(name: NodeId, groups: Mapping[NodeId, bool], context: ServerContext) -> bool:
    """Return True if a node of this server is a group after the update."""
    return groups[name] if name in groups else context.graph.group(name) is not None


def _is_active(arc: ArcId, context: ServerContext) -> bool:
    graph = context.graph
    parent, child = graph.index.get(arc.parent), graph.index.get(arc.child)
    return parent is not None and child is not None and child in graph.children[parent]


def _must_change(steps: Sequence[ArcOperation]) -> bool:
    """Return True if an update with only these steps for an arc is refused when there is nothing to do.

    For other operations, only the home of the arc's parent knows if there was something to do.
    """
    match steps:
        case [JoinArc(if_needed=False) | LeaveArc(if_needed=False)]:
            return True
    return False


def _is_as_found(
    said: Mapping[ArcId, KnownArc],
    twice: Mapping[ArcId, KnownArc],
    steps: Mapping[ArcId, Sequence[ArcOperation]],
    found: Findings,
    final: Priority,
    context: ServerContext,
) -> bool:
    """Return True if the outcome has exactly the arcs that this server judges, as it found them.

    Arcs that another server declined to settle may be missing.
    """
    here = {change.arc: change for change in each_arc(found.arcs)}
    declined = set(found.declined)
    for arc, change in said.items():
        ours = here.get(arc)
        if arc in declined or (ours is None and arc in steps and _is_judged_here(arc, steps[arc], context)):
            return False
        if ours is not None and not any(
            _is_found(ours, one, final, context) for one in (change, twice.get(arc, change))
        ):
            return False
    return all(arc in said or isinstance(steps[arc][-1], ReconcileArc) for arc in here)


def _is_found(ours: KnownArc, said: KnownArc, final: Priority, context: ServerContext) -> bool:
    """Return True if this server found the stated arc, or found an older version than the home of its child.

    No version is above the counter of the update that gives it.
    """
    is_risen = ours.version < said.version <= final.counter
    if is_risen and context.home_below(parent=said.arc.parent, child=said.arc.child) != context.server:
        ours = ours._replace(version=said.version)
    return _without_kind(ours) == _without_kind(said)


def _is_judged_here(arc: ArcId, steps: Sequence[ArcOperation], context: ServerContext) -> bool:
    """Return True if only this server can tell the effect of these operations on an arc."""
    match steps[-1]:
        case SuspendArc():
            return True
        case LeaveArc(is_unconfirmed=True):
            # The arc was joined at its child's end, which leaves it.
            return _is_active(arc, context)
    return authority_over(context, steps[-1]).is_judged_here


def _is_gone(change: KnownArc) -> bool:
    return change.is_present is False


def _without_kind(change: KnownArc) -> KnownArc:
    return change._replace(kind=NodeKind.ABSENT)


def _has_left(group: NodeId, said: Mapping[ArcId, KnownArc], context: ServerContext) -> bool:
    """Return True if a deleted group keeps no arc. Its name may be joined anew, as a process."""
    graph, ids = context.graph, context.graph.ids
    node = graph.index[group]
    arcs = [ArcId(group, ids[child]) for child in graph.children[node]]
    arcs += [ArcId(ids[parent], group) for parent in graph.parents[node]]
    return all(arc in said and not (said[arc].is_present and said[arc].kind is NodeKind.GROUP) for arc in arcs)


def _can_be_read_back(
    share: UpdateOutcome,
    groups: Mapping[NodeId, bool],
    context: ServerContext,
    records: AncestryStore,
    entries: Entries,
) -> bool:
    """Return True if only groups would have children. Otherwise this server could not start again (`restore`)."""
    relayed = nodes_of(share.relay)
    home_of, server = context.table.home_of, context.server
    tails = {*joined_parents_of(share.arcs), *recorded_parents_of(share.relay)}
    unsure = (tail for tail in tails - relayed if home_of(tail) in (server, None))
    if not all(_is_group(tail, groups, context) for tail in unsure):
        return False
    # The kind that a suspended arc assumes for its child may be wrong; the arc is then rejected later.
    processes = joined_processes_of(share.arcs)
    if not processes:
        return True
    in_loops = {node for node, vnid in share.renamed if vnid is not None}
    if not (tails.isdisjoint(processes) and relayed.isdisjoint(processes) and in_loops.isdisjoint(processes)):
        return False
    # An arc that an update under way leaves may still lead from a node that is a process by now.
    if len(entries.by_update) > 1:
        return True
    index, children, owner = context.graph.index, context.graph.children, context.graph.virtual_node_of
    numbers = [index[name] for name in processes if name in index]
    groups_known = [node for node in numbers if children[node] or node in owner]
    return not any(records.is_above_owned(node) and _stays_group(node, share, context) for node in groups_known)


def _stays_group(node: NodeIndex, share: UpdateOutcome, context: ServerContext) -> bool:
    """Return True if a node of another server keeps arcs or a loop here that a process cannot have."""
    ids, below = context.graph.ids, context.graph.children[node]
    left = {change.arc.child for change in each_arc(share.arcs) if change.arc.parent == ids[node]}
    gone = left | nodes_of(share.relay)  # New records of these nodes do not name it.
    stays_above = any(ids[child] not in gone for child in below)
    return stays_above or (node in context.graph.virtual_node_of and ids[node] not in dict(share.renamed))
