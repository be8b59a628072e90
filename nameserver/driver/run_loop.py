"""Drive the core: one step at a time, records durable before anything that rests on them becomes visible.

    command, letter -> core.step -> records -> COLLECTING -> FLUSHING -> durable -> letters, replies
                                                   ^            | StorageError
                                                   |            v
                                               next batch    FAILING: tries again, refuses meanwhile

Group commit: one flush is under way at a time, in one worker thread. The records of all steps taken meanwhile make up
the next flush. Callers that were just answered tend to ask again at once, so the next flush waits a moment for them. A
single caller never waits, nor does a letter to or from another server. The core is ahead of the database by at most
these two batches. Readers see the state before the first step of the oldest of them: no reader waits for a flush, and
none sees a state that a crash could undo.

Long steps: a step that may take long runs in a thread of its own. Meanwhile other events wait for their turn, and no
letter of the step leaves. Its records are a batch of their own, which may take seconds to write.

A database that cannot be written: the updates under way have an unknown outcome: the same records are tried again until
the write works. Further updates are refused, since nothing could be confirmed. Reads go on, by the newest durable
state. Letters of other servers wait. If the failure lasts, peers and all waiting callers are told
(`detector/write_health.py`). One successful flush ends the failure. A server without records to write probes its
database now and then, and refuses updates while the probe fails. A database that is lost for good ends the server.

Datagrams are not kept. They leave at once, or with the batch that has the memberships they rest on, if these are not
durable. A datagram that cannot leave then, or that comes while the server cannot handle it at once, is dropped and
counted.

Letters to other servers stay in the core's channels. A batch only knows the number of the first letter that must wait,
in each lane by the numbers of that lane. A received post may be handled in any later step. The loop therefore asks the
core for the risen numbers after each step, and receipts follow from them alone.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from dataclasses import replace
from itertools import count, islice
from typing import NamedTuple

from delivery.model.events import CloseParcels, DatagramCame, DeliveryEvent
from delivery.server import ServerEffects
from namegraph import (
    CHANGES_KEPT,
    AddPeer,
    Command,
    Committed,
    ConfigurePeer,
    CutCommand,
    Effects,
    Event,
    Lane,
    LogRecord,
    Outcome,
    PeerMessage,
    PeerMet,
    PeerPosts,
    PeerReceived,
    PeerRestored,
    ReadCommand,
    Reason,
    Records,
    Refusal,
    RefusedError,
    RemovePeer,
    Restored,
    ServerId,
    Tick,
    refuse,
)
from nameserver.driver.database_work import DatabaseWork
from nameserver.driver.gathering import Gathering
from nameserver.driver.group_commit import Batch, Batches, Flow, outcome_unknown, unavailable
from nameserver.driver.leavings import Leavings
from nameserver.driver.letting_out import DatagramCounts, LettingOut
from nameserver.driver.long_step import Unfinished, about_to_begin, carry_out, changes, may_take_long, numbers_anew
from nameserver.driver.observer import Observer
from nameserver.driver.ports import Core, DeliveryDesk, DurableStore, SeenState
from storage.store import ChangesFound, ChangesWanted, LogWanted

LANES = tuple(Lane)
"""A tuple, because each step iterates over it, and iterating over an enumeration takes ten times as long."""

WAITING_ROWS_LIMIT = 1_000_000
"""Most rows that wait for the flush under way before updates are refused: some 200 MB, and seconds of writing."""

POSTS_OF_A_STEP = 32
"""Most posts of one server in one step, if they came together: some milliseconds."""

SHORTEST_TICK_SECONDS = 0.001
"""Shortest pause before a tick. A timer may fire a little early, and the core must not be asked again without end."""

PROBE_SECONDS = 1.0
"""Interval at which a server without records to write probes its database."""


class WaitingCaller(NamedTuple):
    """A waiting caller of this server."""

    command: Command
    outcome: asyncio.Future[Outcome]


class RunLoop:
    """Owner of the core's input and the store's output. All methods belong to the thread of the event loop."""

    def __init__(
        self,
        *,
        core: Core,
        store: DurableStore,
        worker: Executor,
        clock: Callable[[], float],
        on_storage_state: Callable[[str | None], None] = lambda _failure: None,
        seen: SeenState | None = None,
        stepper: Executor | None = None,
    ) -> None:
        """`on_storage_state` gets the failure when the database cannot be written, and None when it can be again.

        `seen`: the state that readers see. If given, `stepper` runs the long steps.
        """
        self._core = core
        self._seen = seen
        self._stepper = stepper
        self._long_step: asyncio.Future[None] | None = None
        """Step in another thread. None if there is none."""
        self._unfinished: Unfinished | None = None
        """Letters and receipts of that step that must not leave."""
        self._later: deque[Event | DeliveryEvent] = deque()
        """Events that came during a long step."""
        self._database = DatabaseWork(store, worker, self)
        self._clock = clock
        self._on_storage_state = on_storage_state
        self._tickets = count(1)
        self._waiting: dict[int, WaitingCaller] = {}
        self._batches = Batches()
        if seen is not None:
            seen.free = Leavings().add
        self._gathering = Gathering(self._has_open)
        self._wake = asyncio.Event()
        self._room = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._armed_for: float | None = None
        """Deadline of the core that the timer is set for."""
        self._is_to_arm = False
        """True if the timer is to be set once the tasks that a step woke had a turn."""
        self._waits_since: float | None = None
        """Time since which there is nothing to write. None while there is something to write."""
        self._look: asyncio.TimerHandle | None = None
        """Timer of the next look at `_waits_since`."""
        self._is_to_probe = False
        self._bug: BaseException | None = None
        self._refuses_updates_because: Refusal | None = None
        self._durable_revision = core.revision
        self._ends = False
        self._stepped: asyncio.Future[None] | None = None
        """Future that is done at the next step. None unless a caller waits for it."""
        self.changes_kept = CHANGES_KEPT
        """Number of the newest rows of the audit log that readers of changes see."""
        self.audit_head = (0, b"")
        """Number and hash of the newest row of the audit log that was made durable since the start."""
        self._changes_recorded: asyncio.Future[None] | None = None
        """Future that is done when more of the record of changes is durable. None unless a reader waits for it."""
        self.storage_failure: str | None = None
        self.followers: list[Callable[[Effects], None]] = []
        """Callbacks that get the effects of each step at once: readers that go on over several steps."""
        self.observers: list[Observer] = []
        self._letting_out = LettingOut()
        self.notify_peers: Callable[[Iterable[ServerId]], None] = lambda _peers: None
        """Callback that gets the servers for which letters or receipts may leave."""

    @property
    def server(self) -> ServerId:
        """Server of this core."""
        return self._core.server

    @property
    def desk(self) -> DeliveryDesk | None:
        """Desk that is told of messages. None if this server takes no messages."""
        return self._letting_out.desk

    @property
    def datagrams(self) -> DatagramCounts:
        """Outcomes of datagrams."""
        return self._letting_out.counts

    def begin_messages(self, desk: DeliveryDesk) -> None:
        """Tell a desk of messages from now on."""
        self._letting_out.desk = desk

    def begin_datagrams(self, send: Callable[[ServerId, bytes], bool]) -> None:
        """Set the sender of datagrams. `send` returns True if the datagram can leave soon and will."""
        self._letting_out.send_datagram = send

    def now(self) -> float:
        """Return the time on the clock of deadlines."""
        return self._clock()

    def new_ticket(self) -> int:
        """Return a number for one command, never used again."""
        return next(self._tickets)

    def require_accepting(self) -> None:
        """Raise `RefusedError` if every update would be refused, whatever it contains."""
        if self._refuses_updates_because is not None:
            raise RefusedError(self._refuses_updates_because)
        if self.storage_failure is not None:
            raise RefusedError(unavailable(self.storage_failure))
        if self._is_full():
            raise refuse(Reason.UNAVAILABLE, "the server is busy writing earlier updates; try again in a moment")

    def has_room(self) -> bool:
        """Return True if the database takes records, and not too many wait for it."""
        return self.storage_failure is None and not self._is_full()

    @property
    def durable_revision(self) -> str:
        """Revision of the newest durable state."""
        return self._durable_revision

    @property
    def callers_waiting(self) -> int:
        """Number of commands under way."""
        return len(self._waiting)

    @property
    def rows_waiting(self) -> int:
        """Number of rows to write after the batch being written."""
        return self._batches.rows_waiting()

    async def carry_out(self, command: Command) -> Committed:
        """Take the command, and return once its outcome is durable. Raises `RefusedError` if it is refused."""
        for observer in self.observers:
            observer.asked(command)
        try:
            committed = await self._carry_out(command)
        except RefusedError as error:
            self._tell_answered(command, error.refusal)
            raise
        self._tell_answered(command, committed)
        return committed

    def _tell_answered(self, command: Command, outcome: Outcome) -> None:
        for observer in self.observers:
            observer.answered(command, outcome)

    async def _carry_out(self, command: Command) -> Committed:
        self.require_accepting()
        deadline = None if isinstance(command, AddPeer | RemovePeer | ConfigurePeer) else command.deadline
        if deadline is not None and deadline <= self._clock():
            raise refuse(Reason.DEADLINE_EXCEEDED, "the deadline passed before the update was begun; nothing was done")
        waiter: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._waiting[command.ticket] = WaitingCaller(command, waiter)
        try:
            self._step(command)
            outcome = await waiter
        finally:
            self._waiting.pop(command.ticket, None)
        if isinstance(outcome, Refusal):
            raise RefusedError(outcome)
        return outcome

    def begin(self, peers: Iterable[ServerId]) -> None:
        """Make durable the changes of the core's restart. No letter to these servers leaves before."""
        self._step(Tick())
        self._batches.hold_letters_to(peers)

    def take(self, event: Event | DeliveryEvent) -> None:
        """Take an event that no caller waits for."""
        self._step(event)

    async def take_letters(
        self,
        sender: ServerId,
        first_number: int,
        letters: Iterable[bytes],
        lane: Lane = Lane.LETTERS,
        *,
        received: int = 0,
        is_over: Callable[[], bool] = lambda: False,
    ) -> None:
        """Take letters of another server in order, once there is room.

        Letters handled before are left out.

        Several posts are one step. `received`: number through which the sender has handled letters to it, if these
        letters say so, else 0. `is_over`: returns True if the letters that still wait are not to be taken any more.
        """
        channels = self._core.channels_of(lane)
        beginnings = channels.beginnings(sender)
        while self._is_full() or self.storage_failure is not None:
            self._room.clear()
            await self._room.wait()
        numbered = enumerate(letters, start=first_number)
        came = (PeerMessage(sender, number, each, lane, received) for number, each in numbered)
        while together := list(islice(came, POSTS_OF_A_STEP if lane is Lane.POST else 1)):
            await self.between_steps()
            if is_over() or channels.beginnings(sender) != beginnings:
                return  # If the beginnings differ, the previous channel numbered these letters.
            new = [each for each in together if each.number > channels.handled_through(sender)]
            if new:
                self._step(PeerPosts(tuple(new)) if len(new) > 1 else new[0])
            elif received:
                self._step(PeerReceived(sender, received, lane))
            if len(together) == POSTS_OF_A_STEP:
                await asyncio.sleep(0)  # Other tasks have their turn.

    def take_datagram(self, sender: ServerId, encoded: bytes) -> None:
        """Take a datagram of another server. It is dropped if it cannot be handled at once."""
        if self._long_step is not None or self.storage_failure is not None or self._is_full():
            self.datagrams.dropped += 1
        else:
            self._step(DatagramCame(sender, encoded))

    def first_letter_held(self, receiver: ServerId, lane: Lane) -> int | None:
        """Return the number of the first letter to a server that waits for the database. None if no letter waits."""
        held = self._batches.first_letter_held(receiver, lane)
        if self._unfinished is None:
            return held
        of_step = self._unfinished.first_held(receiver, lane)
        return of_step if held is None else min(held, of_step)

    def handled_before_flush(self, sender: ServerId, lane: Lane) -> int | None:
        """Return the number of the last letter of a sender before the letters whose records wait.

        None if no records wait.
        """
        handled = self._batches.handled_before(sender, lane)
        if self._unfinished is None or handled is not None:
            return handled
        return self._unfinished.handled_through.get(Flow(sender, lane))

    def is_writing_what_came_from(self, peer: ServerId) -> bool:
        """Return True if letters of a server are being handled, or were handled and their effects are not durable."""
        if self._unfinished is not None and self._unfinished.comes_from(peer):
            return True
        return any(self._batches.handled_before(peer, lane) is not None for lane in Lane)

    def begins_again_with(self, peer: ServerId) -> bool:
        """Return True if a step under way, or a waiting event, numbers the letters to and from a server anew."""
        coming = () if self._unfinished is None else (self._unfinished.event, *self._later)
        return any(numbers_anew(event, peer) for event in coming)

    async def until_answered(self) -> None:
        """Wait until no command is under way."""
        while self._waiting:
            await asyncio.wait([waiting.outcome for waiting in self._waiting.values()])
            await asyncio.sleep(0)

    def answer_all_waiting(self, why: str) -> None:
        """End the wait of all callers: it is unknown when the database can be written."""
        for command, outcome in self._waiting.values():
            if not outcome.done():
                is_question = isinstance(command, ReadCommand | CutCommand)
                outcome.set_result(unavailable(why) if is_question else outcome_unknown(why))

    async def until_durable(self) -> None:
        """Wait until all steps taken by now are durable, for a caller that has read the core itself.

        Raises `RefusedError` if the database fails.
        """
        batch = self._batches.newest
        if batch is None:
            return
        if self.storage_failure is not None:
            raise RefusedError(unavailable(self.storage_failure))
        waiter: asyncio.Future[Refusal | None] = asyncio.get_running_loop().create_future()
        batch.waiters.append(waiter)
        self._gathering.hurry()
        refusal = await waiter
        if refusal is not None:
            raise RefusedError(refusal)

    @property
    def is_in_long_step(self) -> bool:
        """True while a step runs in another thread, which changes the core itself."""
        return self._long_step is not None

    async def between_steps(self) -> None:
        """Wait until no step runs in another thread, so that the core itself may be read."""
        while self._long_step is not None:
            await asyncio.wait((self._long_step,))

    async def read_changes(self, wanted: ChangesWanted) -> ChangesFound:
        """Read the record of changes. Raises `RefusedError` if the database fails, or the server is about to end."""
        if self._refuses_updates_because is not None:
            raise RefusedError(self._refuses_updates_because)
        return await self._database.read_changes(replace(wanted, newest=self.changes_kept))

    async def read_audit_log(self, wanted: ChangesWanted) -> ChangesFound:
        """Read rows of all kinds, however old. Raises `RefusedError` if the database fails."""
        return await self._database.read_changes(replace(wanted, with_events=True))

    async def read_log(self, wanted: LogWanted) -> list[LogRecord]:
        """Read entries of the log of messages. Raises `RefusedError` if the database fails."""
        return await self._database.read_log(wanted)

    async def newest_change(self) -> int:
        """Return the number of the newest record of changes. 0 if none is kept."""
        return (await self.read_changes(ChangesWanted(0))).newest or 0

    def next_changes(self) -> asyncio.Future[None]:
        """Return a future that is done once more changes are recorded, or none will be."""
        if self._changes_recorded is None or self._changes_recorded.cancelled():
            self._changes_recorded = asyncio.get_running_loop().create_future()
        return asyncio.shield(self._changes_recorded)

    def _tell_changes(self) -> None:
        if self._changes_recorded is not None:
            self._changes_recorded.set_result(None)
            self._changes_recorded = None

    async def next_step(self, seconds: float) -> None:
        """Wait until another step was taken, or readers see another state, at most `seconds`."""
        if self._stepped is None:
            self._stepped = asyncio.get_running_loop().create_future()
        self._gathering.hurry()
        await asyncio.wait((self._stepped,), timeout=seconds)

    async def flush_forever(self) -> None:
        """Make batches durable until `finish` was called and no records are left.

        Raises `DatabaseLostError`, and any exception that a bug raised in a step or a commit. The server must end then.
        """
        await self._take_own_letters()
        while True:
            is_woken = await self._is_woken()
            self._wake.clear()
            if not is_woken:
                await self._database.probe()
            while self._batches.is_any_to_write() and self._bug is None:
                await self._flush_collected()
                await self._take_own_letters()
            if self._bug is not None:
                raise self._bug
            if self._ends and self._long_step is None and self._batches.newest is None:
                return

    def refuse_updates(self, refusal: Refusal) -> None:
        """Take no update from now on. Updates already taken are finished, and reads go on."""
        self._refuses_updates_because = refusal
        self._tell_changes()
        if self.desk is not None:
            self.desk.end(refusal)

    def finish(self) -> None:
        """Let `flush_forever` return once all taken events are durable."""
        self._ends = True
        self._gathering.end()
        self._disarm_timer()
        if self._look is not None:
            self._look.cancel()
        self._wake.set()

    def undurable_records(self) -> list[Records]:
        """Return the records that are in memory and not yet in the database."""
        return [batch.records for batch in self._batches]

    def _is_full(self) -> bool:
        return self._batches.rows_waiting() > WAITING_ROWS_LIMIT

    def _step(self, event: Event | DeliveryEvent) -> None:
        """Take an event: at once, in another thread if it may take long, or after the long step that is under way."""
        if self._bug is not None:
            raise self._bug
        if self._long_step is not None:
            self._later.append(event)
        elif self._seen is not None and may_take_long(self._seen, event):
            self._unfinished = about_to_begin(self._core, event)
            self._long_step = asyncio.ensure_future(self._step_elsewhere(event))
            # `flush_forever` ends the server with the exception of this step.
            self._long_step.add_done_callback(lambda step: step.cancelled() or step.exception())
        else:
            is_first_meeting = self._is_first_meeting(event)
            is_held = self._hold_before(event)
            began = self._clock()
            try:
                effects = self._core.step(event, began)
            except BaseException as bug:
                self._end_because_of(bug)
                raise
            seconds = self._clock() - began
            self._take_effects(event, effects, is_first_meeting=is_first_meeting)
            if is_held:
                self._show_with_batch()
            self._tell_stepped(event, effects, seconds, was_long=False)

    def _hold_before(self, event: Event | DeliveryEvent) -> bool:
        """Let readers see the present state until the batch of a step is durable. Return False if they do already, or
        the step changes no state that they see."""
        collecting = self._batches.collecting
        if self._seen is None or (collecting is not None and collecting.is_held) or not changes(self._seen, event):
            return False
        self._seen.hold()
        return True

    def _show_with_batch(self) -> None:
        """Let readers see what was done since the newest hold together with the batch, or now if there is nothing to
        be made durable."""
        assert self._seen is not None
        if self._batches.collecting is None:
            self._seen.let_go(earliest=False)
        else:
            self._batches.collecting.is_held = True

    async def _step_elsewhere(self, event: Event | DeliveryEvent) -> None:
        core, is_first_meeting = self._core, self._is_first_meeting(event)
        self._batches.seal()
        self._gathering.hurry()
        assert self._seen is not None
        try:
            self._seen.hold(for_long_step=True)
            now = self._clock()
            for observer in self.observers:
                observer.long_step_began(event)
            effects = await asyncio.get_running_loop().run_in_executor(self._stepper, carry_out, core, event, now)
        except BaseException as bug:
            self._end_because_of(bug)
            raise
        finally:
            self._long_step = self._unfinished = None
        self._take_effects(event, effects, is_first_meeting=is_first_meeting)
        self._show_with_batch()
        self._tell_stepped(event, effects, self._clock() - now, was_long=True)
        self._batches.seal()
        while self._later and self._long_step is None:
            self._step(self._later.popleft())
        self._wake.set()

    def _tell_stepped(self, event: Event | DeliveryEvent, effects: Effects, seconds: float, *, was_long: bool) -> None:
        for observer in self.observers:
            observer.stepped(event, effects, seconds, was_long=was_long)

    def _end_because_of(self, bug: BaseException) -> None:
        """Remember a bug. The core may be half changed, so the server ends, and starts again from its durable state."""
        self._bug = bug
        self._wake.set()

    def _is_first_meeting(self, event: Event | DeliveryEvent) -> bool:
        return isinstance(event, PeerMet) and any(
            self._core.channels_of(lane).has_unmet_letters(event.peer) for lane in Lane
        )

    def _take_effects(self, event: Event | DeliveryEvent, effects: Effects, *, is_first_meeting: bool) -> None:
        """Queue the effects of a step to become durable and then leave."""
        self._tell_waiting_for_step()
        for follow in self.followers:
            follow(effects)
        self._collect(effects.records)
        batch = self._batches.newest
        if isinstance(effects, ServerEffects):
            self._tell_of_messages(effects, batch)
        self._reply(effects, batch)
        self._let_peers_know(effects, batch)
        if isinstance(event, Restored):
            self._batches.begin_channels_again(self._core.servers_met)
        elif isinstance(event, PeerRestored):
            self._batches.begin_channels_again([event.peer])
        elif isinstance(event, PeerMet) and is_first_meeting:
            self._batches.hold_letters_to([event.peer])
        if batch is not None:
            self._gathering.came(batch)
        if not self._is_to_arm:
            # Set the timer after the callers that wait for the step's effects were woken.
            self._is_to_arm = True
            asyncio.get_running_loop().call_soon(self._arm_timer)

    def _tell_waiting_for_step(self) -> None:
        if self._stepped is not None:
            self._stepped.set_result(None)
            self._stepped = None

    def _collect(self, records: Records) -> None:
        # Messages that wait for their parcel have no records yet. Their records are made when the batch is written.
        is_nothing = records.is_empty()
        if is_nothing and (self._batches.collecting is not None or not self._has_open()):
            return
        if self._batches.collecting is None:
            self._wake.set()
        batch = self._batches.collect()
        if not is_nothing:
            batch.records.extend(records)
        batch.revision = self._core.revision

    def _tell_of_messages(self, effects: ServerEffects, batch: Batch | None) -> None:
        if effects.answers and self.desk is not None:
            if batch is None:
                self.desk.answer(effects.answers)
            else:
                batch.answers += effects.answers
        if effects.unkept:
            rests_on = self._batches.newest_of_graph
            if rests_on is None:
                self._letting_out.let_out(effects.unkept)
            else:
                self._letting_out.hold(effects.unkept, rests_on)

    def _reply(self, effects: Effects, batch: Batch | None) -> None:
        for reply in effects.replies:
            waiting = self._waiting.get(reply.ticket)
            if waiting is None:
                continue
            if batch is not None and not reply.is_confirmed:
                batch.replies.append((waiting.outcome, reply.outcome))
            elif not waiting.outcome.done():
                waiting.outcome.set_result(reply.outcome)

    def _let_peers_know(self, effects: Effects, batch: Batch | None) -> None:
        first_letters: dict[Flow, int] = {} if batch is None else batch.first_letters
        handled_before: dict[Flow, int] = {} if batch is None else batch.handled_before
        for letter in effects.messages:
            first_letters.setdefault(Flow(letter.receiver, letter.lane), letter.number)
        for lane in LANES:
            channels = self._core.channels_of(lane)
            if channels.handled_changed:
                for sender, handled in channels.drain_handled_changed().items():
                    handled_before.setdefault(Flow(sender, lane), handled)
        if batch is None and (first_letters or handled_before):
            self.notify_peers(dict.fromkeys(flow.server for flow in first_letters | handled_before))

    def _has_open(self) -> bool:
        return self.desk is not None and self.desk.has_open()

    def _arm_timer(self) -> None:
        self._is_to_arm = False
        deadline = self._core.next_deadline
        if deadline == self._armed_for:
            return
        self._disarm_timer()
        if deadline is not None:
            pause_seconds = max(deadline - self._clock(), SHORTEST_TICK_SECONDS)
            self._timer = asyncio.get_running_loop().call_later(pause_seconds, self._tick)
            self._armed_for = deadline

    def _disarm_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._armed_for = None

    def _tick(self) -> None:
        self._disarm_timer()
        self._step(Tick(is_deaf=self.storage_failure is not None or self._is_full()))

    async def _is_woken(self) -> bool:
        """Wait until there is work to do, or it is time to probe. Return False if the database is to be probed."""
        if not self._wake.is_set():
            loop = asyncio.get_running_loop()
            self._waits_since = loop.time()
            if self._look is None:
                self._look = loop.call_later(PROBE_SECONDS, self._look_up)
            await self._wake.wait()
        self._waits_since = None
        is_to_probe, self._is_to_probe = self._is_to_probe, False
        return not is_to_probe

    def _look_up(self) -> None:
        """Request a probe if there was nothing to write for `PROBE_SECONDS`. One timer serves many short waits."""
        self._look = None
        if self._waits_since is not None:
            loop = asyncio.get_running_loop()
            rest_seconds = self._waits_since + PROBE_SECONDS - loop.time()
            if rest_seconds > 0:
                self._look = loop.call_later(rest_seconds, self._look_up)
            else:
                self._is_to_probe = True
                self._wake.set()

    async def _flush_collected(self) -> None:
        if not self._batches.is_any_sealed():
            assert self._batches.collecting is not None
            await self._gathering.gather(self._batches.collecting)
            if self._has_open():
                self._step(CloseParcels())
            self._batches.seal()
        batch = self._batches.take_next()
        began = self._clock()
        for observer in self.observers:
            observer.commit_began(batch.row_count())
        await self._database.commit(batch.records)
        self._batches.written()
        if batch.records.changes:
            newest = batch.records.changes[-1]
            self.audit_head = (newest.number, newest.hash)
            self._tell_changes()
        self._durable_revision = batch.revision
        seconds = self._clock() - began
        if batch.is_held and self._seen is not None:
            self._seen.let_go(earliest=True)
            # The writer was the only reader of these lists.
            self._seen.free(batch.records.nodes, batch.records.arcs)
            self._tell_waiting_for_step()
        for observer in self.observers:
            observer.committed(seconds)
        self.recover()
        collecting = self._batches.collecting
        came_meanwhile = 0 if collecting is None else len(collecting.replies)
        self._gathering.expect(len(batch.replies) + came_meanwhile)
        is_logged_first = not batch.answers
        if is_logged_first:
            # A batch without answers only confirms received posts to other servers, so local listeners go first.
            self._tell_logged(batch)
        self.notify_peers(batch.peers())
        unkept = batch.unkept
        batch.release()
        self._letting_out.let_out(unkept)
        if not is_logged_first:
            self._tell_logged(batch)
        if self.desk is not None:
            self.desk.answer(batch.answers)

    def _tell_logged(self, batch: Batch) -> None:
        if self.desk is not None and batch.records.log:
            self.desk.was_logged(batch.records.log)

    async def _take_own_letters(self) -> None:
        """Take the letters of this server to itself, once they are durable and the other letters of their batch have
        left.
        """
        server = self._core.server
        for lane in LANES:
            channels = self._core.channels_of(lane)
            await self.between_steps()
            if channels.forgotten_through(server) == channels.sent_through(server):
                continue
            handled_before = self.handled_before_flush(server, lane)
            handled = channels.handled_through(server) if handled_before is None else handled_before
            if handled > channels.forgotten_through(server):
                self._step(PeerReceived(server, handled, lane))
            first_held = self.first_letter_held(server, lane)
            for letter in list(channels.kept(server, after=channels.handled_through(server))):
                if first_held is not None and letter.number >= first_held:
                    break
                await self.between_steps()
                self._step(PeerMessage(server, letter.number, letter.encoded, lane))

    def recover(self) -> None:
        """Note that the database can be written, as before or again."""
        if self.storage_failure is not None:
            self.storage_failure = None
            self._on_storage_state(None)
        self._room.set()

    def fail(self, why: str) -> None:
        """Note that the database cannot be written, and tell all waiting callers."""
        if self.storage_failure is None:
            self._on_storage_state(why)
            for observer in self.observers:
                observer.database_failed(why)
        self.storage_failure = why
        for batch in self._batches:
            batch.fail(why)
        if self.desk is not None:
            self.desk.fail(why)
