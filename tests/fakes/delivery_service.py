"""A small, simple delivery service: one process, one log, recipients found by a plain search.

It keeps the promises that the client and the command line rely on: order of answers, numbers of senders, request ids,
credit, durable acknowledgements at the end of a stream, takeover, and the faults that tests set.
"""

# Methods have the names of the wire contract.
# ruff: noqa: N802

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import grpc

from delivery.model.words import is_pattern, serves
from namegraph.model.names import InvalidNameError, parse_name, subnet_of
from namegraph.model.refusals import Reason
from shadowtree.v1 import delivery_pb2
from shadowtree.v1.delivery_pb2_grpc import DeliveryServiceServicer

CODES = {
    Reason.TARGET_NOT_FOUND: grpc.StatusCode.NOT_FOUND,
    Reason.OUT_OF_SEQUENCE: grpc.StatusCode.FAILED_PRECONDITION,
    Reason.BACKLOG_FULL: grpc.StatusCode.RESOURCE_EXHAUSTED,
    Reason.MAILBOX_NOT_FOUND: grpc.StatusCode.NOT_FOUND,
    Reason.TAKEN_OVER: grpc.StatusCode.ABORTED,
    Reason.NOT_A_SENDER: grpc.StatusCode.PERMISSION_DENIED,
    Reason.TAKES_DATAGRAMS: grpc.StatusCode.FAILED_PRECONDITION,
    Reason.GROUP_NOT_FOUND: grpc.StatusCode.NOT_FOUND,
    Reason.WRONG_KIND: grpc.StatusCode.FAILED_PRECONDITION,
}


def _reader(text: str) -> str:
    """Return the name of a process or a group, or the pattern of a gateway."""
    return text if text == "*" else parse_name(text)


@dataclass
class FakeSubscription:
    """One reader of a mailbox."""

    acknowledged: int
    epoch: int = 0
    is_listening: bool = False


@dataclass
class FakeMailbox:
    """The messages kept for one process: positions in the log, and its readers."""

    entries: list[int] = field(default_factory=list)
    subscriptions: dict[str, FakeSubscription] = field(default_factory=dict)
    gap: int = 0
    """Number of messages told as lost before the next message that is handed out."""
    recipients: dict[int, list[str]] = field(default_factory=dict)
    """Recipients of each entry, for a gateway."""


@dataclass
class FakeLog:
    """All that was sent, and what tests set to make trouble."""

    messages: list[Any] = field(default_factory=list)
    """`SubscribeResponse.Message`s; the position of each is its index."""
    requests: list[Any] = field(default_factory=list)
    """Requests as they came, in the order in which they were accepted."""
    mailboxes: dict[str, FakeMailbox] = field(default_factory=dict)
    ephemeral: list[tuple[str, FakeMailbox]] = field(default_factory=list)
    """Mailboxes that last as long as a stream, with their processes."""
    numbers: dict[tuple[str, str], int] = field(default_factory=dict)
    """The last number, by sender and first target."""
    by_request_id: dict[str, str] = field(default_factory=dict)
    refuse: dict[str, Any] = field(default_factory=dict)
    """Refusals by first target: a `RefusedError`, and the number of times."""
    senders: dict[str, str] = field(default_factory=dict)
    """Allowed senders by group. A missing group allows any sender."""
    breaks_datagrams: bool = False
    """True if the answer to each datagram is lost."""
    qualities: dict[str, int] = field(default_factory=dict)
    """Qualities by group, where they differ from `fifo`."""
    pending: list[str] = field(default_factory=list)
    """Servers that confirm nothing."""
    queued_for: str = ""
    """The absent home for which messages are queued. Empty: no home is absent."""
    is_in_memory: bool = False
    """True if messages are kept in memory."""
    breaks_before_settled: bool = False
    """Streams break once a message is accepted."""
    break_sends_after: int = 0
    """The stream breaks after so many messages, once: the last ones are accepted, and the answers lost."""
    refuse_after_break: Any = None
    """Refusal of a message whose answer was lost, when it is sent again."""
    batches: list[int] = field(default_factory=list)
    """Number of messages in each batch."""
    break_listeners_after: int = 0
    """The stream breaks after so many messages, once."""
    dead_letters: dict[int, Any] = field(default_factory=dict)
    """`DeadLetter`s by number. One whose servers are all in `pending` cannot be replayed; others arrive at once."""
    dead_messages_lost: int = 0
    streams: int = 0
    """Number of opened streams and single messages."""
    sent_alone: int = 0
    """Number of messages among these with calls of their own."""
    knows_streams_alone: bool = False
    """True for a version without the call for single messages."""
    credit_left: int = 0
    """Messages that the listener that began last would still take."""
    changed: threading.Condition = field(default_factory=threading.Condition)

    def note_credit(self, messages: int) -> None:
        """Update the number of messages that a listener would still take. `changed` must be held."""
        if self.credit_left != messages:
            self.credit_left = messages
            self.changed.notify_all()


