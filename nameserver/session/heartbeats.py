"""Heartbeats of one session: due times, confirmations, and the measured round trip.

A heartbeat names the last heartbeat that its sender received, and the time that has passed since. The round trip is the
time since the named heartbeat was sent, less the time that it lay at the peer. A server that names a heartbeat was
there when the heartbeat came, however late this end reads the answer. A heartbeat also carries the view of its sender,
and reports if the sender cannot write its database. This module reads no clock. Times are seconds on one clock that
does not go back.
"""

from __future__ import annotations

from collections import OrderedDict

from nameserver.session.frames import Heartbeat

LONGEST_INTERVALS = 2
"""Most intervals between two heartbeats, even if other frames are sent.

Each end so learns that the other end hears it.
"""

REMEMBERED_LIMIT = 16
"""Most heartbeats whose time of sending is remembered. Answers to older ones come too late to prove anything."""

HELD_LIMIT_US = 2**32 - 1
"""Largest `held_us`: more than an hour is not reported."""


class Pulse:
    """Heartbeats of one end."""

    def __init__(self, interval_seconds: float, now: float) -> None:
        self.round_trip_seconds: float | None = None
        """Last measured round trip. None before the first."""
        self.confirmed_at = now
        """Time at which this end sent the newest heartbeat that the peer has answered.

        At first, the begin of the session.
        """
        self.view_there: str | None = None
        """View that the peer last reported. None before its first heartbeat."""
        self._interval_seconds = interval_seconds
        self._spoke_at = self._beat_at = now
        self._number = 0
        self._told: tuple[str, str] | None = None
        """View and failure of this end, as last reported."""
        self._sent_at: OrderedDict[int, float] = OrderedDict()
        self._heard = 0
        self._heard_at = now

    def spoke(self, now: float) -> None:
        """Note a sent frame. No heartbeat is needed for a while."""
        self._spoke_at = now

    def is_due(self, now: float, view: str = "", cannot_write: str = "") -> bool:
        """Return True if a heartbeat is due.

        A heartbeat is due if no frame was sent for an interval, if no heartbeat was sent for a few intervals, or if the
        last one reported another view or failure.
        """
        if (view, cannot_write) != self._told:
            return True
        interval = self._interval_seconds
        return now - self._spoke_at >= interval or now - self._beat_at >= LONGEST_INTERVALS * interval

    def beat(self, session: int, now: float, view: str = "", cannot_write: str = "") -> Heartbeat:
        """Return the next heartbeat. It counts as sent."""
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
        """Note a received heartbeat."""
        self._heard, self._heard_at = heartbeat.number, now
        self.view_there = heartbeat.view
        sent_at = self._sent_at.get(heartbeat.heard)
        if sent_at is not None:
            self.confirmed_at = max(self.confirmed_at, sent_at)
            self.round_trip_seconds = max(0.0, now - sent_at - heartbeat.held_us / 1e6)
