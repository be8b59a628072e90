"""Checks every message: whether its sender may send it, and whether it fits what is under way here.

A message with a fault is counted and dropped. A faulty `Ready` ends its update. Any other update goes on waiting for a
right message: until its deadline or, where this server is ready, until a view ends it. What another server says of its
own nodes is believed: it owns them.

Source: protocol.md sections 3 to 5 (who sends what).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from namegraph.columns import are_possible, fit_arcs, fit_operations, fit_records, parents_in, unpack_arcs
from namegraph.message_parts import ArcChange, ArcColumns, KnownArc, SettleArc
from namegraph.messages import (
    Abort,
    Accept,
    AllHealed,
    Commit,
    Decline,
    Done,
    Drop,
    Entering,
    Final,
    Healed,
    Held,
    HeldToo,
    Holding,
    Install,
    InView,
    Message,
    Offer,
    Open,
    Order,
    Outside,
    Propose,
    Reach,
    Ready,
    Refuse,
    Settled,
    TakeCut,
    Vote,
)
from namegraph.names import ServerId
from namegraph.ordering import Entries
from namegraph.records import NodeKind
from namegraph.site import Site

NOT_LEGAL = "sends an invalid name or number"
NOT_ONE_UPDATE = "mixes kinds of operation in one update"
NOT_ITS_UPDATE = "acts as coordinator of another server's update"
NOT_OUR_UPDATE = "answers this server about another coordinator's update"
NOT_ITS_NODE = "speaks for a node it does not own"
NOT_OUR_NODE = "asks this server about a node of another server"
NO_COLUMNS = "sends columns that do not fit together"
NO_ARC = "names an impossible arc"
NOT_ITS_VIEW = "acts as leader of another server's view"
NOT_IN_VIEW = "sends a message of a view that it does not belong to"
NOT_OUR_VIEW = "sends this server a message meant for another view or leader"
NOT_READY = "commits an update for which this server is not ready"


def fault_in(message: Message, *, sender: ServerId, site: Site, entries: Entries) -> str | None:
    """The fault in a message of another server; None where there is none."""
    if isinstance(message, InView) and not site.is_in_view(sender):
        return NOT_IN_VIEW
    match message:
        case Order(update=update):
            if update.brought is not None and not fit_operations(update.brought):
                return NO_COLUMNS
            if sum(map(bool, (update.read is not None, update.cut is not None, update.brought, update.operations))) > 1:
                return NOT_ONE_UPDATE
            if not all(_can_be(step) for _, step in update.operations if isinstance(step, SettleArc)):
                return NO_ARC
            return _unless(update.update_id.coordinator == sender, NOT_ITS_UPDATE)
        case Final(update_id) | Abort(update_id):
            return _unless(update_id.coordinator == sender, NOT_ITS_UPDATE)
        case Drop(update_id):
            entry = entries.by_update.get(update_id)
            is_asked = entry is not None and entry.asked is not None
            return _unless(update_id.coordinator == sender and not is_asked, NOT_ITS_UPDATE)
        case Commit(update_id):
            if update_id.coordinator != sender:
                return NOT_ITS_UPDATE
            if not (fit_arcs(message.arcs) and fit_records(message.relay)):
                return NO_COLUMNS
            if not are_possible(message.arcs):
                return NO_ARC
            entry = entries.by_update.get(update_id)
            return _unless(entry is not None and entry.is_ready, NOT_READY)
        case Vote(update_id) | Refuse(update_id) | Holding(update_id):
            return _unless(update_id.coordinator == site.server, NOT_OUR_UPDATE)
        case Done(update_id, controlled, released):
            if update_id.coordinator != site.server:
                return NOT_OUR_UPDATE
            home_of = site.table.home_of
            return _unless(all(home_of(node) in (sender, None) for node in controlled + released), NOT_ITS_NODE)
        case Ready():
            if message.update_id.coordinator != site.server:
                return NOT_OUR_UPDATE
            if not (fit_arcs(message.arcs) and fit_records(message.ancestry)):
                return NO_COLUMNS
            return _unless(_owns_what_it_changes(message, sender=sender, site=site), NOT_ITS_NODE)
        case TakeCut(update_id):
            return _unless(sender in site.table.subnets_by_server, NOT_ITS_UPDATE)
        case Install(view=view):
            if view.leader != sender:
                return NOT_ITS_VIEW
            return _unless(site.server in dict(message.members), NOT_OUR_VIEW)
        case Propose(view=view):
            return _unless(view.leader == sender, NOT_ITS_VIEW)
        case Accept(view=view) | Decline(view=view):
            return _unless(view.leader == site.server, NOT_OUR_VIEW)
        case Entering(arcs=arcs):
            if site.is_open or site.is_apart(sender) or site.speaker != site.server:
                return NOT_OUR_VIEW
            return _unless(all(site.home_of(arc.child) == sender for arc in arcs), NOT_ITS_NODE)
        case Held(arcs=arcs):
            if not all(map(_can_be, arcs)):
                return NO_ARC
            return _unless(_are_between(arcs, parents=sender, children=site.server, site=site), NOT_ITS_NODE)
        case HeldToo(arcs=arcs):
            if not all(map(_can_be, arcs)):
                return NO_ARC
            return _unless(_are_between(arcs, parents=site.server, children=sender, site=site), NOT_ITS_NODE)
        case Offer(groups=groups, arcs=arcs):
            if not all(map(_can_be, arcs)):
                return NO_ARC
            are_ours = all(site.home_of(change.group) == site.server for change in groups)
            return _unless(
                are_ours and all(site.home_of(known.arc.parent) == site.server for known in arcs), NOT_OUR_NODE
            )
        case Open() | AllHealed():
            return _unless(site.view.leader == sender, NOT_ITS_VIEW)
        case Settled() | Healed():
            return _unless(site.view.leader == site.server, NOT_OUR_VIEW)
        case Outside(members=members):
            return _unless(sender in members and site.server not in members, NOT_ITS_VIEW)
        case Reach():
            return None
        case _:
            assert_never(message)


def _owns_what_it_changes(ready: Ready, *, sender: ServerId, site: Site) -> bool:
    home_of = site.table.home_of
    return (
        all(home_of(change.group) == sender for change in ready.groups)
        and _may_change_all(sender, ready.arcs, site=site)
        and all(home_of(truth.child) in (sender, None) for truth in ready.children)
        # A process of a server that is away is told of by the homes of its groups.
        and all(home_of(member.node) in (sender, None) or member.kind == NodeKind.PROCESS for member in ready.members)
    )


def _can_be(known: KnownArc | SettleArc) -> bool:
    """Whether an arc that is said to be there is possible: two ends, and a child of some kind."""
    parent, child = known.arc if isinstance(known, KnownArc) else (known.parent, known.child)
    return parent != child and (known.kind is not NodeKind.ABSENT or not known.is_present)


def _are_between(arcs: Iterable[KnownArc], *, parents: ServerId, children: ServerId, site: Site) -> bool:
    return all(
        site.home_of(known.arc.parent) == parents and site.home_of(known.arc.child) == children for known in arcs
    )


def _may_change_all(server: ServerId, arcs: ArcColumns, *, site: Site) -> bool:
    if all(site.home_of(parent) == server for parent in parents_in(arcs)):
        return True  # as in every import, arc by arc too
    return all(_may_change(server, change, site=site) for change in unpack_arcs(arcs))


def _may_change(server: ServerId, change: ArcChange, *, site: Site) -> bool:
    """Whether a server may speak for an arc: the parent's home, or the child's home while the parent's is away."""
    arc = change.arc
    if site.home_of(arc.parent) == server:
        return True
    return site.home_of(arc.child) == server and (change.is_suspended or site.is_apart(site.home_of(arc.parent)))


def _unless(is_right: bool, fault: str) -> str | None:
    return None if is_right else fault
