"""Accepted messages that are in no parcel yet. Messages of one target set and quality wait together, in order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from delivery.model.events import Send
from delivery.model.words import Quality
from delivery.wire.posts import PARCEL_BYTES_LIMIT, PARCEL_MESSAGES_LIMIT, Parcel
from namegraph import TargetSet

OPEN_BYTES_LIMIT = 8 * 1024 * 1024
"""Most bytes of messages that wait for the next parcels."""


@dataclass(slots=True)
class WaitingMessage:
    """A message that waits for the next parcel, and the requests to answer about it."""

    send: Send
    again: tuple[Send, ...] = ()
    """Retries of the message that came meanwhile."""

    def also_for(self, send: Send) -> None:
        """Add a retry of the message."""
        self.again = (*self.again, send)


class ParcelBuilder:
    """All messages that wait for a parcel at an origin."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[TargetSet, Quality], list[WaitingMessage]] = {}
        self._last: list[WaitingMessage] = []
        """List of `_waiting` that holds the last message."""
        self.bytes = 0

    def __bool__(self) -> bool:
        return bool(self._waiting)

    @property
    def count(self) -> int:
        """Number of waiting messages."""
        return sum(map(len, self._waiting.values()))

    @property
    def sets(self) -> int:
        """Number of target sets among them. A target set counts once for each quality."""
        return len(self._waiting)

    @property
    def is_full(self) -> bool:
        """True if no more messages may wait."""
        return self.bytes >= OPEN_BYTES_LIMIT

    def take(self, send: Send, quality: Quality) -> WaitingMessage:
        """Add a message of this quality."""
        self._last = self._waiting.setdefault((send.targets, quality), [])
        return self.take_next(send)

    def take_next(self, send: Send) -> WaitingMessage:
        """Add a message of the same targets and quality as the last one, in the same step."""
        waiting = WaitingMessage(send)
        self._last.append(waiting)
        self.bytes += send.message.size
        return waiting

    def kinds(self) -> list[tuple[TargetSet, Quality]]:
        """Return the target sets and qualities of the waiting messages."""
        return list(self._waiting)

    def targets(self) -> list[TargetSet]:
        """Return the target sets of the waiting messages."""
        return [targets for targets, _ in self._waiting]

    def drain(self, is_apart: Callable[[str], bool]) -> Iterator[tuple[TargetSet, Quality, list[list[WaitingMessage]]]]:
        """Remove all waiting messages. Yield for each target set and quality the messages of each parcel.

        `is_apart`: true of a source whose messages share no parcel with those of other sources.
        """
        waiting, self._waiting, self.bytes = self._waiting, {}, 0
        for (targets, quality), messages in waiting.items():
            yield targets, quality, list(_cut_up(messages, is_apart))


def source_of(together: list[WaitingMessage]) -> str:
    """Return the source with most bytes in a parcel of these messages."""
    first = together[0].send.source
    if all(waiting.send.source == first for waiting in together):
        return first
    sizes = Counter[str]()
    for waiting in together:
        sizes[waiting.send.source] += waiting.send.message.size
    return max(sizes, key=sizes.__getitem__)


def asked_to_be_told(parcel: Parcel, together: list[WaitingMessage]) -> list[tuple[int, str]]:
    """Return the tickets and message ids of callers that wait for a parcel of these messages to settle."""
    return [
        (send.ticket, parcel.message_id(index))
        for index, waiting in enumerate(together)
        if waiting.send.wants_settled or waiting.again
        for send in (waiting.send, *waiting.again)
        if send.wants_settled
    ]


def _cut_up(waiting: list[WaitingMessage], is_apart: Callable[[str], bool]) -> Iterator[list[WaitingMessage]]:
    """Yield the messages of each parcel, within its limits of messages and bytes. The messages stay in order."""
    together: list[WaitingMessage] = []
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
