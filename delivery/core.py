"""The delivery half of one server, driven by `step`. This file only routes: each idea has a file of its own.

    Send --> origin --close--> parcel --+--> post --> other servers           Subscribe, Acknowledge --> mailboxes
                                        +--> log, for the mailboxes here
    post of others --> wait until settled with the sender --> log --> Confirm
    Send of a datagram, datagram of others --> whoever listens; nothing is kept

What it asks of the graph comes through `Reach`. What it remembers is in durable maps and in the log: the shell makes
all of one step durable at once, before anything of it leaves.

Source: delivery.md sections 3 to 5, 9.
"""

from __future__ import annotations

from msgspec import Struct, structs
from pyroaring import BitMap

from delivery.audiences import Audiences
from delivery.datagrams import Datagrams, Shown, Unkept, require_datagram
from delivery.dead_letters import DeadLetters, LossReason
from delivery.events import (
    Accepted,
    Acknowledge,
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
    PolicySet,
    ReplayDeadLetters,
    Request,
    Send,
    SendAll,
    SetPolicy,
    Start,
    StopListening,
    Subscribe,
    Subscribed,
)
from delivery.giving_up import GivingUp
from delivery.listeners import Listeners
from delivery.log import Log
from delivery.mailboxes import MAILBOXES_LIMIT, SUBSCRIPTIONS_LIMIT, Mailboxes
from delivery.model import (
    HEADERS_BYTES_LIMIT,
    PAYLOAD_BYTES_LIMIT,
    TARGETS_LIMIT,
    Position,
    Quality,
    TargetSet,
    target_not_found,
)
from delivery.origin import BACKLOG_BYTES_LIMIT, OPEN_BYTES_LIMIT, Origin, Waiting, servers_apart
from delivery.policy import Policies
from delivery.post import Post
from delivery.rates import Rates
from delivery.reach import Reach
from delivery.running_time import RunningTime
from delivery.senders import Senders
from delivery.servers_below import onward
from delivery.wire import (
    LARGEST_PARCEL_BYTES,
    SENDER_ID_LIMIT,
    Confirm,
    Datagram,
    NotAPostError,
    Onward,
    Over,
    Parcel,
    Probe,
    Probed,
    decode,
    decode_datagram,
    decode_stored,
    encode,
)
from namegraph import (
    DurableMap,
    DurableState,
    Event,
    KeyForm,
    LogRecord,
    NodeId,
    PeerFault,
    PeerLetter,
    PeerMessage,
    PeerReceived,
    PeerRestored,
    Reason,
    Records,
    RefusedError,
    RemovePeer,
    Restored,
    ServerId,
    Tick,
    packed,
    refuse,
)

WAITING_BYTES_LIMIT = 8 * 1024 * 1024 + 2 * LARGEST_PARCEL_BYTES
"""Of posts of one server that wait here for a view, or for its healing: more than its window lets it send."""

SUBSCRIPTION_NAME_LIMIT = 100

NAMES_LIMIT = TARGETS_LIMIT * 2
"""Targets and exceptions of one message."""

_Heard = tuple[ServerId, int]
"""An origin, and the number that it gave a sequence."""


class _HeardRow(Struct, array_like=True):
    """The last parcel of a sequence that was logged here."""

    incarnation: int
    first_serial: int


def _read_heard(text: str) -> _Heard:
    number, _, server = text.partition(" ")
    return ServerId(server), int(number)


_ParcelKey = tuple[ServerId, int, int, int]
"""An origin, the number of a sequence, the incarnation, and the first serial."""


def _read_parcel(text: str) -> _ParcelKey:
    sequence, incarnation, serial, server = text.split(" ")
    return ServerId(server), int(sequence), int(incarnation), int(serial)


_PARCELS = KeyForm[_ParcelKey](lambda key: f"{key[1]} {key[2]} {key[3]} {key[0]}", _read_parcel)
_HEARD = KeyForm[_Heard](lambda key: f"{key[1]} {key[0]}", _read_heard)


