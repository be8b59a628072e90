"""Requests on a `Send` stream: one message alone, or the numbered messages of a sender. Does no I/O.

                        add            due                    answered in order
    user --message--> [ held ] -> [ sent on this stream ] -> accepted: forgotten
                        ^ |                |
                        | '- next number? -'  asked once a stream for each first target
                        '---- the stream broke: all that is not accepted, in order, on the next one

Messages to one first target are numbered 1, 2, 3, ... Therefore the number that its home expects next tells which
messages the home has, whatever connection breaks.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, NamedTuple

from shadowtree.client.calls import as_kept, choice, given, message_of, new_request_id
from shadowtree.client.failures import Failure, read_refusal
from shadowtree.client.foreign_text import cleaned
from shadowtree.client.messages.delivery_calls import KEPT_NAMES, QUALITIES
from shadowtree.errors import InvalidRequest, LimitExceeded, OutcomeUnknown, OutOfSequence, ServerFault, ShadowtreeError
from shadowtree.messages import Sent
from shadowtree.updates import Target
from shadowtree.v1 import delivery_pb2 as wire
from shadowtree.vocabulary import GroupId, MemberId, Quality, RequestId, Seconds, SenderId, SendState, Wait

WINDOW_MESSAGES: Final = 1_000
WINDOW_BYTES: Final = 4 * 1024 * 1024
"""Limits of messages that a server has not answered: beyond them the server stops reading."""

PAYLOAD_BYTES: Final = 1024 * 1024
"""Maximum size of a payload that any server takes."""

REQUEST_MESSAGES: Final = 200
REQUEST_BYTES: Final = 256 * 1024
"""Limits of one request. A larger request would only delay its messages."""

GATHER_S: Final = 0.002
"""Time in seconds that a request waits for more messages while an earlier one is unanswered.

