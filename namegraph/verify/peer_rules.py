"""Judgement of every message of another server before it is acted on.

This module combines the single rules:

    any message       who may send it, and which nodes it may name    `sender_rules`
    Ready, Refuse     the request to the participant                  `prepare_rules`
    share of outcome  the agreement of this server                    `commit_rules`
"""

from __future__ import annotations

from namegraph.model.names import ServerId
from namegraph.model.peer_faults import PeerFault
from namegraph.replication.ancestry_store import AncestryStore
from namegraph.state.context import ServerContext
from namegraph.update.coordinator import Coordinator
from namegraph.update.order_queue import Entries
from namegraph.verify.commit_rules import fault_in_share
from namegraph.verify.prepare_rules import fault_in_answer
from namegraph.verify.sender_rules import fault_in
from namegraph.wire.codec import Message
from namegraph.wire.update_messages import Ready, Refuse, UpdateOutcome


class PeerRules:
    """The rules of one server for messages of other servers."""

    def __init__(
        self, context: ServerContext, records: AncestryStore, entries: Entries, coordinator: Coordinator
    ) -> None:
        self._context = context
        self._records = records
        self._entries = entries
        self._coordinator = coordinator

    def fault_in(self, message: Message, *, sender: ServerId) -> PeerFault | None:
        """Return the fault in a message of another server. None if there is none."""
        fault = fault_in(message, sender=sender, context=self._context, entries=self._entries)
        if fault is not None:
            return fault
        if isinstance(message, Ready | Refuse):
            return self._fault_in_answer(message, sender)
        return None

    def fault_in_share(self, share: UpdateOutcome) -> PeerFault | None:
        """Return the fault in an outcome that this server waits for. None if all of it follows from this server's
        agreement."""
        if share.update_id.coordinator == self._context.server:
            return None
        return fault_in_share(share, context=self._context, records=self._records, entries=self._entries)

    def _fault_in_answer(self, answer: Ready | Refuse, sender: ServerId) -> PeerFault | None:
        running = self._coordinator.waiting_for_answers(answer.update_id)
        if running is None:
            return None  # The answer is ignored.
        return fault_in_answer(
            answer, running, sender=sender, context=self._context, records=self._records, entries=self._entries
        )
