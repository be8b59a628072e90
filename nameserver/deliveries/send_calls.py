"""Send: each message goes to the home of its first target, and the answers come back in the order of the messages.

    requests --> [ this server is the home: one step ] ------> Accepted, or refused --+
             '-> [ another one is: a lane to it, of this stream alone ] --------------+--> in order --> responses
                                                                   Settled, later ----+

A stream has a limit of messages and bytes without an answer, at which no more is read from it. A sender that is faster
than the database, or than another server, therefore delays itself alone.

Source: docs/messages.md, "Sending"; docs/protocol-messages.md, "The way of a message" and "Limits of messages".
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from delivery.model.events import Accepted, Answer, DatagramSent, DeliveryRefused, Send, Settled
from delivery.model.mail_stamps import stamped_subnets
from delivery.model.words import MessageContent
from namegraph import NodeId, Reason, Refusal, RefusedError, ServerId, TargetSet, refuse
from nameserver.access.caller import current_caller
from nameserver.calls.adapters import Context
from nameserver.calls.stream_places import StreamPlace, network_of_caller
from nameserver.deliveries import message_wire, queue_sending
from nameserver.deliveries.delivery_rights import DeliveryRights
from nameserver.deliveries.machine import DeliveryMachine
from nameserver.deliveries.send_lanes import HomeLane
from nameserver.deliveries.who_may_send import WhoMaySend
from nameserver.routing.forwarding import Forwarder, not_owned_here, working_seconds
from nameserver.routing.ownership import OwnerKind, Routing
from nameserver.wire.conversion import KnownIds
from shadowtree.v1 import delivery_pb2 as wire

REQUEST_MESSAGES_LIMIT: Final = 1_000
UNANSWERED_MESSAGES_LIMIT: Final = 1_000
UNANSWERED_BYTES_LIMIT: Final = 4 * 1024 * 1024
"""Limits of one stream."""

STEP_MESSAGES_LIMIT: Final = 200
"""Most messages that one step takes. Other calls are answered between two steps."""

LOOK_SECONDS: Final = 0.5
"""Interval at which a stream looks if all servers that a message waits for are unreachable."""


CROWDED_SECONDS: Final = 5.0
"""Longest wait of a message while too many target sets have messages that are not settled."""

CROWDED_LOOK_SECONDS: Final = 0.02

_Result = TypeVar("_Result")


class SendCalls:
    """Servicer of Send."""

    def __init__(
        self,
        *,
        machine: DeliveryMachine,
        known: KnownIds,
        routing: Routing,
        forwarder: Forwarder,
        who_may_send: WhoMaySend,
        rights: DeliveryRights,
        now_ms: Callable[[], int],
        is_crowded: Callable[[TargetSet], bool] = lambda _targets: False,
    ) -> None:
        """Create the servicer.

        `now_ms`: returns the time of day, in milliseconds since 1970. `is_crowded`: returns True if a new target set is
        to wait.
        """
        self.is_crowded = is_crowded
        self.machine = machine
        self.known = known
        self.routing = routing
        self.forwarder = forwarder
        self.who_may_send = who_may_send
        self.rights = rights
        self.now_ms = now_ms

    async def send(self, requests: AsyncIterator[wire.SendRequest], context: Context, place: StreamPlace) -> None:
        """Take messages until the caller has no more, and answer each."""
        stream = _SendStream(self, context)
        try:
            await stream.run(requests, place)
        finally:
            await stream.cancel()

    async def send_one(self, request: wire.SendRequest, context: Context) -> wire.SendResponse:
        """Take one message, and answer it. Raises `RefusedError` for an invalid request."""
        if len(request.messages) != 1:
            raise refuse(Reason.INVALID_REQUEST, f"one message is sent, not {len(request.messages)}", field="messages")
        if request.messages[0].wait == wire.SendRequest.WAIT_SETTLED:
            raise refuse(Reason.INVALID_REQUEST, "what is settled a stream tells", field="wait")
        stream = _SendStream(self, context)
        try:
            return await stream.answer_one(request)
        finally:
            await stream.cancel()


class _Unanswered(NamedTuple):
    """Messages, or a question, without an answer."""

    number: int
    """Number of the first of them in the stream."""
    messages: int
    size: int
    answers: asyncio.Future[Sequence[wire.SendResponse.Answer]]


class _Alike(NamedTuple):
    """Common part of messages that differ only in their payloads and numbers."""

    send: Send
    """First of these messages."""
    rated_as: str
    """Name whose rate these messages count for."""


def _common(message: wire.SendRequest.Message) -> tuple[bytes, int, bytes]:
    """Take the payload and the number out of a message. Return both, and the encoded rest."""
    payload, number = message.payload, message.number
    message.ClearField("payload")
    message.ClearField("number")
    return payload, number, message.SerializeToString()


def _is_as(answer: Answer, before: Answer) -> bool:
    """Return True if two consecutive messages are accepted alike, both for the first time."""
    if not (isinstance(answer, Accepted) and isinstance(before, Accepted)):
        return False
    return answer.kept is before.kept and not (answer.is_repeated or before.is_repeated)


class _SendStream:
    """One stream of a sender."""

    def __init__(self, calls: SendCalls, context: Context) -> None:
        self._calls = calls
        self._machine = calls.machine
        self._context = context
        self._is_forwarded = current_caller().is_forwarded
        self._source = network_of_caller(context)
        self._unanswered: deque[_Unanswered] = deque()
        self._messages_unanswered = 0
        """Messages without an answer, gathered ones included. `_bytes` are their bytes."""
        self._bytes = 0
        self._gathered: list[Send] = []
        """Messages for the next step: the last messages that were read."""
        self._gathered_bytes = 0
        self._takes_runs = False
        """True if the caller understands one answer to several messages."""
        self._sent_through = 0
        """Number of the last message that was read and is not gathered."""
        self._alike: dict[bytes, _Alike] = {}
        """Messages of the present request that later ones may be like, by their common part."""
        self._now_ms = 0
        """Time at which the present request was read."""
        self._judged: dict[tuple[TargetSet, NodeId | None], Refusal | None] = {}
        """Refusals of messages of the present request, by targets and sending process. None if they may be sent."""
        self._later: deque[wire.SendResponse.Answer] = deque()
        """Answers about settled messages that are still to be told."""
        self._waiting = 0
        """Number of messages that are not settled and whose caller waits for it."""
        self._tasks: set[asyncio.Task[Any]] = set()
        self._queueing: asyncio.Task[wire.SendResponse.Answer] | None = None
        """Last message of this stream that may be queued."""
        self._lanes: dict[ServerId, HomeLane] = {}
        self._count = 0
        self._ending: RefusedError | None = None
        """Reason why no more is read. None while the stream is read."""
        self._is_over = False
        self._changed = asyncio.Event()
        self._room = asyncio.Event()

    async def run(self, requests: AsyncIterator[wire.SendRequest], place: StreamPlace) -> None:
        """Run until all messages are answered.

        If the server is about to end, run until all messages that were read are accepted or refused.
        """
        reader = self._begin(self._read(requests, place))
        place.end = partial(self._end, reader)
        with self._machine.told_of_end(partial(self._end, reader)):
            while True:
                self._changed.clear()
                response = self._collect()
                if response.answers:
                    await self._context.write(response.SerializeToString())
                elif self._unanswered or self._later or not reader.done():
                    await self._changed.wait()
                elif self._ending is not None and (self._waiting or reader.cancelled()):
                    raise self._ending
                elif self._waiting:
                    await self._changed.wait()
                else:
                    # Raise the error of the requests after all answers before it.
                    await reader
                    return

    async def answer_one(self, request: wire.SendRequest) -> wire.SendResponse:
        """Answer the one message of a request, once it is accepted or refused."""
        await self._take_request(request)
        self._end_lanes()
        (unanswered,) = self._unanswered
        return wire.SendResponse(answers=await unanswered.answers)

    def _end_lanes(self) -> None:
        for lane in self._lanes.values():
            lane.end()

    def _end(self, reader: asyncio.Task[None], error: RefusedError) -> None:
        self._ending = error
        reader.cancel()
        self._end_lanes()
        self._changed.set()

    async def cancel(self) -> None:
        """Give up all work under way."""
        self._is_over = True
        for lane in self._lanes.values():
            lane.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _collect(self) -> wire.SendResponse:
        """Return the response with the answers that can be told now."""
        response = wire.SendResponse()
        while self._unanswered and self._unanswered[0].answers.done():
            _, messages, size, answers = self._unanswered.popleft()
            self._messages_unanswered -= messages
            self._bytes -= size
            response.answers.extend(answers.result())
        # A message is told to be accepted before it is told to be settled.
        told_through = self._unanswered[0].number - 1 if self._unanswered else self._sent_through
        held = deque[wire.SendResponse.Answer]()
        for later in self._later:
            if later.message <= told_through:
                response.answers.append(later)
            else:
                held.append(later)
        self._later = held
        self._room.set()
        return response

    async def _read(self, requests: AsyncIterator[wire.SendRequest], place: StreamPlace) -> None:
        async for request in requests:
            await self._take_request(request)
            if request.messages:
                place.used()
        self._end_lanes()

    async def _take_request(self, request: wire.SendRequest) -> None:
        """Take the messages of a request. Raises `RefusedError` if it has too many."""
        if len(request.messages) > REQUEST_MESSAGES_LIMIT:
            raise refuse(
                Reason.LIMIT_EXCEEDED,
                f"a request has at most {REQUEST_MESSAGES_LIMIT} messages, not {len(request.messages)}",
                limit=str(REQUEST_MESSAGES_LIMIT),
                field="messages",
            )
        self._takes_runs |= request.takes_runs
        self._judged.clear()
        self._alike.clear()
        self._now_ms = self._calls.now_ms()
        for message in request.messages:
            while self._messages_unanswered and (
                self._messages_unanswered >= UNANSWERED_MESSAGES_LIMIT or self._bytes >= UNANSWERED_BYTES_LIMIT
            ):
                self._send_gathered()
                self._room.clear()
                await self._room.wait()
            self._count += 1
            self._messages_unanswered += 1
            payload, number, common = _common(message)
            alike = self._alike.get(common)
            if alike is None or (number and not alike.send.message.sender):
                message.payload, message.number = payload, number
                await self._take(message, common)
            else:
                self._gather_like(alike, payload, number)
            if len(self._gathered) >= STEP_MESSAGES_LIMIT:
                self._send_gathered()
                await asyncio.sleep(0)
        self._send_gathered()

    async def _take(self, message: wire.SendRequest.Message, common: bytes) -> None:
        """Take a message that is unlike all before it. `common`: its encoded form without payload and number."""
        try:
            if not message.asks_number and self._is_own(message):
                await self._take_own(message, common)
                return
            answer = await self._answer_to(message, self._count)
        except RefusedError as error:
            self._send_gathered()
            answer = asyncio.get_running_loop().create_future()
            answer.set_result(message_wire.refused_by(self._count, error))
        size = len(message.payload) + len(common)
        self._bytes += size
        answers: asyncio.Future[Sequence[wire.SendResponse.Answer]] = asyncio.get_running_loop().create_future()

        number = self._sent_through = self._count

        def told(answer: asyncio.Future[wire.SendResponse.Answer]) -> None:
            if not answer.cancelled() and not answers.cancelled():
                # The answer of another server has the number that the message had there.
                answer.result().message = number
                answers.set_result([answer.result()])

        answer.add_done_callback(told)
        self._expect(_Unanswered(number, 1, size, answers))

    def _expect(self, unanswered: _Unanswered) -> None:
        self._unanswered.append(unanswered)
        unanswered.answers.add_done_callback(lambda _: self._changed.set())

    def _is_own(self, message: wire.SendRequest.Message) -> bool:
        """Return True if this server is the origin of a message.

        Raises `RefusedError` if only other servers know the owner of the first target.
        """
        routing = self._calls.routing
        first = message_wire.read_first_target(message, self._calls.known)
        owner_kind = routing.owner_kind(first)
        if owner_kind is OwnerKind.UNOWNED:
            routing.require_listed(first)
        return owner_kind is not OwnerKind.ANOTHERS

    async def _answer_to(
        self, message: wire.SendRequest.Message, number: int
    ) -> asyncio.Future[wire.SendResponse.Answer]:
        """Take a question, or a message to another server. Raises `RefusedError`."""
        routing = self._calls.routing
        first = message_wire.read_first_target(message, self._calls.known)
        # Gathered messages do not wait for a connection to another server.
        self._send_gathered()
        if self._is_own(message):
            return self._next_number(message, first, number)
        if self._is_forwarded:
            raise not_owned_here(first, routing.server)
        home = await routing.home_of(first)
        if message.queue and not message.asks_number:
            queue_sending.prepare(message, self._calls.known)
            self._queueing = self._begin(self._pass_on_or_queue(message, first, home, number, self._queueing))
            return self._queueing
        return await self._pass_on(message, home, number)

    async def _pass_on(
        self, message: wire.SendRequest.Message, home: ServerId, number: int
    ) -> asyncio.Future[wire.SendResponse.Answer]:
        """Pass a message on to its home. Raises `RefusedError`."""
        lane = self._lanes.get(home)
        if lane is None or lane.is_over:
            await self._calls.forwarder.require_reachable(home)
            lane = HomeLane(self._calls.forwarder, home, seconds=working_seconds(self._context))
            self._lanes[home] = lane
        if message.wait == wire.SendRequest.WAIT_SETTLED:
            self._waiting += 1
        return lane.say(message, on_settled=partial(self._settled, number), on_unsettled=self._not_settled)

    async def _pass_on_or_queue(
        self,
        message: wire.SendRequest.Message,
        first: NodeId,
        home: ServerId,
        number: int,
        before: asyncio.Task[wire.SendResponse.Answer] | None,
    ) -> wire.SendResponse.Answer:
        """Pass a message on to its home, or queue it if the home is away.

        The message waits for the previous queueable one, which keeps their order.
        """
        machine = self._machine
        if before is not None:
            await asyncio.wait((before,))
        try:
            if not machine.queue_waits_for(first):
                try:
                    answer = await (await self._pass_on(message, home, number))
                except RefusedError as error:
                    answer = message_wire.refused_by(number, error)
                if not answer.HasField("refused"):
                    return answer
                if not queue_sending.is_not_heard(message_wire.read_refused(answer.refused)):
                    return answer
            return await queue_sending.queue(
                message, number, home=home, machine=machine, known=self._calls.known, at_ms=self._calls.now_ms()
            )
        except RefusedError as error:
            return message_wire.refused_by(number, error)

    def _next_number(
        self, message: wire.SendRequest.Message, first: NodeId, number: int
    ) -> asyncio.Future[wire.SendResponse.Answer]:
        async def ask() -> wire.SendResponse.Answer:
            try:
                found = await self._machine.next_number(message.sender, first)
            except RefusedError as error:
                return message_wire.refused_by(number, error)
            kept = message_wire.WIRE_OF_KEPT[self._machine.policy_of(first).kept]
            return wire.SendResponse.Answer(message=number, next_number=found, kept=kept)

        return asyncio.ensure_future(ask())

    async def _take_own(self, message: wire.SendRequest.Message, common: bytes) -> None:
        """Take a message of which this server is the origin. Raises `RefusedError`."""
        calls, objection = self._calls, None
        targets = message_wire.read_targets(message, calls.known)
        process = message_wire.read_sending_process(message, calls.known)
        if calls.is_crowded(targets):
            await self._wait_for_room(targets)
        if calls.who_may_send.asks(targets):
            if (targets, process) not in self._judged:
                # Gathered messages do not wait for other servers.
                self._send_gathered()
                judged = await calls.who_may_send.objection(targets, process, self._context)
                self._judged[targets, process] = judged
            objection = self._judged[targets, process]
        content = message_wire.read_message(message, sent_at_ms=self._now_ms)
        if content.headers and (subnets := stamped_subnets(content)):
            await calls.rights.require_mail(subnets)
        rated_as = current_caller().principal if calls.rights.are_judged else process or message.sender
        send = Send(
            self._machine.new_ticket(),
            targets,
            content,
            message_wire.read_quality(message.quality),
            message.number,
            message.request_id,
            message.wait == wire.SendRequest.WAIT_SETTLED,
            self._machine.rate_objection(rated_as) if objection is None else objection,
            self._source,
        )
        if objection is None and not send.request_id:
            self._alike[common] = _Alike(send, rated_as)
        self._gather(send)

    async def _wait_for_room(self, targets: TargetSet) -> None:
        """Wait until fewer target sets have messages that are not settled, at most `CROWDED_SECONDS`."""
        self._send_gathered()
        waited = 0.0
        while waited < CROWDED_SECONDS and self._calls.is_crowded(targets):
            await asyncio.sleep(CROWDED_LOOK_SECONDS)
            waited += CROWDED_LOOK_SECONDS

    def _gather_like(self, alike: _Alike, payload: bytes, number: int) -> None:
        """Take a message that differs from an earlier one only in its payload and its number."""
        first, of_first = alike.send, alike.send.message
        message = MessageContent(payload, of_first.headers, of_first.sender, self._now_ms, of_first.deadline_ms)
        objection = self._machine.rate_objection(alike.rated_as)
        ticket, targets, quality = self._machine.new_ticket(), first.targets, first.quality
        self._gather(Send(ticket, targets, message, quality, number, "", first.wants_settled, objection, self._source))

    def _gather(self, send: Send) -> None:
        self._gathered.append(send)
        size = send.message.size
        self._gathered_bytes += size
        self._bytes += size

    def _send_gathered(self) -> None:
        """Let one step take the gathered messages."""
        sends, self._gathered = self._gathered, []
        size, self._gathered_bytes = self._gathered_bytes, 0
        if not sends:
            return
        first = self._sent_through + 1
        self._sent_through += len(sends)
        answers: asyncio.Future[Sequence[wire.SendResponse.Answer]] = asyncio.get_running_loop().create_future()
        self._expect(_Unanswered(first, len(sends), size, answers))
        try:
            taken = self._machine.send_all(sends)
        except RefusedError as error:
            answers.set_result([message_wire.refused_by(number, error) for number in range(first, first + len(sends))])
            return
        settling = {send.ticket: self._machine.settled(send.ticket) for send in sends if send.wants_settled}

        def told(done: asyncio.Future[Sequence[Answer]]) -> None:
            if done.cancelled() or answers.cancelled():
                return
            found = done.result()
            if settling:
                self._wait_for(settling, found, first)
            answers.set_result(self._answers_of(found, first))

        taken.add_done_callback(told)

    def _wait_for(self, settling: dict[int, asyncio.Future[Settled]], answers: Sequence[Answer], first: int) -> None:
        """Wait until messages are settled, if they are accepted."""
        for number, answer in enumerate(answers, start=first):
            settled = settling.get(answer.ticket)
            if settled is None:
                continue
            if self._is_over or not isinstance(answer, Accepted):
                settled.cancel()
            else:
                self._waiting += 1
                self._begin(self._wait_until_settled(number, answer.message_id, settled))

    def _answers_of(self, answers: Sequence[Answer], first: int) -> Sequence[wire.SendResponse.Answer]:
        """Return the answers as callers are told them: one for several messages if the caller understands that."""
        told: list[wire.SendResponse.Answer] = []
        run: Answer | None = None
        for number, answer in enumerate(answers, start=first):
            if run is not None and _is_as(answer, run):
                told[-1].through = number
            else:
                told.append(self._answer_of(answer, number))
                run = answer if self._takes_runs else None
        return told

    def _answer_of(self, answer: Answer, number: int) -> wire.SendResponse.Answer:
        if isinstance(answer, DeliveryRefused):
            return message_wire.refused(number, answer.refusal)
        if isinstance(answer, DatagramSent):
            return message_wire.datagram_sent(number, answer, self._machine.is_in_reach)
        assert isinstance(answer, Accepted)
        return message_wire.accepted(number, answer)

    async def _wait_until_settled(self, number: int, message_id: str, settled: asyncio.Future[Settled]) -> None:
        """Tell that a message is settled, or how far it came by the deadline.

        A message for which only unreachable servers are pending is told to be settled at once.
        """
        machine, state = self._machine, wire.SendResponse
        seconds = working_seconds(self._context)
        loop = asyncio.get_running_loop()
        deadline = None if seconds is None else loop.time() + seconds
        try:
            while True:
                left = LOOK_SECONDS if deadline is None else min(LOOK_SECONDS, deadline - loop.time())
                await asyncio.wait((settled,), timeout=max(0.0, left))
                if settled.done():
                    self._settled(number, message_wire.settled(number, settled.result()))
                    return
                # None if the settled state is only not durable yet.
                progress = machine.progress(message_id)
                pending = () if progress is None else progress.pending
                is_late = deadline is not None and loop.time() >= deadline
                if is_late or (pending and not any(map(machine.is_in_reach, pending))):
                    answer = state.Answer(
                        state=state.STATE_ACCEPTED if is_late else state.STATE_SETTLED,
                        id=message_id,
                        pending=pending,
                        quality=wire.QUALITY_FIFO,
                    )
                    if progress is not None:
                        answer.mailboxes, answer.servers = progress.mailboxes, progress.servers
                    self._settled(number, answer)
                    return
        finally:
            settled.cancel()

    def _settled(self, number: int, answer: wire.SendResponse.Answer) -> None:
        answer.message = number
        self._later.append(answer)
        self._not_settled()

    def _not_settled(self) -> None:
        """Note that no more will be told of a message."""
        self._waiting -= 1
        self._changed.set()

    def _begin(self, coroutine: Coroutine[Any, Any, _Result]) -> asyncio.Task[_Result]:
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(lambda _: self._changed.set())
        return task
