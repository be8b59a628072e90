"""Messages whose origin is away, kept here until it is met again.

    QueueMessage --> queued, durable --the shell passes it on, the oldest first--> QueuedEnded: accepted there
                        |                                                            '--> refused: dead letter
                        '--> too long, or the origin is removed: dead letter

What waits for the homes of one subnet is one queue: so messages of a sender to a group keep their order. One that is
passed on and not heard of is passed on again: its number, or its request id, lets the origin accept it once. The
origin judges it then; nothing is judged here.

Source: delivery.md section 5, item 1.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from msgspec import Struct, structs

from delivery.model.events import Queued, QueueMessage
from delivery.model.reach import Reach
from namegraph import NUMBERS, TEXTS, DurableMap, DurableState, NodeId, Reason, Subnet, packed, refuse, subnet_of

QUEUED_MESSAGES_LIMIT = 10_000
QUEUED_BYTES_LIMIT = 64 * 1024 * 1024
"""They are kept in memory, too."""


class QueuedMessage(Struct, frozen=True, array_like=True):
    """A message that waits for its origin."""

    addressed: NodeId
    """Its first target."""
    encoded: bytes
    """As it is passed on."""
    sender: str
    number: int
    """The sender's own; 0 where nobody numbers."""
    request_id: str
    """Where nobody numbers."""
    deadline_ms: int
    """So long after it was queued it is handed to nobody; 0: whenever."""
    queued_at_ms: int
    """Milliseconds since 1970 on the clock of this server."""
    since: float
    """The same in running time."""

    @property
    def key(self) -> tuple[str, str, int | str]:
        """By what it is known if it is sent again."""
        return (self.sender, self.addressed, self.number) if self.number else ("", "", self.request_id)

    def left_ms(self, at: float) -> int:
        """How much of its deadline is left at a running time; 0 where it has none. At least 1."""
        return max(1, self.deadline_ms - int((at - self.since) * 1000)) if self.deadline_ms else 0

    def is_over(self, at: float) -> bool:
        """Whether its deadline has come."""
        return bool(self.deadline_ms) and (at - self.since) * 1000 >= self.deadline_ms


class Due(NamedTuple):
    """A message that is to be passed on."""

    number: int
    addressed: NodeId
    encoded: bytes
    deadline_ms: int
    """What is left of it; 0: it has none."""


class Queue:
    """All messages that wait here for their origins."""

    def __init__(self, durable: DurableState) -> None:
        self._rows = DurableMap(durable, "queued message", NUMBERS, packed(QueuedMessage))
        self._last = DurableMap(durable, "queued last", TEXTS, packed(int))
        """The number given last, without a key."""
        self._of: dict[Subnet, dict[int, None]] = defaultdict(dict)
        """The numbers of what waits for the home of each subnet, in order."""
        self._known: dict[tuple[str, str, int | str], int] = {}
        self.size = 0
        """In bytes."""
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
        """Keep a message; raises `RefusedError` where there is no room. `at`: the running time."""
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
        """Whether one more may wait."""
        return len(self._rows) < self.messages_limit and self.size + len(message.encoded) <= QUEUED_BYTES_LIMIT

    def keep(self, message: QueuedMessage, *, at: float) -> None:
        """Let a message wait behind all others, from a running time on."""
        number = self._last.get("", 0) + 1
        self._last[""] = number
        self._rows[number] = structs.replace(message, since=at)
        self._learn(number, message)

    def end(self, number: int) -> QueuedMessage | None:
        """A message waits no longer; returns it, None where it does not wait."""
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
        """All that wait, in order."""
        return [self._rows[number] for number in sorted(self._rows)]

    def subnets(self) -> list[Subnet]:
        """For whose homes anything waits; sorted."""
        return sorted(self._of)

    def waits_for(self, addressed: NodeId) -> bool:
        """Whether something waits for the home of a name: what is sent after that goes behind it."""
        return subnet_of(addressed) in self._of

    def due(self, subnet: Subnet, *, at: float, but: Container[NodeId] = ()) -> Due | None:
        """The oldest message that waits for the home of a subnet, and is not addressed to a name of `but`."""
        numbers: Iterable[int] = self._of.get(subnet, ())
        if but:
            numbers = (number for number in numbers if self._rows[number].addressed not in but)
        number = next(iter(numbers), None)
        if number is None:
            return None
        message = self._rows[number]
        return Due(number, message.addressed, message.encoded, message.left_ms(at))

    def expired(self, at: float, limit_seconds: float, *, at_most: int) -> Iterator[tuple[int, QueuedMessage]]:
        """So many messages that have waited too long, or whose deadline has come, and wait no longer with that."""
        yield from self._ended(lambda one: one.since < at - limit_seconds or one.is_over(at), at_most)

    def homeless(self, reach: Reach, *, at_most: int) -> Iterator[tuple[int, QueuedMessage]]:
        """The same of messages to names that no server owns any more: it was removed."""
        yield from self._ended(lambda one: reach.home_of(one.addressed) is None, at_most)

    def _ended(self, is_over: Callable[[QueuedMessage], bool], at_most: int) -> Iterator[tuple[int, QueuedMessage]]:
        """From the beginning of each queue on."""
        for subnet in self.subnets():
            for number in list(islice(self._of[subnet], at_most)):
                message = self._rows[number]
                if not is_over(message):
                    break
                self.end(number)
                at_most -= 1
                yield number, message
