"""Changes of arcs by servers themselves: suspend arcs whose other end is out of reach, settle them when it is back.

                 home of the child: SuspendArc                     home of the parent: ReconcileArc
    present ------------------------------------> suspended --------------------------------------> present, or left

Both are ordinary updates, ordered with all updates that affect the same nodes. Virtual nodes therefore break and
form by the one computation. An arc keeps its version while it is suspended. The highest version that its two ends
know wins, leaves included.

Source: docs/protocol-partitions.md, "Suspension" and "Healing"; NG 6.3 to 6.5.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from namegraph.model.names import ServerId, Subnet, subnet_of
from namegraph.model.slices import Slices, in_slices
from namegraph.state.context import ServerContext
from namegraph.state.known_arcs import known_arc
from namegraph.wire.message_parts import ArcId, KnownArc

ARCS_AT_ONCE = 500
"""Arcs that are looked at in one slice, some 2 ms."""

UNEXPLAINED = "the home of its other end did not join it"
"""Reason of a rejected arc if only its other end knows the reason, or a restart forgot it."""


def suspended_with(context: ServerContext, server: ServerId, *, leaving: bool) -> list[KnownArc]:
    """Return the suspended arcs between this server and another one, sorted.

    `leaving`: True for arcs that leave this server, False for arcs that enter it.
    """
    graph = context.graph
    found = []
    for (parent, child), arc in graph.suspended.items():
        here, there = (parent, child) if leaving else (child, parent)
        name = ArcId(graph.ids[parent], graph.ids[child])
        if context.owns(here) and not context.owns(there) and context.home_of(graph.ids[there]) == server:
            found.append(KnownArc(name, True, graph.kind(child), arc.cost, arc.version, arc.writer))
    return sorted(found)


def left_with(context: ServerContext, server: ServerId, *, leaving: bool) -> list[KnownArc]:
    """Return the arcs that this server left alone and that are still gone. `leaving`: see `suspended_with`."""
    found = []
    for name in context.unilateral_leaves:
        here, there = (name.parent, name.child) if leaving else (name.child, name.parent)
        known = known_arc(context, name)
        is_gone = known is not None and not known.is_present and not context.is_suspended(*name)
        if (
            known is not None
            and is_gone
            and context.home_of(here) == context.server
            and context.home_of(there) == server
        ):
            found.append(known)
    return sorted(found)


def suspended_with_subnet(context: ServerContext, subnet: Subnet) -> Slices[list[ArcId]]:
    """Return the suspended arcs between nodes of this server and those of another server's subnet, in no order."""
    found = []
    graph = context.graph
    for pairs in in_slices(list(graph.suspended), ARCS_AT_ONCE):
        for parent, child in pairs:
            away = [node for node in (parent, child) if not context.owns(node)]
            if len(away) == 1 and subnet_of(graph.ids[away[0]]) == subnet:
                found.append(ArcId(graph.ids[parent], graph.ids[child]))
        yield len(pairs)
    return found


class SuspendedArcs(NamedTuple):
    """The suspended arcs with an end here."""

    listed: list[tuple[ArcId, str]]
    """Some of the arcs, sorted, each with the reason in one line."""
    total: int
    """Number of suspended arcs."""


def suspended_arcs(context: ServerContext, why_rejected: Mapping[ArcId, str], *, limit: int) -> Slices[SuspendedArcs]:
    """Count all suspended arcs, and list up to `limit`. Rejected arcs come first, because other arcs heal by
    themselves."""
    rejected, others, total = list[tuple[ArcId, str]](), list[tuple[ArcId, str]](), 0
    graph = context.graph
    for arcs in in_slices(graph.suspended.values(), ARCS_AT_ONCE):
        for arc in arcs:
            parent, child = arc.parent, arc.child
            if context.owns(parent) == context.owns(child):
                continue
            total += 1
            is_rejected = context.is_rejected(arc)
            found = rejected if is_rejected else others
            if len(found) == limit:
                continue
            name = ArcId(graph.ids[parent], graph.ids[child])
            if is_rejected:
                unknown = f"the group {name.parent} is not there" if name in context.unconfirmed else UNEXPLAINED
                reason = f"rejected: {why_rejected.get(name, unknown)}"
            else:
                server = context.home_of(graph.ids[child if context.owns(parent) else parent])
                if context.is_away(server):
                    reason = f"the server {server} is out of reach"
                else:
                    reason = f"being joined again with the server {server}"
            found.append((name, reason))
        yield len(arcs)
    return SuspendedArcs(sorted([*rejected, *others][:limit]), total)
