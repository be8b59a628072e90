"""The two places from which a listener is handed messages: the log, and the ring of what is kept in memory.

Each has positions of its own, and an order of its own. A listener stands at a place in either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from delivery.mailboxes.gateways import Recipients
from delivery.mailboxes.subscription_read import Standing
from delivery.model.words import Kept
from nameserver.deliveries.log_tail import ENTRIES_AT_ONCE, LogEntry, LogTail
from nameserver.deliveries.machine import DeliveryMachine


class Source(Protocol):
    """One of them."""

    kept: Kept

    @property
    def cut(self) -> int:
        """The last position that is gone."""

    @property
    def through(self) -> int:
        """The last position that may be handed out."""

    async def read(self, after: int) -> Sequence[LogEntry]:
        """Entries behind a position, sorted: some where there are some; what was cut is left out."""

    def lost_before(self, entry: int) -> int:
        """How many entries are gone from one on, as far as that is known; at least 1."""

    def lost_between(self, first: int, last: int, reader: int) -> int:
        """Count entries that may have been for a reader, from one through another one; all of these are gone."""

    def is_for(self, audience: int, reader: int) -> bool:
        """Whether an entry with an audience is for a mailbox, a listener or a gateway."""

    def recipients(self, audience: int, reader: int) -> Recipients:
        """Of an audience, whom a gateway serves; nobody, where a reader is none."""


class LogSource:
    """The log."""

    kept: Kept = Kept.DURABLE

    def __init__(self, machine: DeliveryMachine, tail: LogTail) -> None:
        self._machine, self._tail = machine, tail
        self.is_for, self.recipients = machine.is_for, machine.recipients

    @property
    def cut(self) -> int:
        """The last position that is gone."""
        return self._machine.log_cut

    @property
    def through(self) -> int:
        """The last position that may be handed out."""
        return self._machine.logged

    async def read(self, after: int) -> Sequence[LogEntry]:
        """As of any source."""
        return await self._tail.read(after)

    def lost_before(self, entry: int) -> int:
        """How many entries are gone from one on."""
        return self.cut + 1 - entry

    def lost_between(self, first: int, last: int, reader: int) -> int:
        """Count entries that may have been for a reader, from one through another one; all of these are gone."""
        return self._machine.lost_between(first, last, reader)


class RingSource:
    """The ring. What it holds is encoded once for all listeners."""

    kept: Kept = Kept.MEMORY

    def __init__(self, machine: DeliveryMachine) -> None:
        self._ring, self._machine = machine.ring, machine
        self.is_for, self.recipients = self._ring.is_for, self._ring.recipients
        self._entries: dict[int, LogEntry] = {}
        """By position, those that were read and are not gone."""

    @property
    def cut(self) -> int:
        """The last position that is gone."""
        return self._ring.cut

    @property
    def through(self) -> int:
        """The last position that may be handed out."""
        return self._ring.through

    async def read(self, after: int) -> Sequence[LogEntry]:
        """As of any source."""
        while self._entries and (oldest := next(iter(self._entries))) <= self._ring.cut:
            del self._entries[oldest]
        found: list[LogEntry] = []
        for record in self._ring.entries(after, after + ENTRIES_AT_ONCE):
            entry = self._entries.get(record.position)
            if entry is None:
                entry = self._entries[record.position] = LogEntry(record, self._machine)
            found.append(entry)
        return found

    def lost_before(self, entry: int) -> int:
        """How many entries are gone from one on; of an earlier start: 1, for nobody knows."""
        return self._ring.lost_before(entry)

    def lost_between(self, first: int, last: int, reader: int) -> int:
        """None: the ring has no holes."""
        del first, last, reader
        return 0


@dataclass(slots=True)
class Reading:
    """How far a listener has come in one of them."""

    source: Source
    standing: Standing
    gap: int = 0
    """Entries that were lost before the next message, and not told yet."""

    @property
    def is_behind(self) -> bool:
        """Whether something is there that it was not handed, if it is for it."""
        return self.standing.cursor.entry <= self.source.through
