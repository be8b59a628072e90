"""Conversion between the messages of `delivery.proto` and the values of the delivery half, with checks of all input."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final

from delivery.model.events import Accepted, Answer, DatagramSent, Queued, Settled
from delivery.model.words import EVERYBODY, Filter, Kept, MessageContent, Position, PositionToken, Quality
from delivery.wire.posts import SENDER_ID_LIMIT, Datagram
from namegraph import NodeId, Reason, Refusal, RefusedError, ServerId, Target, TargetSet, refuse
from nameserver.deliveries.endpoints import ShownDatagram
from nameserver.wire import conversion
from nameserver.wire.conversion import KnownIds
from nameserver.wire.status_mapping import STATUS_OF_REASON
from shadowtree.v1 import delivery_pb2 as wire

HEADER_NAME_LIMIT: Final = 200

RECIPIENTS_TOGETHER: Final = 1_000
"""Most names in one response: at most 1.3 MB, as a name takes up to 1,274 bytes."""

FILTER_LIMIT: Final = 64
"""Most groups, and most senders, that one endpoint may name."""

POSITIONS_REMEMBERED: Final = 1_024
"""Parsed positions that are remembered, those acknowledged last."""

_QUALITIES: Final[dict[int, Quality]] = {
    wire.QUALITY_FIFO: Quality.FIFO,
    wire.QUALITY_DATAGRAM: Quality.DATAGRAM,
}
TOLD_QUALITIES: Final = {Quality.FIFO: wire.QUALITY_FIFO, Quality.DATAGRAM: wire.QUALITY_DATAGRAM}
"""Qualities, as callers are told them."""
KEPT_OF_WIRE: Final[dict[int, Kept | None]] = {
    wire.KEPT_UNSPECIFIED: None,
    wire.KEPT_DURABLE: Kept.DURABLE,
    wire.KEPT_MEMORY: Kept.MEMORY,
}
WIRE_OF_KEPT: Final = {Kept.DURABLE: wire.KEPT_DURABLE, Kept.MEMORY: wire.KEPT_MEMORY}
_POSITION: Final = re.compile(r"(\d{1,18}|m\d{1,30})\.(-1|\d{1,9})@([^#]{1,300})#(\d{1,18})", re.ASCII)


def read_first_target(told: wire.SendRequest.Message, known: KnownIds) -> NodeId:
    """Return the first target of a message. Raises `RefusedError`."""
    if not told.targets:
        raise refuse(Reason.INVALID_REQUEST, "a message needs a target", field="targets")
    return conversion.read_id(told.targets[0].name, "targets", known)


def read_targets(told: wire.SendRequest.Message, known: KnownIds) -> TargetSet:
    """Return the targets of a message, each with all its exceptions. Raises `RefusedError`."""
    from_all = [conversion.read_id(name, "excluding", known) for name in told.excluding]
    less: dict[NodeId, set[NodeId]] = {}
    for target in told.targets:
        own = [conversion.read_id(name, "targets", known) for name in target.excluding]
        name = conversion.read_id(target.name, "targets", known)
        # A target that is named twice reaches what either of the two reaches.
        less[name] = less[name] & {*own, *from_all} if name in less else {*own, *from_all}
    first, *others = (Target(name, tuple(sorted(excluding))) for name, excluding in less.items())
    return (first, *sorted(others))


def read_reader(text: str, field: str, known: KnownIds) -> NodeId:
    """Return the reader of a listener: a process, a group, or the pattern of a gateway. Raises `RefusedError`."""
    if text == EVERYBODY:
        return NodeId(text)
    if "*" in text.rpartition("@")[2]:
        why = "the pattern of a gateway is * for all, or *@SUBNET for those of one subnet"
        raise refuse(Reason.INVALID_NAME, f"invalid name {text[:80]!r}: {why}", name=text[:80], why=why, field=field)
    return conversion.read_id(text, field, known)


def tell_recipients(names: Sequence[NodeId]) -> Iterator[bytes]:
    """Yield encoded `SubscribeResponse`s that name the recipients of messages.

    The messages belong into the last one.
    """
    last = max(len(names) - 1, 0) // RECIPIENTS_TOGETHER
    for number in range(last):
        some = names[number * RECIPIENTS_TOGETHER : (number + 1) * RECIPIENTS_TOGETHER]
        yield wire.SubscribeResponse(recipients=some, more_recipients=True).SerializeToString()
    yield wire.SubscribeResponse(recipients=names[last * RECIPIENTS_TOGETHER :]).SerializeToString()


def in_one(responses: Sequence[bytes]) -> bytes:
    """Merge encoded `SubscribeResponse`s, at least one, into one for a caller that takes several in one."""
    if len(responses) == 1:
        return responses[0]
    found = wire.SubscribeResponse.FromString(responses[0])
    for response in responses[1:]:
        found.more.add().MergeFromString(response)
    return found.SerializeToString()


def read_filter(begin: wire.SubscribeRequest.Begin, known: KnownIds) -> Filter:
    """Return the filter of an endpoint. Raises `RefusedError`."""
    if max(len(begin.groups), len(begin.senders)) > FILTER_LIMIT:
        raise refuse(
            Reason.LIMIT_EXCEEDED,
            f"a listener names at most {FILTER_LIMIT} groups and {FILTER_LIMIT} senders",
            limit=str(FILTER_LIMIT),
        )
    for sender in begin.senders:
        if not 0 < len(sender) <= SENDER_ID_LIMIT or not sender.isprintable():
            raise refuse(
                Reason.INVALID_REQUEST,
                f"a sender has 1 to {SENDER_ID_LIMIT} printable characters, not {sender[:SENDER_ID_LIMIT]!r}",
                field="senders",
            )
    groups = frozenset(conversion.read_id(name, "groups", known) for name in begin.groups)
    return Filter(groups, frozenset(begin.senders))


def read_message(told: wire.SendRequest.Message, *, sent_at_ms: int) -> MessageContent:
    """Return the message that receivers get. Raises `RefusedError`."""
    if told.number and told.request_id:
        raise refuse(Reason.INVALID_REQUEST, "a message has a number or a request id, not both", field="request_id")
    if told.number and not told.sender:
        raise refuse(Reason.INVALID_REQUEST, "a number needs a sender", field="sender")
    if not (_is_printable(told.sender) and _is_printable(told.request_id)):
        raise refuse(Reason.INVALID_REQUEST, "an id has printable characters alone", field="sender")
    return MessageContent(told.payload, _read_headers(told.headers), told.sender, sent_at_ms, told.deadline_ms)


def _read_headers(headers: Iterable[wire.Header]) -> tuple[tuple[str, str], ...]:
    found: dict[str, str] = {}
    for header in headers:
        name, value = header.name, header.value
        if not (0 < len(name) <= HEADER_NAME_LIMIT and _is_printable(name) and _is_printable(value)):
            raise refuse(
                Reason.INVALID_REQUEST,
                f"headers are printable, and their names have 1 to {HEADER_NAME_LIMIT} characters",
                field="headers",
            )
        if name in found:
            raise refuse(Reason.INVALID_REQUEST, f"the header {name} comes twice", field="headers")
        found[name] = value
    return tuple(found.items())


def read_quality(quality: int) -> Quality | None:
    """Return the quality of a message. None if the caller gives none. Raises `RefusedError`."""
    if quality == wire.QUALITY_UNSPECIFIED:
        return None
    if quality not in _QUALITIES:
        raise refuse(
            Reason.INVALID_REQUEST, f"the quality {quality} is not known here; fifo and datagram are", field="quality"
        )
    return _QUALITIES[quality]


def read_sending_process(told: wire.SendRequest.Message, known: KnownIds) -> NodeId | None:
    """Return the process that sends a message, as its caller says.

    None if the caller gives none. Raises `RefusedError`.
    """
    return conversion.read_id(told.as_process, "as_process", known) if told.as_process else None


@lru_cache(maxsize=POSITIONS_REMEMBERED)
def read_position(text: str, field: str, *, server: ServerId) -> PositionToken:
    """Return a position of this server's log, of any incarnation.

    Raises `RefusedError`.

    A text is parsed once for all listeners that acknowledge the same message.
    """
    found = _POSITION.fullmatch(text)
    if found is None:
        raise refuse(Reason.INVALID_REQUEST, f"{text[:100]!r} is no position", field=field)
    entry, item, named, incarnation = found.groups()
    kept = Kept.MEMORY if entry.startswith("m") else Kept.DURABLE
    if named != server:
        raise refuse(
            Reason.INVALID_REQUEST,
            f"the position is of the server {named[:100]}, and means nothing at {server}",
            field=field,
            server=server,
        )
    return PositionToken(server, int(incarnation), Position(int(entry.removeprefix("m")), int(item)), kept)


def read_positions(text: str, field: str, *, server: ServerId) -> dict[Kept, PositionToken]:
    """Return one position, or two with a space between: of the log and of the ring in memory. Raises `RefusedError`."""
    tokens = [read_position(one, field, server=server) for one in text.split(" ")] if text else []
    found = {token.kept: token for token in tokens}
    if len(found) < len(tokens):
        raise refuse(Reason.INVALID_REQUEST, "two positions of one kind", field=field)
    return found


def read_kept(kept: int) -> Kept | None:
    """Return the place where messages are to be kept. None for no change. Raises `RefusedError`."""
    if kept not in KEPT_OF_WIRE:
        raise refuse(Reason.INVALID_REQUEST, f"where to keep messages is durable or memory, not {kept}", field="kept")
    return KEPT_OF_WIRE[kept]


def accepted(number: int, answer: Accepted) -> wire.SendResponse.Answer:
    """Return the answer for a message that is durable."""
    return wire.SendResponse.Answer(
        message=number,
        state=wire.SendResponse.STATE_ACCEPTED,
        id=answer.message_id,
        is_repeated=answer.is_repeated,
        quality=wire.QUALITY_FIFO,
        kept=WIRE_OF_KEPT[answer.kept],
    )


def queued(number: int, answer: Answer, home: ServerId) -> wire.SendResponse.Answer:
    """Return the answer for a message that waits here for its origin."""
    return wire.SendResponse.Answer(
        message=number,
        state=wire.SendResponse.STATE_QUEUED,
        is_repeated=isinstance(answer, Queued) and answer.is_repeated,
        pending=[home],
    )


def datagram_sent(
    number: int, answer: DatagramSent, is_in_reach: Callable[[ServerId], bool]
) -> wire.SendResponse.Answer:
    """Return the answer for a datagram that was sent. Unreachable servers are named."""
    in_reach = [server for server in answer.sent_to if is_in_reach(server)]
    return wire.SendResponse.Answer(
        message=number,
        state=wire.SendResponse.STATE_ACCEPTED,
        id=answer.message_id,
        servers=len(in_reach),
        quality=wire.QUALITY_DATAGRAM,
        unreachable=sorted({*answer.sent_to, *answer.unknown} - {*in_reach}),
    )


def shown_datagram(datagram: Datagram) -> ShownDatagram:
    """Return a datagram as listeners get it."""
    message = datagram.message
    told = wire.SubscribeResponse.Message(
        id=datagram.message_id,
        group=datagram.targets[0].name,
        sender=message.sender,
        headers=[wire.Header(name=name, value=value) for name, value in message.headers],
        payload=message.payload,
        sent_at_ms=message.sent_at_ms,
        quality=wire.QUALITY_DATAGRAM,
    )
    encoded = wire.SubscribeResponse(messages=[told]).SerializeToString()
    return ShownDatagram(encoded, size_told(message), message.expires_at_ms)


def size_told(message: MessageContent) -> int:
    """Return the bytes of payload and headers, which count against the credit of an endpoint."""
    of_headers = sum(len(name.encode()) + len(value.encode()) for name, value in message.headers)
    return len(message.payload) + of_headers


def settled(number: int, answer: Settled) -> wire.SendResponse.Answer:
    """Return the answer for a message that all servers below have."""
    return wire.SendResponse.Answer(
        message=number,
        state=wire.SendResponse.STATE_SETTLED,
        id=answer.message_id,
        mailboxes=answer.mailboxes or 0,
        servers=answer.servers or 0,
        unreachable=answer.unreachable,
        quality=wire.QUALITY_FIFO,
    )


def refused(number: int, refusal: Refusal) -> wire.SendResponse.Answer:
    """Return the answer for a refused message. The stream goes on."""
    return wire.SendResponse.Answer(
        message=number,
        refused=wire.Refused(
            code=STATUS_OF_REASON[refusal.reason].value[0],
            reason=refusal.reason.value,
            message=refusal.message,
            facts=[wire.Refused.Fact(name=name, value=value) for name, value in refusal.facts.items()],
        ),
    )


def read_refused(told: wire.Refused) -> Refusal:
    """Return another server's refusal of a message. An unknown reason counts as final."""
    reason = Reason.__members__.get(told.reason, Reason.INVALID_REQUEST)
    return Refusal(reason, told.message, {fact.name: fact.value for fact in told.facts})


def refused_by(number: int, error: RefusedError) -> wire.SendResponse.Answer:
    """Return the answer for a message refused by an error."""
    return refused(number, error.refusal)


def _is_printable(text: str) -> bool:
    return text.isprintable() or not text
