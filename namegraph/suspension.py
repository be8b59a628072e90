"""What servers do to arcs by themselves: suspend them when the other end is out of reach, settle them when it is back.

                 home of the child: SuspendArc                     home of the parent: SettleArc
    present ------------------------------------> suspended --------------------------------------> present, or left

Both are updates like any other, ordered with all that affect the same nodes, so that virtual nodes break and form by
the one computation. An arc keeps its version while it is suspended; of what its two ends know, the highest version
wins, removals too.

Source: protocol.md section 7, *Heal*; NG 6.3 to 6.5.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from namegraph.ancestry_records import AncestryRecords
from namegraph.message_parts import ArcChange, ArcId, ChildTruth, KnownArc, SettleArc, SuspendArc
from namegraph.names import NodeId, ServerId, Subnet, subnet_of
from namegraph.records import ArcRecord, NodeIndex, NodeKind
from namegraph.site import NEVER, Site

UNEXPLAINED = "the home of its other end did not join it"
"""Why an arc was rejected, where the reason is known at its other end alone, or was forgotten when a server stopped."""

InnerFindings = tuple[tuple[ArcChange, ...], tuple[ChildTruth, ...], tuple[ArcId, ...]]
"""Arcs, children, and arcs that are declined."""


def find_inner(site: Site, records: AncestryRecords, operations: Sequence[SuspendArc | SettleArc]) -> InnerFindings:
    """What this server finds of arcs to be suspended or settled, at the update's turn."""
    arcs: list[ArcChange] = []
    children: dict[NodeId, ChildTruth] = {}
    declined: list[ArcId] = []
    for operation in operations:
        name = ArcId(operation.parent, operation.child)
        owns_child = site.home_below(parent=name.parent, child=name.child) == site.server
        if isinstance(operation, SuspendArc):
            # Only until the view is open: nobody may ask for it later.
            arc = _active(site, name) if owns_child and not site.is_open else None
            if arc is None:
                continue
            kind = site.graph.kind(arc.child)
            arcs.append(ArcChange(name, False, kind, arc.cost, arc.version, is_suspended=True))
        elif _is_declined(site, operation, owns_child=owns_child):
            declined.append(name)
            continue
        elif site.home_of(name.parent) == site.server:
            arcs.append(ArcChange(name, operation.is_present, operation.kind, operation.cost, operation.version))
        if owns_child:
            node = site.graph.index.get(name.child)
            kind = operation.kind if isinstance(operation, SettleArc) else NodeKind.ABSENT
            if isinstance(operation, SettleArc) and node is not None and site.graph.kind(node) is NodeKind.GROUP:
                # Who left the arc may have taken a group for a process; its record is changed all the same.
                kind = NodeKind.GROUP
            version = NEVER if node is None else records.version_of(node)
            children[name.child] = ChildTruth(name.child, kind, version)
    return tuple(arcs), tuple(children.values()), tuple(declined)


def known_arc(site: Site, name: ArcId) -> KnownArc | None:
    """What is known here of an arc with an end here, present or not; None where it never was."""
    graph = site.graph
    parent, child = graph.index.get(name.parent), graph.index.get(name.child)
    if parent is None or child is None:
        return None
    arc = _active(site, name) or graph.suspended.get((parent, child)) or graph.tombstones.get((parent, child))
    if arc is None:
        return None
    return KnownArc(name, arc.present, graph.kind(child), arc.cost, arc.version, arc.writer)


def is_newer(one: KnownArc | SettleArc, other: KnownArc | None) -> bool:
    """Whether one state of an arc comes after another one."""
    return other is None or (one.version, one.writer) > (other.version, other.writer)


def suspended_with(site: Site, server: ServerId, *, leaving: bool) -> list[KnownArc]:
    """The suspended arcs between this server and another one: those that leave here, or those that enter; sorted."""
    graph = site.graph
    found = []
    for (parent, child), arc in graph.suspended.items():
        here, there = (parent, child) if leaving else (child, parent)
        name = ArcId(graph.ids[parent], graph.ids[child])
        if site.owns(here) and not site.owns(there) and site.home_of(graph.ids[there]) == server:
            found.append(KnownArc(name, True, graph.kind(child), arc.cost, arc.version, arc.writer))
    return sorted(found)


def left_with(site: Site, server: ServerId, *, leaving: bool) -> list[KnownArc]:
    """As `suspended_with`: the arcs that this server has left alone, and that are not there since."""
    found = []
    for name in site.left_apart:
        here, there = (name.parent, name.child) if leaving else (name.child, name.parent)
        known = known_arc(site, name)
        is_gone = known is not None and not known.is_present and not site.is_suspended(*name)
        if known is not None and is_gone and site.home_of(here) == site.server and site.home_of(there) == server:
            found.append(known)
    return sorted(found)


def suspended_with_subnet(site: Site, subnet: Subnet) -> list[ArcId]:
    """The suspended arcs between nodes of this server and those of another one's subnet; sorted."""
    graph = site.graph
    found = []
    for parent, child in graph.suspended:
        away = [node for node in (parent, child) if not site.owns(node)]
        if len(away) == 1 and subnet_of(graph.ids[away[0]]) == subnet:
            found.append(ArcId(graph.ids[parent], graph.ids[child]))
    return sorted(found)


def _active(site: Site, name: ArcId) -> ArcRecord | None:
    """The arc, where it is there for resolution, as this end of it knows it."""
    graph = site.graph
    parent, child = graph.index.get(name.parent), graph.index.get(name.child)
    if parent is None or child is None:
        return None
    return graph.children[parent].get(child) if site.owns(parent) else graph.parents[child].get(parent)


def _is_declined(site: Site, settle: SettleArc, *, owns_child: bool) -> bool:
    graph = site.graph
    known = known_arc(site, ArcId(settle.parent, settle.child))
    if known is not None and (known.version, known.writer) > (settle.version, settle.writer):
        return True
    if not settle.is_present:
        return False
    if site.home_of(settle.parent) == site.server and graph.group(settle.parent) is None:
        return True
    if any(site.groups_apart.is_deleted_since(end, settle.writer) for end in (settle.parent, settle.child)):
        return True
    return owns_child and not can_be_child(site, settle.child, settle.kind)


def can_be_child(site: Site, child: NodeId, kind: NodeKind) -> bool:
    """Whether a node of this server is, or can become, what an arc that was made elsewhere takes it for."""
    found = site.graph.index.get(child)
    now = NodeKind.ABSENT if found is None else site.graph.kind(NodeIndex(found))
    return now is kind or (now is NodeKind.ABSENT and kind is NodeKind.PROCESS)


def suspended_arcs(site: Site, why_rejected: Mapping[ArcId, str]) -> list[tuple[ArcId, str]]:
    """The suspended arcs with an end here, sorted, each with the reason in one line."""
    graph = site.graph
    found = []
    for (parent, child), arc in graph.suspended.items():
        ends = [node for node in (parent, child) if not site.owns(node)]
        name = ArcId(graph.ids[parent], graph.ids[child])
        if len(ends) != 1:
            continue
        server = site.home_of(graph.ids[ends[0]])
        if site.is_rejected(arc):
            unknown = f"the group {name.parent} is not there" if name in site.unconfirmed else UNEXPLAINED
            reason = f"rejected: {why_rejected.get(name, unknown)}"
        elif site.is_away(server):
            reason = f"the server {server} is out of reach"
        else:
            reason = f"being joined again with the server {server}"
        found.append((name, reason))
    return sorted(found)
