"""Between the calls about messages and the run loop: events go in, answers come back when they are durable.

call --event--> run loop --step--> core --answers--> batch --durable--> desk --> the futures that calls wait for
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager

from delivery.mailboxes.gateways import Recipients
from delivery.model.events import Answer, DeliveryRefused, Notice, OwnRequest, Send, SendAll, Settled
from delivery.model.policy import Policy
from delivery.origin.dead_letters import DeadLetter
from delivery.origin.queue import Due
from delivery.server import Server
from delivery.volatile.datagrams import Shown
from namegraph import LogRecord, NodeId, Reason, Refusal, RefusedError, ServerId, Subnet, refuse
from nameserver.calls.stable_listing import made
from nameserver.deliveries.machine import MailboxState, Progress
from nameserver.deliveries.ring_view import RingView
from nameserver.driver.letting_out import DatagramCounts
from nameserver.driver.run_loop import RunLoop
from storage.store import LogWanted


class _Together:
    """Messages that one step takes: their caller is told of all at once."""

    def __init__(self, tickets: Sequence[int]) -> None:
        self.tickets = tickets
        self.done: asyncio.Future[Sequence[Answer]] = asyncio.get_running_loop().create_future()
        self._answers: dict[int, Answer] = {}

    def add(self, answer: Answer) -> None:
        """The first answer to one of them."""
        self._answers[answer.ticket] = answer
        if len(self._answers) == len(self.tickets) and not self.done.done():
            self.done.set_result([self._answers[ticket] for ticket in self.tickets])


class Desk:
    """The delivery half of this server, as calls use it. All methods belong to the thread of the event loop."""

    def __init__(self, core: Server, run_loop: RunLoop, *, is_in_reach: Callable[[ServerId], bool]) -> None:
        self._core = core
        self._run_loop = run_loop
        self._waiting: dict[int, asyncio.Future[Answer]] = {}
        """Who waits for the first answer to an event, by ticket."""
        self._together: dict[int, _Together] = {}
        """The same of messages that were sent."""
        self._settling: dict[int, asyncio.Future[Settled]] = {}
        self._told_of_end: dict[int, Callable[[RefusedError], None]] = {}
        self._ending: RefusedError | None = None
        """There once the server is about to end."""
        self._told_of_more: dict[int, Callable[[], None]] = {}
        self._sorted: tuple[int, list[NodeId]] = (-1, [])
        """The processes that have mailboxes, sorted, and the version of these."""
        self.on_shown: Callable[[Shown], None] = lambda _shown: None
        self.on_logged: Callable[[Sequence[LogRecord]], None] = lambda _records: None
        self.is_in_reach = is_in_reach
        self.logged = core.delivery.log.last
        """The last position of the log that is durable."""
        self.ring = RingView(core.delivery.in_memory)
        run_loop.begin_messages(self)

    @property
    def server(self) -> ServerId:
        """Whose it is."""
        return self._core.server

    @property
    def incarnation(self) -> int:
        """Of this server."""
        return self._core.delivery.incarnation

    @property
    def datagrams(self) -> DatagramCounts:
        """What became of datagrams."""
        return self._run_loop.datagrams

    @property
    def log_cut(self) -> int:
        """The last position that was cut from the log."""
        return self._core.delivery.log.cut

    def lost_between(self, first: int, last: int, reader: int) -> int:
        """Count entries that may have been for a reader, from one through another one; all of these are gone."""
        return self._core.delivery.log.lost(first, last, lambda audience: self.is_for(audience, reader))

    def new_ticket(self) -> int:
        """A number for one event, never used again."""
        return self._run_loop.new_ticket()

    # -- what calls ask for

    def carry_out_delivery(self, event: OwnRequest) -> asyncio.Future[Answer]:
        """Take the event at once; done with its first answer when that is durable.

        Raises `RefusedError`, here or from the future, where nothing can be made durable, or the server is to end.
        """
        self._run_loop.require_accepting()
        future = self._first_answer_to(event.ticket)
        self._run_loop.take(event)
        return future

    def send_all(self, sends: Sequence[Send]) -> asyncio.Future[Sequence[Answer]]:
        """Take messages at once, in their order; done with the first answers to all of them when these are durable."""
        self._run_loop.require_accepting()
        together = _Together([send.ticket for send in sends])
        self._together.update(dict.fromkeys(together.tickets, together))
        for send in sends:
            if send.wants_settled:
                self._settling[send.ticket] = asyncio.get_running_loop().create_future()
        self._run_loop.take(SendAll(tuple(sends)))
        return together.done

    def _first_answer_to(self, ticket: int) -> asyncio.Future[Answer]:
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting[ticket] = future
        future.add_done_callback(lambda _: self._waiting.pop(ticket, None))
        return future

    def settled(self, ticket: int) -> asyncio.Future[Settled]:
        """Done when the message of a `Send` that wants it is settled. To be asked once, right after it was taken."""
        future = self._settling[ticket]
        future.add_done_callback(lambda _: self._settling.pop(ticket, None))
        return future

    @contextmanager
    def told_of_end(self, tell: Callable[[RefusedError], None]) -> Iterator[None]:
        """During the block, have the caller told why once the server is about to end; at once, where it is already."""
        ticket = self.new_ticket()
        self._told_of_end[ticket] = tell
        if self._ending is not None:
            tell(self._ending)
        try:
            yield
        finally:
            del self._told_of_end[ticket]

    def notice(self, event: Notice) -> None:
        """Take the event at once; nobody is answered."""
        self._run_loop.take(event)

    def progress(self, message_id: str) -> Progress | None:
        """How far a message is that was accepted here; None where it is settled, or not known."""
        delivery = self._core.delivery
        found = delivery.in_memory.origin.progress(message_id) or delivery.origin.progress(message_id)
        return None if found is None else Progress(*found)

    async def until_durable(self) -> None:
        """Wait until all that was taken by now is durable; raises `RefusedError` where the database fails."""
        await self._run_loop.until_all_durable()

    async def next_number(self, sender: str, addressed: NodeId) -> int:
        """The number that the next message of a sender to this first target has, as far as that is durable."""
        await self.until_durable()
        return self._core.delivery.next_number((sender, addressed))

    def queued_subnets(self) -> list[Subnet]:
        """For whose homes anything waits here; sorted."""
        return self._core.delivery.queue.subnets()

    def queue_waits_for(self, addressed: NodeId) -> bool:
        """Whether something waits here for the home of a name."""
        return self._core.delivery.queue.waits_for(addressed)

    def due(self, subnet: Subnet, *, but: Container[NodeId] = ()) -> Due | None:
        """The oldest message that waits here for the home of a subnet, and is not addressed to a name of `but`."""
        return self._core.delivery.queue.due(subnet, at=self._core.delivery.running.seconds, but=but)

    def policy_of(self, name: NodeId) -> Policy:
        """What holds for messages to a group of this server; the default for anything else."""
        return self._core.delivery.policies.of(name)

    def rate_objection(self, sender: str) -> Refusal | None:
        """Count a message of a sender (empty: who gives no name); why it is too much, where it is."""
        error = self._core.delivery.rates.take(sender, self._run_loop.now())
        return None if error is None else error.refusal

    def mailbox_of(self, process: NodeId) -> MailboxState | None:
        """What is kept for a process; None: nothing is."""
        mailboxes = self._core.delivery.mailboxes
        number = mailboxes.number_of(process)
        return None if number is None else MailboxState(process, number, mailboxes.subscriptions(process))

    def listens_for(self, process: NodeId) -> bool:
        """Whether a process has a mailbox here, or somebody listens for it without one."""
        return self._core.delivery.listens_for(process)

    async def mailboxes_after(self, process: str, limit: int) -> Sequence[MailboxState]:
        """The mailboxes whose processes sort after a text, sorted, so many at most."""
        mailboxes = self._core.delivery.mailboxes
        version, names = self._sorted
        if version != mailboxes.version:
            version = mailboxes.version
            names = await made(mailboxes.names())
            self._sorted = (version, names)
        first = bisect_right(names, process)
        found = [self.mailbox_of(name) for name in names[first : first + limit]]
        return [state for state in found if state is not None]

    def dead_letters_after(self, number: int, limit: int) -> Sequence[DeadLetter]:
        """The dead letters with higher numbers, sorted, so many at most."""
        return self._core.delivery.dead_letters.after(number, limit)

    @property
    def dead_messages_lost(self) -> int:
        """How many messages were in dead letters for which there was no room."""
        return self._core.delivery.dead_letters.messages_lost

    @contextmanager
    def told_of_more(self, tell: Callable[[], None]) -> Iterator[None]:
        """During the block, have a listener told whenever more of the log is durable, or more is in memory."""
        ticket = self.new_ticket()
        self._told_of_more[ticket] = tell
        try:
            yield
        finally:
            del self._told_of_more[ticket]

    async def read_log(self, after: int, through: int, bytes_limit: int) -> Sequence[LogRecord]:
        """Entries of the log behind a position, sorted: at least one where there is one. Raises `RefusedError`."""
        return await self._run_loop.read_log(LogWanted(after, through, bytes_limit))

    def is_for(self, audience: int, mailbox: int) -> bool:
        """Whether an entry with an audience is for a mailbox."""
        return self._core.delivery.audiences.is_for(audience, mailbox)

    def recipients(self, audience: int, reader: int) -> Recipients:
        """Of an audience, whom a gateway serves; nobody, where a reader is none."""
        return self._core.delivery.audiences.recipients(audience, reader)

    def names(self, recipients: Recipients) -> Sequence[NodeId]:
        """Their names, right after they were asked for."""
        return self._core.delivery.audiences.names(recipients)

    # -- what the run loop tells

    def has_open(self) -> bool:
        """Whether messages wait for the next parcel."""
        return self._core.delivery.has_open

    def answer(self, answers: Iterable[Answer]) -> None:
        """Tell callers: what they are told is durable."""
        for answer in answers:
            if isinstance(answer, Settled):
                settling = self._settling.get(answer.ticket)
                if settling is not None and not settling.done():
                    settling.set_result(answer)
            elif (together := self._together.pop(answer.ticket, None)) is not None:
                together.add(answer)
            else:
                waiting = self._waiting.get(answer.ticket)
                if waiting is not None and not waiting.done():
                    waiting.set_result(answer)

    def show(self, shown: Shown) -> None:
        """Hand a datagram to those who listen."""
        self.on_shown(shown)

    def fail(self, why: str) -> None:
        """Tell all callers that it is not known when the database can be written.

        Who waits until a message is settled goes on waiting.
        """
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(_unknown(why))
        sent, self._together = self._together, {}
        for ticket, together in sent.items():
            together.add(DeliveryRefused(ticket, _unknown(why).refusal))

    def was_logged(self, records: Sequence[LogRecord]) -> None:
        """These entries are durable, at least one, and so is the log through the last of them."""
        self.logged = max(self.logged, records[-1].position)
        self.on_logged(records)
        self._tell_more()

    def in_memory_through(self, through: int) -> None:
        """What is kept in memory may be handed out through a position."""
        self.ring.through = through
        self._tell_more()

    def _tell_more(self) -> None:
        for tell in self._told_of_more.values():
            tell()

    def end(self, refusal: Refusal) -> None:
        """The server is about to end."""
        self._ending = RefusedError(refusal)
        for tell in list(self._told_of_end.values()):
            tell(self._ending)


def _unknown(why: str) -> RefusedError:
    return refuse(
        Reason.OUTCOME_UNKNOWN,
        "the database cannot be written, so this may or may not be kept; repeat it by its number, or its request id, "
        f"to learn: {why}",
    )
