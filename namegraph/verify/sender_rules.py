"""Checks of every message: its sender may send it, and it fits the updates under way here.

A message with a fault is counted and dropped. A faulty `Ready` ends its update. Any other update goes on waiting
for a right message: until its deadline or, if this server is ready, until a view ends it. A server's statements
about its own nodes are believed, because it owns them.

Source: docs/protocol-updates.md, "What a wrong peer can do".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from namegraph.model.names import ServerId
from namegraph.model.peer_faults import PeerFault
from namegraph.model.rows import NodeKind
from namegraph.state.context import ServerContext
from namegraph.update.coordinator import BEGUN_LIMIT
from namegraph.update.order_queue import Entries, EntryPhase
from namegraph.wire.arc_sets import each_arc, fit_arcs, fit_records, parents_of
from namegraph.wire.codec import Message, counts_in_view
from namegraph.wire.columns import fit_operations
from namegraph.wire.message_parts import Arcs, KnownArc, LeftArc, ReconcileArc, UpdateId
from namegraph.wire.update_messages import (
    Abort,
    Commit,
    Done,
    Drop,
    Final,
    Holding,
    Order,
    OrderFor,
    Ready,
    Refuse,
    TakeCut,
    Vote,
)
from namegraph.wire.view_messages import (
    Accept,
    ArcDigest,
    Decline,
    DigestReply,
    ExcludedFromView,
    ForgetLeft,
    HintedOutcome,
    IncomingSuspended,
    Install,
    LeftForgotten,
    MemberReconciled,
    Open,
    Propose,
    Reach,
    SuspendIncoming,
    ViewReconciled,
)

ORDERS_LIMIT = 2 * BEGUN_LIMIT
"""Updates of one coordinator that are not over here: those of its clients, and its own."""


def fault_in(message: Message, *, sender: ServerId, context: ServerContext, entries: Entries) -> PeerFault | None:
    """Return the fault in a message of another server. None if there is none."""
    if counts_in_view(message) and not context.is_in_view(sender):
        return PeerFault.NOT_IN_VIEW
    match message:
        case OrderFor(order):
            return fault_in(order, sender=sender, context=context, entries=entries)
        case Order(update=update):
            if update.brought is not None and not fit_operations(update.brought):
                return PeerFault.NO_COLUMNS
            if sum(map(bool, (update.read is not None, update.cut is not None, update.brought, update.operations))) > 1:
                return PeerFault.NOT_ONE_UPDATE
            if not all(_can_be(step) for _, step in update.operations if isinstance(step, ReconcileArc)):
                return PeerFault.NO_ARC
            if update.update_id.coordinator != sender:
                return PeerFault.NOT_ITS_UPDATE
            return _unless(_has_room(update.update_id, entries), PeerFault.TOO_MANY_UPDATES)
        case Final(update_id) | Abort(update_id):
            return _unless(update_id.coordinator == sender, PeerFault.NOT_ITS_UPDATE)
        case Drop(update_id):
            entry = entries.by_update.get(update_id)
            may_drop = entry is None or entry.phase is EntryPhase.HANDED_ON
            return _unless(update_id.coordinator == sender and may_drop, PeerFault.NOT_ITS_UPDATE)
        case Commit(update_id):
            if update_id.coordinator != sender:
                return PeerFault.NOT_ITS_UPDATE
            entry = entries.by_update.get(update_id)
            return _unless(entry is not None and entry.is_ready, PeerFault.NOT_READY)
        case Vote(update_id) | Refuse(update_id) | Holding(update_id):
            return _unless(update_id.coordinator == context.server, PeerFault.NOT_OUR_UPDATE)
        case Done(update_id, controlled, released):
            if update_id.coordinator != context.server:
                return PeerFault.NOT_OUR_UPDATE
            home_of = context.table.home_of
            return _unless(
                all(home_of(node) in (sender, None) for node in controlled + released), PeerFault.NOT_ITS_NODE
            )
        case Ready():
            if message.update_id.coordinator != context.server:
                return PeerFault.NOT_OUR_UPDATE
            if not (fit_arcs(message.arcs) and fit_records(message.ancestry)):
                return PeerFault.NO_COLUMNS
            return _unless(_owns_what_it_changes(message, sender=sender, context=context), PeerFault.NOT_ITS_NODE)
        case TakeCut(update_id):
            return _unless(sender in context.table.subnets_by_server, PeerFault.NOT_ITS_UPDATE)
        case Install(view=view):
            if view.leader != sender:
                return PeerFault.NOT_ITS_VIEW
            return _unless(context.server in dict(message.members), PeerFault.NOT_OUR_VIEW)
        case Propose(view=view):
            return _unless(view.leader == sender, PeerFault.NOT_ITS_VIEW)
        case Accept(view=view) | Decline(view=view):
            return _unless(view.leader == context.server, PeerFault.NOT_OUR_VIEW)
        case SuspendIncoming(arcs=arcs):
            if context.view_active or context.has_diverged(sender) or context.cohort_leader != context.server:
                return PeerFault.NOT_OUR_VIEW
            return _unless(all(context.home_of(arc.child) == sender for arc in arcs), PeerFault.NOT_ITS_NODE)
        case ArcDigest(arcs=arcs):
            if not all(map(_can_be, arcs)):
                return PeerFault.NO_ARC
            return _unless(
                _are_between(arcs, parents=sender, children=context.server, context=context), PeerFault.NOT_ITS_NODE
            )
        case DigestReply(arcs=arcs):
            if not all(map(_can_be, arcs)):
                return PeerFault.NO_ARC
            return _unless(
                _are_between(arcs, parents=context.server, children=sender, context=context), PeerFault.NOT_ITS_NODE
            )
        case ForgetLeft(arcs=left):
            return _unless(
                _are_between(left, parents=sender, children=context.server, context=context), PeerFault.NOT_ITS_NODE
            )
        case LeftForgotten(arcs=left):
            return _unless(
                _are_between(left, parents=context.server, children=sender, context=context), PeerFault.NOT_ITS_NODE
            )
        case HintedOutcome(groups=groups, arcs=arcs):
            if not all(map(_can_be, arcs)):
                return PeerFault.NO_ARC
            are_ours = all(context.home_of(change.group) == context.server for change in groups)
            return _unless(
                are_ours and all(context.server in context.homes_of(known.arc) for known in arcs),
                PeerFault.NOT_OUR_NODE,
            )
        case Open() | ViewReconciled():
            return _unless(context.view.leader == sender, PeerFault.NOT_ITS_VIEW)
        case IncomingSuspended() | MemberReconciled():
            return _unless(context.view.leader == context.server, PeerFault.NOT_OUR_VIEW)
        case ExcludedFromView(members=members):
            return _unless(sender in members and context.server not in members, PeerFault.NOT_ITS_VIEW)
        case Reach():
            return None
        case _:
            assert_never(message)


def _owns_what_it_changes(ready: Ready, *, sender: ServerId, context: ServerContext) -> bool:
    home_of = context.table.home_of
    return (
        all(home_of(change.group) == sender for change in ready.groups)
        and _may_change_all(sender, ready.arcs, context=context)
        and all(home_of(truth.child) in (sender, None) for truth in ready.children)
        and all(home_of(told.arc.child) == sender for told in ready.told)
        # The homes of its groups report a process of a server that is away.
        and all(home_of(member.node) in (sender, None) or member.kind == NodeKind.PROCESS for member in ready.members)
    )


def _can_be(known: KnownArc | ReconcileArc) -> bool:
    """Return True if a state of an arc outside an update is possible: two different ends, and a child of some kind if
    the arc is present."""
    parent, child = known.arc if isinstance(known, KnownArc) else (known.parent, known.child)
    is_of_a_kind = known.kind is not NodeKind.ABSENT or not known.is_present
    return parent != child and known.is_present is not None and is_of_a_kind


def _are_between(
    arcs: Iterable[KnownArc | LeftArc], *, parents: ServerId, children: ServerId, context: ServerContext
) -> bool:
    return all(
        context.home_of(known.arc.parent) == parents and context.home_of(known.arc.child) == children for known in arcs
    )


def _may_change_all(server: ServerId, arcs: Arcs, *, context: ServerContext) -> bool:
    if all(context.home_of(parent) == server for parent in parents_of(arcs)):
        return True  # Every import is such a case, so the arcs need not be unpacked.
    return all(_may_change(server, change, context=context) for change in each_arc(arcs))


def _may_change(server: ServerId, change: KnownArc, *, context: ServerContext) -> bool:
    """Return True if a server may speak for an arc: the parent's home, or the child's home while the parent's is
    away."""
    arc = change.arc
    if context.home_of(arc.parent) == server:
        return True
    return context.home_of(arc.child) == server and (
        change.is_suspended or context.has_diverged(context.home_of(arc.parent))
    )


def _has_room(update_id: UpdateId, entries: Entries) -> bool:
    """Return True if a coordinator has room for an update beside its other updates that are not over here."""
    return update_id in entries.updates or entries.asked_by(update_id.coordinator) < ORDERS_LIMIT


def _unless(is_right: bool, fault: PeerFault) -> PeerFault | None:
    return None if is_right else fault
