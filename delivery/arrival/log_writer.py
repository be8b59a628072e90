"""Writing to the log of this server: a parcel, with the audience of its targets at this instant.

See docs/protocol-messages.md, "Log, audiences, mailboxes".
"""

from __future__ import annotations

from msgspec import structs
from pyroaring import BitMap

from delivery.log.log import Log
from delivery.log.segments import Writer
from delivery.mailboxes.audiences import Audiences, Foreign
from delivery.model.reach import Reach
from delivery.model.uptime import Uptime
from delivery.origin.unsettled import Here
from delivery.wire.posts import Parcel, encode
from namegraph import TargetSet

ITEMS_OF_A_STEP = 5_000
"""Processes that one step visits to compute new audiences: some milliseconds."""


class LogWriter:
    """Appends entries to the log."""

    def __init__(self, log: Log, audiences: Audiences, running: Uptime) -> None:
        self._log, self._audiences, self._running = log, audiences, running
        self.items_of_a_step = ITEMS_OF_A_STEP
        self._room, self._room_of_step = 0, 0
        """Processes that a step may still visit, and the number of that step."""

    def is_ready(self, targets: TargetSet, reach: Reach) -> bool:
        """True if the audience of a target set is available. Otherwise this step computes a part of it."""
        if self._room_of_step != self._running.step_count:
            self._room, self._room_of_step = self.items_of_a_step, self._running.step_count
        if self._room > 0:
            self._room = self._audiences.prepare(targets, reach, self._room)
        return self._room > 0

    def audience(self, targets: TargetSet, reach: Reach) -> BitMap:
        """Return the present audience of a target set at this server. The caller must not change the bitmap."""
        return self._audiences.numbered(targets, reach)

    def foreign(self, targets: TargetSet, reach: Reach) -> Foreign:
        """Return the foreign processes of that audience. The caller must not change the dict."""
        return self._audiences.foreign(targets, reach)

    def number_of(self, audience: BitMap) -> int:
        """Return the number of an audience, which is stored."""
        return self._audiences.number_of(audience)

    def count(self, audience: BitMap) -> int:
        """Return the number of mailboxes in an audience. A gateway is one."""
        return len(self._audiences.readers(audience))

    def here(self, audience: BitMap, targets: TargetSet, reach: Reach) -> Here:
        """Return the state that the origin of a parcel keeps of its recipients at this server."""
        leaves_out = not self.audience(targets, reach).issubset(audience)
        return Here(self.number_of(audience), self.count(audience), leaves_out)

    def append(self, audience: BitMap, encoded: bytes, messages: int, writer: Writer) -> int:
        """Append a parcel with `messages` messages for an audience. Return its position."""
        number = self._audiences.number_of(audience)
        position = self._log.append(number, encoded, messages=messages, at=self._running.seconds, writer=writer)
        self._audiences.used(number, at=position)
        return position

    def is_heavy(self, source: str) -> bool:
        """True if a source has so much of the log that its own entries make room for new ones."""
        return self._log.is_heavy(source)

    def append_late(self, parcel: Parcel, before: int, reach: Reach, left_out: BitMap, *, source: str) -> BitMap:
        """Append a parcel for members of its targets that were not in an audience. Return the union of both.

        `before`: number of that audience. `left_out`: processes that do not get the parcel now. `source`: server that
        posted it.
        """
        had = self._audiences.bitmap(before)
        more = self.audience(parcel.targets, reach) - left_out - had
        if more:
            late = structs.replace(parcel, round=max(parcel.round, 1))
            self.append(more, encode(late), len(parcel.messages), Writer(source, parcel.targets[0].name))
        return had | more
