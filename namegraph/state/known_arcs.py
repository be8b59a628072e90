"""States of arcs with an end here, and the order of two states of one arc."""

from __future__ import annotations

from namegraph.model.names import NodeId
from namegraph.model.rows import ArcRecord, NodeIndex, NodeKind
from namegraph.state.context import ServerContext
from namegraph.wire.message_parts import ArcId, KnownArc, ReconcileArc


def known_arc(context: ServerContext, name: ArcId) -> KnownArc | None:
    """Return the known state of an arc with an end here, present or not. None if the arc never existed here."""
    graph = context.graph
    parent, child = graph.index.get(name.parent), graph.index.get(name.child)
    if parent is None or child is None:
        return None
    arc = active_arc(context, name) or graph.suspended.get((parent, child)) or graph.tombstones.get((parent, child))
    if arc is None:
        return None
    return KnownArc(name, arc.present, graph.kind(child), arc.cost, arc.version, arc.writer)


def is_newer(one: KnownArc | ReconcileArc, other: KnownArc | None) -> bool:
    """Return True if one state of an arc is later than another one."""
    return other is None or (one.version, one.writer) > (other.version, other.writer)


def gone_with_group(known: KnownArc) -> KnownArc:
    """Return the left state of an arc whose group was deleted by a server that did not know the arc."""
    return known._replace(is_present=False, version=known.version + 1)


def active_arc(context: ServerContext, name: ArcId) -> ArcRecord | None:
    """Return the arc as its end here knows it. None if the arc is not there for resolution."""
    graph = context.graph
    parent, child = graph.index.get(name.parent), graph.index.get(name.child)
    if parent is None or child is None:
        return None
    return graph.children[parent].get(child) if context.owns(parent) else graph.parents[child].get(parent)


def can_be_child(context: ServerContext, child: NodeId, kind: NodeKind) -> bool:
    """Return True if a node of this server is, or can become, of the kind that an arc made elsewhere expects.

    A node that an update in doubt may have turned into a group does not count as a process.
    """
    found = context.graph.index.get(child)
    now = NodeKind.ABSENT if found is None else context.graph.kind(NodeIndex(found))
    if now is not NodeKind.ABSENT:
        return now is kind
    return kind is NodeKind.PROCESS and not context.doubts.creators_of(child)
