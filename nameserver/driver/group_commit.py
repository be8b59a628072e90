"""Records that become durable together, and the callers that wait for them."""

from __future__ import annotations

import asyncio

from namegraph import Committed, Outcome, Reason, Records, Refusal, ServerId


class Batch:
    """One batch of records and its waiters."""

    __slots__ = ("first_letters", "handled_before", "held_reads", "is_of_long_step", "records", "replies", "revision")

    def __init__(self) -> None:
        self.records = Records()
        self.revision = ""
        """The newest one once the records are durable."""
        self.is_of_long_step = False
        """Whether readers see the state before it until it is durable."""
        self.replies: list[tuple[asyncio.Future[Outcome], Outcome]] = []
        self.held_reads: list[asyncio.Future[Refusal | None]] = []
        self.first_letters: dict[ServerId, int] = {}
        """The number of the first letter to each server that rests on these records or was sent after them."""
        self.handled_before: dict[ServerId, int] = {}
        """Of each server whose letters caused these records: the number of the last letter before those."""

    def concerns_peers(self) -> bool:
        """Whether another server waits for these records."""
        return bool(self.first_letters or self.handled_before)

    def row_count(self) -> int:
        """How much there is to write."""
        records = self.records
        graph_rows = len(records.nodes) + len(records.arcs) + len(records.virtual_nodes)
        return graph_rows + len(records.outcomes) + len(records.protocol)

    def release(self) -> None:
        """Say that the records are durable."""
        for waiter, outcome in self.replies:
            if not waiter.done():
                waiter.set_result(outcome)
        for reader in self.held_reads:
            if not reader.done():
                reader.set_result(None)
        self._forget_waiters()

    def fail(self, why: str) -> None:
        """Tell the waiters that it is not known when the records will be durable, or whether."""
        for waiter, outcome in self.replies:
            if not waiter.done():
                waiter.set_result(outcome_unknown(why) if isinstance(outcome, Committed) else unavailable(why))
        for reader in self.held_reads:
            if not reader.done():
                reader.set_result(unavailable(why))
        self._forget_waiters()

    def _forget_waiters(self) -> None:
        self.replies = []
        self.held_reads = []


def outcome_unknown(why: str) -> Refusal:
    """The refusal of an update that was under way when the database could no longer be written."""
    return Refusal(
        Reason.OUTCOME_UNKNOWN,
        f"the database cannot be written, so this update may or may not be kept; repeat its request id to learn: {why}",
    )


def unavailable(why: str) -> Refusal:
    """The refusal of a call while the database cannot be written."""
    return Refusal(Reason.UNAVAILABLE, f"the database cannot be written, so nothing can be confirmed: {why}")
