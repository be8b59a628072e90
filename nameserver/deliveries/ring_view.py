"""The ring in memory, as listeners read it: entries whose underlying graph is durable."""

from __future__ import annotations

from collections.abc import Iterator

from delivery.mailboxes.gateways import Recipients
from delivery.volatile.in_memory import POSITIONS_OF_START, InMemory
from namegraph import LogRecord


class RingView:
    """The ring of this server. All methods belong to the thread of the event loop."""

    def __init__(self, in_memory: InMemory) -> None:
        self._in_memory = in_memory
        self.through = in_memory.log.last
        """Last position that may be handed out."""

    @property
    def cut(self) -> int:
        """Last position that is gone."""
        return self._in_memory.log.cut

    def entries(self, after: int, through: int) -> Iterator[LogRecord]:
        """Return the entries behind `after` and through `through` that may be handed out and are not gone, in order."""
        return self._in_memory.entries(after, min(through, self.through))

    def is_of_this_start(self, entry: int) -> bool:
        """Return True if a position was given since this server started."""
        return entry // POSITIONS_OF_START == self.cut // POSITIONS_OF_START

    def lost_before(self, entry: int) -> int:
        """Return the number of entries from `entry` on that are gone. 1 for a position of an earlier start: it is
        unknown.
        """
        return self.cut + 1 - entry if self.is_of_this_start(entry) else 1

    def is_for(self, audience: int, reader: int) -> bool:
        """Return True if an entry with an audience is for a mailbox, a listener or a gateway."""
        return self._in_memory.audiences.is_for(audience, reader)

    def recipients(self, audience: int, reader: int) -> Recipients:
        """Return the recipients of an audience that a gateway serves. Empty if the reader is no gateway."""
        return self._in_memory.audiences.recipients(audience, reader)
