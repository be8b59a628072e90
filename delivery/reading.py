"""What a subscription is handed: the messages of its mailbox behind its cursor, in the order of the log.

Source: delivery.md section 9.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from delivery.audiences import Audiences
from delivery.model import Message, Position
from delivery.wire import Parcel, decode_stored
from namegraph import LogRecord


class Item(NamedTuple):
    """One message, as an endpoint gets it."""

    position: Position
    parcel: Parcel
    message: Message

    @property
    def is_late(self) -> bool:
        """Whether something that the sequence puts after it came before it."""
        return self.parcel.round > 0

    @property
    def message_id(self) -> str:
        """Names it among all servers."""
        return self.parcel.message_id(self.position.item)


def read(
    records: Iterable[LogRecord], mailbox: int, audiences: Audiences, *, after: Position
) -> Iterator[tuple[Position, list[Item]]]:
    """Of each entry of the log, in order: where it ends, and what of it the mailbox gets behind a position."""
    for record in records:
        found: list[Item] = []
        end = Position.before(record.position + 1)
        if mailbox in audiences.bitmap(record.audience):
            parcel = decode_stored(record.encoded)
            found = [
                Item(position, parcel, message)
                for number, message in enumerate(parcel.messages)
                if (position := Position(record.position, number)) > after
            ]
        yield end, found


def gap(cursor: Position, *, cut: int) -> Position | None:
    """Through where entries behind a cursor are gone; None: none of them is."""
    return Position.before(cut + 1) if cursor < Position.before(cut + 1) else None
