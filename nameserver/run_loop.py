"""Drives the core: one step at a time, records durable before anything that rests on them becomes visible.

    command -> core.step -> records -> COLLECTING -> FLUSHING -> durable -> replies, held reads
                                           ^            | StorageError
                                           |            v
                                       next batch    FAILING: tries again, refuses meanwhile

One flush is under way at a time, in one worker thread; the records of all steps taken meanwhile make up the next flush
(group commit). Callers that were just answered tend to ask again at once, so the next flush waits for them, but only a
moment; a caller who is alone never waits. The core is ahead of the database by these two batches at most, so a read is
held until the newest of them is durable: nobody sees what a crash could undo.

When the database cannot be written, what was under way has an unknown outcome (the very same records are tried again
until it works), and reads and further updates are refused, since nothing could be confirmed. One flush that works ends
this. A database that is lost for good ends the server instead.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import nullcontext
from typing import Protocol

from namegraph.events import Committed, Effects, Event, ImportCommand, Outcome, UpdateCommand
from namegraph.records import Records
from namegraph.refusals import Reason, Refusal, RefusedError, refuse
from nameserver.collector import growing_graph
from storage.errors import DatabaseLostError, StorageError

WAITING_ROWS_LIMIT = 1_000_000
"""Rows that may wait for the flush under way before updates are refused: some 200 MB, and seconds of writing."""

GATHER_SECONDS = 0.002
"""How long a flush waits for the next of the callers that were just answered: about the time of one flush."""

GATHER_ROUNDS_LIMIT = 10
"""How often it waits again, as long as some do come: 20 ms for a caller who waits for others at the very worst."""

FIRST_RETRY_SECONDS = 0.1
LONGEST_RETRY_SECONDS = 5.0
"""A full disk is found usable again within this time after somebody made room."""


class Core(Protocol):
    """The part of the core that the loop drives."""

    def step(self, event: Event, now: float) -> Effects:
        """Take one event."""


class DurableStore(Protocol):
    """The part of a store that the loop uses."""

    def commit(self, records: Records) -> None:
        """Make all records durable, or none and raise `StorageError`."""


class Batch:
    """Records that become durable together, and who waits for that."""

    __slots__ = ("held_reads", "records", "replies")

    def __init__(self) -> None:
        self.records = Records()
        self.replies: list[tuple[asyncio.Future[Outcome], Outcome]] = []
        self.held_reads: list[asyncio.Future[Refusal | None]] = []

    def row_count(self) -> int:
        """How much there is to write."""
        records = self.records
        return len(records.nodes) + len(records.arcs) + len(records.virtual_nodes) + len(records.outcomes)

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
        """Say that nobody knows when the records will be durable, or whether."""
        for waiter, outcome in self.replies:
            if not waiter.done():
                waiter.set_result(_outcome_unknown(why) if isinstance(outcome, Committed) else _unavailable(why))
        for reader in self.held_reads:
            if not reader.done():
                reader.set_result(_unavailable(why))
        self._forget_waiters()

    def _forget_waiters(self) -> None:
        self.replies = []
        self.held_reads = []


class RunLoop:
    """Owns the core's input and the store's output. All methods belong to the thread of the event loop."""

    def __init__(
        self,
        *,
        core: Core,
        store: DurableStore,
        worker: Executor,
        clock: Callable[[], float],
        on_storage_state: Callable[[str | None], None] = lambda _failure: None,
    ) -> None:
        """`on_storage_state` is told the failure when the database cannot be written, and None when it can again."""
        self._core = core
        self._store = store
        self._worker = worker
        self._clock = clock
        self._on_storage_state = on_storage_state
        self._tickets = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Outcome]] = {}
        self._collecting: Batch | None = None
        self._flushing: Batch | None = None
        self._expected_replies = 0
        self._gathered = asyncio.Event()
        self._wake = asyncio.Event()
        self._bug: BaseException | None = None
        self._refuses_updates_because: str | None = None
        self._ends = False
        self.newest_batch: Batch | None = None
        """The newest batch that is not durable; while it is None, answers may leave at once."""
        self.step_count = 0
        """How many steps were taken: tells a reader that yields in between whether the graph may have changed."""
        self.storage_failure: str | None = None

    def now(self) -> float:
        """The time on the clock of deadlines."""
        return self._clock()

    def new_ticket(self) -> int:
        """A number for one command, never used again."""
        return next(self._tickets)

    def require_accepting(self) -> None:
        """Raise `RefusedError` where an update would be refused whatever it says."""
        if self._refuses_updates_because is not None:
            raise refuse(Reason.UNAVAILABLE, self._refuses_updates_because)
        if self.storage_failure is not None:
            raise RefusedError(_unavailable(self.storage_failure))
        if self._collecting is not None and self._collecting.row_count() > WAITING_ROWS_LIMIT:
            raise refuse(Reason.UNAVAILABLE, "the server is busy writing earlier updates; try again in a moment")

    async def carry_out(self, command: UpdateCommand | ImportCommand) -> Committed:
        """Take the command, and return once its outcome is durable; raise `RefusedError` where it is refused."""
        self.require_accepting()
        if command.deadline is not None and command.deadline <= self._clock():
            raise refuse(Reason.DEADLINE_EXCEEDED, "the deadline passed before the update was begun; nothing was done")
        waiter: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._waiting[command.ticket] = waiter
        try:
            self._step(command)
            outcome = await waiter
        finally:
            self._waiting.pop(command.ticket, None)
        if isinstance(outcome, Refusal):
            raise RefusedError(outcome)
        return outcome

    async def until_durable(self) -> None:
        """Wait until all that could be seen by now is durable; raise `RefusedError` where the database fails."""
        batch = self.newest_batch
        if batch is None:
            return
        if self.storage_failure is not None:
            raise RefusedError(_unavailable(self.storage_failure))
        reader: asyncio.Future[Refusal | None] = asyncio.get_running_loop().create_future()
        batch.held_reads.append(reader)
        refusal = await reader
        if refusal is not None:
            raise RefusedError(refusal)

    async def flush_forever(self) -> None:
        """Make batches durable until `finish` and nothing is left.

        Raises `DatabaseLostError`, and whatever a bug raised in a step or a commit: the server must end then.
        """
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._collecting is not None and self._bug is None:
                await self._flush_collected()
            if self._bug is not None:
                raise self._bug
            if self._ends:
                return

    def refuse_updates(self, why: str) -> None:
        """Take no update from now on; those taken are finished, reads go on."""
        self._refuses_updates_because = why

    def finish(self) -> None:
        """Let `flush_forever` return once everything taken is durable."""
        self._ends = True
        self._wake.set()

    def _step(self, event: Event) -> None:
        self.step_count += 1
        try:
            with growing_graph() if isinstance(event, ImportCommand) else nullcontext():
                effects = self._core.step(event, self._clock())
        except BaseException as bug:
            # The core may be half changed: the server ends, and starts again from what is durable.
            self._bug = bug
            self._wake.set()
            raise
        if not effects.records.is_empty():
            if self._collecting is None:
                self._collecting = self.newest_batch = Batch()
                self._wake.set()
            self._collecting.records.extend(effects.records)
        batch = self.newest_batch
        for reply in effects.replies:
            waiter = self._waiting.get(reply.ticket)
            if waiter is None:
                continue
            if batch is not None:
                batch.replies.append((waiter, reply.outcome))
            elif not waiter.done():
                waiter.set_result(reply.outcome)
        if batch is not None and len(batch.replies) >= self._expected_replies:
            self._gathered.set()

    async def _gather(self) -> None:
        """Wait for the callers that are likely to come back, as long as they keep coming."""
        batch = self._collecting
        assert batch is not None
        for _ in range(GATHER_ROUNDS_LIMIT):
            came_so_far = len(batch.replies)
            if came_so_far >= self._expected_replies or self._ends:
                return
            self._gathered.clear()
            end_of_wait = asyncio.get_running_loop().call_later(GATHER_SECONDS, self._gathered.set)
            await self._gathered.wait()
            end_of_wait.cancel()
            if len(batch.replies) == came_so_far:
                return

    async def _flush_collected(self) -> None:
        await self._gather()
        batch = self._flushing = self._collecting
        assert batch is not None
        self._collecting = None
        retry_seconds = FIRST_RETRY_SECONDS
        event_loop = asyncio.get_running_loop()
        while True:
            try:
                await event_loop.run_in_executor(self._worker, self._store.commit, batch.records)
            except DatabaseLostError as error:
                self._fail(str(error))
                raise
            except StorageError as error:
                self._fail(str(error))
                await asyncio.sleep(retry_seconds)
                retry_seconds = min(2 * retry_seconds, LONGEST_RETRY_SECONDS)
            else:
                break
        self._flushing = None
        self.newest_batch = self._collecting
        if self.storage_failure is not None:
            self.storage_failure = None
            self._on_storage_state(None)
        came_meanwhile = 0 if self._collecting is None else len(self._collecting.replies)
        self._expected_replies = len(batch.replies) + came_meanwhile
        batch.release()

    def _fail(self, why: str) -> None:
        if self.storage_failure is None:
            self._on_storage_state(why)
        self.storage_failure = why
        for batch in (self._flushing, self._collecting):
            if batch is not None:
                batch.fail(why)


def _outcome_unknown(why: str) -> Refusal:
    return Refusal(
        Reason.OUTCOME_UNKNOWN,
        f"the database cannot be written, so this update may or may not be kept; repeat its request id to learn: {why}",
    )


def _unavailable(why: str) -> Refusal:
    return Refusal(Reason.UNAVAILABLE, f"the database cannot be written, so nothing can be confirmed: {why}")
