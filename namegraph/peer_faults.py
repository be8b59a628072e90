"""What another server must not say: messages that only somebody else could send, or that fit nothing under way here.

A message with a fault is counted and dropped; the update it speaks of waits for a right one, until its deadline. What
another server says of its own nodes is believed: it owns them.

Source: protocol.md sections 3 to 5 (who sends what).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from namegraph.columns import fit_arcs, fit_operations, fit_records, parents_in
from namegraph.messages import (
    Abort,
    ArcId,
    Block,
    Commit,
    Done,
    Drop,
    Final,
    Holding,
    Message,
    Order,
    Ready,
    Refuse,
    Release,
    Released,
    Vote,
)
from namegraph.names import NodeId, ServerId
from namegraph.ordering import Entries
from namegraph.site import Site

NOT_ITS_UPDATE = "speaks for another coordinator"
NOT_OUR_UPDATE = "answers for an update of another coordinator"
NOT_ITS_NODE = "speaks for a node it does not own"
NOT_OUR_NODE = "asks for a node not owned here"
NO_COLUMNS = "brings columns that do not belong together"
NOT_READY = "commits what this server is not ready for"


def fault_in(message: Message, *, sender: ServerId, site: Site, entries: Entries) -> str | None:
    """What is wrong with a message of another server; None where nothing is."""
    match message:
        case Order(update=update):
            if update.brought is not None and not fit_operations(update.brought):
                return NO_COLUMNS
            return _unless(update.update_id.coordinator == sender, NOT_ITS_UPDATE)
        case Final(update_id) | Abort(update_id) | Drop(update_id):
            return _unless(update_id.coordinator == sender, NOT_ITS_UPDATE)
        case Commit(update_id):
            if update_id.coordinator != sender:
                return NOT_ITS_UPDATE
            if not (fit_arcs(message.arcs) and fit_records(message.relay)):
                return NO_COLUMNS
            entry = entries.by_update.get(update_id)
            return _unless(entry is not None and entry.is_ready and not entry.releases_due, NOT_READY)
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
        case Release():
            is_coordinator = sender == message.update_id.coordinator
            return _fault_in_records(message.records, sender=None if is_coordinator else sender, site=site)
        case Released():
            return None
        case Block():
            return _fault_in_records(message.records, sender=sender, site=site)
        case _:
            assert_never(message)


def _fault_in_records(
    records: Iterable[tuple[ArcId, tuple[NodeId, ...]]], *, sender: ServerId | None, site: Site
) -> str | None:
    """`sender`: the server that must own the children; None where anybody may."""
    if sender is not None and any(site.table.home_of(arc.child) != sender for arc, _ in records):
        return NOT_ITS_NODE
    return _unless(all(site.home_of(arc.parent) == site.server for arc, _ in records), NOT_OUR_NODE)


def _owns_what_it_changes(ready: Ready, *, sender: ServerId, site: Site) -> bool:
    home_of = site.table.home_of
    return (
        all(home_of(change.group) == sender for change in ready.groups)
        and all(home_of(parent) == sender for parent in parents_in(ready.arcs))
        and all(home_of(truth.child) in (sender, None) for truth in ready.children)
        and all(home_of(member.node) in (sender, None) for member in ready.members)
    )


def _unless(is_right: bool, fault: str) -> str | None:
    return None if is_right else fault
