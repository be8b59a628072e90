"""Durable unread messages of each mailbox, and the count that its server makes when the mailbox is closed."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec
from pyroaring import BitMap

from delivery.mailboxes.mailboxes import Cursor, MailboxRecord
from delivery.model.words import Position
from delivery.origin.dead_letters import LossReason
from delivery.server import Server
from delivery.wire.posts import decode_stored
from namegraph import NodeId, Records, ServerId


class Closed(NamedTuple):
    """Counts of a closed mailbox, together with the mailboxes whose end became durable at the same time."""

    messages: int
    """Messages that some subscription had not acknowledged. A message for two mailboxes counts twice."""
    counted: int
    """Messages that the server counted as lost."""


class _Entry(NamedTuple):
    readers: BitMap
    messages: int


@dataclass(slots=True)
class _AtServer:
    entries: dict[int, _Entry] = field(default_factory=dict)
    """Entries of the log by position."""
    mailboxes: dict[NodeId, MailboxRecord] = field(default_factory=dict)
    cursors: dict[int, dict[str, Position]] = field(default_factory=lambda: defaultdict(dict))
    """Cursors by mailbox number and subscription name."""
    counted: int = 0
    """Messages that the server has counted as lost with mailboxes."""

    def unread(self, mailbox: MailboxRecord) -> int:
        cursors = self.cursors[mailbox.number].values()
        slowest = min(cursors, default=Position.before(mailbox.opened_at))
        return sum(
            entry.messages - (slowest.item + 1 if position == slowest.entry else 0)
            for position, entry in self.entries.items()
            if position >= slowest.entry and mailbox.number in entry.readers
        )


class UnreadMessages:
    """Unread messages of all servers."""

    def __init__(self) -> None:
        self._at: dict[ServerId, _AtServer] = defaultdict(_AtServer)
        self.closed: dict[tuple[ServerId, NodeId], Closed] = {}
        """Counts at the last time that each mailbox was closed."""

    def went_back(self, core: Server) -> None:
        """Reset a server that starts on an older disk."""
        at, delivery = self._at[core.server], core.delivery
        at.entries = {position: entry for position, entry in at.entries.items() if position <= delivery.log.last}
        at.mailboxes = delivery.mailboxes.all()
        at.cursors.clear()
        for name, mailbox in at.mailboxes.items():
            at.cursors[mailbox.number] = delivery.mailboxes.subscriptions(name)
        at.counted = next(
            each.messages for each in delivery.dead_letters.undelivered() if each.reason is LossReason.CLOSED
        )

    def written(self, core: Server, records: Records) -> None:
        """Note the records that some steps made durable."""
        at, audiences = self._at[core.server], core.delivery.audiences
        for record in records.log:
            readers = audiences.readers(audiences.bitmap(record.audience)).copy()
            at.entries[record.position] = _Entry(readers, len(decode_stored(record.encoded).messages))
        closed, counted, ended = dict[NodeId, int](), at.counted, list[tuple[int, str]]()
        for part, key, value in records.protocol:
            if part == "cursor":
                number, _, name = key.partition(" ")
                if value is None:
                    ended.append((int(number), name))
                else:
                    cursor = msgspec.msgpack.decode(value, type=Cursor)
                    at.cursors[int(number)][name] = cursor.position
            elif part == "mailbox" and value is not None:
                at.mailboxes[NodeId(key)] = msgspec.msgpack.decode(value, type=MailboxRecord)
            elif part == "mailbox":
                closed[NodeId(key)] = at.unread(at.mailboxes.pop(NodeId(key)))
            elif part == "messages lost" and key == LossReason.CLOSED and value is not None:
                at.counted = msgspec.msgpack.decode(value, type=int)
        for mailbox, name in ended:
            at.cursors[mailbox].pop(name, None)
        for process in closed:
            self.closed[core.server, process] = Closed(sum(closed.values()), at.counted - counted)
        if records.cut_log_through is not None:
            cut = records.cut_log_through
            at.entries = {position: entry for position, entry in at.entries.items() if position > cut}
        for position in records.log_gone:
            at.entries.pop(position, None)