class DeliveryCore:
    """All that one server does with messages."""

    def __init__(self, durable: DurableState, server: ServerId, post: Post) -> None:
        self.server = server
        self.post = post
        self.log = Log(durable)
        self.mailboxes = Mailboxes(durable)
        self.listeners = Listeners()
        self.audiences = Audiences(durable, self.mailboxes, self.listeners)
        self.origin = Origin(durable, server, self.post)
        self.senders = Senders(durable)
        self.dead_letters = DeadLetters(durable)
        self.policies = Policies(durable)
        self.rates = Rates()
        """Asked by the shell, before a step."""
        self.datagrams = Datagrams(server)
        self.running = RunningTime(durable)
        self.giving_up = GivingUp(self.origin, self.post, self.dead_letters)
        self.reach: Reach | None = None
        """Set before the first step."""
        self._heard = DurableMap(durable, "heard", _HEARD, packed(_HeardRow))
        self._remembered = DurableMap(durable, "logged apart", _PARCELS, packed(int))
        """Parcels that were logged while servers were away, with the number of their audience, until they are over."""
        self._open: dict[tuple[str, str, int | str], Waiting] = {}
        """Messages that wait for the next parcel, by what they would be known by if they were sent again."""
        self._waiting: dict[ServerId, dict[int, bytes]] = {}
        """Posts that came and were not taken yet, by sender and number."""
        self._rounds = dict.fromkeys(
            position for position in self.origin.unsettled if self.origin.needs_round(position)
        )
        """Parcels that are to be posted once more, as soon as the view is healed."""
        self._started_at = self.log.last
        self._has_started = False
        """Whether a step has looked for what was removed before this server started."""
        self._letters: list[PeerLetter] = []
        self._answers: list[Answer] = []
        self._shown: list[Shown] = []
        self._sent: list[DatagramSent] = []

    def audience(self, targets: TargetSet) -> BitMap:
        """The mailboxes here that a target set reaches now. The caller must not change it."""
        return self.audiences.of(targets, self._reach)

    def reached(self, limit: int) -> list[tuple[TargetSet, BitMap]]:
        """The same of so many target sets that something was sent to."""
        return [(targets, self.audience(targets)) for targets in self.audiences.used_last(limit)]

    def needed(self) -> list[int]:
        """The positions of the parcels that are to be given back with `keep` before the first step; sorted."""
        return sorted({*self.origin.unsettled, *self.post.positions_kept()})

    def keep(self, record: LogRecord) -> None:
        """Take a parcel from the log as it was stored."""
        self.origin.keep(record.position, record.encoded)

    def step(self, event: Event | DeliveryEvent, records: Records, now: float) -> tuple[list[PeerLetter], list[Answer]]:
        """Take one event, or what it did to the graph; returns what is to leave, and what callers are told."""
        self.running.step(now)
        self._take(event)
        self._take_waiting()
        self.policies.forget_deleted(records, self._reach.is_group)
        if self._rounds and self._reach.is_steady():
            for position in list(self._rounds):
                self._go_on(position)
        if isinstance(event, DeliveryEvent | PeerMessage | PeerReceived | RemovePeer | Tick):
            # An update that is refused leaves no trace of this kind either.
            self._give_up()
            self._cut()
        self.origin.release()
        new, cut = self.log.take_rows()
        records.log += new
        if cut is not None:
            records.cut_log_through = cut
        letters, self._letters = self._letters, []
        answers, self._answers = self._answers, []
        return letters, answers

    def take_unkept(self) -> list[Unkept]:
        """What the step that was just taken lets out of which nothing is kept."""
        unkept: list[Unkept] = [*self._sent, *self.datagrams.take_leaving(), *self._shown]
        self._shown, self._sent = [], []
        return unkept

    @property
    def has_open(self) -> bool:
        """Whether messages wait for `CloseParcels`."""
        return self.origin.has_open

    @property
    def has_more(self) -> bool:
        """Whether the last step left something for a `Tick`."""
        return self.giving_up.has_more or self._overrun_by() is not None

    def _take(self, event: Event | DeliveryEvent) -> None:
        match event:
            case Send() | OpenMailbox() | CloseMailbox() | Subscribe() | SetPolicy():
                self._answer(event)
            case ReplayDeadLetters() | DropDeadLetters():
                self._answer(event)
            case SendAll(sends):
                for send in sends:
                    self._answer(send)
            case DatagramCame(sender, encoded):
                self._take_datagram(sender, encoded)
            case CloseParcels():
                self._close_parcels()
            case Acknowledge(number, name, epoch, through):
                if through <= self.log.end():
                    self.mailboxes.acknowledge((number, name), through, epoch=epoch)
                    self.listeners.move(number, epoch, through)
            case StopListening(ticket):
                self.listeners.end(ticket)
            case PeerRestored(peer):
                self._begin_again(peer)
            case RemovePeer():
                self._look_for_removed()
            case Restored(incarnation):
                self.origin.go_back(incarnation)
                for peer in sorted({*self.origin.posted_to(), *self.dead_letters.replayed_to()}):
                    self._begin_again(peer)
                self._waiting.clear()
                rounds, self._rounds = self._rounds, {}
                for position in rounds:
                    self._go_on(position)
            case _:
                pass

    def _answer(self, event: Request) -> None:
        try:
            self._carry_out(event)
        except RefusedError as error:
            self._answers.append(DeliveryRefused(event.ticket, error.refusal))

    def _carry_out(self, event: Request) -> None:
        match event:
            case Send():
                self._send(event)
            case OpenMailbox(ticket, process):
                is_new = process not in self.mailboxes.numbers
                self._answers.append(MailboxOpened(ticket, self._mailbox_of(process, opens_archive=True), is_new))
            case CloseMailbox(ticket, process):
                if process not in self.mailboxes.numbers:
                    raise self._no_mailbox(process)
                self.mailboxes.close(process)
                self._answers.append(MailboxClosed(ticket))
            case Subscribe(is_ephemeral=True):
                self._listen(event)
            case Subscribe():
                self._subscribe(event)
            case ReplayDeadLetters():
                self._replay(event)
            case DropDeadLetters(ticket, numbers):
                self._answers.append(DeadLettersDropped(ticket, self.dead_letters.drop(numbers)))
            case SetPolicy(ticket, group, quality, senders):
                policy = self.policies.change(group, quality, senders, self._reach, self.server)
                self._answers.append(PolicySet(ticket, policy))

    # -- sending

    def _send(self, send: Send) -> None:
        message, senders = send.message, self.senders
        if max(len(message.sender), len(send.request_id)) > SENDER_ID_LIMIT:
            raise refuse(Reason.INVALID_REQUEST, f"an id of a sender has at most {SENDER_ID_LIMIT} characters")
        if send.quality is Quality.DATAGRAM:
            if send.objection is not None:
                raise RefusedError(send.objection)
            self._send_datagram(send)
            return
        numbering = (message.sender, send.targets[0].name)
        key = (*numbering, send.number) if send.number else ("", "", send.request_id)
        if key in self._open:
            self._open[key].also_for(send)
            return
        first = senders.first_answer(numbering, send.number, send.request_id)
        if first is not None:
            self._answers.append(Accepted(send.ticket, first, is_repeated=True))
            if send.wants_settled:
                self._answers += self.origin.wait(send.ticket, first, self.dead_letters.lacking(first))
            return
        if send.objection is not None:
            raise RefusedError(send.objection)
        self._require_possible(send)
        self._require_room()
        waiting = self.origin.take(send)
        senders.begin(numbering, send.number)
        if send.number or send.request_id:
            self._open[key] = waiting

    def _require_possible(self, send: Send) -> None:
        message, reach = send.message, self._reach
        if len(message.payload) > PAYLOAD_BYTES_LIMIT:
            raise refuse(Reason.LIMIT_EXCEEDED, f"a message has at most {PAYLOAD_BYTES_LIMIT} bytes")
        if message.size - len(message.payload) > HEADERS_BYTES_LIMIT:
            raise refuse(Reason.LIMIT_EXCEEDED, f"headers have at most {HEADERS_BYTES_LIMIT} bytes")
        if (
            not 0 < len(send.targets) <= TARGETS_LIMIT
            or sum(1 + len(one.excluding) for one in send.targets) > NAMES_LIMIT
        ):
            raise refuse(Reason.LIMIT_EXCEEDED, f"a message has 1 to {TARGETS_LIMIT} targets, and as many exceptions")
        addressed = send.targets[0].name
        if reach.home_of(addressed) not in (None, self.server):
            raise refuse(Reason.INVALID_REQUEST, f"{addressed} is not at home at the server {self.server}")
        for target in send.targets:
            self._require_target(target.name)

    def _require_room(self) -> None:
        if self.origin.backlog_bytes >= BACKLOG_BYTES_LIMIT or self.origin.open_bytes >= OPEN_BYTES_LIMIT:
            raise refuse(
                Reason.BACKLOG_FULL,
                "too many messages wait for servers that are out of reach, or for the database; try again later",
            )

    def _send_datagram(self, send: Send) -> None:
        require_datagram(send)
        self._require_possible(send)
        spread = self.datagrams.send(send.targets, send.message, self._reach)
        self._show(spread.datagram)
        self._sent.append(DatagramSent(send.ticket, spread.datagram.message_id, spread.sent_to, spread.unknown))

    def _show(self, datagram: Datagram) -> None:
        audience = self._shown_to(datagram.targets)
        if audience:
            self._shown.append(Shown(audience, datagram))

    def _shown_to(self, targets: TargetSet) -> BitMap:
        return self.audience(targets)

    def _is_home(self, server: ServerId, targets: TargetSet) -> bool:
        """Whether a server is the one that sends to a target set."""
        return self._reach.home_of(targets[0].name) in (None, server)

    def _take_datagram(self, sender: ServerId, encoded: bytes) -> None:
        faults = self.post.faults
        try:
            found = decode_datagram(encoded)
        except NotAPostError:
            faults[sender, PeerFault.UNREADABLE] += 1
            return
        if isinstance(found, Onward):
            if not self.datagrams.told(sender, found, self._reach):
                faults[sender, PeerFault.NOT_OUR_PARCEL] += 1
        elif not self._is_home(sender, found.targets):
            faults[sender, PeerFault.NOT_ITS_TARGET] += 1
        else:
            self._show(found)
            self.datagrams.came(sender, found, self._reach)

    def _require_target(self, name: NodeId) -> None:
        """Of names that are at home elsewhere, the shell has asked: this server cannot say whether they are there."""
        reach = self._reach
        if reach.home_of(name) not in (None, self.server):
            return
        if not (reach.is_group(name) or reach.is_process(name) or self.listens_for(name)):
            raise target_not_found(name, self.server)

    def listens_for(self, name: NodeId) -> bool:
        """Whether a process has a mailbox here, or somebody listens for it without one."""
        return name in self.mailboxes.numbers or name in self.listeners.numbers

    def _close_parcels(self) -> None:
        origin, reach = self.origin, self._reach
        self._open.clear()
        for parcel, together in origin.close():
            for index, waiting in enumerate(together):
                name, send = parcel.message_id(index), waiting.send
                numbering = (send.message.sender, send.targets[0].name)
                self.senders.remember(numbering, send.number, send.request_id, name, sent_at_ms=send.message.sent_at_ms)
                self._answers += [Accepted(ticket, name) for ticket in waiting.tickets]
            audience = self.audience(parcel.targets)
            servers = origin.servers_below(parcel, reach)
            if not audience and not servers:
                self._answers += origin.settled_at_once(parcel, together)
                continue
            encoded = encode(parcel)
            # It is in the log, though nobody here gets it, as long as it must be kept for others.
            position = self._append(audience, encoded, len(parcel.messages))
            origin.keep(position, encoded)
            number = self.audiences.number_of(audience)
            self._letters += origin.begin(
                parcel,
                together,
                servers,
                reach,
                position=position,
                audience=number,
                mailboxes=len(audience),
                at=self.running.seconds,
            )
            self._go_on(position)

    def _append(self, audience: BitMap, encoded: bytes, messages: int) -> int:
        number = self.audiences.number_of(audience)
        position = self.log.append(number, encoded, messages=messages, at=self.running.seconds)
        self.audiences.used(number, at=position)
        return position

    def _go_on(self, position: int) -> None:
        """A parcel of this server may be settled, or is to be posted once more."""
        origin = self.origin
        if origin.needs_round(position):
            if not self._reach.is_steady():
                self._rounds[position] = None
                return
            self._rounds.pop(position, None)
            encoded, before, number = origin.state_of(position)
            parcel = structs.replace(decode_stored(encoded), round=number)
            audience = self._log_late(parcel, self.audiences.bitmap(before))
            self._letters += origin.begin_round(
                position,
                parcel,
                self._reach,
                audience=self.audiences.number_of(audience),
                mailboxes=len(audience),
            )
        answers, letters = origin.settle(position)
        self._answers += answers
        self._letters += letters

    def _log_late(self, parcel: Parcel, before: BitMap) -> BitMap:
        """Log a parcel for those who are below its targets now and have not got it; returns all who have then."""
        more = self.audience(parcel.targets) - before
        if more:
            self._append(more, encode(parcel), len(parcel.messages))
        return before | more

    # -- what other servers post

    def keep_waiting(self, post: PeerMessage) -> None:
        """A post has come; the step that follows takes it, if it can."""
        sender, number, encoded = post.sender, post.number, post.encoded
        waiting = self._waiting.setdefault(sender, {})
        if number <= self.post.handled_through(sender):
            self.post.faults[sender, PeerFault.REPEATED] += 1
        elif number not in waiting:
            if sum(map(len, waiting.values())) + len(encoded) > WAITING_BYTES_LIMIT:
                self.post.faults[sender, PeerFault.TOO_MUCH_POST] += 1
            else:
                waiting[number] = encoded

    def _take_waiting(self) -> None:
        """Take the posts that wait, in order, as far as the graph here is such that they find their members."""
        for sender in [sender for sender, waiting in self._waiting.items() if waiting]:
            waiting = self._waiting[sender]
            while (number := self.post.handled_through(sender) + 1) in waiting:
                if not self._take_post(sender, number, waiting[number]):
                    break
                waiting.pop(number, None)

    def _take_post(self, sender: ServerId, number: int, encoded: bytes) -> bool:
        """Whether the next post of a server is handled; a parcel waits while servers part or heal."""
        try:
            message = decode(encoded)
        except NotAPostError:
            self.post.faults[sender, PeerFault.UNREADABLE] += 1
            return self.post.take(sender, number)
        if isinstance(message, Parcel) and not self._reach.is_settled_with(sender):
            return False
        self.post.take(sender, number)
        match message:
            case Parcel():
                self._log_parcel(sender, message, encoded)
            case Confirm():
                self._confirmed(sender, message)
            case Probe(asked):
                self._letters.append(self.post.send_inline(sender, encode(Probed(asked))))
            case Probed(answered):
                for parcel in self.dead_letters.probed(sender, answered):
                    self._letters.append(self.post.send_inline(sender, encode(parcel)))
            case Over(sequence, incarnation, first_serial):
                self._remembered.pop((sender, sequence, incarnation, first_serial), None)
        return True

    def _log_parcel(self, sender: ServerId, parcel: Parcel, encoded: bytes) -> None:
        if not self._is_home(sender, parcel.targets):
            self.post.faults[sender, PeerFault.NOT_ITS_TARGET] += 1
            return
        key = (sender, parcel.sequence, parcel.incarnation, parcel.first_serial)
        is_again = parcel.round and key in self._remembered
        audience = self._log_again(key, parcel) if is_again else self._log_first(key, parcel, encoded)
        confirm = Confirm(
            parcel.sequence,
            parcel.incarnation,
            parcel.first_serial,
            len(audience),
            tuple(server for server in onward(parcel.targets, self._reach) if server != self.server),
            parcel.round,
            servers_apart(parcel.targets, self._reach),
            key in self._remembered,
        )
        self._letters.append(self.post.send_inline(sender, encode(confirm)))

    def _log_first(self, key: _ParcelKey, parcel: Parcel, encoded: bytes) -> BitMap:
        """Log a parcel, unless it was; returns who gets it."""
        audience = self.audience(parcel.targets)
        heard = self._heard.get(key[:2])
        is_behind = (
            heard is not None and heard.incarnation == parcel.incarnation and parcel.first_serial <= heard.first_serial
        )
        if is_behind and not parcel.is_replayed:
            # Posted again after the lane began anew.
            return audience
        if audience:
            self._append(audience, encoded, len(parcel.messages))
            if not is_behind:
                self._heard[key[:2]] = _HeardRow(parcel.incarnation, parcel.first_serial)
        if self._reach.is_parted():
            self._remembered[key] = self.audiences.number_of(audience)
        return audience

    def _log_again(self, key: _ParcelKey, parcel: Parcel) -> BitMap:
        """Log a parcel for those who could not be reached when it was logged; returns who has got it."""
        audience = self._log_late(parcel, self.audiences.bitmap(self._remembered[key]))
        self._remembered[key] = self.audiences.number_of(audience)
        return audience

    def _confirmed(self, sender: ServerId, confirm: Confirm) -> None:
        was_lacking = self.dead_letters.confirmed(sender, confirm)
        is_ours, position, letters = self.origin.confirm(sender, confirm, self._reach)
        if was_lacking and confirm.is_remembered:
            over = Over(confirm.sequence, confirm.incarnation, confirm.first_serial)
            self._letters.append(self.post.send_inline(sender, encode(over)))
        if not is_ours and not was_lacking:
            self.post.faults[sender, PeerFault.NOT_OUR_PARCEL] += 1
        self._letters += letters
        if position is not None:
            self._go_on(position)

    def _begin_again(self, peer: ServerId) -> None:
        """The lanes to and from a server have begun again."""
        self._waiting.pop(peer, None)
        self.dead_letters.begin_again(peer)
        self._letters += self.origin.begin_again(peer)

    def _look_for_removed(self) -> None:
        """Servers that are not known any more are gone for good: nothing waits for them, and nothing of theirs waits.

        What was logged last of each of their sequences stays, for nothing may come twice if they are back after all.
        """
        reach = self._reach
        self.giving_up.look(reach)
        for server in [server for server in self._waiting if not reach.is_known(server)]:
            # They keep what was not handled here.
            del self._waiting[server]
        for key in [key for key in self._remembered if not reach.is_known(key[0])]:
            del self._remembered[key]

    def _give_up(self) -> None:
        if not self._has_started:
            self._has_started = True
            self.giving_up.look(self._reach)
        for position in self.giving_up.advance(self.running.seconds, self._reach):
            self._rounds.pop(position, None)
            self._go_on(position)

    def _replay(self, event: ReplayDeadLetters) -> None:
        def may_post(server: ServerId, position: int) -> bool:
            return self._reach.is_known(server) and not self.origin.is_posted(position, server)

        def probe(server: ServerId) -> int:
            number = self.post.sent_through(server) + 1
            self._letters.append(self.post.send_inline(server, encode(Probe(number))))
            return number

        replayed, left = self.dead_letters.replay(event.numbers, may_post, probe)
        self._answers.append(DeadLettersReplayed(event.ticket, replayed, left))

    # -- mailboxes

    def _no_mailbox(self, process: NodeId) -> RefusedError:
        return refuse(
            Reason.MAILBOX_NOT_FOUND,
            f"{process} has no mailbox at the server {self.server}",
            process=process,
            server=self.server,
        )

    def _mailbox_of(self, process: NodeId, *, opens_archive: bool = False) -> int:
        """The number of a mailbox, opened where there is none; that of a group, only where it is asked for."""
        number = self.mailboxes.numbers.get(process)
        if number is not None:
            return number
        self._require_home(process)
        is_group = self._reach.is_group(process)
        if is_group and not opens_archive:
            raise self._no_mailbox(process)
        if len(self.mailboxes.numbers) >= MAILBOXES_LIMIT:
            raise refuse(Reason.LIMIT_EXCEEDED, f"a server has at most {MAILBOXES_LIMIT} mailboxes")
        return self.mailboxes.open(process, at=self.log.last + 1, is_archive=is_group)

    def _require_home(self, name: NodeId) -> None:
        if self._reach.home_of(name) not in (None, self.server):
            raise refuse(Reason.INVALID_REQUEST, f"{name} is not at home at the server {self.server}")

    def _listen(self, event: Subscribe) -> None:
        """Begin an ephemeral subscription."""
        if event.subscription or isinstance(event.start, Position):
            raise refuse(Reason.INVALID_REQUEST, "an ephemeral subscription has no name, and begins now")
        self._require_home(event.process)
        cursor, new_number = self.log.end(), self.mailboxes.new_number
        number = self.listeners.begin(event.ticket, event.process, at=cursor, new_number=new_number)
        self._answers.append(Subscribed(event.ticket, number, cursor, event.ticket))

    def _subscribe(self, event: Subscribe) -> None:
        process, name, start = event.process, event.subscription, event.start
        if len(name) > SUBSCRIPTION_NAME_LIMIT or not (name == "" or name.isprintable()):
            raise refuse(
                Reason.INVALID_REQUEST,
                f"the name of a subscription has at most {SUBSCRIPTION_NAME_LIMIT} printable characters",
            )
        if isinstance(start, Position) and start > self.log.end():
            raise refuse(Reason.INVALID_REQUEST, "the position is behind the end of the log")
        number = self._mailbox_of(process)
        cursor = self.mailboxes.cursor((number, name))
        if cursor is None:
            if len(self.mailboxes.subscriptions(process)) >= SUBSCRIPTIONS_LIMIT:
                raise refuse(Reason.LIMIT_EXCEEDED, f"a mailbox has at most {SUBSCRIPTIONS_LIMIT} subscriptions")
            oldest = Position.before(max(self.mailboxes.opened_at(process), self.log.cut + 1))
            self.mailboxes.begin(process, name, oldest if start is Start.START else self.log.end())
        position = self.mailboxes.subscriptions(process)[name]
        if isinstance(start, Position):
            position = max(position, start)
        epoch = self.mailboxes.take_over((number, name), position)
        self._answers.append(Subscribed(event.ticket, number, position, epoch))

    # -- the end of a step

    def _cut(self) -> None:
        """Forget what nobody needs any more, and what there is no room for."""
        before, posted_from = self.log.cut, self.origin.oldest_needed()
        needed_from = min(
            (entry for entry in (*self._read_from(), posted_from) if entry is not None),
            default=self.log.last + 1,
        )
        self.log.cut_through(needed_from - 1)
        reason, through = self._overrun_by(), self.log.oldest_through
        if reason is not None and through is not None:
            for number, found in self.log.oldest_for().items():
                behind = self.mailboxes.behind(self.audiences.bitmap(number), found.last)
                self.dead_letters.lost(reason, found.messages * behind)
            self.log.cut_through(through, at_least=1)
        if self.log.last > self.log.cut:
            self.running.write()
        if self.log.cut != before:
            needed = {*self._remembered.values(), *self.origin.audiences()}
            self.audiences.forget_unused(cut=self.log.cut, started_at=self._started_at, needed=needed)

    def _overrun_by(self) -> LossReason | None:
        """Why the oldest segment of the log is to go, whoever has not read it; None: it is not."""
        through, posted_from = self.log.oldest_through, self.origin.oldest_needed()
        if through is None or (posted_from is not None and posted_from <= through):
            return None
        if self.log.is_too_large:
            return LossReason.OVERRUN
        return LossReason.KEPT_TOO_LONG if self.log.is_too_old(self.running.seconds) else None

    def _read_from(self) -> tuple[int | None, int | None]:
        return self.mailboxes.needed_from(), self.listeners.needed_from()

    @property
    def _reach(self) -> Reach:
        assert self.reach is not None, "set before the first step"
        return self.reach