A request of its own costs as much as many messages.
"""

_PAYLOADS: Final = (bytes, bytearray, memoryview)
_LONGEST_DEADLINE_S: Final = 10 * 365 * 86_400.0
QUALITY_NAMES: Final[dict[int, Quality]] = {
    wire.QUALITY_UNSPECIFIED: "fifo",
    wire.QUALITY_FIFO: "fifo",
    wire.QUALITY_DATAGRAM: "datagram",
}
_WAITS: Final = {"accepted": wire.SendRequest.WAIT_ACCEPTED, "settled": wire.SendRequest.WAIT_SETTLED}
_STATES: Final[dict[int, SendState]] = {
    wire.SendResponse.STATE_ACCEPTED: "accepted",
    wire.SendResponse.STATE_SETTLED: "settled",
    wire.SendResponse.STATE_QUEUED: "queued",
}


def message_request(
    targets: MemberId | Target | Iterable[MemberId | Target],
    payload: bytes,
    *,
    excluding: Iterable[GroupId] = (),
    quality: Quality | None = None,
    deadline: Seconds | None = None,
    headers: Mapping[str, str] | None = None,
    as_: MemberId | None = None,
) -> wire.SendRequest.Message:
    """Return one message, without a number or a request id; raise `InvalidRequest` if it cannot be sent."""
    if not isinstance(payload, _PAYLOADS):
        raise InvalidRequest(f"a payload is bytes, not {payload!r:.80}", {"field": "payload"})
    if len(payload) > PAYLOAD_BYTES:
        raise LimitExceeded(
            f"a payload has at most {PAYLOAD_BYTES} bytes, not {len(payload)}",
            {"limit": str(PAYLOAD_BYTES), "field": "payload"},
        )
    has_more = headers is not None or quality is not None or deadline is not None or as_ is not None or excluding != ()
    if isinstance(targets, str) and targets.isascii() and not has_more:
        # Fast path with the same result as below, in a fifth of the time.
        plain = wire.SendRequest.Message()
        plain.CopyFrom(_addressed_to(targets))
        plain.payload = bytes(payload)
        return plain
    if not isinstance(headers, Mapping | None):
        raise InvalidRequest(f"headers are names with values, not {headers!r:.80}", {"field": "headers"})
    every = [targets] if isinstance(targets, str | Target) else targets
    listed = [each if isinstance(each, Target) else Target(each) for each in _names(every, "target")]
    if not listed:
        raise InvalidRequest("a message needs a target", {"field": "targets"})
    request: wire.SendRequest.Message = message_of(
        wire.SendRequest.Message,
        targets=[
            message_of(wire.SendRequest.Target, name=each.name, excluding=_names(each.excluding, "exception"))
            for each in listed
        ],
        payload=bytes(payload),
        excluding=_names(excluding, "exception"),
        headers=[message_of(wire.Header, name=name, value=value) for name, value in (headers or {}).items()],
        quality=wire.QUALITY_UNSPECIFIED if quality is None else choice(QUALITIES, quality, "quality"),
        deadline_ms=0 if deadline is None else _milliseconds(deadline),
        as_process=given(as_, "as"),
    )
    return request


@lru_cache(maxsize=64)
def _addressed_to(target: MemberId) -> wire.SendRequest.Message:
    """Return the common part of messages to one target, which must not be changed."""
    return wire.SendRequest.Message(targets=[wire.SendRequest.Target(name=target)])


class SingleMessage(NamedTuple):
    """A message that is sent alone. Its request id ensures that it is accepted once.

    A datagram has no request id, and is not sent again if it may have been sent.
    """

    message: wire.SendRequest.Message
    request_id: RequestId | None
    is_plain: bool
    """True if the group decides the quality, and the sender asks for nothing that a datagram lacks."""

    @classmethod
    def of(
        cls, message: wire.SendRequest.Message, *, wait: Wait, request_id: RequestId | None, queue: bool
    ) -> SingleMessage:
        """Build a single message; raise `InvalidRequest` if it cannot be sent."""
        is_datagram = message.quality == wire.QUALITY_DATAGRAM
        if queue and is_datagram:
            raise InvalidRequest("a datagram is not queued: it is for who listens now", {"field": "queue"})
        is_plain = message.quality == wire.QUALITY_UNSPECIFIED and request_id is None and not queue
        if not is_datagram:
            request_id = request_id or new_request_id()
        own = message_of(
            wire.SendRequest.Message, wait=choice(_WAITS, wait, "wait"), request_id=request_id or "", queue=queue
        )
        message.MergeFrom(own)
        return cls(message, request_id, is_plain and wait == "accepted")

    @property
    def is_datagram(self) -> bool:
        """True if the message is a datagram, which no server keeps."""
        return bool(self.message.quality == wire.QUALITY_DATAGRAM)

    @property
    def is_answered_once(self) -> bool:
        """True if one answer is final, so that no stream is needed."""
        return bool(self.message.wait == wire.SendRequest.WAIT_ACCEPTED)

    @property
    def request(self) -> wire.SendRequest:
        """Request with the message alone."""
        return wire.SendRequest(messages=[self.message])

    def as_datagram(self) -> SingleMessage:
        """Return the message as a datagram, for a group that takes only datagrams."""
        message = wire.SendRequest.Message()
        message.CopyFrom(self.message)
        message.quality = wire.QUALITY_DATAGRAM
        message.ClearField("request_id")
        return SingleMessage(message, None, is_plain=False)


def require_unsent(failure: Failure) -> None:
    """Raise `OutcomeUnknown` if a datagram may have left: it is not sent again."""
    if failure.was_sent and not failure.is_answer:
        why = f"it is unknown whether the datagram was sent: {failure.error.message}"
        raise OutcomeUnknown(why, failure.error.facts)


class SingleAnswer:
    """Answer to one message, over all attempts to send it."""

    def __init__(self, single: SingleMessage) -> None:
        self._is_datagram = single.is_datagram
        self.sent: Sent | None = None
        """The best answer so far. Once a message is accepted it will be delivered, whatever breaks."""

    def add(self, response: wire.SendResponse) -> None:
        """Take the next response; raise the error of a refusal."""
        for answer in response.answers:
            raise_refusal(answer)
            is_known = answer.quality in QUALITY_NAMES and answer.kept in KEPT_NAMES
            if answer.state not in _STATES or not is_known:
                raise ServerFault("the server sent a value that this client does not know; it may be newer")
            found = Sent(
                id=answer.id,
                state=_STATES[answer.state],
                mailboxes=answer.mailboxes,
                servers=answer.servers,
                pending=tuple(sorted(answer.pending)),
                unreachable=tuple(sorted(answer.unreachable)),
                # Older servers do not say.
                quality="datagram" if self._is_datagram else QUALITY_NAMES[answer.quality],
                kept=KEPT_NAMES[answer.kept] if self.sent is None else self.sent.kept,
            )
            self.sent = cleaned(found)

    def finish(self) -> Sent:
        """Return the answer, at the end of a stream."""
        if self.sent is None:
            raise ServerFault("the server ended the stream before it had answered")
        return self.sent


class _Held(NamedTuple):
    """A message that is not accepted yet."""

    message: wire.SendRequest.Message
    size: int


@dataclass(slots=True)
class _Target:
    """The messages to one first target that are not accepted yet, in order."""

    name: MemberId
    next_number: int | None = None
    """Number of the first of them; None if it was never learned."""
    waiting: deque[_Held] = field(default_factory=deque)
    sent_ever: int = 0
    """Number of these messages that were sent on any stream."""
    sent: int = 0
    """Number of these messages that were sent on this stream."""
    is_asked: bool = False
    """True if the number was asked on this stream."""
    is_known: bool = False
    """True if the number was told on this stream."""

    @property
    def numbered_next(self) -> int | None:
        """Number of the next message. None while it is not known."""
        return None if self.next_number is None else self.next_number + len(self.waiting)


class NumberedMessages:
    """The messages of one sender that are not accepted yet, and the requests on the present stream."""

    def __init__(self, sender: SenderId) -> None:
        if not isinstance(sender, str) or not sender:
            raise InvalidRequest(f"the id of a sender is a text, not {sender!r:.80}", {"field": "sender"})
        self._sender = message_of(wire.SendRequest.Message, sender=sender).sender
        self._targets: dict[MemberId, _Target] = {}
        self._ready: dict[MemberId, _Target] = {}
        """Targets that may have something to send."""
        self._under_way: deque[_Target | tuple[_Target, wire.SendRequest.Message]] = deque()
        """Requests on this stream without an answer, in order: questions for a number, and messages."""
        self._answered = 0
        self._bytes = 0
        self._bytes_said = 0
        """Part of `_bytes` that was sent on this stream."""
        self.unanswered = 0
        """Number of messages that are not accepted yet."""

    @property
    def has_room(self) -> bool:
        """True if one more message may be taken."""
        return self.unanswered == 0 or (self.unanswered < WINDOW_MESSAGES and self._bytes < WINDOW_BYTES)

    @property
    def is_silent(self) -> bool:
        """True if nothing is left to send, or to be answered."""
        return not (self.unanswered or self._ready or self._under_way)

    def add(self, request: wire.SendRequest.Message) -> None:
        """Take one more message; raise `InvalidRequest` if it cannot be numbered."""
        if request.quality == wire.QUALITY_DATAGRAM:
            raise InvalidRequest(
                "a sender numbers its messages, and a datagram has no number: send it alone", {"field": "quality"}
            )
        target = self._target(request.targets[0].name)
        request.sender = self._sender
        size = request.ByteSize()
        target.waiting.append(_Held(request, size))
        self._ready[target.name] = target
        self.unanswered += 1
        self._bytes += size

    def ask(self, name: MemberId) -> None:
        """Ask for the next number to a first target, unless it is known."""
        target = self._target(name)
        if not target.is_known:
            self._ready[target.name] = target

    def next_number(self, name: MemberId) -> int | None:
        """Return the number of the next message to a first target; None while it is not known."""
        return self._target(name).numbered_next

    def begin_stream(self) -> None:
        """Prepare a new stream, on which all messages that are not accepted are sent again."""
        self._under_way.clear()
        self._answered = self._bytes_said = 0
        for target in self._targets.values():
            wanted = target.waiting or (target.is_asked and not target.is_known)
            target.sent, target.is_asked, target.is_known = 0, False, False
            if wanted:
                self._ready[target.name] = target

    @property
    def is_due(self) -> bool:
        """True if a request is due now."""
        return bool(self._ready)

    @property
    def is_enough(self) -> bool:
        """True if a request should not wait for more messages: it is full, or no other message is under way."""
        unsaid = self.unanswered - len(self._under_way)
        return not self._under_way or unsaid >= REQUEST_MESSAGES or self._bytes - self._bytes_said > REQUEST_BYTES

    def due(self) -> wire.SendRequest:
        """Return the request that is due, up to the limits of one request."""
        request, size = wire.SendRequest(takes_runs=True), 0
        for name in list(self._ready):
            target = self._ready[name]
            if not target.is_known:
                if not target.is_asked:
                    target.is_asked = True
                    self._under_way.append(target)
                    asked = [wire.SendRequest.Target(name=name)]
                    request.messages.add(sender=self._sender, targets=asked, asks_number=True)
            else:
                for said in self._say(target):
                    request.messages.append(said.message)
                    size += said.size
                    if len(request.messages) == REQUEST_MESSAGES or size > REQUEST_BYTES:
                        return request
            del self._ready[name]
        return request

    def read(self, response: wire.SendResponse) -> None:
        """Take the next answers; raise the error that ends the stream: a refusal, or a fault of the server."""
        for answer in response.answers:
            self._read(answer)
            for _ in range(answer.message, answer.through):
                self._read_like()

    def _read_like(self) -> None:
        """Accept one more message by the answer to the message before it."""
        self._answered += 1
        said = self._under_way.popleft() if self._under_way else None
        if said is None or isinstance(said, _Target):
            raise ServerFault("the server answered what was not sent")
        self._accept(said[0])

    def _read(self, answer: wire.SendResponse.Answer) -> None:
        self._answered += 1
        if answer.message != self._answered or not self._under_way:
            raise ServerFault("the server answered what was not sent")
        said = self._under_way[0]
        target = said if isinstance(said, _Target) else said[0]
        try:
            raise_refusal(answer)
        except ShadowtreeError as error:
            error.facts.setdefault("target", target.name)
            if not isinstance(said, _Target):
                error.facts.setdefault("number", str(said[1].number))
            raise
        # A refused message stays under way: it is sent again, or its error is raised to the caller.
        self._under_way.popleft()
        if isinstance(said, _Target):
            # A target kept in memory forgets its senders when its home restarts, and then takes any number.
            is_forgotten = (
                answer.kept == wire.KEPT_MEMORY and answer.next_number == 1 and target.next_number is not None
            )
            self._learn(target, (is_forgotten and target.next_number) or answer.next_number)
            self._ready[target.name] = target
        else:
            self._accept(target)

    def _target(self, name: MemberId) -> _Target:
        found = self._targets.get(name) if isinstance(name, str) else None
        if found is None:
            name = as_kept(name)
            found = self._targets.setdefault(name, _Target(name))
        return found

    def _say(self, target: _Target) -> Iterator[_Held]:
        assert target.next_number is not None
        while target.sent < len(target.waiting):
            held = target.waiting[target.sent]
            held.message.number = target.next_number + target.sent
            target.sent += 1
            target.sent_ever = max(target.sent, target.sent_ever)
            self._under_way.append((target, held.message))
            self._bytes_said += held.size
            yield held

    def _learn(self, target: _Target, expected: int) -> None:
        """Accept messages that were sent on earlier streams, by the number that the home expects next."""
        if expected < 1:
            raise ServerFault("the server told no number")
        accepted = 0 if target.next_number is None else expected - target.next_number
        if not 0 <= accepted <= target.sent_ever:
            raise OutOfSequence(
                f"the next message of {self._sender} to {target.name} is number {expected}, not {target.next_number}: "
                "somebody else sends under this id, or the server lost what it had accepted",
                {"expected": str(expected), "sender": self._sender, "target": target.name},
            )
        for _ in range(accepted):
            self._accept(target)
        target.next_number, target.is_known = expected, True

    def _accept(self, target: _Target) -> None:
        assert target.next_number is not None
        size = target.waiting.popleft().size
        self._bytes -= size
        self.unanswered -= 1
        target.next_number += 1
        if target.sent:
            target.sent -= 1
            self._bytes_said -= size
        target.sent_ever -= 1


def raise_refusal(answer: wire.SendResponse.Answer) -> None:
    """Raise the error of a refused message."""
    if answer.HasField("refused"):
        refused = answer.refused
        raise read_refusal(refused.reason, refused.message, {fact.name: fact.value for fact in refused.facts})


def _names(given: Any, what: str) -> list[Any]:
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise InvalidRequest(f"{what}s are a list of names, not {given!r:.80}")
    return list(given)


def _milliseconds(deadline: Seconds) -> int:
    if isinstance(deadline, bool) or not isinstance(deadline, int | float) or not 0 < deadline <= _LONGEST_DEADLINE_S:
        raise InvalidRequest(f"a deadline is a number of seconds from now, not {deadline!r}", {"field": "deadline"})
    return max(1, math.floor(deadline * 1000))