class FakeDeliveryService(DeliveryServiceServicer):
    """Serves `graph.log`. The graph says which processes are below a group."""

    def __init__(self, graph: Any, refusing: Any, refused_error: Any) -> None:
        self._graph = graph
        self._log: FakeLog = graph.log
        self._refusing = refusing
        self._refused_error = refused_error

    def Send(self, requests: Any, context: Any) -> Any:
        log = self._log
        with log.changed:
            log.streams += 1
        answered = said = 0
        for request in requests:
            log.batches.append(len(request.messages))
            response = delivery_pb2.SendResponse()
            with log.changed:
                for message in request.messages:
                    said += 1
                    for answer in self._send(message):
                        answer.message = said
                        response.answers.append(answer)
            answered += len(response.answers)
            if log.break_sends_after and answered >= log.break_sends_after:
                log.break_sends_after = 0
                if log.refuse_after_break is not None:
                    log.refuse[log.messages[-1].group] = log.refuse_after_break, 1
                # The messages on their way are accepted, and the answers are lost.
                context.abort(grpc.StatusCode.UNAVAILABLE, "Socket closed")
            if log.breaks_datagrams and any(one.quality == delivery_pb2.QUALITY_DATAGRAM for one in response.answers):
                context.abort(grpc.StatusCode.UNAVAILABLE, "Socket closed")
            yield response
            if log.breaks_before_settled:
                context.abort(grpc.StatusCode.UNAVAILABLE, "Socket closed")

    def SendOne(self, request: Any, context: Any) -> Any:
        if self._log.knows_streams_alone:
            context.abort(grpc.StatusCode.UNIMPLEMENTED, "Method not found!")
        self._log.sent_alone += 1
        return next(self.Send(iter([request]), context))

    def _send(self, request: Any) -> Iterator[Any]:
        log, wire = self._log, delivery_pb2.SendResponse
        try:
            first = parse_name(request.targets[0].name)
            if first in log.refuse:
                refusal, count = log.refuse.pop(first)
                if count > 1:
                    log.refuse[first] = refusal, count - 1
                raise refusal
            key = (request.sender, first)
            if request.asks_number:
                yield wire.Answer(next_number=log.numbers.get(key, 0) + 1)
                return
            if request.queue and log.queued_for:
                yield wire.Answer(state=wire.STATE_QUEUED, pending=[log.queued_for])
                return
            quality = self._quality(request, first)
            message_id, is_repeated = self._accept(request, first, key)
        except (self._refused_error, InvalidNameError) as error:
            yield wire.Answer(refused=self._told_refusal(error))
            return
        kept = delivery_pb2.KEPT_MEMORY if log.is_in_memory else delivery_pb2.KEPT_DURABLE
        accepted = {"id": message_id, "is_repeated": is_repeated, "quality": quality, "kept": kept}
        yield wire.Answer(state=wire.STATE_ACCEPTED, **accepted)
        if request.wait == delivery_pb2.SendRequest.WAIT_SETTLED and not log.breaks_before_settled:
            position = int(message_id.partition("@")[0]) - 1
            mailboxes = sum(1 for mailbox in log.mailboxes.values() if position in mailbox.entries)
            yield wire.Answer(
                state=wire.STATE_SETTLED,
                id=message_id,
                mailboxes=mailboxes,
                servers=1 if mailboxes else 0,
                pending=log.pending,
            )

    def _quality(self, request: Any, first: str) -> int:
        datagram = delivery_pb2.QUALITY_DATAGRAM
        given = self._log.qualities.get(first, delivery_pb2.QUALITY_FIFO)
        is_kept = request.number or request.request_id or request.wait
        is_more = request.quality == delivery_pb2.QUALITY_FIFO or (not request.quality and is_kept)
        if given == datagram and is_more:
            raise self._refused_error(Reason.TAKES_DATAGRAMS, f"{first} takes datagrams", group=first)
        return int(datagram if request.quality == datagram else given)

    def _told_refusal(self, error: Any) -> Any:
        if isinstance(error, InvalidNameError):
            error = self._refused_error(Reason.INVALID_NAME, str(error))
        facts = [delivery_pb2.Refused.Fact(name=name, value=value) for name, value in error.facts.items()]
        code = CODES.get(error.reason, grpc.StatusCode.UNAVAILABLE).value[0]
        return delivery_pb2.Refused(code=code, reason=error.reason, message=error.message, facts=facts)

    def _accept(self, request: Any, first: str, key: tuple[str, str]) -> tuple[str, bool]:
        log = self._log
        if request.number:
            last = log.numbers.get(key, 0)
            if request.number == last:
                return f"{last}@{first}#1", True
            if request.number != last + 1:
                raise self._refused_error(
                    Reason.OUT_OF_SEQUENCE,
                    f"the next message of {request.sender} is number {last + 1}, not {request.number}",
                    expected=str(last + 1),
                    sender=request.sender,
                )
        elif request.request_id in log.by_request_id:
            return log.by_request_id[request.request_id], True
        for target in request.targets:
            name = parse_name(target.name)
            if name not in self._graph.groups and name not in {child for _, child in self._graph.arcs}:
                raise self._refused_error(
                    Reason.TARGET_NOT_FOUND, f"there is no group or member {name}", target=name, server="fake"
                )
            self._require_sender(name, request.as_process)
        position = len(log.messages)
        message_id = f"{request.number or position + 1}@{first}#1"
        log.messages.append(
            delivery_pb2.SubscribeResponse.Message(
                id=message_id,
                group=first,
                sender=request.sender,
                headers=request.headers,
                payload=request.payload,
                position=str(position),
                sent_at_ms=1_772_353_800_000,
            )
        )
        log.requests.append(request)
        if request.number:
            log.numbers[key] = request.number
        elif request.request_id:
            log.by_request_id[request.request_id] = message_id
        audience = self._audience(request)
        for process, mailbox in (*log.mailboxes.items(), *log.ephemeral):
            served = sorted(one for one in audience - self._graph.groups if serves(process, one))
            if is_pattern(process) and served:
                mailbox.recipients[position] = served
            if process in audience or position in mailbox.recipients:
                mailbox.entries.append(position)
        log.changed.notify_all()
        return message_id, False

    def _require_sender(self, group: str, process: str) -> None:
        said = self._log.senders.get(group, "anyone")
        senders = group if said == "members" else said
        if said == "anyone" or (process and parse_name(process) in self._reached(senders)):
            return
        facts = {"group": group, "senders": senders, "server": "fake", "process": process and parse_name(process)}
        raise self._refused_error(Reason.NOT_A_SENDER, f"only members of {senders} may send to {group}", **facts)

    def SetDelivery(self, request: Any, context: Any) -> Any:
        with self._refusing(context):
            group = self._require_group(request.group)
            senders = request.senders
            if senders not in ("", "anyone", "members"):
                senders = self._require_group(senders)
            if request.quality:
                self._log.qualities[group] = request.quality
            self._log.senders[group] = senders or self._log.senders.get(group, "anyone")
            return self._told_delivery(group)

    def GetDelivery(self, request: Any, context: Any) -> Any:
        with self._refusing(context):
            return self._told_delivery(self._require_group(request.group))

    def _require_group(self, text: str) -> str:
        if "@" not in text:
            raise self._refused_error(Reason.INVALID_REQUEST, f"{text} is no group", field="senders")
        group = parse_name(text)
        if group not in self._graph.groups:
            raise self._refused_error(Reason.GROUP_NOT_FOUND, f"there is no group {group}", group=group, server="fake")
        return group

    def _told_delivery(self, group: str) -> Any:
        senders = self._log.senders.get(group, "anyone")
        quality = self._log.qualities.get(group, delivery_pb2.QUALITY_FIFO)
        return delivery_pb2.Delivery(group=group, quality=quality, senders=senders)

    def _audience(self, request: Any) -> set[str]:
        found: set[str] = set()
        for target in request.targets:
            name = parse_name(target.name)
            excluded = {below for group in (*request.excluding, *target.excluding) for below in self._reached(group)}
            # A group counts only if the message is addressed to it.
            found |= ({name} | self._reached(name)) - excluded - (self._graph.groups - {name})
        return found

    def _reached(self, name: str) -> set[str]:
        return self._graph.reached(parse_name(name))

    def Subscribe(self, requests: Any, context: Any) -> Any:
        log, wire = self._log, delivery_pb2.SubscribeResponse
        log.streams += 1
        first = next(requests)
        begin = first.begin
        with self._refusing(context):
            self._require_mailbox(begin)
        with log.changed:
            mailbox, subscription = self._subscribe(begin)
            at = max(subscription.acknowledged, int(begin.handed_out or -1))
            epoch = subscription.epoch
            credit, place, ended = [0, 0], [at], threading.Event()
            self._take(first, subscription, credit)
        yield wire(position=str(at))

        def listen_to_requests() -> None:
            try:
                for request in requests:
                    with log.changed:
                        self._take(request, subscription, credit)
                        log.changed.notify_all()
            except grpc.RpcError:
                pass  # The stream broke.
            with log.changed:
                ended.set()
                log.changed.notify_all()

        reader = threading.Thread(target=listen_to_requests, daemon=True)
        reader.start()
        handed_out, named = 0, list[str]()
        while True:
            with log.changed:
                log.changed.wait_for(
                    lambda: (
                        ended.is_set()
                        or epoch != subscription.epoch
                        or (credit[0] > 0 and credit[1] > 0 and self._behind(place[0], mailbox, begin))
                    ),
                )
                log.note_credit(credit[0])
                if epoch != subscription.epoch:
                    break
                if ended.is_set():
                    subscription.is_listening = False
                    log.ephemeral = [one for one in log.ephemeral if one[1] is not mailbox]
                    return
                coming = deque(self._behind(place[0], mailbox, begin))
                told = wire()
                recipients = mailbox.recipients.get(coming[0], [])
                while coming and credit[0] > 0 and credit[1] > 0 and len(told.messages) < (1 if recipients else 3):
                    place[0] = coming.popleft()
                    message = told.messages.add()
                    message.CopyFrom(log.messages[place[0]])
                    message.gap, mailbox.gap = mailbox.gap, 0
                    credit[0] -= 1
                    credit[1] -= len(message.payload)
                log.note_credit(credit[0])
            if recipients != named:
                named = recipients
                # The number makes two responses of three.
                told.recipients.extend(named[2:] or named)
                if named[2:]:
                    yield wire(recipients=named[:2], more_recipients=True)
            yield told
            handed_out += len(told.messages)
            if log.break_listeners_after and handed_out >= log.break_listeners_after:
                log.break_listeners_after = 0
                context.abort(grpc.StatusCode.UNAVAILABLE, "Socket closed")
        with self._refusing(context):
            raise self._refused_error(
                Reason.TAKEN_OVER,
                f"another endpoint listens for {begin.name} now",
                process=begin.name,
                subscription=begin.subscription,
            )

    def _behind(self, place: int, mailbox: FakeMailbox, begin: Any) -> list[int]:
        """Return the entries behind a place that a listener wants."""
        messages = self._log.messages
        return [
            entry
            for entry in mailbox.entries
            if entry > place
            and (not begin.groups or messages[entry].group in begin.groups)
            and (not begin.senders or messages[entry].sender in begin.senders)
        ]

    def _subscribe(self, begin: Any) -> tuple[FakeMailbox, FakeSubscription]:
        log = self._log
        if begin.ephemeral:
            log.ephemeral.append((parse_name(begin.name), FakeMailbox()))
            log.changed.notify_all()
            return log.ephemeral[-1][1], FakeSubscription(len(log.messages) - 1)
        mailbox = self._mailbox(_reader(begin.name))
        is_now = getattr(begin, "from") == delivery_pb2.SubscribeRequest.FROM_NOW
        subscription = mailbox.subscriptions.setdefault(
            begin.subscription, FakeSubscription(len(log.messages) - 1 if is_now else -1)
        )
        if begin.position:
            subscription.acknowledged = max(subscription.acknowledged, int(begin.position))
        subscription.epoch += 1
        subscription.is_listening = True
        log.changed.notify_all()
        return mailbox, subscription

    def _require_mailbox(self, begin: Any) -> None:
        """Require a mailbox. Listening does not open the archive of a group."""
        try:
            name = _reader(begin.name)
        except InvalidNameError as error:
            raise self._refused_error(Reason.INVALID_NAME, str(error)) from None
        if is_pattern(name) and begin.ephemeral:
            raise self._refused_error(Reason.INVALID_REQUEST, "a gateway is not ephemeral")
        if name in self._graph.groups and name not in self._log.mailboxes and not begin.ephemeral:
            raise self._refused_error(Reason.MAILBOX_NOT_FOUND, f"{name} has no mailbox", process=name, server="fake")

    def _mailbox(self, process: str) -> FakeMailbox:
        return self._log.mailboxes.setdefault(process, FakeMailbox(subscriptions={"": FakeSubscription(-1)}))

    @staticmethod
    def _take(request: Any, subscription: FakeSubscription, credit: list[int]) -> None:
        credit[0] += request.credit_messages
        credit[1] += request.credit_bytes
        if request.acknowledged:
            subscription.acknowledged = max(subscription.acknowledged, int(request.acknowledged))

    def OpenMailbox(self, request: Any, context: Any) -> Any:
        with self._refusing(context):
            process = _reader(request.process)
            is_new = process not in self._log.mailboxes
            self._mailbox(process)
            return self._told(process, is_new=is_new)

    def CloseMailbox(self, request: Any, context: Any) -> Any:
        with self._refusing(context):
            process = _reader(request.process)
            if process not in self._log.mailboxes:
                raise self._refused_error(
                    Reason.MAILBOX_NOT_FOUND, f"{process} has no mailbox", process=process, server="fake"
                )
            if is_pattern(process) and not request.force:
                raise self._refused_error(
                    Reason.PERMISSION_DENIED, f"{process} is the mailbox of a gateway: close it with --force"
                )
            told = self._told(process, is_new=False)
            told.messages_lost = self._unread(process)
            del self._log.mailboxes[process]
            return told

    def ListMailboxes(self, request: Any, context: Any) -> Any:
        names = sorted(name for name in self._log.mailboxes if request.subnet in ("", subnet_of(parse_name(name))))
        after = [name for name in names if name > request.page_token]
        page = after[:2]
        return delivery_pb2.ListMailboxesResponse(
            mailboxes=[self._told(name, is_new=False) for name in page],
            next_page_token=page[-1] if len(after) > len(page) else "",
        )

    def ListDeadLetters(self, request: Any, context: Any) -> Any:
        log = self._log
        after = [number for number in sorted(log.dead_letters) if number > int(request.page_token or 0)]
        page = after[:2]
        return delivery_pb2.ListDeadLettersResponse(
            dead_letters=[log.dead_letters[number] for number in page],
            next_page_token=str(page[-1]) if len(after) > len(page) else "",
            messages_lost=log.dead_messages_lost,
            server="fake",
        )

    def ReplayDeadLetters(self, request: Any, context: Any) -> Any:
        log = self._log
        chosen = self._chosen(request)
        left = [number for number in chosen if set(log.dead_letters[number].servers) <= set(log.pending)]
        for number in set(chosen) - set(left):
            del log.dead_letters[number]
        return delivery_pb2.ReplayDeadLettersResponse(replayed=len(chosen) - len(left), left=len(left))

    def DropDeadLetters(self, request: Any, context: Any) -> Any:
        chosen = self._chosen(request)
        for number in chosen:
            del self._log.dead_letters[number]
        return delivery_pb2.DropDeadLettersResponse(dropped=len(chosen))

    def _chosen(self, request: Any) -> list[int]:
        return [number for number in self._log.dead_letters if request.all or number in request.numbers]

    def _unread(self, process: str) -> int:
        mailbox = self._log.mailboxes[process]
        slowest = min((one.acknowledged for one in mailbox.subscriptions.values()), default=-1)
        return sum(entry > slowest for entry in mailbox.entries)

    def _told(self, process: str, *, is_new: bool) -> Any:
        mailbox = self._log.mailboxes[process]
        return delivery_pb2.Mailbox(
            process=process,
            server="fake",
            is_new=is_new,
            subscriptions=[
                delivery_pb2.Mailbox.Subscription(
                    name=name, position=str(one.acknowledged), is_listening=one.is_listening
                )
                for name, one in mailbox.subscriptions.items()
            ],
        )
