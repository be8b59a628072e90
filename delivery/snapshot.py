"""Snapshot of the message state of a server, as rows, read in pieces while the server runs and closed at one step.

    read: mailboxes, cursors, audiences, unsettled parcels, piece by piece       what steps change is noted meanwhile
    --> finish: what was noted, how far the log goes, who is reached now         one instant
    --> entries of the log, piece by piece                                       they never change

Rows of a later piece replace those with the same key. Payloads stay private: a snapshot has only digests of messages.

See docs/snapshots.md.
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
from delivery.mailboxes.mailboxes import Cursor, Mailboxes, MailboxRecord
from delivery.model.words import Position
from delivery.origin.unsettled import UnsettledParcel
from delivery.wire.posts import decode_stored
from namegraph import DurableState, LogRecord, NodeId, ProtocolRow, Records, TargetSet

PIECE_ROWS = 150
"""Rows of a piece: a millisecond of work, after which other tasks run."""

REACHED_LIMIT = 20
"""Most target sets with their present recipients: each costs as much as sending a message."""

Reached = Sequence[tuple[TargetSet, BitMap]]
"""Mailboxes that are reached, by target set."""

_PARTS = ("mailbox", "cursor", "audience", "parcel")


class MailboxRow(NamedTuple):
    """The mailbox of a process. None if the mailbox was closed."""

    process: NodeId
    mailbox: MailboxRecord | None


class CursorRow(NamedTuple):
    """Acknowledged position of a subscription. None if the subscription has ended."""

    mailbox: int
    subscription: str
    cursor: Position | None


class AudienceRow(NamedTuple):
    """Mailboxes of an audience, as a Roaring bitmap. None if no entry refers to the audience any more.

    The bitmap does not contain recipients of gateways.
    """

    number: int
    mailboxes: bytes | None


class UnsettledRow(NamedTuple):
    """A parcel at its position in the log. None if the parcel is settled."""

    position: int
    parcel: UnsettledParcel | None


class EntryRow(NamedTuple):
    """An entry of the log, without its messages."""

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
    """Present recipients of a target set, as a Roaring bitmap."""

    targets: tuple[str, ...]
    mailboxes: bytes


class LogEnds(NamedTuple):
    """Ends of the log, and other totals, at the step of `finish`."""

    last: int
    """Last position that was given."""
    cut: int
    """Last position that was cut."""
    mailboxes_numbered: int
    """Highest number that a mailbox was given."""
    gone: int = 0
    """Number of entries behind the cut that are gone."""


@dataclass(slots=True)
class MessagePiece:
    """A piece of rows."""

    mailboxes: list[MailboxRow] = field(default_factory=list)
    cursors: list[CursorRow] = field(default_factory=list)
    audiences: list[AudienceRow] = field(default_factory=list)
    unsettled: list[UnsettledRow] = field(default_factory=list)
    entries: list[EntryRow] = field(default_factory=list)
    reached: list[ReachedRow] = field(default_factory=list)


class MessageSnapshot:
    """Reading of one snapshot. The owner passes the records of every step to it until it is finished."""

    def __init__(
        self, durable: DurableState, *, log: Log, mailboxes: Mailboxes, reached: Callable[[int], Reached]
    ) -> None:
        """Prepare the reading. `reached`: returns the mailboxes of at most so many target sets, as they are now."""
        self._maps = {part: durable.maps[part] for part in _PARTS}
        self._log, self._mailboxes, self._reached = log, mailboxes, reached
        self._noted: dict[tuple[str, str], ProtocolRow] = {}

    def note(self, records: Records) -> None:
        """Note the rows that a step changed."""
        for row in records.protocol:
            if row.part in self._maps:
                self._noted[row.part, row.key] = row

    def read(self) -> Iterator[MessagePiece]:
        """Yield all rows except the log. Steps may run in between."""
        for durable_map in self._maps.values():
            keys = list(durable_map)
            for begin in range(0, len(keys), PIECE_ROWS):
                yield self._piece(durable_map.row(key) for key in keys[begin : begin + PIECE_ROWS])

    def finish(self) -> tuple[LogEnds, Iterator[MessagePiece]]:
        """Return the ends of the log at this step, and the remaining rows, which may be read later."""
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
    """Return entries of a log as a piece."""
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
