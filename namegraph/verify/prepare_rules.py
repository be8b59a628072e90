"""Checks of a participant's `Ready` or `Refuse`: it answers the request, and speaks for the participant's own nodes.

Source: docs/protocol-updates.md, "What each server judges".
"""

from __future__ import annotations

from namegraph.model.names import ServerId
from namegraph.model.operations import DeleteGroup
from namegraph.model.peer_faults import PeerFault
from namegraph.replication.ancestry_store import AncestryStore
from namegraph.state.context import ServerContext
from namegraph.update.order_queue import Entries
from namegraph.update.transaction import Transaction
from namegraph.verify.commit_rules_ancestry import are_held_here
from namegraph.wire.update_messages import GIVEN_UP, Ready, Refuse


def fault_in_answer(
    answer: Ready | Refuse,
    running: Transaction,
    *,
    sender: ServerId,
    context: ServerContext,
    records: AncestryStore,
    entries: Entries,
) -> PeerFault | None:
    """Return the fault in an answer to an update of this coordinator. None if there is none."""
    if sender not in running.asked:
        is_holder = isinstance(answer, Refuse) and answer.number == GIVEN_UP and sender in running.holders
        return None if is_holder else PeerFault.UNASKED
    if isinstance(answer, Ready):
        is_known = are_held_here(answer.ancestry, context=context, records=records, entries=entries)
        return None if is_known else PeerFault.NOT_ITS_ANCESTRY
    is_right = not answer.to_leave or _is_in_use(answer, running, sender=sender, context=context)
    return None if is_right else PeerFault.NOT_IN_USE


def _is_in_use(refuse: Refuse, running: Transaction, *, sender: ServerId, context: ServerContext) -> bool:
    """Return True if the home of a group that is to be deleted names arcs of that group."""
    operations = running.plan.operations
    deleted = [step.group for number, step in operations if number == refuse.number and isinstance(step, DeleteGroup)]
    return any(context.home_of(group) == sender and all(group in arc for arc in refuse.to_leave) for group in deleted)
