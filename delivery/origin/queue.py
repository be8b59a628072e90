"""Queued messages: their origin is away, and this server keeps them until it is back.

    QueueMessage --> queued, durable --the shell passes it on, the oldest first--> QueuedEnded: accepted there
                        |                                                            '--> refused: dead letter
                        '--> too long, or the origin is removed: dead letter

Messages for the homes of one subnet are one queue, which keeps the order of a sender's messages to a group. A message
that was passed on without an answer is passed on again: its number or request id lets the origin accept it once. The
origin judges the message then. This server does not judge it.

See docs/protocol-messages.md, "Accepted, settled, sent again".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from msgspec import Struct, structs

from delivery.model.agenda import Agenda, Work
from delivery.model.events import Queued, QueueMessage
from delivery.model.reach import Reach
from namegraph import NUMBERS, TEXTS, DurableMap, DurableState, NodeId, Reason, Subnet, packed, refuse, subnet_of

QUEUED_MESSAGES_LIMIT = 10_000
QUEUED_BYTES_LIMIT = 64 * 1024 * 1024
"""Most bytes of queued messages, which are also kept in memory."""


class QueuedMessage(Struct, frozen=True, array_like=True):
    """A message that waits for its origin."""

    addressed: NodeId
    """First target of the message."""
    encoded: bytes
    """The message in the form in which it is passed on."""
    sender: str
    number: int
    """Number that the sender gave the message. 0 if the sender does not number."""
    request_id: str
    """Idempotency key of a message without a number."""
    deadline_ms: int
    """Milliseconds after `queued_at_ms` within which the message may be handed over. 0 if there is no deadline."""
    queued_at_ms: int
    """Time of queueing, in milliseconds since 1970 on the clock of this server."""
    since: float
    """Time of queueing, in seconds of running time."""

    @property
    def key(self) -> tuple[str, str, int | str]:
        """Key that a retry of the message has, too."""
        return (self.sender, self.addressed, self.number) if self.number else ("", "", self.request_id)

    def left_ms(self, at: float) -> int:
        """Return the milliseconds left before the deadline, at running time `at`: at least 1.

        0 if there is no deadline.
        """
        return max(1, self.deadline_ms - int((at - self.since) * 1000)) if self.deadline_ms else 0

    def is_over(self, at: float) -> bool:
        """True if the deadline has passed at running time `at`."""
        return bool(self.deadline_ms) and (at - self.since) * 1000 >= self.deadline_ms


class Due(NamedTuple):
    """A message that is to be passed on."""

    number: int
    addressed: NodeId
    encoded: bytes
    deadline_ms: int
    """Milliseconds left before the deadline. 0 if there is no deadline."""


class OriginQueue:
    """All messages that wait at this server for their origins."""

    def __init__(self, durable: DurableState, agenda: Agenda) -> None:
        self._agenda = agenda
        self._rows = DurableMap(durable, "queued message", NUMBERS, packed(QueuedMessage))
        self._last = DurableMap(durable, "queued last", TEXTS, packed(int))
        """Number that was given last: one value, without a key."""
        self._of: dict[Subnet, dict[int, None]] = defaultdict(dict)
        """Numbers of the messages that wait for the home of each subnet, in order."""
        self._known: dict[tuple[str, str, int | str], int] = {}
        self.size = 0
        """Bytes of all queued messages."""
        self.messages_limit = QUEUED_MESSAGES_LIMIT
        for number in sorted(self._rows):
            self._learn(number, self._rows[number])

    def _learn(self, number: int, message: QueuedMessage) -> None:
        self._of[subnet_of(message.addressed)][number] = None
        self._known[message.key] = number
        self.size += len(message.encoded)

    def __len__(self) -> int:
        return len(self._rows)

    def take(self, event: QueueMessage, reach: Reach, *, at: float) -> Queued:
        """Queue a message, at running time `at`.

        Raises `RefusedError` if there is no room, or no known server owns the target.
        """
        message = QueuedMessage(
            event.addressed,
            event.encoded,
            event.sender,
            event.number,
            event.request_id,
            event.deadline_ms,
            event.queued_at_ms,
            at,
        )
        if message.key in self._known:
            return Queued(event.ticket, is_repeated=True)
        if reach.home_of(event.addressed) is None:
            raise refuse(Reason.UNAVAILABLE, f"no server is known to own {event.addressed}: it cannot be waited for")
        if not self.has_room_for(message):
            raise refuse(
                Reason.BACKLOG_FULL,
                f"{len(self._rows)} messages, of {self.size} bytes, wait here for servers that are away: there is no "
                "room for more; try again when they are back",
            )
        self.keep(message, at=at)
        return Queued(event.ticket)

    def has_room_for(self, message: QueuedMessage) -> bool:
        """True if there is room for another message."""
        return len(self._rows) < self.messages_limit and self.size + len(message.encoded) <= QUEUED_BYTES_LIMIT

    def keep(self, message: QueuedMessage, *, at: float) -> None:
        """Append a message to the queue of its subnet, at running time `at`."""
        number = self._last.get("", 0) + 1
        self._last[""] = number
        self._rows[number] = structs.replace(message, since=at)
        self._learn(number, message)
        self._agenda.mark(Work.EXPIRY)

    def end(self, number: int) -> QueuedMessage | None:
        """Remove a message from its queue and return it. None if it is not queued."""
        message = self._rows.pop(number, None)
        if message is not None:
            subnet = subnet_of(message.addressed)
            del self._of[subnet][number]
            if not self._of[subnet]:
                del self._of[subnet]
            self._known.pop(message.key, None)
            self.size -= len(message.encoded)
        return message

    def messages(self) -> list[QueuedMessage]:
        """Return all queued messages, in order."""
        return [self._rows[number] for number in sorted(self._rows)]

    def subnets(self) -> list[Subnet]:
        """Return the subnets for whose homes a message waits, sorted."""
        return sorted(self._of)

    def waits_for(self, addressed: NodeId) -> bool:
        """True if a message waits for the home of a name. A later message to that home goes behind it."""
        return subnet_of(addressed) in self._of

    def due(self, subnet: Subnet, *, at: float, but: Container[NodeId] = ()) -> Due | None:
        """Return the oldest message that waits for the home of a subnet and is not addressed to a name of `but`.

        None if there is no such message.
        """
        numbers: Iterable[int] = self._of.get(subnet, ())
        if but:
            numbers = (number for number in numbers if self._rows[number].addressed not in but)
        number = next(iter(numbers), None)
        if number is None:
            return None
        message = self._rows[number]
        return Due(number, message.addressed, message.encoded, message.left_ms(at))

    def expired(self, at: float, limit_seconds: float, *, at_most: int) -> Iterator[tuple[int, QueuedMessage]]:
        """Remove and yield at most `at_most` messages that waited too long, or whose deadline has passed."""
        yield from self._ended(lambda one: one.since < at - limit_seconds or one.is_over(at), at_most)

    def homeless(self, reach: Reach, *, at_most: int) -> Iterator[tuple[int, QueuedMessage]]:
        """Remove and yield at most `at_most` messages to names whose owner was removed."""
        yield from self._ended(lambda one: reach.home_of(one.addressed) is None, at_most)

    def _ended(self, is_over: Callable[[QueuedMessage], bool], at_most: int) -> Iterator[tuple[int, QueuedMessage]]:
        """Remove and yield messages from the begin of each queue, as long as `is_over` holds."""
        for subnet in self.subnets():
            for number in list(islice(self._of[subnet], at_most)):
                message = self._rows[number]
                if not is_over(message):
                    break
                self.end(number)
                at_most -= 1
                yield number, message
