"""What this server knows of an arc with an end here, and which of two states of an arc is the later one."""

from __future__ import annotations

from namegraph.model.names import NodeId
from namegraph.model.rows import ArcRecord, NodeIndex, NodeKind
from namegraph.state.context import ServerContext
from namegraph.wire.message_parts import ArcId, KnownArc, ReconcileArc


def known_arc(context: ServerContext, name: ArcId) -> KnownArc | None:
    """What is known here of an arc with an end here, present or not; None where it never was."""
    graph = context.graph
    parent, child = graph.index.get(name.parent), graph.index.get(name.child)
    if parent is None or child is None:
        return None
    arc = active_arc(context, name) or graph.suspended.get((parent, child)) or graph.tombstones.get((parent, child))
    if arc is None:
        return None
    return KnownArc(name, arc.present, graph.kind(child), arc.cost, arc.version, arc.writer)


def is_newer(one: KnownArc | ReconcileArc, other: KnownArc | None) -> bool:
    """Whether one state of an arc comes after another one."""
    return other is None or (one.version, one.writer) > (other.version, other.writer)


def gone_with_group(known: KnownArc) -> KnownArc:
    """The state of an arc whose group was deleted by a server that did not know the arc: left."""
    return known._replace(is_present=False, version=known.version + 1)


def active_arc(context: ServerContext, name: ArcId) -> ArcRecord | None:
    """The arc, where it is there for resolution, as this end of it knows it."""
    graph = context.graph
    parent, child = graph.index.get(name.parent), graph.index.get(name.child)
    if parent is None or child is None:
        return None
    return graph.children[parent].get(child) if context.owns(parent) else graph.parents[child].get(parent)


def can_be_child(context: ServerContext, child: NodeId, kind: NodeKind) -> bool:
    """Whether a node of this server is, or can become, what an arc that was made elsewhere takes it for.

    What an update in doubt may have made a group of is taken for no process.
    """
    found = context.graph.index.get(child)
    now = NodeKind.ABSENT if found is None else context.graph.kind(NodeIndex(found))
    if now is not NodeKind.ABSENT:
        return now is kind
    return kind is NodeKind.PROCESS and not context.doubts.creators_of(child)
