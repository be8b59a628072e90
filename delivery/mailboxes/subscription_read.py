"""Reading a subscription: the messages of its mailbox behind its cursor, in the order of the log.

See docs/protocol-messages.md, "Log, audiences, mailboxes".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from delivery.log.log import CUT_AT_LEAST, CUT_AT_LEAST_BYTES
from delivery.mailboxes.audiences import Audiences
from delivery.model.words import EVERYTHING, Filter, MessageContent, Position
from delivery.wire.posts import Lost, Parcel, decode_stored_post
from namegraph import LogRecord, NodeId


class Item(NamedTuple):
    """One message in the form in which an endpoint gets it."""

    position: Position
    parcel: Parcel
    message: MessageContent
    recipients: tuple[NodeId, ...] = ()
    """Recipients of a gateway for whom the message is, each once. Empty for any other mailbox."""

    @property
    def is_late(self) -> bool:
        """True if a message with a later serial of the sequence may have been logged before this one."""
        return self.parcel.round > 0

    @property
    def message_id(self) -> str:
        """Id of the message, unique among all servers."""
        return self.parcel.message_id(self.position.item)


class EntryRead(NamedTuple):
    """Part of an entry that an endpoint is handed."""

    end: Position
    """Position through which all messages are handed out, or are not for this endpoint."""
    items: list[Item]
    lost: int = 0
    """Number of parcels for this endpoint that were lost before they came to this server."""


def read(
    records: Iterable[LogRecord],
    mailbox: int,
    audiences: Audiences,
    *,
    after: Position,
    wanted: Filter = EVERYTHING,
) -> Iterator[EntryRead]:
    """Yield for each entry of the log, in order, the messages that an endpoint gets behind a position."""
    for record in records:
        found: list[Item] = []
        end = Position.before(record.position + 1)
        if audiences.is_for(record.audience, mailbox):
            parcel = decode_stored_post(record.encoded)
            if isinstance(parcel, Lost):
                yield EntryRead(end, [], parcel.parcels)
                continue
            assert isinstance(parcel, Parcel)
            recipients = tuple(audiences.names(audiences.recipients(record.audience, mailbox)))
            found = [
                Item(position, parcel, message, recipients)
                for number, message in enumerate(parcel.messages)
                if (position := Position(record.position, number)) > after
                and wanted.passes(parcel.targets[0].name, message.sender)
            ]
        yield EntryRead(end, found)


def gap(cursor: Position, *, cut: int) -> Position | None:
    """Return the position through which entries behind a cursor are gone. None if no such entry is gone."""
    return Position.before(cut + 1) if cursor < Position.before(cut + 1) else None


class EndpointPosition:
    """Progress of an endpoint in the log.

    Entries behind its last message that were not for the endpoint count as acknowledged once that message is. An idle
    endpoint therefore does not hold back cutting the log for longer than entries are collected for one cut.
    """

    def __init__(
        self, acknowledged: Position, *, handed_out: Position | None = None, is_ephemeral: bool = False
    ) -> None:
        """Begin behind the acknowledged position, or behind the position that was handed out before.

        `is_ephemeral`: True if handing a message out acknowledges it.
        """
        self._is_ephemeral = is_ephemeral
        self.acknowledged = acknowledged
        self.cursor = max(acknowledged, handed_out or acknowledged)
        """Position through which all messages are handed out, or are not for this endpoint."""
        self._last = self.cursor
        """Position of the last message that the endpoint was handed."""
        self._bytes = 0
        """Bytes of the entries that were passed over since the last acknowledgement."""

    def hand_out(self, position: Position) -> None:
        """Note that the endpoint gets the message at a position."""
        self.cursor = self._last = position

    def pass_over(self, cursor: Position, *, size: int = 0) -> None:
        """Note that no message through a position is left for the endpoint.

        `size`: bytes of the entries passed over.
        """
        self.cursor = cursor
        self._bytes += size

    def acknowledge(self, through: Position) -> None:
        """Note that the endpoint has acknowledged all messages through a position."""
        if through > self.acknowledged:
            self.acknowledged, self._bytes = through, 0

    def passed(self) -> Position | None:
        """Return the position to acknowledge for an endpoint that had no messages there. None if it is too early."""
        is_idle = self._is_ephemeral or self.acknowledged >= self._last
        is_much = self.cursor.entry - self.acknowledged.entry >= CUT_AT_LEAST or self._bytes >= CUT_AT_LEAST_BYTES
        return self.cursor if is_idle and is_much and self.cursor > self.acknowledged else None
