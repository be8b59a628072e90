"""What a subscription is handed: the messages of its mailbox behind its cursor, in the order of the log.

Source: delivery.md section 9.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from delivery.log.log import CUT_AT_LEAST, CUT_AT_LEAST_BYTES
from delivery.mailboxes.audiences import Audiences
from delivery.model.words import EVERYTHING, Filter, Message, Position
from delivery.wire.posts import Lost, Parcel, decode_stored_post
from namegraph import LogRecord, NodeId


class Item(NamedTuple):
    """One message, as an endpoint gets it."""

    position: Position
    parcel: Parcel
    message: Message
    recipients: tuple[NodeId, ...] = ()
    """Of a gateway: who is to get it here, each once."""

    @property
    def is_late(self) -> bool:
        """Whether something that the sequence puts after it came before it."""
        return self.parcel.round > 0

    @property
    def message_id(self) -> str:
        """Names it among all servers."""
        return self.parcel.message_id(self.position.item)


class Entry(NamedTuple):
    """What an endpoint is handed of an entry."""

    end: Position
    """All through it is handed out then, or not for this endpoint."""
    items: list[Item]
    lost: int = 0
    """Parcels that were for it, and were lost before they came here."""


def read(
    records: Iterable[LogRecord],
    mailbox: int,
    audiences: Audiences,
    *,
    after: Position,
    wanted: Filter = EVERYTHING,
) -> Iterator[Entry]:
    """Of each entry of the log, in order: what an endpoint is handed of it behind a position."""
    for record in records:
        found: list[Item] = []
        end = Position.before(record.position + 1)
        if audiences.is_for(record.audience, mailbox):
            parcel = decode_stored_post(record.encoded)
            if isinstance(parcel, Lost):
                yield Entry(end, [], parcel.parcels)
                continue
            assert isinstance(parcel, Parcel)
            recipients = tuple(audiences.names(audiences.recipients(record.audience, mailbox)))
            found = [
                Item(position, parcel, message, recipients)
                for number, message in enumerate(parcel.messages)
                if (position := Position(record.position, number)) > after
                and wanted.passes(parcel.targets[0].name, message.sender)
            ]
        yield Entry(end, found)


def gap(cursor: Position, *, cut: int) -> Position | None:
    """Through where entries behind a cursor are gone; None: none of them is."""
    return Position.before(cut + 1) if cursor < Position.before(cut + 1) else None


class Standing:
    """How far an endpoint has come in the log.

    What lies behind the last message that it was handed, and was not for it, counts as acknowledged once that message
    is. So who has nothing to do does not keep the log from being cut: after as many entries as are cut together.
    """

    def __init__(
        self, acknowledged: Position, *, handed_out: Position | None = None, is_ephemeral: bool = False
    ) -> None:
        """It begins behind what it has acknowledged, or was handed before.

        `is_ephemeral`: what it was handed is acknowledged by that.
        """
        self._is_ephemeral = is_ephemeral
        self.acknowledged = acknowledged
        self.cursor = max(acknowledged, handed_out or acknowledged)
        """All through it is handed out, or not for this endpoint."""
        self._last = self.cursor
        """The last message that it was handed."""
        self._bytes = 0
        """Of the entries that were passed over since the last acknowledgement."""

    def hand_out(self, position: Position) -> None:
        """The endpoint gets a message."""
        self.cursor = self._last = position

    def pass_over(self, cursor: Position, *, size: int = 0) -> None:
        """All through a position is handed out, or nothing of it is for the endpoint. `size`: bytes that this is."""
        self.cursor = cursor
        self._bytes += size

    def acknowledge(self, through: Position) -> None:
        """All through a position is acknowledged."""
        if through > self.acknowledged:
            self.acknowledged, self._bytes = through, 0

    def passed(self) -> Position | None:
        """What is to be acknowledged in the endpoint's place, since nothing of it was for it; None: nothing yet."""
        is_idle = self._is_ephemeral or self.acknowledged >= self._last
        is_much = self.cursor.entry - self.acknowledged.entry >= CUT_AT_LEAST or self._bytes >= CUT_AT_LEAST_BYTES
        return self.cursor if is_idle and is_much and self.cursor > self.acknowledged else None
