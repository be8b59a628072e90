"""Messages that were accepted into no parcel yet: those of one target set and quality wait together, in their order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from delivery.model.events import Send
from delivery.model.words import Quality
from delivery.wire.posts import PARCEL_BYTES_LIMIT, PARCEL_MESSAGES_LIMIT, Parcel
from namegraph import TargetSet

OPEN_BYTES_LIMIT = 8 * 1024 * 1024
"""Of messages that wait for the next parcels."""


@dataclass(slots=True)
class Waiting:
    """A message that waits for the next parcel, and who is to be told of it."""

    send: Send
    again: tuple[Send, ...] = ()
    """The same message, where it was sent again meanwhile."""

    def also_for(self, send: Send) -> None:
        """The same message was sent again."""
        self.again = (*self.again, send)


class OpenMessages:
    """All that wait at an origin."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[TargetSet, Quality], list[Waiting]] = {}
        self._last: list[Waiting] = []
        """Of these, where the last one is."""
        self.bytes = 0

    def __bool__(self) -> bool:
        return bool(self._waiting)

    @property
    def count(self) -> int:
        """How many they are."""
        return sum(map(len, self._waiting.values()))

    @property
    def sets(self) -> int:
        """How many target sets they have, each at its qualities."""
        return len(self._waiting)

    @property
    def is_full(self) -> bool:
        """Whether no more may wait."""
        return self.bytes >= OPEN_BYTES_LIMIT

    def take(self, send: Send, quality: Quality) -> Waiting:
        """Let a message of this quality wait."""
        self._last = self._waiting.setdefault((send.targets, quality), [])
        return self.take_next(send)

    def take_next(self, send: Send) -> Waiting:
        """The same of a message of the same targets and quality as the one that was taken last, in the same step."""
        waiting = Waiting(send)
        self._last.append(waiting)
        self.bytes += send.message.size
        return waiting

    def kinds(self) -> list[tuple[TargetSet, Quality]]:
        """Return the target sets and qualities of all that wait."""
        return list(self._waiting)

    def targets(self) -> list[TargetSet]:
        """The target sets of all that wait."""
        return [targets for targets, _ in self._waiting]

    def drain(self, is_apart: Callable[[str], bool]) -> Iterator[tuple[TargetSet, Quality, list[list[Waiting]]]]:
        """All that wait, which do not after this: for each target set and quality, what goes into one parcel each.

        `is_apart`: whether messages of a source share no parcel with those of others.
        """
        waiting, self._waiting, self.bytes = self._waiting, {}, 0
        for (targets, quality), messages in waiting.items():
            yield targets, quality, list(_cut_up(messages, is_apart))


def source_of(together: list[Waiting]) -> str:
    """Return the source of most bytes of a parcel of these messages."""
    first = together[0].send.source
    if all(waiting.send.source == first for waiting in together):
        return first
    sizes = Counter[str]()
    for waiting in together:
        sizes[waiting.send.source] += waiting.send.message.size
    return max(sizes, key=sizes.__getitem__)


def asked_to_be_told(parcel: Parcel, together: list[Waiting]) -> list[tuple[int, str]]:
    """Of a parcel of these messages: tickets of those who are to be told when it is settled, with the message's id."""
    return [
        (send.ticket, parcel.message_id(index))
        for index, waiting in enumerate(together)
        if waiting.send.wants_settled or waiting.again
        for send in (waiting.send, *waiting.again)
        if send.wants_settled
    ]


def _cut_up(waiting: list[Waiting], is_apart: Callable[[str], bool]) -> Iterator[list[Waiting]]:
    """Yield the messages of each parcel, which takes no more messages and bytes than it may. Their order stays."""
    together: list[Waiting] = []
    size = 0
    source = waiting[0].send.source
    for each in waiting:
        more = each.send.message.size
        ends_here = len(together) == PARCEL_MESSAGES_LIMIT or size + more > PARCEL_BYTES_LIMIT
        if each.send.source != source:
            before, source = source, each.send.source
            ends_here = ends_here or is_apart(before) or is_apart(source)
        if together and ends_here:
            yield together
            together, size = [], 0
        together.append(each)
        size += more
    yield together
