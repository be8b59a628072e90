"""What enters the log of this server: a parcel, for those whom its targets reach at this instant.

Source: delivery.md section 3.
"""

from __future__ import annotations

from msgspec import structs
from pyroaring import BitMap

from delivery.log.log import Log
from delivery.log.segments import Writer
from delivery.mailboxes.audiences import Audiences, Foreign
from delivery.model.reach import Reach
from delivery.model.uptime import RunningTime
from delivery.origin.unsettled import Here
from delivery.wire.posts import Parcel, encode
from namegraph import TargetSet

ITEMS_OF_A_STEP = 5_000
"""Of audiences that are found for the first time, one step looks at so many processes: some milliseconds."""


class LogWriter:
    """Appends entries to the log."""

    def __init__(self, log: Log, audiences: Audiences, running: RunningTime) -> None:
        self._log, self._audiences, self._running = log, audiences, running
        self.items_of_a_step = ITEMS_OF_A_STEP
        self._room = self.items_of_a_step

    def begin_step(self) -> None:
        """Another step begins."""
        self._room = self.items_of_a_step

    def is_ready(self, targets: TargetSet, reach: Reach) -> bool:
        """Whether it takes no time to find whom a target set reaches; this step does a part of that, where it does."""
        if self._room > 0:
            self._room = self._audiences.prepare(targets, reach, self._room)
        return self._room > 0

    def audience(self, targets: TargetSet, reach: Reach) -> BitMap:
        """Whom a target set reaches here now. The caller must not change it."""
        return self._audiences.numbered(targets, reach)

    def foreign(self, targets: TargetSet, reach: Reach) -> Foreign:
        """Whom no server owns, of these. The caller must not change it."""
        return self._audiences.foreign(targets, reach)

    def number_of(self, audience: BitMap) -> int:
        """The number by which an audience is known from now on."""
        return self._audiences.number_of(audience)

    def count(self, audience: BitMap) -> int:
        """How many mailboxes an audience is for; a gateway is one."""
        return len(self._audiences.readers(audience))

    def here(self, audience: BitMap, targets: TargetSet, reach: Reach) -> Here:
        """What the origin of a parcel keeps of who gets it here."""
        leaves_out = not self.audience(targets, reach).issubset(audience)
        return Here(self.number_of(audience), self.count(audience), leaves_out)

    def append(self, audience: BitMap, encoded: bytes, messages: int, writer: Writer) -> int:
        """Append a parcel of so many messages for an audience; returns its position."""
        number = self._audiences.number_of(audience)
        position = self._log.append(number, encoded, messages=messages, at=self._running.seconds, writer=writer)
        self._audiences.used(number, at=position)
        return position

    def is_heavy(self, source: str) -> bool:
        """Whether a source has so much of the log that it makes room for what it writes."""
        return self._log.is_heavy(source)

    def append_late(self, parcel: Parcel, before: int, reach: Reach, left_out: BitMap, *, source: str) -> BitMap:
        """Append a parcel for those who are below its targets now and were not in an audience; returns all of both.

        `before`: the number of that audience. `left_out`: who gets nothing now. `source`: server that posted it.
        """
        had = self._audiences.bitmap(before)
        more = self.audience(parcel.targets, reach) - left_out - had
        if more:
            late = structs.replace(parcel, round=max(parcel.round, 1))
            self.append(more, encode(late), len(parcel.messages), Writer(source, parcel.targets[0].name))
        return had | more
