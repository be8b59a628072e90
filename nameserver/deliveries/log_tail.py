"""The log as listeners read it: its newest part from memory, encoded once for all of them, the rest from disk.

durable --while somebody reads--> [ the tail: 64 MiB ] --> listeners that keep up
disk --one reading for all----------^   '----------------> listeners that are behind, a piece at a time
                                                           where all of a piece is gone, they go on behind it

Entries go into the tail from memory as they become durable, so listeners that keep up wait for no disk. Entries that
all subscriptions have acknowledged are cut from the log, and leave the tail with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Final

from delivery.model.words import MessageContent, Position, PositionToken
from delivery.wire.posts import Lost, Parcel, decode_stored_post
from namegraph import LogRecord, NodeId
from nameserver.deliveries.machine import DeliveryMachine
from nameserver.deliveries.message_wire import WIRE_OF_KEPT, size_told
from shadowtree.v1 import delivery_pb2 as wire

TAIL_BYTES_LIMIT: Final = 64 * 1024 * 1024
"""Bytes of parcels in the tail. Their encoded form for listeners takes as much again."""

READ_BYTES: Final = 256 * 1024
"""Bytes that a listener that is behind reads at a time. Other listeners, and commits, come between."""


UNREAD_BYTES: Final = 4 * 1024 * 1024
"""Bytes taken into the tail while no listener reads there. Listeners have their turn soon after a commit."""

ENTRIES_AT_ONCE: Final = 100
"""Entries that a listener goes through before other tasks have their turn."""


class LogEntry:
    """Entry of the log, or of the ring in memory. Values derived from it are made once."""

    def __init__(self, record: LogRecord, machine: DeliveryMachine) -> None:
        self.position = record.position
        self.audience = record.audience
        self.size = len(record.encoded)
        self._encoded = record.encoded
        self._machine = machine

    @cached_property
    def _held(self) -> Parcel | Lost:
        held = decode_stored_post(self._encoded)
        assert isinstance(held, Parcel | Lost)
        return held

    @property
    def addressed(self) -> NodeId:
        """First target of the parcel."""
        return self._held.targets[0].name

    @property
    def lost(self) -> int:
        """Number of parcels that this entry replaces, because they were lost before they came here."""
        return self._held.parcels if isinstance(self._held, Lost) else 0

    @property
    def messages(self) -> Sequence[MessageContent]:
        """Messages of the entry."""
        return () if isinstance(self._held, Lost) else self._held.messages

    @cached_property
    def sizes(self) -> Sequence[int]:
        """Bytes of payload and headers of each message."""
        return [size_told(message) for message in self.messages]

    @cached_property
    def bytes_told(self) -> int:
        """Bytes of payload and headers of all messages."""
        return sum(map(size_told, self.messages))

    @cached_property
    def can_expire(self) -> bool:
        """True if some message has a time after which it is not handed out."""
        return any(message.deadline_ms for message in self.messages)

    @cached_property
    def encoded(self) -> bytes:
        """All messages, as every listener gets them: an encoded `SubscribeResponse`."""
        return self.encode(range(len(self.messages)))

    def encode(self, items: Iterable[int], *, gap: int = 0) -> bytes:
        """Encode some messages, by their places in the entry, like `encoded`. `gap` goes with the first of them."""
        machine, parcel, response = self._machine, self._held, wire.SubscribeResponse()
        assert isinstance(parcel, Parcel), "what was lost has no messages"
        group, is_late, kept = self.addressed, parcel.round > 0, WIRE_OF_KEPT[parcel.kept]
        names = parcel.message_ids()
        of_first = PositionToken(machine.server, machine.incarnation, Position(self.position, 0), parcel.kept)
        before, after = of_first.around_item()
        for item in items:
            message = parcel.messages[item]
            told = response.messages.add(
                id=names[item],
                group=group,
                sender=message.sender,
                payload=message.payload,
                position=f"{before}{item}{after}",
                sent_at_ms=message.sent_at_ms,
                gap=gap,
                late=is_late,
                quality=wire.QUALITY_FIFO,
                kept=kept,
            )
            for name, value in message.headers:
                told.headers.add(name=name, value=value)
            gap = 0
        return response.SerializeToString()


class LogTail:
    """Reader of entries for all listeners of this server."""

    def __init__(self, machine: DeliveryMachine, *, bytes_limit: int = TAIL_BYTES_LIMIT) -> None:
        self._machine = machine
        self._bytes_limit = bytes_limit
        self._entries: dict[int, LogEntry] = {}
        """Entries by position: all behind `_begin` and through `_through`."""
        self._begin = self._through = machine.logged
        self._bytes = 0
        self._unread = UNREAD_BYTES
        """Bytes taken since a listener last read at the end. The initial value means that none has."""
        self._reading = asyncio.Lock()
        self._came: list[LogRecord] = []
        """Entries that became durable during a reading."""
        machine.on_logged = self.take

    def take(self, records: Sequence[LogRecord]) -> None:
        """Take entries that have just become durable, as long as listeners read at the end."""
        if self._unread >= UNREAD_BYTES:
            return
        if self._reading.locked():
            self._came += records
        elif records[0].position == self._through + 1:
            self._unread += sum(len(record.encoded) for record in records)
            self._add([LogEntry(record, self._machine) for record in records])

    def wait(self, after: int) -> None:
        """Note that a listener has come through a position, and waits for the entries behind it."""
        if after >= self._through:
            self._unread = 0

    async def read(self, after: int) -> Sequence[LogEntry]:
        """Return entries behind a position, sorted. At least one if there is one. Cut entries are left out."""
        self.wait(after)
        while self._machine.logged > after:
            if after >= self._through:
                async with self._reading:
                    await self._fill(after)
            if after >= self._begin:
                return self._newest(after)
            begin = self._begin
            if found := await self._read_disk(after, begin):
                return found
            after = begin
        return ()

    def _newest(self, after: int) -> Sequence[LogEntry]:
        through = min(self._through, after + ENTRIES_AT_ONCE)
        if through == self._through:
            self._unread = 0
        return [self._entries[position] for position in range(after + 1, through + 1)]

    async def _fill(self, after: int) -> None:
        """Read the new entries, unless another listener has done it meanwhile."""
        if after < self._through:
            return
        logged = self._machine.logged
        found = await self._read_disk(self._through, logged)
        if found and found[-1].position <= after:
            # No listener has read for long: the tail begins anew at this listener's position.
            found = await self._read_disk(after, logged)
        if not found or found[0].position != self._through + 1:
            # The entries between were cut, since no listener needed them, or are left out.
            self._entries.clear()
            self._bytes = 0
            self._begin = self._through = found[0].position - 1 if found else logged
        self._add(found)
        came, self._came = self._came, []
        self._add([LogEntry(each, self._machine) for each in came if each.position > self._through])

    def _add(self, entries: Sequence[LogEntry]) -> None:
        """Append entries, as far as they follow the tail."""
        for entry in entries:
            if entry.position != self._through + 1:
                return
            self._entries[entry.position] = entry
            self._bytes += entry.size
            self._through = entry.position
        cut = self._machine.log_cut
        while self._entries and (self._begin < cut or (self._bytes > self._bytes_limit and len(self._entries) > 1)):
            self._begin += 1
            self._bytes -= self._entries.pop(self._begin).size

    async def _read_disk(self, after: int, through: int) -> list[LogEntry]:
        records = await self._machine.read_log(after, through, READ_BYTES)
        return [LogEntry(record, self._machine) for record in records]
