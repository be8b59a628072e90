"""The delivery half of one server, driven by `step`. This module only dispatches: each idea has a module of its own.

    Send --> origin --close--> parcel --+--> post --> other servers           Subscribe, Acknowledge --> mailboxes
                                        +--> log, for the mailboxes here
    post of others --> wait until settled with the sender --> log --> Confirm
    Send of a datagram, datagram of others --> whoever listens; nothing is kept

A part that has work for a step marks it on the agenda of its storage (`delivery/model/agenda.py`). A step does the
marked work alone, in the order of `_make_tasks`.

`Reach` is its interface to the graph. Its state is in durable maps and in the log. The shell makes the whole change of
a step durable at once, before any output of the step leaves.

See docs/protocol-messages.md, "Messages".
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Final, NamedTuple, Protocol, get_args

from pyroaring import BitMap

from delivery.arrival.arrivals import Arrivals
from delivery.arrival.log_writer import LogWriter
from delivery.arrival.recent_downstream import RecentDownstream
from delivery.arrival.retention import Retention
from delivery.log.log import Log
from delivery.mailboxes.audiences import Audiences
from delivery.mailboxes.gateways import Gateways
from delivery.mailboxes.listeners import Listeners
from delivery.mailboxes.mailboxes import Mailboxes
from delivery.mailboxes.subscriptions import Subscriptions
from delivery.model.agenda import LOOKING, Agenda, Work
from delivery.model.events import (
    Acknowledge,
    AcknowledgeAll,
    Answer,
    CloseMailbox,
    CloseParcels,
    DatagramCame,
    DatagramSent,
    DeadLettersDropped,
    DeadLettersReplayed,
    DeliveryEvent,
    DeliveryRefused,
    DropDeadLetters,
    MailboxClosed,
    MailboxOpened,
    OpenMailbox,
    PeerStarted,
    PolicySet,
    QueuedEnded,
    QueueMessage,
    ReplayDeadLetters,
    Request,
    Send,
    SendAll,
    SetDelivery,
    Start,
    StopListening,
    Subscribe,
    Subscribed,
)
from delivery.model.mail_stamps import are_vouched_for, require_own_mail
from delivery.model.policy import Policies
from delivery.model.reach import Reach
from delivery.model.uptime import Uptime
from delivery.model.words import Kept, Quality
from delivery.origin.admission import goes_on, require_backlog, require_size, require_targets
from delivery.origin.backlog_expiry import BacklogExpiry
from delivery.origin.backlogs import Unconfirmed
from delivery.origin.dead_letters import DeadLetterStore, DeadReason, LossReason
from delivery.origin.origin import UNCLAIMED_BYTES_LIMIT, MessageOrigin
from delivery.origin.queue import OriginQueue, QueuedMessage
from delivery.origin.rates import Rates
from delivery.origin.senders import Numbering, Senders
from delivery.origin.servers_below import is_home
from delivery.spreading.parcel_pipeline import ParcelPipeline
from delivery.volatile.datagrams import Datagrams, Shown, require_datagram
from delivery.volatile.in_memory import InMemory
from delivery.volatile.output import RingGrew, VolatileOutput, is_told_unkept
from delivery.wire.post_lanes import Post
from delivery.wire.posts import (
    SENDER_ID_LIMIT,
    Carried,
    Datagram,
    NotAPostError,
    Onward,
    Probe,
    decode_datagram,
    encode,
)
from namegraph import (
    ALLOWED,
    NO_ORIGIN,
    DurableState,
    Event,
    Fact,
    ImportCommand,
    LogRecord,
    NodeId,
    Origin,
    PeerFault,
    PeerLetter,
    PeerMessage,
    PeerMet,
    PeerPosts,
    PeerReceived,
    PeerRestored,
    ReadCommand,
    Reason,
    Records,
    RefusedError,
    RemovePeer,
    Restored,
    ServerId,
    Subnet,
    TargetSet,
    Tick,
    UpdateCommand,
    refuse,
)

_LOOKING_EVENTS: Final = frozenset((*get_args(DeliveryEvent), PeerMessage, PeerPosts, PeerReceived, RemovePeer, Tick))
"""Events after which a step does the work of `LOOKING`: a refused update leaves no trace of that kind."""

_WITHOUT_MEANING: Final = frozenset(
    (UpdateCommand, ImportCommand, ReadCommand, PeerMessage, PeerPosts, PeerReceived, Tick)
)
"""Frequent events of which the delivery half handles only the posts that the graph has kept for it."""


class Task(NamedTuple):
    """Work of one kind, and the function that does it."""

    agenda: Agenda
    work: Work
    do: Callable[[Reach], None]


class NoteEvent(Protocol):
    """Writer of an event to the audit log."""

    def __call__(
        self, kind: str, facts: Mapping[str, Fact], origin: Origin = NO_ORIGIN, /, *, decision: str = ""
    ) -> None:
        """Write an event in the transaction of the step under way."""


def _note_nothing(
    _kind: str, _facts: Mapping[str, Fact], _origin: Origin = NO_ORIGIN, /, *, decision: str = ""
) -> None:
    del decision


class DeliveryCore:
    """Messages of one server: state and dispatch."""

    def __init__(self, durable: DurableState, server: ServerId, post: Post, agenda: Agenda) -> None:
        """Build all parts. `agenda`: that of durable messages, on which `post` marks its work."""
        self.server, self.agenda = server, agenda
        self.incarnation = 0
        """Incarnation of this server: positions of other incarnations have another meaning."""
        self.post = post
        self.running = Uptime(durable, agenda)
        self.log = Log(durable, agenda)
        self.mailboxes = Mailboxes(durable, agenda)
        self.listeners = Listeners(agenda)
        self.gateways = Gateways(durable, self.mailboxes, agenda)
        self.audiences = Audiences(durable, self.mailboxes, self.listeners, self.gateways)
        self.origin = MessageOrigin(durable, server, self.post, self.running, agenda)
        self.senders = Senders(durable)
        self.dead_letters = DeadLetterStore(durable, agenda)
        self.queue = OriginQueue(durable, agenda)
        self.policies = Policies(durable)
        self.note_event: NoteEvent = _note_nothing
        """Writer of the audit log, in the transaction of the step."""
        self.rates = Rates()
        """Rate limits, which the shell checks before a step."""
        self.datagrams = Datagrams(server)
        self.giving_up = BacklogExpiry(self.origin, self.post, self.dead_letters, self.queue, self.running, agenda)
        self.subscriptions = Subscriptions(server, self.log, self.mailboxes, self.listeners)
        self.writer = LogWriter(self.log, self.audiences, self.running)
        self.lost_ways = RecentDownstream()
        self.arrivals = Arrivals(durable, server, post, self.writer, self.lost_ways, agenda)
        self.spreading = ParcelPipeline(
            origin=self.origin,
            post=post,
            arrivals=self.arrivals,
            writer=self.writer,
            senders=self.senders,
            dead_letters=self.dead_letters,
            running=self.running,
            agenda=agenda,
        )
        self.in_memory = InMemory(
            server, self.mailboxes, self.listeners, self.gateways, self.running, self.lost_ways, post.faults
        )
        self.retention = Retention(
            self.log,
            self.audiences,
            self.mailboxes,
            self.listeners,
            self.gateways,
            self.dead_letters,
            self.running,
            self.in_memory.audiences,
            is_needed=self.post.parcels.__contains__,
        )
        self.reach: Reach | None = None
        """Interface to the graph, set before the first step."""
        self._answers: list[Answer] = []
        self._unkept: list[VolatileOutput] = []
        self._met_at: dict[ServerId, float] = {}
        """Time of the last meeting with each server, on the clock of steps."""
        self._held_since: dict[ServerId, float] = {}
        """Time since which posts of a server wait until it takes answers, on the clock of steps."""
        self._shown: list[Shown] = []
        self._sent: list[DatagramSent] = []
        self._tasks = self._make_tasks(agenda, self.in_memory.agenda)
        self._tasks_without_looking = tuple(task for task in self._tasks if task.work not in LOOKING)
        agenda.mark(Work.START)
        agenda.mark(Work.UPTIME)

    def _make_tasks(self, durable: Agenda, memory: Agenda) -> tuple[Task, ...]:
        """Return the work of a step, in order."""
        kept, unkept = self.spreading, self.in_memory.spreading
        of_both = (
            (
                Task(agenda, Work.LEASES, spreading.look_at_leases),
                Task(agenda, Work.AGAIN, spreading.post_more_again),
                Task(agenda, Work.ROUNDS, spreading.begin_rounds),
                Task(agenda, Work.OVERS, spreading.send_overs),
            )
            for agenda, spreading in ((durable, kept), (memory, unkept))
        )
        return (
            Task(durable, Work.START, lambda _: self.origin.backlogs.begin_start()),
            Task(durable, Work.PARCELS, kept.make_parcels),
            Task(memory, Work.PARCELS, self.in_memory.make_parcels),
            Task(durable, Work.POSTS, kept.take_posts),
            Task(memory, Work.POSTS, unkept.take_posts),
            Task(durable, Work.ANSWERS, self._note_held),
            Task(memory, Work.ANSWERS, self._note_held),
            *chain.from_iterable(of_both),
            Task(durable, Work.EXPIRY, self._give_up),
            Task(durable, Work.SEQUENCES, kept.forget_idle),
            Task(memory, Work.SEQUENCES, unkept.forget_idle),
            Task(durable, Work.RETENTION, self._cut_log),
            Task(durable, Work.UPTIME, self._write_running_time),
            Task(durable, Work.RECIPIENTS, self.retention.forget_recipients),
            Task(durable, Work.RELEASE, lambda _: self.origin.parcels.release()),
        )

    def dedupe_with(self, subnets: Collection[Subnet]) -> None:
        """Believe only the servers of these subnets about which server serves a foreign process."""
        examples = [NodeId(f"x@{subnet}") for subnet in subnets]

        def is_believed(server: ServerId) -> bool:
            return server == self.server or any(self._reach.home_of(example) == server for example in examples)

        self.arrivals.foreign.is_believed = self.in_memory.arrivals.foreign.is_believed = is_believed

    def audience(self, targets: TargetSet) -> BitMap:
        """Return the present recipients of a target set that have numbers. The caller must not change the bitmap."""
        return self.audiences.of(targets, self._reach)

    def reached(self, limit: int) -> list[tuple[TargetSet, BitMap]]:
        """Return the present recipients of at most `limit` target sets to which messages were sent."""
        return [(targets, self.audience(targets)) for targets in self.audiences.used_last(limit)]

    def needed(self) -> list[int]:
        """Return the positions of the parcels that the shell must pass to `keep` before the first step, sorted."""
        return sorted({*self.origin.parcels.unsettled, *self.post.positions_kept()})

    def keep(self, record: LogRecord) -> None:
        """Load a parcel from the log as it was stored."""
        self.origin.parcels.keep(record.position, record.encoded)

    def step(
        self,
        event: Event | DeliveryEvent,
        records: Records,
        now: float,
        renames: Sequence[tuple[NodeId, NodeId]] = (),
    ) -> tuple[list[PeerLetter], list[Answer]]:
        """Handle an event, after its changes to the graph. Return the posts to send, and the answers to callers.

        `renames`: old and new name of each group that the event renamed.
        """
        reach, agenda, memory = self._reach, self.agenda, self.in_memory.agenda
        self.running.step(now)
        if records.arcs:
            self.lost_ways.note(reach.onward_over_removed(records.arcs))
        for names in renames:
            self._rename(*names)
        if event.__class__ not in _WITHOUT_MEANING:
            self._take(event)
        if records.nodes:
            self.policies.forget_deleted(records, reach.is_group)
        for each in (agenda, memory):
            if each.next_from <= self.running.seconds:
                each.pass_time(self.running.seconds)
        if agenda.due or memory.due:
            self._do(self._tasks if event.__class__ in _LOOKING_EVENTS else self._tasks_without_looking)
            if Work.ENTRIES in agenda.due:
                self._take_entries(records)
        if memory.due or self.in_memory.spreading.answers:
            self._unkept += self._end_of_memory(now)
        letters, self.spreading.letters = self.spreading.letters, []
        answers = [*self._answers, *self.spreading.answers]
        self._answers, self.spreading.answers = [], []
        return letters, answers

    def _do(self, tasks: Iterable[Task]) -> None:
        reach = self._reach
        for agenda, work, do in tasks:
            if work in agenda.due:
                agenda.take_off(work)
                do(reach)

    def _take_entries(self, records: Records) -> None:
        """Add what the step has changed in the log to its records."""
        self.agenda.take_off(Work.ENTRIES)
        new, cut = self.log.take_rows()
        records.log += new
        records.log_gone += self.log.take_gone()
        if cut is not None:
            records.cut_log_through = cut

    def _note_held(self, _reach: Reach) -> None:
        held = self.arrivals.held | self.in_memory.arrivals.held
        self._held_since = {server: self._held_since.get(server, self.running.now) for server in held}

    def _write_running_time(self, _reach: Reach) -> None:
        if self.origin.sequences or self.queue or not self.log.is_empty:
            self.running.write()

    def _cut_log(self, _reach: Reach) -> None:
        self.retention.cut(self.origin.parcels.oldest_needed(), self._audiences_needed)

    def _rename(self, old: NodeId, new: NodeId) -> None:
        """Move the state of a renamed group to its new name."""
        # Messages accepted for the old name must be in parcels before their senders continue under the new name.
        for spreading in (self.spreading, self.in_memory.spreading):
            spreading.close()
            spreading.make_parcels(self._reach, is_now=True)
        self.policies.rename(old, new)
        self.mailboxes.rename(old, new)
        self.listeners.rename(old, new)
        for senders in (self.senders, self.in_memory.senders):
            senders.rename(old, new)

    def _audiences_needed(self) -> set[int]:
        """Return the numbers of audiences to which other state than log entries refers."""
        return {*self.arrivals.audiences(), *self.origin.backlog.audiences()}

    def _end_of_memory(self, now: float) -> list[VolatileOutput]:
        in_memory = self.in_memory
        leaving, through = in_memory.end_step(self._reach, now)
        answers, in_memory.spreading.answers = in_memory.spreading.answers, []
        if through is None and not (answers or leaving):
            return []
        grown = [] if through is None else [RingGrew(through)]
        # An accepted answer comes before the message is handed over. Parcels are sent before local listeners get
        # theirs. Frames that only confirm parcels are sent last.
        told = [*filter(is_told_unkept, answers)]
        return [*told, *leaving, *grown] if told else [*grown, *leaving]

    def take_unkept(self) -> list[VolatileOutput]:
        """Return the volatile output of the step that was just taken."""
        unkept: list[VolatileOutput] = [*self._sent, *self.datagrams.take_leaving(), *self._shown, *self._unkept]
        self._shown, self._sent, self._unkept = [], [], []
        return unkept

    @property
    def has_open(self) -> bool:
        """True if messages wait for `CloseParcels`."""
        return bool(self.origin.open)

    def next_number(self, numbering: Numbering) -> int:
        """Return the number of a sender's next message to a target. Messages that are in no parcel yet do not count."""
        return self._senders_to(numbering[1]).next_number(numbering)

    def _senders_to(self, addressed: NodeId) -> Senders:
        return self.in_memory.senders if self.policies.of(addressed).kept is Kept.MEMORY else self.senders

    @property
    def next_deadline(self) -> float | None:
        """Time at which a `Tick` is needed, on the clock of `step`'s `now`. None if none is needed."""
        return self.in_memory.next_deadline()

    @property
    def has_more(self) -> bool:
        """True if the last step left work for a `Tick`."""
        agenda = self.agenda
        if agenda.at_once or self.in_memory.agenda.at_once:
            return True
        if Work.RETENTION not in agenda.due and agenda.next_from > self.running.seconds:
            return False
        if self.retention.is_too_old(self.origin.parcels.oldest_needed()):
            return True
        if not self.log.is_too_large:
            return False
        waiting = self.retention.waits_for_room()
        return bool(self.giving_up.overrun(waiting)) or self.retention.makes_room(waiting)

    def _take(self, event: Event | DeliveryEvent) -> None:
        match event:
            case Send() | OpenMailbox() | CloseMailbox() | Subscribe() | SetDelivery():
                self._answer(event)
            case QueueMessage() | ReplayDeadLetters() | DropDeadLetters():
                self._answer(event)
            case QueuedEnded(number, refusal):
                queued = self.queue.end(number)
                if queued is not None and refusal is not None:
                    why = f"{refusal.reason.value}: {refusal.message}"
                    self.dead_letters.add_queued(number, queued, DeadReason.REFUSED, why)
            case SendAll(sends):
                self._send_all(sends)
            case DatagramCame(sender, encoded):
                self._take_datagram(sender, encoded)
            case CloseParcels():
                self.spreading.close()
            case Acknowledge():
                self._acknowledge(event)
            case AcknowledgeAll(acknowledged):
                for each in acknowledged:
                    self._acknowledge(each)
            case StopListening(ticket):
                self.listeners.end(ticket)
                self.in_memory.end(ticket)
            case PeerStarted(peer):
                self.arrivals.come_again(peer)
            case PeerMet(peer):
                self._met_at[peer] = self.running.now
                self.in_memory.lanes.met(peer)
            case PeerRestored(peer):
                self._begin_again(peer)
            case RemovePeer():
                self._look_for_removed()
            case Restored(incarnation):
                self.incarnation = incarnation
                self.lost_ways.note(self._reach.servers_met())
                self.origin.go_back()
                others = {
                    *self._reach.servers_met(),
                    *self.origin.parcels.posted_to(),
                    *self.dead_letters.replayed_to(),
                }
                for peer in sorted(others):
                    self._begin_again(peer)
                self.spreading.go_back(self._reach)
            case _:
                pass

    def _acknowledge(self, event: Acknowledge) -> None:
        key, through = (event.mailbox, event.subscription), event.through
        if through <= self.log.end():
            self.mailboxes.acknowledge(key, through, epoch=event.epoch)
            self.listeners.move(event.mailbox, event.epoch, through)
        if event.in_memory is not None:
            self.in_memory.acknowledge(key, event.epoch, event.in_memory)

    def _answer(self, event: Request) -> None:
        try:
            self._carry_out(event)
        except RefusedError as error:
            self._answers.append(DeliveryRefused(event.ticket, error.refusal))

    def _carry_out(self, event: Request) -> None:
        match event:
            case Send():
                self._send(event)
            case QueueMessage():
                self._answers.append(self.queue.take(event, self._reach, at=self.running.seconds))
            case OpenMailbox(ticket, process, origin):
                is_new = self.mailboxes.number_of(process) is None
                number = self.subscriptions.mailbox_of(process, self._reach, opens_archive=True)
                if is_new:
                    self.in_memory.open(number)
                    self.note_event("mailbox_opened", {"mailbox": process}, origin, decision=ALLOWED)
                self._answers.append(MailboxOpened(ticket, number, is_new))
            case CloseMailbox(ticket, process, origin):
                closed = self._close(ticket, process)
                facts: dict[str, Fact] = {"mailbox": process, "messages_lost": closed.unread}
                self.note_event("mailbox_closed", facts, origin, decision=ALLOWED)
                self._answers.append(closed)
            case Subscribe():
                self._answers.append(self._subscribe(event))
            case ReplayDeadLetters():
                self._replay(event)
            case DropDeadLetters(ticket, numbers):
                self._answers.append(DeadLettersDropped(ticket, self.dead_letters.drop(numbers)))
            case SetDelivery():
                self._set_policy(event)

    def _close(self, ticket: int, process: NodeId) -> MailboxClosed:
        """Close a mailbox. Raises `RefusedError` if the mailbox does not exist."""
        number, subscriptions = self.subscriptions.require(process), self.mailboxes.subscriptions(process)
        unread = self.log.behind(self.mailboxes.slowest(process), lambda each: self.audiences.is_for(each, number))
        self.dead_letters.lost(LossReason.CLOSED, unread)
        self.mailboxes.close(process)
        self.in_memory.close(number)
        return MailboxClosed(ticket, number, subscriptions, unread)

    def _subscribe(self, event: Subscribe) -> Subscribed:
        number = self.mailboxes.number_of(event.process)
        is_there = number is not None and self.mailboxes.cursor((number, event.subscription)) is not None
        begun = self.subscriptions.begin(event, self._reach)
        if event.is_ephemeral:
            return replace(begun, in_memory=self.in_memory.begin_ephemeral(event.ticket))
        if number is None:
            self.in_memory.open(begun.mailbox)
            self.note_event("mailbox_opened", {"mailbox": event.process}, event.origin, decision=ALLOWED)
        is_new = event.start is Start.NOW and not is_there
        key = (begun.mailbox, event.subscription)
        return replace(begun, in_memory=self.in_memory.begin(key, is_new=is_new, sought=event.in_memory))

    def _set_policy(self, event: SetDelivery) -> None:
        before = self.policies.of(event.group)
        policy = self.policies.change(event.group, event.quality, event.senders, event.kept, self._reach, self.server)
        if policy.kept is not before.kept:
            # Earlier messages are accepted as they were sent. Numbers of senders continue.
            for spreading in (self.spreading, self.in_memory.spreading):
                spreading.close()
                spreading.make_parcels(self._reach, is_now=True)
            senders, others = self._senders_to(event.group), self.senders
            senders.take_over(self.in_memory.senders if senders is others else others, event.group)
        facts = {
            "group": event.group,
            "quality": policy.quality.name.lower(),
            "senders": policy.senders,
            "kept": policy.kept.name.lower(),
        }
        self.note_event("delivery_set", facts, event.origin, decision=ALLOWED)
        self._answers.append(PolicySet(event.ticket, policy))

    # -- sending

    def _send_all(self, sends: tuple[Send, ...]) -> None:
        before: Send | None = None
        taker: ParcelPipeline | None = None
        for send in sends:
            try:
                if taker is not None and before is not None and goes_on(before, send):
                    self._require_room(taker, send)
                    require_size(send.message)
                    require_own_mail(send.message, self._reach, self.server)
                    taker.take_next(send)
                else:
                    taker = self._send(send)
            except RefusedError as error:
                taker = None
                self._answers.append(DeliveryRefused(send.ticket, error.refusal))
            before = send

    def _send(self, send: Send) -> ParcelPipeline | None:
        """Accept a message for a parcel, and return the pipeline in which it waits.

        None if the message does not wait: it is a datagram, or was answered before. Raises `RefusedError`.
        """
        message = send.message
        if max(len(message.sender), len(send.request_id)) > SENDER_ID_LIMIT:
            raise refuse(Reason.INVALID_REQUEST, f"an id of a sender has at most {SENDER_ID_LIMIT} characters")
        is_in_memory = self.policies.of(send.targets[0].name).kept is Kept.MEMORY
        spreading, other = self.spreading, self.in_memory.spreading
        if is_in_memory:
            spreading, other = other, spreading
        if send.quality is not Quality.DATAGRAM and spreading.is_known(send, other):
            return None
        # The message may have been accepted before the group changed its storage.
        is_request = send.request_id and not send.number and send.quality is not Quality.DATAGRAM
        if is_request and other.is_known(send, spreading):
            return None
        if send.objection is not None:
            raise RefusedError(send.objection)
        require_size(message)
        require_own_mail(message, self._reach, self.server)
        require_targets(send.targets, self._reach, self.server, self.listens_for)
        is_kept = bool(send.number or send.request_id or send.wants_settled)
        quality = self.policies.quality_of(send.targets[0].name, send.quality, is_kept=is_kept)
        if quality is Quality.DATAGRAM:
            self._send_datagram(send)
            return None
        self._require_room(spreading, send)
        spreading.require_place(send, quality)
        spreading.take(send, quality)
        if is_in_memory:
            self.in_memory.note_open()
        return spreading

    def _require_room(self, spreading: ParcelPipeline, send: Send) -> None:
        """Raise `RefusedError` if too much waits for a receiver of a message, or waits for no receiver."""
        if spreading is not self.spreading:
            self.in_memory.require_room(send.targets, self._reach)
            return
        if self.origin.backlogs.full:
            require_backlog(self.origin, send.targets, self._reach)
        if self.origin.parcels.unclaimed_bytes >= UNCLAIMED_BYTES_LIMIT or self.origin.open.is_full:
            raise refuse(
                Reason.BACKLOG_FULL,
                "too many messages wait for servers to agree on who is there, or for the database; try again later",
            )

    def unconfirmed(self, server: ServerId) -> Unconfirmed | None:
        """Return the parcels that a server has not confirmed, or not taken. None if it has confirmed all parcels.

        Answers to a server count, too, if its posts wait until it takes the answers.
        """
        both = (self.origin.backlogs, self.in_memory.origin.backlogs)
        since = [at for each in both if (at := each.unconfirmed_since(server)) is not None]
        size = sum(each.bytes_of(server) for each in both)
        if server in self._held_since:
            since.append(self._held_since[server])
            size += self.post.answers_bytes(server) + self.in_memory.lanes.answers_bytes(server)
        if not since:
            return None
        return Unconfirmed(size, max(min(since), self._met_at.get(server, 0.0)))

    def _send_datagram(self, send: Send) -> None:
        require_datagram(send)
        spread = self.datagrams.send(send.targets, send.message, self._reach)
        self._show(spread.datagram)
        self._sent.append(DatagramSent(send.ticket, spread.datagram.message_id, spread.sent_to, spread.unknown))

    def _show(self, datagram: Datagram) -> None:
        audience = self._shown_to(datagram.targets)
        if audience:
            self._shown.append(Shown(audience, datagram))

    def _shown_to(self, targets: TargetSet) -> BitMap:
        return self.audience(targets)

    def _take_datagram(self, sender: ServerId, encoded: bytes) -> None:
        faults = self.post.faults
        try:
            found = decode_datagram(encoded)
        except NotAPostError:
            faults[sender, PeerFault.UNREADABLE] += 1
            return
        if isinstance(found, Carried):
            self.in_memory.came(sender, found, self._reach, self.running.now)
        elif isinstance(found, Onward):
            if not self.datagrams.told(sender, found, self._reach):
                faults[sender, PeerFault.NOT_OUR_PARCEL] += 1
        elif not is_home(sender, found.targets, self._reach):
            faults[sender, PeerFault.NOT_ITS_TARGET] += 1
        elif not are_vouched_for((found.message,), sender, self._reach):
            faults[sender, PeerFault.NOT_ITS_MAIL] += 1
        else:
            self._show(found)
            self.datagrams.came(sender, found, self._reach)

    def listens_for(self, name: NodeId) -> bool:
        """True if a process has a mailbox here, or an ephemeral subscription."""
        return name in self.mailboxes.numbers or name in self.listeners.numbers

    # -- other servers

    def _begin_again(self, peer: ServerId) -> None:
        """Begin the lanes to and from a server again."""
        self.spreading.begin_again(peer)
        self.dead_letters.begin_again(peer)
        self.spreading.letters += self.origin.posting.begin_again(peer)

    def _look_for_removed(self) -> None:
        """Drop all parcels for servers that were removed for good, and all posts of theirs."""
        self.giving_up.look(self._reach)
        self.spreading.forget_removed(self._reach)
        self.in_memory.look_for_removed(self._reach)

    def _give_up(self, reach: Reach) -> None:
        overrun = self.retention.waits_for_room() if self.log.is_too_large else ()
        for position in self.giving_up.advance(reach, overrun=overrun):
            self.spreading.end_round(position, reach)
        if self.queue:
            self.running.write()

    def _replay(self, event: ReplayDeadLetters) -> None:
        def may_post(server: ServerId, position: int) -> bool:
            return self._reach.is_known(server) and not self.origin.parcels.is_posted(position, server)

        def probe(server: ServerId) -> int:
            number = self.post.sent_through(server) + 1
            self.spreading.letters.append(self.post.send_inline(server, encode(Probe(number))))
            return number

        def queue(message: QueuedMessage) -> bool:
            can_wait = self._reach.home_of(message.addressed) is not None and self.queue.has_room_for(message)
            if can_wait:
                self.queue.keep(message, at=self.running.seconds)
            return can_wait

        replayed, left = self.dead_letters.replay(event.numbers, may_post, probe, queue)
        self._answers.append(DeadLettersReplayed(event.ticket, replayed, left))

    @property
    def _reach(self) -> Reach:
        assert self.reach is not None, "set before the first step"
        return self.reach
