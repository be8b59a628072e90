"""What one server knows of messages, as rows: read in pieces while it goes on, and whole at one step in the end.

    read: mailboxes, cursors, audiences, unsettled parcels, piece by piece       what steps change is noted meanwhile
    --> finish: what was noted, how far the log goes, who is reached now         one instant
    --> entries of the log, piece by piece                                       they never change

Of the rows of one key those of the latest piece hold. Payloads are nobody else's: of what was sent there is a digest.

Source: docs/snapshots.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import NamedTuple

import msgspec
from pyroaring import BitMap

from delivery.log.log import Log
from delivery.mailboxes.audiences import without_recipients
from delivery.mailboxes.mailboxes import Cursor, Mailbox, Mailboxes
from delivery.model.words import Position
from delivery.origin.unsettled import UnsettledParcel
from delivery.wire.posts import decode_stored
from namegraph import DurableState, LogRecord, NodeId, ProtocolRow, Records, TargetSet

PIECE_ROWS = 150
"""Rows of a piece: a millisecond of work, after which others get their turn."""

REACHED_LIMIT = 20
"""Target sets of which is told who is reached now: it takes as long as to send that many messages."""

Reached = Sequence[tuple[TargetSet, BitMap]]
"""Which mailboxes are reached, by target set."""

_PARTS = ("mailbox", "cursor", "audience", "parcel")


class MailboxRow(NamedTuple):
    """The mailbox of a process; None where it was closed."""

    process: NodeId
    mailbox: Mailbox | None


class CursorRow(NamedTuple):
    """How far a subscription has acknowledged; None where it has ended."""

    mailbox: int
    subscription: str
    cursor: Position | None


class AudienceRow(NamedTuple):
    """The mailboxes of an audience, as a Roaring bitmap; None where nothing refers to it any more.

    Recipients of gateways are not among them.
    """

    number: int
    mailboxes: bytes | None


class UnsettledRow(NamedTuple):
    """A parcel at its position in the log; None where it is over."""

    position: int
    parcel: UnsettledParcel | None


class EntryRow(NamedTuple):
    """An entry of the log, without what was sent."""

    position: int
    targets: tuple[str, ...]
    sequence: int
    start: int
    first_serial: int
    messages: int
    round: int
    quality: str
    audience: int
    digest: bytes


class ReachedRow(NamedTuple):
    """Who gets what is sent to a target set now, as a Roaring bitmap."""

    targets: tuple[str, ...]
    mailboxes: bytes


class LogEnds(NamedTuple):
    """What is true of all messages at the step of `finish`."""

    last: int
    """The last position that was given."""
    cut: int
    """The last position that was cut."""
    mailboxes_numbered: int
    """The highest number that a mailbox was given."""
    gone: int = 0
    """How many entries behind the cut are gone."""


@dataclass(slots=True)
class MessagePiece:
    """Some rows."""

    mailboxes: list[MailboxRow] = field(default_factory=list)
    cursors: list[CursorRow] = field(default_factory=list)
    audiences: list[AudienceRow] = field(default_factory=list)
    unsettled: list[UnsettledRow] = field(default_factory=list)
    entries: list[EntryRow] = field(default_factory=list)
    reached: list[ReachedRow] = field(default_factory=list)


class MessageSnapshot:
    """One reading of what a server knows of messages. The owner tells it of every step until it is finished."""

    def __init__(
        self, durable: DurableState, *, log: Log, mailboxes: Mailboxes, reached: Callable[[int], Reached]
    ) -> None:
        """`reached`: of so many target sets, which mailboxes each reaches now."""
        self._maps = {part: durable.maps[part] for part in _PARTS}
        self._log, self._mailboxes, self._reached = log, mailboxes, reached
        self._noted: dict[tuple[str, str], ProtocolRow] = {}

    def note(self, records: Records) -> None:
        """Learn what a step changed."""
        for row in records.protocol:
            if row.part in self._maps:
                self._noted[row.part, row.key] = row

    def read(self) -> Iterator[MessagePiece]:
        """Everything but the log. Steps may come between."""
        for durable_map in self._maps.values():
            keys = list(durable_map)
            for begin in range(0, len(keys), PIECE_ROWS):
                yield self._piece(durable_map.row(key) for key in keys[begin : begin + PIECE_ROWS])

    def finish(self) -> tuple[LogEnds, Iterator[MessagePiece]]:
        """How far the log goes at this step, and the rest of its rows, which may be read later."""
        noted, self._noted = list(self._noted.values()), {}
        reached = [
            ReachedRow(_as_texts(targets), bytes(without_recipients(audience).serialize()))
            for targets, audience in self._reached(REACHED_LIMIT)
        ]
        ends = LogEnds(self._log.last, self._log.cut, self._mailboxes.numbered)
        return ends, self._rest(noted, reached)

    def _rest(self, noted: list[ProtocolRow], reached: list[ReachedRow]) -> Iterator[MessagePiece]:
        for begin in range(0, len(noted), PIECE_ROWS):
            yield self._piece(noted[begin : begin + PIECE_ROWS])
        yield MessagePiece(reached=reached)

    def _piece(self, rows: Iterable[ProtocolRow]) -> MessagePiece:
        piece = MessagePiece()
        for row in rows:
            key, value = self._maps[row.part].read(row)
            match row.part:
                case "mailbox":
                    piece.mailboxes.append(MailboxRow(key, value))
                case "cursor":
                    piece.cursors.append(CursorRow(key[0], key[1], _position(value)))
                case "audience":
                    piece.audiences.append(AudienceRow(key, _mailboxes(value)))
                case _:
                    piece.unsettled.append(UnsettledRow(key, None if value is None else value.told()))
        return piece


def entries(records: Iterable[LogRecord]) -> MessagePiece:
    """Entries of a log."""
    return MessagePiece(entries=list(map(_entry, records)))


def _entry(record: LogRecord) -> EntryRow:
    parcel = decode_stored(record.encoded)
    return EntryRow(
        record.position,
        _as_texts(parcel.targets),
        parcel.sequence,
        parcel.start,
        parcel.first_serial,
        len(parcel.messages),
        parcel.round,
        parcel.quality.name.lower(),
        record.audience,
        sha256(msgspec.msgpack.encode(parcel.messages)).digest(),
    )


def _as_texts(targets: TargetSet) -> tuple[str, ...]:
    return tuple(" ".join((target.name, *target.excluding)) for target in targets)


def _mailboxes(audience: bytes | None) -> bytes | None:
    return None if audience is None else bytes(without_recipients(BitMap.deserialize(audience)).serialize())


def _position(cursor: Cursor | None) -> Position | None:
    return None if cursor is None else cursor.position
