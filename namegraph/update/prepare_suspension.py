"""Findings of one server, at the update's turn, about arcs that servers suspend or settle by themselves."""

from __future__ import annotations

from collections.abc import Sequence

from namegraph.model.names import NodeId, ServerId
from namegraph.model.rows import NodeKind
from namegraph.replication.ancestry_store import AncestryStore
from namegraph.state.context import NEVER, ServerContext
from namegraph.state.known_arcs import active_arc, can_be_child, known_arc
from namegraph.update.operation_rights import may_settle
from namegraph.wire.message_parts import ArcId, ChildTruth, KnownArc, ReconcileArc, SuspendArc

InnerFindings = tuple[tuple[KnownArc, ...], tuple[ChildTruth, ...], tuple[ArcId, ...]]
"""Arcs, children, and arcs that are declined."""


def find_inner(
    context: ServerContext,
    records: AncestryStore,
    operations: Sequence[SuspendArc | ReconcileArc],
    *,
    asked_by: ServerId,
) -> InnerFindings:
    """Return this server's findings about arcs to be suspended or settled, at the update's turn."""
    arcs: list[KnownArc] = []
    children: dict[NodeId, ChildTruth] = {}
    declined: list[ArcId] = []
    for operation in operations:
        name = ArcId(operation.parent, operation.child)
        owns_child = context.home_below(parent=name.parent, child=name.child) == context.server
        if isinstance(operation, SuspendArc):
            # Suspensions are valid only until the view is open. Later ones are ignored.
            arc = active_arc(context, name) if owns_child and not context.view_active else None
            if arc is None:
                continue
            kind = context.graph.kind(arc.child)
            arcs.append(KnownArc(name, None, kind, arc.cost, arc.version))
        elif (
            _is_declined(context, operation, owns_child=owns_child)
            or (asked_by != context.server and _was_left(context, operation))
            or not may_settle(context, records, operation, asked_by=asked_by)
        ):
            declined.append(name)
            continue
        elif context.home_of(name.parent) == context.server:
            arcs.append(KnownArc(name, operation.is_present, operation.kind, operation.cost, operation.version))
        if owns_child:
            node = context.graph.index.get(name.child)
            kind = operation.kind if isinstance(operation, ReconcileArc) else NodeKind.ABSENT
            if isinstance(operation, ReconcileArc) and node is not None and context.graph.kind(node) is NodeKind.GROUP:
                # The server that left the arc may have taken a group for a process. The group's record is changed all
                # the same.
                kind = NodeKind.GROUP
            told = children.get(name.child)
            if told is not None and kind is NodeKind.ABSENT:
                # Another arc of the update tells the child's kind. The server that left this arc need not know it.
                kind = told.kind
            version = NEVER if node is None else records.version_of(node)
            children[name.child] = ChildTruth(name.child, kind, version)
    return tuple(arcs), tuple(children.values()), tuple(declined)


def _is_declined(context: ServerContext, settle: ReconcileArc, *, owns_child: bool) -> bool:
    graph = context.graph
    known = known_arc(context, ArcId(settle.parent, settle.child))
    if known is not None and (known.version, known.writer) > (settle.version, settle.writer):
        return True
    if not settle.is_present:
        return False
    if context.home_of(settle.parent) == context.server and graph.group(settle.parent) is None:
        return True
    if any(context.group_versions.is_deleted_since(end, settle.writer) for end in (settle.parent, settle.child)):
        return True
    return owns_child and not can_be_child(context, settle.child, settle.kind)


def _was_left(context: ServerContext, settle: ReconcileArc) -> bool:
    """Return True if an arc with an end here was left and forgotten, and an offer reports its join late."""
    name = ArcId(settle.parent, settle.child)
    return (
        settle.is_present
        and settle.is_offered
        and context.server in context.homes_of(name)
        and known_arc(context, name) is None
        and context.forgotten.was_left(context.other_home_of(name), settle.writer)
        and not context.is_in_doubt(name, writer=settle.writer)
    )
