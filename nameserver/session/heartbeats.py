"""The heartbeats of one session: when one is due, what they prove, and how long the way there and back takes.

A heartbeat names the last heartbeat that its sender received, and how long ago that was. So the round trip is the time
since that one was sent, less the time that it lay. A server that names a heartbeat was there when it came, however late
this end reads the answer. A heartbeat also tells the view of its sender, and whether the sender can write its database.
Nothing here reads a clock; times are seconds on one clock that does not go back.
"""

from __future__ import annotations

from collections import OrderedDict

from nameserver.session.frames import Heartbeat

LONGEST_INTERVALS = 2
"""Within how many intervals a heartbeat is sent even beside other things: each end learns that the other hears it."""

REMEMBERED_LIMIT = 16
"""Heartbeats whose time of sending is known: those answered later came too late to tell anything."""

HELD_LIMIT_US = 2**32 - 1
"""More than an hour is not told."""


class Pulse:
    """One end's heartbeats."""

    def __init__(self, interval_seconds: float, now: float) -> None:
        self.round_trip_seconds: float | None = None
        """As it was last measured; None: not yet."""
        self.confirmed_at = now
        """When this end sent what the other one has answered last; at first, when the session was begun."""
        self.view_there: str | None = None
        """The view that the other end is in, as it last said; None: not yet."""
        self._interval_seconds = interval_seconds
        self._spoke_at = self._beat_at = now
        self._number = 0
        self._told: tuple[str, str] | None = None
        """The view, and why this end cannot write, as it last said."""
        self._sent_at: OrderedDict[int, float] = OrderedDict()
        self._heard = 0
        self._heard_at = now

    def spoke(self, now: float) -> None:
        """Something was sent: no heartbeat is needed for a while."""
        self._spoke_at = now

    def is_due(self, now: float, view: str = "", cannot_write: str = "") -> bool:
        """Whether nothing was sent for an interval, or no heartbeat for a few, or none that told this."""
        if (view, cannot_write) != self._told:
            return True
        interval = self._interval_seconds
        return now - self._spoke_at >= interval or now - self._beat_at >= LONGEST_INTERVALS * interval

    def beat(self, session: int, now: float, view: str = "", cannot_write: str = "") -> Heartbeat:
        """The next heartbeat; it counts as sent."""
        self._number += 1
        self._sent_at[self._number] = now
        if len(self._sent_at) > REMEMBERED_LIMIT:
            self._sent_at.popitem(last=False)
        held_us = round(1e6 * (now - self._heard_at)) if self._heard else 0
        self._beat_at, self._told = now, (view, cannot_write)
        self.spoke(now)
        held_us = min(held_us, HELD_LIMIT_US)
        return Heartbeat(session, self._number, self._heard, held_us, view, cannot_write)

    def take(self, heartbeat: Heartbeat, now: float) -> None:
        """A heartbeat came."""
        self._heard, self._heard_at = heartbeat.number, now
        self.view_there = heartbeat.view
        sent_at = self._sent_at.get(heartbeat.heard)
        if sent_at is not None:
            self.confirmed_at = max(self.confirmed_at, sent_at)
            self.round_trip_seconds = max(0.0, now - sent_at - heartbeat.held_us / 1e6)
