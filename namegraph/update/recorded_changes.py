"""Changes that an update makes to this server's groups, for the record of changes. Found before the update is
applied."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from namegraph.graph.delta import GraphDelta
from namegraph.graph.name_graph import NameGraph
from namegraph.model.audit_chain import ALLOWED, Fact
from namegraph.model.changes import LISTED_LIMIT, ChangeSet, Origin, change_set
from namegraph.model.names import NodeId
from namegraph.model.operations import Operation, SetPolicy
from namegraph.model.policies import Policy
from namegraph.model.rows import NodeKind
from namegraph.state.context import ServerContext
from namegraph.state.known_arcs import known_arc
from namegraph.wire.arc_sets import arcs_in_columns, count_of, each_arc
from namegraph.wire.columns import GONE, PRESENT, place_array, state_array
from namegraph.wire.message_parts import ArcId, GroupChange, KnownArc
from namegraph.wire.update_messages import UpdateOutcome


def changes_of_delta(graph: NameGraph, delta: GraphDelta) -> ChangeSet:
    """Return the changes of an update that concerns this server alone: all its parents live here."""
    group = NodeKind.GROUP
    if len(delta.kinds) + len(delta.added) + len(delta.removed) > LISTED_LIMIT:
        made = sum(kind is group for kind in delta.kinds.values())
        dropped = sum(kind is not group and graph.kind(node) is group for node, kind in delta.kinds.items())
        return ChangeSet(made, dropped, len(delta.added), len(delta.removed))
    ids = graph.ids
    return change_set(
        ((ids[node], kind is group) for node, kind in delta.kinds.items() if group in (kind, graph.kind(node))),
        ((ids[parent], ids[child], graph.kind(child) is group) for parent, child in delta.removed),
        (
            (ids[parent], ids[child], (delta.kinds.get(child) or graph.kind(child)) is group)
            for parent, child, _ in delta.added
        ),
    )


def changes_of_share(context: ServerContext, share: UpdateOutcome) -> ChangeSet:
    """Return the changes of this server's share of an outcome. An arc that is suspended, or goes on afterwards, is no
    change."""
    groups = [change for change in share.groups if context.home_of(change.group) == context.server]
    if len(groups) + count_of(share.arcs) > LISTED_LIMIT:
        arcs = arcs_in_columns(share.arcs)
        is_own = np.array([home in (None, context.server) for home in context.table.homes_of(arcs.names)], bool)
        parents, children = place_array(arcs.parents), place_array(arcs.children)
        states, ends = state_array(arcs.present), parents.astype(np.uint64) << np.uint64(32) | children
        joined, left = (len(np.unique(ends[is_own[parents] & (states == state)])) for state in (PRESENT, GONE))
        made = sum(change.is_present for change in groups)
        return ChangeSet(made, len(groups) - made, joined, left)
    # An arc that both ends leave comes twice.
    changed = {known.arc: (known.is_present is not False, known.kind) for known in each_arc(share.arcs)}
    return _of_arcs(context, groups, [(arc, *found) for arc, found in changed.items()])


def changes_of_known(context: ServerContext, known: KnownArc) -> ChangeSet:
    """Return the change of an arc whose other end changed it while this server was away."""
    return _of_arcs(context, (), [(known.arc, bool(known.is_present), known.kind)])


def _of_arcs(
    context: ServerContext, groups: Iterable[GroupChange], changed: Iterable[tuple[ArcId, bool, NodeKind]]
) -> ChangeSet:
    arcs: tuple[list[tuple[NodeId, NodeId, bool]], ...] = ([], [])
    for arc, is_present, kind in changed:
        if context.home_of(arc.parent) != context.server:
            continue
        before = known_arc(context, arc)
        was_present = before is not None and before.is_present
        is_group = _kind_of(context, arc.child, kind) is NodeKind.GROUP
        if was_present != is_present:
            arcs[is_present].append((*arc, is_group))
        elif is_present and is_group is not (_kind_of(context, arc.child, NodeKind.ABSENT) is NodeKind.GROUP):
            # A process that is taken over as a group is another member.
            arcs[False].append((*arc, not is_group))
            arcs[True].append((*arc, is_group))
    left, joined = arcs
    return change_set(groups, left, joined)


def _kind_of(context: ServerContext, child: NodeId, told: NodeKind) -> NodeKind:
    """Return the kind of an arc's child as the update tells it. If it tells none (the arc ends), return the former
    kind."""
    number = context.graph.index.get(child)
    return context.graph.kind(number) if told is NodeKind.ABSENT and number is not None else told


def keep_policies(
    context: ServerContext,
    new: Mapping[NodeId, Policy | None],
    operations: Iterable[Operation],
    origin: Origin,
) -> None:
    """Set policies of groups of this server, and note those that the update names. A group that is made has the
    policy that its maker's default gives, which is no event of its own."""
    named = {operation.group for operation in operations if isinstance(operation, SetPolicy)}
    for group, policy in new.items():
        before = context.policies.of(group)
        context.policies.set(group, policy)
        if group in named and policy != before:
            facts = _facts_of_policy(group, policy)
            context.change_log.note_event("policy_set", facts, origin, counter=context.counter, decision=ALLOWED)


def _facts_of_policy(group: NodeId, policy: Policy | None) -> dict[str, Fact]:
    if policy is None:
        return {"group": group, "preset": None}
    subjects = {privilege.value: ", ".join(subjects) for privilege, subjects in policy.by_privilege()}
    return {"group": group, "preset": policy.preset.value, **subjects}
