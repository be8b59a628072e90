"""Findings of one server about an update at its turn: the changes to the nodes that it owns, or the reason of a
refusal.

    group  -> its home: created, deleted            arc -> the parent's home: joined, left, there already
    child  -> its home: a group or a process

Nothing is changed, and no unknown node gets a number. Source: docs/protocol-updates.md, "What each server judges".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from namegraph.graph.delta import GraphDelta
from namegraph.model.names import NodeId
from namegraph.model.operations import JoinArc, LeaveArc
from namegraph.model.protocol_versions import TOLD_VERSIONS_VERSION
from namegraph.model.refusals import Reason, Refusal, RefusedError
from namegraph.model.rows import NodeKind
from namegraph.replication.ancestry_store import AncestryStore
from namegraph.state.context import ServerContext
from namegraph.state.known_arcs import active_arc, known_arc
from namegraph.state.uncertainty import Uncertainty
from namegraph.update.admission import JudgeOfOperations, MustLeaveError, OperationCollector, no_group_here
from namegraph.update.arc_authority import ArcStep, Place, authority, authority_over
from namegraph.update.import_plan import operations_in
from namegraph.update.prepare_import import prepare_import
from namegraph.update.prepare_suspension import find_inner
from namegraph.wire.arc_sets import NO_ARCS, arcs_of
from namegraph.wire.message_parts import (
    ArcId,
    Arcs,
    ArcVersion,
    ChildTruth,
    GroupChange,
    KnownArc,
    ReconcileArc,
    SuspendArc,
    Update,
)
from namegraph.wire.update_messages import Refuse


@dataclass(frozen=True, slots=True)
class Findings:
    """The part of a server's `Ready` that concerns the update's own nodes."""

    groups: tuple[GroupChange, ...]
    arcs: Arcs
    children: tuple[ChildTruth, ...]
    already_there: int
    declined: tuple[ArcId, ...] = ()
    told: tuple[ArcVersion, ...] = ()
    unchanged: tuple[int, ...] = ()


NOTHING = Findings((), NO_ARCS, (), 0)


class CannotError(Exception):
    """An update that cannot be done as it is. `refuse` gives the reason."""

    def __init__(self, refuse: Refuse) -> None:
        super().__init__(refuse.refusal.message)
        self.refuse = refuse


def prepare_update(
    context: ServerContext, records: AncestryStore, update: Update, rights: JudgeOfOperations | None = None
) -> Findings:
    """Return the findings about an update whose turn has come. Raises `CannotError`.

    `rights`: judges the caller of the update. None if the caller may do everything, or was judged before.
    """
    graph = context.graph
    if update.read is not None:
        if context.home_of(update.read) == context.server and graph.group(update.read) is None:
            refusal = no_group_here(update.read, Uncertainty(context)).refusal
            raise CannotError(Refuse(update.update_id, 0, refusal))
        return NOTHING
    if update.brought is not None:
        found = None if rights is not None else prepare_import(context, records, update.brought)
        if found is not None:
            return Findings(*found, told=_told(context, update))
    elif not update.operations:
        return NOTHING
    inner = [operation for _, operation in update.operations if isinstance(operation, SuspendArc | ReconcileArc)]
    if inner:
        arcs, children, declined = find_inner(context, records, inner, asked_by=update.update_id.coordinator)
        return Findings((), arcs_of(arcs), children, 0, declined)
    since = graph.mark()
    collector = OperationCollector(context, is_whole=False, is_of_client=update.is_of_client, rights=rights)
    try:
        # Operations of an import have no numbers that its caller knows. Its size says how long it may take.
        size = 1 if update.brought is not None else update.size
        changes = collector.collect(operations_in(update), size=size)
        return Findings(
            tuple(
                GroupChange(graph.ids[node], kind is NodeKind.GROUP)
                for node, kind in changes.kinds.items()
                if context.owns(node) and NodeKind.GROUP in (kind, graph.kind(node))
            ),
            arcs_of(_arc_changes(context, changes, update, _waiting_kinds(context, update, collector))),
            _children(context, records, update, collector),
            changes.already_there,
            told=_told(context, update),
            # The caller of an import is told only their number.
            unchanged=() if update.brought is not None else changes.unchanged,
        )
    except RefusedError as error:
        raise CannotError(Refuse(update.update_id, collector.number, error.refusal)) from None
    except MustLeaveError as error:
        to_leave = tuple(ArcId(parent, child) for parent, child in error.arcs)
        refusal = Refusal(Reason.GROUP_IN_USE, str(error))
        raise CannotError(Refuse(update.update_id, collector.number, refusal, to_leave)) from None
    finally:
        graph.forget_interned(since)


def _waiting_kinds(context: ServerContext, update: Update, collector: OperationCollector) -> dict[ArcId, NodeKind]:
    """Return the arcs from or to here that are to wait for the home of their other end, each with the assumed kind of
    its child.

    Empty for an import.
    """
    found = {}
    for _, operation in update.operations:
        if not (isinstance(operation, JoinArc) and operation.offline):
            continue
        says, child = authority_over(context, operation), operation.child
        if says.rule.waits:
            kind = (
                collector.kind_of(context.graph.intern(child)) if says.is_child_here else NodeKind(operation.kind.value)
            )
            found[ArcId(operation.parent, child)] = kind
    return found


def _arc_changes(
    context: ServerContext, changes: GraphDelta, update: Update, waiting: Mapping[ArcId, NodeKind]
) -> tuple[KnownArc, ...]:
    """Return the states of the changed arcs whose presence this server judges."""
    graph = context.graph
    found: dict[ArcId, KnownArc] = {}
    added = {(parent, child) for parent, child, _ in changes.added}
    for parent, child in changes.removed:
        name = ArcId(graph.ids[parent], graph.ids[child])
        # This server leaves an arc that its parent's home does not know by an update of its own. That home has no part
        # in the update, unless it joins the arc too.
        is_unconfirmed = context.is_unconfirmed(*name) and (parent, child) not in added
        is_ours_alone = update.update_id.coordinator == context.server and is_unconfirmed
        step = ArcStep.LEAVE_UNCONFIRMED if is_ours_alone else ArcStep.LEAVE
        if authority(context, step, *name).is_judged_here:
            arc = graph.children[parent].get(child) or graph.suspended[parent, child]
            found[name] = KnownArc(name, False, graph.kind(child), arc.cost, arc.version + 1)
    for parent, child, cost in changes.added:
        name = ArcId(graph.ids[parent], graph.ids[child])
        if name in waiting or context.owns(parent):
            left = found.get(name)
            version = left.version if left is not None else context.version_before(name)
            if name in waiting:
                found[name] = KnownArc(name, None, waiting[name], cost, version + 1)
            else:
                found[name] = KnownArc(name, True, NodeKind.ABSENT, cost, version + 1)
    return tuple(found.values())


def _children(
    context: ServerContext, records: AncestryStore, update: Update, collector: OperationCollector
) -> tuple[ChildTruth, ...]:
    """Return the children, owned here, of the update's arcs."""
    graph = context.graph
    found: dict[NodeId, ChildTruth] = {}
    for _, operation in operations_in(update):
        if not isinstance(operation, JoinArc | LeaveArc):
            continue
        child = operation.child
        if child in found or context.home_below(parent=operation.parent, child=child) != context.server:
            continue
        node = graph.index.get(child)
        if node is not None:
            found[child] = ChildTruth(child, collector.kind_of(node), records.version_of(node))
    return tuple(found.values())


def _told(context: ServerContext, update: Update) -> tuple[ArcVersion, ...]:
    """Return the versions of the update's arcs to here that the home of the parent may not know, because it was apart.

    Both ends know the same of a present arc. In a healed view the ends know the same of all arcs, except rejected
    arcs and arcs that were left here alone.
    """
    if context.is_healed and not (context.graph.suspended or context.unilateral_leaves):
        return ()
    found: dict[ArcId, ArcVersion] = {}
    for _, operation in operations_in(update):
        if not isinstance(operation, JoinArc | LeaveArc):
            continue
        arc = ArcId(operation.parent, operation.child)
        says = authority_over(context, operation)
        if not (says.is_child_here and says.parent_at is Place.THERE):
            continue
        known = known_arc(context, arc)
        if known is None or active_arc(context, arc) is not None:
            continue
        if context.speaks(says.above, TOLD_VERSIONS_VERSION):
            found[arc] = ArcVersion(arc, known.version)
    return tuple(found.values())
