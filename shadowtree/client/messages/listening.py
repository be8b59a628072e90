"""Requests on a `Subscribe` stream: its beginning, acknowledgements and credit. Does no I/O.

    begin, credit -> server --messages--> [ pending ] --take--> user --acknowledge--> due: acknowledged, more credit

A stream that broke is begun again after the last message that was handed to the user. Messages that had arrived but
were not handed out come again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from itertools import count
from typing import Any, Final

from shadowtree.client.calls import message_of
from shadowtree.client.foreign_text import printable
from shadowtree.client.messages.delivery_calls import KEPT_NAMES, shown_time
from shadowtree.client.messages.sending import QUALITY_NAMES
from shadowtree.errors import InvalidRequest, ServerFault
from shadowtree.messages import Message
from shadowtree.v1 import delivery_pb2 as wire
from shadowtree.vocabulary import GroupId, MemberId, Position, SenderId, SubscriptionName

CREDIT_MESSAGES: Final = 1_000
CREDIT_BYTES: Final = 1024 * 1024
"""Credit: messages and bytes that a server may have sent and the user has not taken.

A listener uses so much memory, plus one message.
"""

_STARTS: Final = {"start": wire.SubscribeRequest.FROM_START, "now": wire.SubscribeRequest.FROM_NOW}


IN_MEMORY: Final = "m"
"""Prefix of a position among messages in memory."""


class Listening:
    """State of one listener: messages that were not handed out, and pending requests. Callers must lock it."""

    def __init__(
        self,
        name: MemberId,
        *,
        subscription: SubscriptionName | None,
        from_: str,
        ephemeral: bool = False,
        groups: Iterable[GroupId] = (),
        senders: Iterable[SenderId] = (),
    ) -> None:
        """`from_`: `start`, `now`, or a position. Raises `InvalidRequest` for invalid arguments."""
        if not isinstance(from_, str) or not from_:
            raise InvalidRequest(f"from_ is 'start', 'now' or a position, not {from_!r:.80}", {"field": "from"})
        is_start = from_ in _STARTS
        if ephemeral and (subscription is not None or not is_start):
            raise InvalidRequest(
                "an ephemeral subscription has no name, and begins now: leave out subscription and from_",
                {"field": "ephemeral"},
            )
        self.is_ephemeral = ephemeral
        self._begin: wire.SubscribeRequest.Begin = message_of(
            wire.SubscribeRequest.Begin,
            name=name,
            subscription="" if subscription is None else subscription,
            position="" if is_start else from_,
            ephemeral=ephemeral,
            groups=_several(groups, "groups"),
            senders=_several(senders, "senders"),
            takes_more=True,
        )
        setattr(self._begin, "from", _STARTS[from_] if is_start else wire.SubscribeRequest.FROM_START)
        self._recipients: list[MemberId] = []
        """Recipients of the following messages, for a gateway."""
        self._are_more_recipients = False
        """True if the next response names more of them."""
        self._told_recipients: tuple[MemberId, ...] = ()
        """The complete recipients, once all are named."""
        self._places: dict[bool, Position] = {}
        """Positions behind the last message that came, among durable messages (False) and messages in memory (True)."""
        self._pending: deque[tuple[Message, int]] = deque()
        """Messages to hand out, each with its size."""
        self._has_begun = False
        """True if the first response of this stream has come."""
        self._acknowledged: Position = ""
        self._acknowledged_number = 0
        """Rank of the furthest message that the user acknowledged."""
        self._numbers = count(1)
        self._is_acknowledging = False
        self._credit_messages = 0
        self._credit_bytes = 0
        """Credit of messages that were handed out, not yet reported to the server."""
        self.acknowledge: Callable[[Message], Any] = self.note_acknowledged
        """Function that a message calls. The driver of the stream sets one that also wakes the driver."""

    def begin_stream(self) -> wire.SubscribeRequest:
        """Return the first request of a new stream.

        Messages of the earlier stream that were not handed out come again.
        """
        self._pending.clear()
        self._places = _parts(self._begin.handed_out)
        self._has_begun = self._is_acknowledging = self._are_more_recipients = False
        self._told_recipients = ()
        self._credit_messages = self._credit_bytes = 0
        return wire.SubscribeRequest(
            begin=self._begin,
            acknowledged=self._acknowledged,
            credit_messages=CREDIT_MESSAGES,
            credit_bytes=CREDIT_BYTES,
        )

    def read(self, response: wire.SubscribeResponse) -> None:
        """Take a response."""
        for each in (response, *response.more):
            self._read_one(each)

    def _read_one(self, response: wire.SubscribeResponse) -> None:
        if not self._has_begun:
            self._has_begun = True
            # Messages after the user's beginning must come after a break too, even if none was handed out yet.
            self._note_handed_out(self._begin.handed_out or response.position)
        elif not (response.messages or response.recipients):
            raise ServerFault("the server sent nothing that can be handed out")
        if response.recipients:
            self._note_recipients(response)
        for told in response.messages:
            self._pending.append((self._read(told), _size(told)))

    def _note_recipients(self, response: wire.SubscribeResponse) -> None:
        if not self._are_more_recipients:
            self._recipients = []
        self._recipients += map(printable, response.recipients)
        self._are_more_recipients = response.more_recipients
        if not self._are_more_recipients:
            self._told_recipients, self._recipients = tuple(self._recipients), []

    def take(self) -> Message | None:
        """Return the next message for the user; None if there is none."""
        if not self._pending:
            return None
        found, size = self._pending.popleft()
        self._note_handed_out(found.position or self._begin.handed_out)
        self._credit_messages += 1
        self._credit_bytes += size
        return found

    def _note_handed_out(self, position: Position) -> None:
        if not self.is_ephemeral:
            self._begin.handed_out = position

    def note_acknowledged(self, message: Message) -> None:
        """Record that the user has handled all messages through this one.

        Workers acknowledge in any order. A message before the furthest acknowledged one changes nothing.
        """
        if message.position and not self.is_ephemeral and message._number > self._acknowledged_number:
            self._acknowledged, self._acknowledged_number = message.position, message._number
            self._is_acknowledging = True

    @property
    def is_due(self) -> bool:
        """True if a request is due. Credit is reported when half of it is used."""
        has_credit = 2 * self._credit_messages >= CREDIT_MESSAGES or 2 * self._credit_bytes >= CREDIT_BYTES
        return self._is_acknowledging or has_credit

    def due(self) -> wire.SubscribeRequest | None:
        """Return the request that is due; None if there is none."""
        if not self.is_due:
            return None
        told = wire.SubscribeRequest(
            acknowledged=self._acknowledged if self._is_acknowledging else "",
            credit_messages=self._credit_messages,
            credit_bytes=self._credit_bytes,
        )
        self._is_acknowledging, self._credit_messages, self._credit_bytes = False, 0, 0
        return told

    def _place_behind(self, told: wire.SubscribeResponse.Message) -> Position:
        """Return the position behind a message in both orders: of durable messages, and of messages in memory."""
        position = printable(told.position)
        if not position:
            return ""
        self._places[position.startswith(IN_MEMORY)] = position
        if len(self._places) == 1:
            return position
        return " ".join(self._places[is_in_memory] for is_in_memory in sorted(self._places))

    def _read(self, told: wire.SubscribeResponse.Message) -> Message:
        return Message(
            group=printable(told.group),
            payload=told.payload,
            sender=printable(told.sender),
            position=self._place_behind(told),
            headers={printable(header.name): printable(header.value) for header in told.headers},
            id=printable(told.id),
            sent_at=shown_time(told.sent_at_ms),
            late=told.late,
            gap=told.gap,
            quality=QUALITY_NAMES.get(told.quality, ""),
            recipients=self._told_recipients,
            kept=KEPT_NAMES.get(told.kept, "durable"),
            _acknowledge=self.acknowledge,
            _number=next(self._numbers),
        )


def _parts(position: Position) -> dict[bool, Position]:
    """Split a position into that among durable messages (False) and that among messages in memory (True)."""
    return {part.startswith(IN_MEMORY): part for part in position.split(" ") if part}


def _several(names: Iterable[str], field: str) -> list[str]:
    """Return names that are given as a list; raise `InvalidRequest` for a single text.

    A text is not taken as a list of letters.
    """
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise InvalidRequest(f"{field} is a list of names, not {names!r:.80}", {"field": field})
    return list(names)


def _size(told: wire.SubscribeResponse.Message) -> int:
    """Return the size as the server counts it: payload and headers."""
    size = len(told.payload)
    for header in told.headers:
        size += len(header.name.encode()) + len(header.value.encode())
    return size
