"""Batches: records that become durable together, and the callers that wait for them.

    collecting --seal--> sealed ... sealed --take_next--> flushing --written--> durable

A batch is sealed when it is written next, and around a long step, whose records are a batch of their own. Readers see
the state before the oldest batch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from delivery.model.events import Answer
from delivery.volatile.output import RingGrew, VolatileOutput
from namegraph import Committed, Lane, Outcome, Reason, Records, Refusal, ServerId


class Flow(NamedTuple):
    """One lane between this server and another server. Numbers of a flow count one direction."""

    server: ServerId
    lane: Lane


ROWS_OF_A_PARCEL = 100
"""Weight of a parcel in rows: writing it costs as much as so many rows of other kinds."""


class Batch:
    """One batch of records and its waiters."""

    __slots__ = (
        "answers",
        "first_letters",
        "handled_before",
        "is_held",
        "records",
        "replies",
        "revision",
        "unkept",
        "waiters",
    )

    def __init__(self) -> None:
        self.records = Records()
        self.revision = ""
        """Newest revision once the records are durable."""
        self.is_held = False
        """True if readers see the state before this batch until it is durable. False while it changes nothing that
        they see."""
        self.replies: list[tuple[asyncio.Future[Outcome], Outcome]] = []
        self.waiters: list[asyncio.Future[Refusal | None]] = []
        """Callers that have read state of these steps in the core itself."""
        self.answers: list[Answer] = []
        """Answers for callers of the delivery half, sent once the records are durable."""
        self.unkept: list[VolatileOutput] = []
        """Volatile output that leaves once the records are durable."""
        self.first_letters: dict[Flow, int] = {}
        """Number of the first letter to each server that rests on these records or was sent after them."""
        self.handled_before: dict[Flow, int] = {}
        """Number of the last letter handled before the letters that caused these records, by sending server."""

    def concerns_graph(self) -> bool:
        """Return True if memberships rest on these records."""
        records = self.records
        return bool(records.arcs or records.nodes or records.virtual_nodes)

    def concerns_peers(self) -> bool:
        """Return True if another server waits for these records."""
        return bool(self.first_letters or self.handled_before)

    @property
    def can_wait(self) -> bool:
        """True if no caller or server waits for this batch, except for receipts.

        Servers go on without receipts.
        """
        is_awaited = self.replies or self.waiters or self.answers or self.unkept or self.first_letters
        records = self.records
        is_seen = self.concerns_graph() or records.changes or records.outcomes or records.log
        return not (is_awaited or is_seen)

    def peers(self) -> dict[ServerId, None]:
        """Return the servers for which letters or receipts may leave once the records are durable."""
        return dict.fromkeys(flow.server for flow in self.first_letters | self.handled_before)

    def row_count(self) -> int:
        """Return the amount to write, in rows."""
        records = self.records
        small_rows = records.graph_row_count() + len(records.outcomes) + len(records.protocol)
        return small_rows + ROWS_OF_A_PARCEL * len(records.log)

    def release(self) -> None:
        """Answer the waiters: the records are durable."""
        for waiter, outcome in self.replies:
            if not waiter.done():
                waiter.set_result(outcome)
        for each in self.waiters:
            if not each.done():
                each.set_result(None)
        self._forget_waiters()

    def fail(self, why: str) -> None:
        """Answer the waiters: it is unknown when the records will be durable, or if they ever will."""
        for waiter, outcome in self.replies:
            if not waiter.done():
                waiter.set_result(outcome_unknown(why) if isinstance(outcome, Committed) else unavailable(why))
        for each in self.waiters:
            if not each.done():
                each.set_result(unavailable(why))
        of_memory: list[VolatileOutput] = [each for each in self.unkept if isinstance(each, RingGrew)]
        self._forget_waiters()
        self.unkept = of_memory

    def _forget_waiters(self) -> None:
        self.unkept = []
        self.replies = []
        self.waiters = []


class Batches:
    """Batches that are not durable, in the order in which they are written."""

    def __init__(self) -> None:
        self.collecting: Batch | None = None
        """Newest batch, which takes the records of the next step. None if the next step begins a batch."""
        self._flushing: Batch | None = None
        """Oldest batch, if it is being written."""
        self._all: list[Batch] = []
        """All batches, the oldest first. They are few. Sessions look through them again and again."""

    def __iter__(self) -> Iterator[Batch]:
        """Iterate over all batches, the oldest first."""
        return iter(self._all)

    @property
    def newest(self) -> Batch | None:
        """Newest batch. Once it is durable, the whole state is durable."""
        return self._all[-1] if self._all else None

    @property
    def newest_of_graph(self) -> Batch | None:
        """Newest batch that concerns the graph. Once it is durable, all memberships are durable."""
        return next((batch for batch in reversed(self._all) if batch.concerns_graph()), None)

    def is_any_to_write(self) -> bool:
        """Return True if `take_next` would find a batch, once the collecting batch is sealed."""
        return len(self._all) > (self._flushing is not None)

    def is_any_sealed(self) -> bool:
        """Return True if a batch is to be written without waiting for more records."""
        return len(self._all) > (self._flushing is not None) + (self.collecting is not None)

    def rows_waiting(self) -> int:
        """Return the number of rows to write after the batch being written."""
        return sum(batch.row_count() for batch in self._all if batch is not self._flushing)

    def collect(self) -> Batch:
        """Return the batch that takes the records of the next step. A new batch begins if there is none."""
        if self.collecting is None:
            self.collecting = Batch()
            self._all.append(self.collecting)
        return self.collecting

    def seal(self) -> None:
        """Close the collecting batch. The next step begins another batch."""
        self.collecting = None

    def take_next(self) -> Batch:
        """Return the oldest sealed batch, to be written."""
        assert self._flushing is None
        assert self.is_any_sealed()
        self._flushing = self._all[0]
        return self._flushing

    def written(self) -> None:
        """Note that the batch being written is durable."""
        del self._all[0]
        self._flushing = None

    def first_letter_held(self, receiver: ServerId, lane: Lane) -> int | None:
        """Return the number of the first letter to a server that waits for a batch. None if no letter waits."""
        flow, first = Flow(receiver, lane), None
        for batch in self._all:
            number = batch.first_letters.get(flow)
            if number is not None and (first is None or number < first):
                first = number
        return first

    def handled_before(self, sender: ServerId, lane: Lane) -> int | None:
        """Return the number of the last letter of a sender before the letters whose records wait.

        None if no records wait.
        """
        flow = Flow(sender, lane)
        for batch in self._all:
            if flow in batch.handled_before:
                return batch.handled_before[flow]
        return None

    def begin_channels_again(self, peers: Collection[ServerId]) -> None:
        """Forget the old numbers of the channels with these servers. Hold their new letters until all is durable."""
        for batch in self:
            for flow in _flows_of(peers):
                batch.first_letters.pop(flow, None)
                batch.handled_before.pop(flow, None)
        self.hold_letters_to(peers)

    def hold_letters_to(self, peers: Iterable[ServerId]) -> None:
        """Let no letter to these servers leave before all present batches are durable."""
        newest = self.newest
        if newest is not None:
            newest.first_letters |= dict.fromkeys(_flows_of(peers), 1)


def _flows_of(peers: Iterable[ServerId]) -> list[Flow]:
    return [Flow(peer, lane) for peer in peers for lane in Lane]


def outcome_unknown(why: str) -> Refusal:
    """Return the refusal of an update that was under way when the database could no longer be written."""
    return Refusal(
        Reason.OUTCOME_UNKNOWN,
        f"the database cannot be written, so this update may or may not be kept; repeat its request id to learn: {why}",
    )


def unavailable(why: str) -> Refusal:
    """Return the refusal of a call while the database cannot be written."""
    return Refusal(Reason.UNAVAILABLE, f"the database cannot be written, so nothing can be confirmed: {why}")
