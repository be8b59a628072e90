"""Desk between the calls about messages and the run loop: events go in, and answers come back once they are durable.

call --event--> run loop --step--> core --answers--> batch --durable--> desk --> the futures that calls wait for
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager

from delivery.mailboxes.gateways import Recipients
from delivery.model.events import Answer, DeliveryRefused, Notice, OwnRequest, Send, SendAll, Settled
from delivery.model.policy import DeliveryPolicy
from delivery.origin.dead_letters import UndeliveredParcel
from delivery.origin.queue import Due
from delivery.server import Server
from delivery.volatile.datagrams import Shown
from namegraph import LogRecord, NodeId, Reason, Refusal, RefusedError, ServerId, Subnet, refuse
from nameserver.calls.stable_listing import made
from nameserver.deliveries.machine import DeliveryProgress, MailboxState
from nameserver.deliveries.ring_view import RingView
from nameserver.driver.letting_out import DatagramCounts
from nameserver.driver.run_loop import RunLoop
from storage.store import LogWanted


class _Together:
    """Messages that one step takes. Their caller gets all answers at once."""

    def __init__(self, tickets: Sequence[int]) -> None:
        self.tickets = tickets
        self.done: asyncio.Future[Sequence[Answer]] = asyncio.get_running_loop().create_future()
        self._answers: dict[int, Answer] = {}

    def add(self, answer: Answer) -> None:
        """Note the first answer to one of the messages."""
        self._answers[answer.ticket] = answer
        if len(self._answers) == len(self.tickets) and not self.done.done():
            self.done.set_result([self._answers[ticket] for ticket in self.tickets])


class Desk:
    """The delivery half of this server, as calls use it. All methods belong to the thread of the event loop."""

    def __init__(self, core: Server, run_loop: RunLoop, *, is_in_reach: Callable[[ServerId], bool]) -> None:
        self._core = core
        self._run_loop = run_loop
        self._waiting: dict[int, asyncio.Future[Answer]] = {}
        """Callers waiting for the first answer to an event, by ticket."""
        self._together: dict[int, _Together] = {}
        """Groups of sent messages waiting for their first answers, by ticket."""
        self._settling: dict[int, asyncio.Future[Settled]] = {}
        self._told_of_end: dict[int, Callable[[RefusedError], None]] = {}
        self._ending: RefusedError | None = None
        """Refusal of calls at the end of the server. None before."""
        self._told_of_more: dict[int, Callable[[], None]] = {}
        self._sorted: tuple[int, list[NodeId]] = (-1, [])
        """Processes that have mailboxes, sorted, and the version of the mailboxes they are from."""
        self.on_shown: Callable[[Shown], None] = lambda _shown: None
        self.on_logged: Callable[[Sequence[LogRecord]], None] = lambda _records: None
        self.is_in_reach = is_in_reach
        self.logged = core.delivery.log.last
        """Last position of the log that is durable."""
        self.ring = RingView(core.delivery.in_memory)
        run_loop.begin_messages(self)

    @property
    def server(self) -> ServerId:
        """Server of this desk."""
        return self._core.server

    @property
    def incarnation(self) -> int:
        """Incarnation of this server."""
        return self._core.delivery.incarnation

    @property
    def datagrams(self) -> DatagramCounts:
        """Outcomes of datagrams."""
        return self._run_loop.datagrams

    @property
    def log_cut(self) -> int:
        """Last position that was cut from the log."""
        return self._core.delivery.log.cut

    def lost_between(self, first: int, last: int, reader: int) -> int:
        """Return the number of entries from `first` through `last` that may have been for a reader.

        All of them are gone.
        """
        return self._core.delivery.log.lost(first, last, lambda audience: self.is_for(audience, reader))

    def new_ticket(self) -> int:
        """Return a number for one event, never used again."""
        return self._run_loop.new_ticket()

    # -- requests of calls

    def carry_out_delivery(self, event: OwnRequest) -> asyncio.Future[Answer]:
        """Take the event at once.

        Return a future of its first answer, done once that is durable.

        Raises `RefusedError`, here or from the future, if nothing can be made durable, or the server is about to end.
        """
        self._run_loop.require_accepting()
        future = self._first_answer_to(event.ticket)
        self._run_loop.take(event)
        return future

    def send_all(self, sends: Sequence[Send]) -> asyncio.Future[Sequence[Answer]]:
        """Take messages at once, in their order.

        Return a future of the first answers to all of them, done once durable.
        """
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
        """Return a future that is done when the message of a `Send` that wants it is settled.

        Call this once, right after the message was taken.
        """
        future = self._settling[ticket]
        future.add_done_callback(lambda _: self._settling.pop(ticket, None))
        return future

    @contextmanager
    def told_of_end(self, tell: Callable[[RefusedError], None]) -> Iterator[None]:
        """Call `tell` during the block once the server is about to end, or at once if it already is."""
        ticket = self.new_ticket()
        self._told_of_end[ticket] = tell
        if self._ending is not None:
            tell(self._ending)
        try:
            yield
        finally:
            del self._told_of_end[ticket]

    def notice(self, event: Notice) -> None:
        """Take the event at once, without an answer."""
        self._run_loop.take(event)

    def progress(self, message_id: str) -> DeliveryProgress | None:
        """Return the progress of a message that was accepted here. None if it is settled, or unknown."""
        delivery = self._core.delivery
        found = delivery.in_memory.origin.messages.progress(message_id) or delivery.origin.messages.progress(message_id)
        return None if found is None else DeliveryProgress(*found)

    async def until_durable(self) -> None:
        """Wait until all events taken by now are durable. Raises `RefusedError` if the database fails."""
        await self._run_loop.until_durable()

    async def next_number(self, sender: str, addressed: NodeId) -> int:
        """Return the number of the next message of a sender to this first target, from durable state."""
        await self.until_durable()
        return self._core.delivery.next_number((sender, addressed))

    def queued_subnets(self) -> list[Subnet]:
        """Return the subnets whose homes have a message waiting here, sorted."""
        return self._core.delivery.queue.subnets()

    def queue_waits_for(self, addressed: NodeId) -> bool:
        """Return True if a message waits here for the home of a name."""
        return self._core.delivery.queue.waits_for(addressed)

    def due(self, subnet: Subnet, *, but: Container[NodeId] = ()) -> Due | None:
        """Return the oldest message that waits here for the home of a subnet, except messages addressed to a name of
        `but`.
        """
        return self._core.delivery.queue.due(subnet, at=self._core.delivery.running.seconds, but=but)

    def policy_of(self, name: NodeId) -> DeliveryPolicy:
        """Return the policy of a group of this server. The default for any other name."""
        return self._core.delivery.policies.of(name)

    def rate_objection(self, sender: str) -> Refusal | None:
        """Count a message of a sender.

        Return the refusal if its rate is too high.

        `sender`: empty if the sender gives no name.
        """
        error = self._core.delivery.rates.take(sender, self._run_loop.now())
        return None if error is None else error.refusal

    def mailbox_of(self, process: NodeId) -> MailboxState | None:
        """Return the mailbox of a process. None if it has none."""
        mailboxes = self._core.delivery.mailboxes
        number = mailboxes.number_of(process)
        return None if number is None else MailboxState(process, number, mailboxes.subscriptions(process))

    def listens_for(self, process: NodeId) -> bool:
        """Return True if a process has a mailbox here, or a listener without a mailbox."""
        return self._core.delivery.listens_for(process)

    async def mailboxes_after(self, process: str, limit: int) -> Sequence[MailboxState]:
        """Return at most `limit` mailboxes, sorted by process, whose processes sort after a text."""
        mailboxes = self._core.delivery.mailboxes
        version, names = self._sorted
        if version != mailboxes.version:
            version = mailboxes.version
            names = await made(mailboxes.names())
            self._sorted = (version, names)
        first = bisect_right(names, process)
        found = [self.mailbox_of(name) for name in names[first : first + limit]]
        return [state for state in found if state is not None]

    def dead_letters_after(self, number: int, limit: int) -> Sequence[UndeliveredParcel]:
        """Return at most `limit` dead letters with higher numbers, sorted."""
        return self._core.delivery.dead_letters.after(number, limit)

    @property
    def dead_messages_lost(self) -> int:
        """Number of messages in dead letters for which there was no room."""
        return self._core.delivery.dead_letters.messages_lost

    @contextmanager
    def told_of_more(self, tell: Callable[[], None]) -> Iterator[None]:
        """Call `tell` during the block whenever more of the log is durable, or more is in memory."""
        ticket = self.new_ticket()
        self._told_of_more[ticket] = tell
        try:
            yield
        finally:
            del self._told_of_more[ticket]

    async def read_log(self, after: int, through: int, bytes_limit: int) -> Sequence[LogRecord]:
        """Return entries of the log behind a position, sorted. At least one if there is one. Raises `RefusedError`."""
        return await self._run_loop.read_log(LogWanted(after, through, bytes_limit))

    def is_for(self, audience: int, mailbox: int) -> bool:
        """Return True if an entry with an audience is for a mailbox."""
        return self._core.delivery.audiences.is_for(audience, mailbox)

    def recipients(self, audience: int, reader: int) -> Recipients:
        """Return the recipients of an audience that a gateway serves. Empty if the reader is no gateway."""
        return self._core.delivery.audiences.recipients(audience, reader)

    def names(self, recipients: Recipients) -> Sequence[NodeId]:
        """Return the names of recipients. Call this right after `recipients`."""
        return self._core.delivery.audiences.names(recipients)

    # -- reports of the run loop

    def has_open(self) -> bool:
        """Return True if messages wait for the next parcel."""
        return self._core.delivery.has_open

    def answer(self, answers: Iterable[Answer]) -> None:
        """Send answers to callers. The answers are durable."""
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
        """Hand a datagram to its listeners."""
        self.on_shown(shown)

    def fail(self, why: str) -> None:
        """Tell all callers that it is unknown when the database can be written.

        Callers that wait until a message is settled go on waiting.
        """
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(_unknown(why))
        sent, self._together = self._together, {}
        for ticket, together in sent.items():
            together.add(DeliveryRefused(ticket, _unknown(why).refusal))

    def was_logged(self, records: Sequence[LogRecord]) -> None:
        """Note that these entries, at least one, are durable, and so is the log through the last of them."""
        self.logged = max(self.logged, records[-1].position)
        self.on_logged(records)
        self._tell_more()

    def in_memory_through(self, through: int) -> None:
        """Allow entries in memory through a position to be handed out."""
        self.ring.through = through
        self._tell_more()

    def _tell_more(self) -> None:
        for tell in self._told_of_more.values():
            tell()

    def end(self, refusal: Refusal) -> None:
        """Tell all callers that the server is about to end."""
        self._ending = RefusedError(refusal)
        for tell in list(self._told_of_end.values()):
            tell(self._ending)


def _unknown(why: str) -> RefusedError:
    return refuse(
        Reason.OUTCOME_UNKNOWN,
        "the database cannot be written, so this may or may not be kept; repeat it by its number, or its request id, "
        f"to learn: {why}",
    )
