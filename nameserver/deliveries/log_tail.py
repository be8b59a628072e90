"""The log as listeners read it: its newest part from memory, encoded once for all of them, the rest from disk.

durable --while somebody reads--> [ the tail: 64 MiB ] --> listeners that keep up
disk --one reading for all----------^   '----------------> listeners that are behind, a piece at a time
                                                           where all of a piece is gone, they go on behind it

What becomes durable goes into the tail as it is in memory, so that who keeps up waits for no disk. What everybody has
acknowledged is cut from the log, and leaves the tail with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Final

from delivery.model.words import Message, Position, PositionToken
from delivery.wire.posts import Lost, Parcel, decode_stored_post
from namegraph import LogRecord, NodeId
from nameserver.deliveries.machine import DeliveryMachine
from nameserver.deliveries.message_wire import WIRE_OF_KEPT, size_told
from shadowtree.v1 import delivery_pb2 as wire

TAIL_BYTES_LIMIT: Final = 64 * 1024 * 1024
"""Of parcels; what is encoded of them for listeners takes as much again."""

READ_BYTES: Final = 256 * 1024
"""What a listener that is behind reads at a time: other listeners, and commits, come between."""


UNREAD_BYTES: Final = 4 * 1024 * 1024
"""What is taken into the tail while nobody reads there: listeners have their turn soon after a commit."""

ENTRIES_AT_ONCE: Final = 100
"""How many a listener goes through before others have their turn."""


class LogEntry:
    """An entry of the log, or of the ring of what is in memory: what is told of it is made once."""

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
        """The first target of what it holds."""
        return self._held.targets[0].name

    @property
    def lost(self) -> int:
        """Parcels in whose place it is: they were lost before they came here."""
        return self._held.parcels if isinstance(self._held, Lost) else 0

    @property
    def messages(self) -> Sequence[Message]:
        """What it holds."""
        return () if isinstance(self._held, Lost) else self._held.messages

    @cached_property
    def sizes(self) -> Sequence[int]:
        """Bytes of payload and headers of each message."""
        return [size_told(message) for message in self.messages]

    @cached_property
    def bytes_told(self) -> int:
        """The same of all messages together."""
        return sum(map(size_told, self.messages))

    @cached_property
    def can_expire(self) -> bool:
        """Whether some message is handed to nobody after a while."""
        return any(message.deadline_ms for message in self.messages)

    @cached_property
    def encoded(self) -> bytes:
        """All messages, as every listener gets them: a whole `SubscribeResponse`."""
        return self.encode(range(len(self.messages)))

    def encode(self, items: Iterable[int], *, gap: int = 0) -> bytes:
        """Some messages, by their places in the entry, as `encoded`; `gap` is told with the first of them."""
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
    """Reads entries for all listeners of this server."""

    def __init__(self, machine: DeliveryMachine, *, bytes_limit: int = TAIL_BYTES_LIMIT) -> None:
        self._machine = machine
        self._bytes_limit = bytes_limit
        self._entries: dict[int, LogEntry] = {}
        """By position: all behind `_begin` and through `_through`."""
        self._begin = self._through = machine.logged
        self._bytes = 0
        self._unread = UNREAD_BYTES
        """Bytes that were taken since somebody read at the end: nobody has."""
        self._reading = asyncio.Lock()
        self._came: list[LogRecord] = []
        """What has become durable during a reading."""
        machine.on_logged = self.take

    def take(self, records: Sequence[LogRecord]) -> None:
        """Have what has just become durable, as long as somebody reads at the end."""
        if self._unread >= UNREAD_BYTES:
            return
        if self._reading.locked():
            self._came += records
        elif records[0].position == self._through + 1:
            self._unread += sum(len(record.encoded) for record in records)
            self._add([LogEntry(record, self._machine) for record in records])

    def wait(self, after: int) -> None:
        """Somebody has come through a position, and waits for what comes behind it."""
        if after >= self._through:
            self._unread = 0

    async def read(self, after: int) -> Sequence[LogEntry]:
        """Entries behind a position, sorted: some where there are some; what was cut is left out."""
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
        """Read what is new, where no other listener has done it meanwhile."""
        if after < self._through:
            return
        logged = self._machine.logged
        found = await self._read_disk(self._through, logged)
        if found and found[-1].position <= after:
            # Nobody has read for long: the tail begins anew where somebody does.
            found = await self._read_disk(after, logged)
        if not found or found[0].position != self._through + 1:
            # What is between was cut, since nobody needed it, or is left out.
            self._entries.clear()
            self._bytes = 0
            self._begin = self._through = found[0].position - 1 if found else logged
        self._add(found)
        came, self._came = self._came, []
        self._add([LogEntry(each, self._machine) for each in came if each.position > self._through])

    def _add(self, entries: Sequence[LogEntry]) -> None:
        """Take entries in, as far as they follow what is there."""
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
