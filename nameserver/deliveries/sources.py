"""Sources of messages for a listener: the log, and the ring of entries in memory.

Each source has positions and an order of its own. A listener has a place in both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from delivery.mailboxes.gateways import Recipients
from delivery.mailboxes.subscription_read import EndpointPosition
from delivery.model.words import Kept
from nameserver.deliveries.log_tail import ENTRIES_AT_ONCE, LogEntry, LogTail
from nameserver.deliveries.machine import DeliveryMachine


class Source(Protocol):
    """Interface of the log and the ring."""

    kept: Kept

    @property
    def cut(self) -> int:
        """Last position that is gone."""

    @property
    def through(self) -> int:
        """Last position that may be handed out."""

    async def read(self, after: int) -> Sequence[LogEntry]:
        """Return entries behind a position, sorted. At least one if there is one. Cut entries are left out."""

    def lost_before(self, entry: int) -> int:
        """Return the number of entries from `entry` on that are gone, as far as known. At least 1."""

    def lost_between(self, first: int, last: int, reader: int) -> int:
        """Return the number of entries from `first` through `last` that may have been for a reader.

        All of them are gone.
        """

    def is_for(self, audience: int, reader: int) -> bool:
        """Return True if an entry with an audience is for a mailbox, a listener or a gateway."""

    def recipients(self, audience: int, reader: int) -> Recipients:
        """Return the recipients of an audience that a gateway serves. Empty if the reader is no gateway."""


class LogSource:
    """The log as a source."""

    kept: Kept = Kept.DURABLE

    def __init__(self, machine: DeliveryMachine, tail: LogTail) -> None:
        self._machine, self._tail = machine, tail
        self.is_for, self.recipients = machine.is_for, machine.recipients

    @property
    def cut(self) -> int:
        """Last position that is gone."""
        return self._machine.log_cut

    @property
    def through(self) -> int:
        """Last position that may be handed out."""
        return self._machine.logged

    async def read(self, after: int) -> Sequence[LogEntry]:
        """Read as `Source` defines."""
        return await self._tail.read(after)

    def lost_before(self, entry: int) -> int:
        """Return the number of entries from `entry` on that are gone."""
        return self.cut + 1 - entry

    def lost_between(self, first: int, last: int, reader: int) -> int:
        """Return the number of entries from `first` through `last` that may have been for a reader.

        All of them are gone.
        """
        return self._machine.lost_between(first, last, reader)


class RingSource:
    """The ring as a source. Its entries are encoded once for all listeners."""

    kept: Kept = Kept.MEMORY

    def __init__(self, machine: DeliveryMachine) -> None:
        self._ring, self._machine = machine.ring, machine
        self.is_for, self.recipients = self._ring.is_for, self._ring.recipients
        self._entries: dict[int, LogEntry] = {}
        """Entries that were read and are not gone, by position."""

    @property
    def cut(self) -> int:
        """Last position that is gone."""
        return self._ring.cut

    @property
    def through(self) -> int:
        """Last position that may be handed out."""
        return self._ring.through

    async def read(self, after: int) -> Sequence[LogEntry]:
        """Read as `Source` defines."""
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
        """Return the number of entries from `entry` on that are gone. 1 for a position of an earlier start: it is
        unknown.
        """
        return self._ring.lost_before(entry)

    def lost_between(self, first: int, last: int, reader: int) -> int:
        """Return 0, because the ring has no holes."""
        del first, last, reader
        return 0


@dataclass(slots=True)
class SourcePosition:
    """Progress of a listener in one source."""

    source: Source
    standing: EndpointPosition
    gap: int = 0
    """Entries that were lost before the next message, and not told yet."""

    @property
    def is_behind(self) -> bool:
        """True if the source has an entry that the listener was not offered yet."""
        return self.standing.cursor.entry <= self.source.through
