"""Backlogs of receivers: the parcels in memory of an origin that a receiver has not confirmed.

    posted --> counted for the receiver --> confirmed, given up, or lost
                    |
                    |-- BACKLOG_BYTES_LIMIT reached: messages that go to the receiver are refused, no other message is
                    |-- OVERSHOOT_BYTES_LIMIT beyond: messages that may go there are refused while paths are unknown
                    '-- BACKLOG_BYTES_MOST reached: further parcels become dead letters for the receiver

A receiver that is connected and confirms no parcel for `STUCK_SECONDS` is *stuck*.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from delivery.model.agenda import Agenda, Work
from delivery.model.uptime import Uptime
from namegraph import ServerId

BACKLOG_BYTES_LIMIT = 64 * 1024 * 1024
"""Memory limit of the parcels that one receiver has not confirmed. Messages to the receiver are refused beyond it."""

OVERSHOOT_BYTES_LIMIT = 16 * 1024 * 1024
"""Memory limit of parcels beyond the limit of a full receiver, accepted before their paths to it were known.

Messages to target sets with unknown paths are refused beyond it.
"""

BACKLOG_BYTES_MOST = 2 * BACKLOG_BYTES_LIMIT
"""Memory limit of the parcels that one receiver has not confirmed, whatever paths lead there.

The origin may know old paths of a target set, so accepted parcels may turn out to go to a full receiver. Beyond this
limit they become dead letters for the receiver.
"""

PARCEL_BYTES = 2560
"""Memory of a parcel besides its messages: its row, its keys, and its place in the lane of a receiver."""

UNUSED_PART = 12
"""A twelfth of a parcel's bytes is counted on top, for memory that the allocator leaves unused between parcels. Ten
minutes of a stuck receiver took 6.5 % more than its parcels.
"""

STUCK_SECONDS = 60.0
"""Seconds without a confirmation after which a connected receiver is stuck. Sessions end after far less silence."""


class Unconfirmed(NamedTuple):
    """The parcels that one receiver has not confirmed."""

    size: int
    """Memory of the parcels, in bytes."""
    since: float
    """Time since which the receiver is connected and has confirmed none of them, on the clock of steps."""

    def is_stuck(self, now: float) -> bool:
        """True if the connected receiver has confirmed no parcel for too long."""
        return now - self.since >= STUCK_SECONDS


@dataclass(slots=True)
class _Backlog:
    """Parcels of one receiver."""

    since: float
    """Time of the last confirmation, or of the first parcel after an empty backlog. On the clock of steps."""
    parcels: dict[int, int] = field(default_factory=dict)
    """Bytes of each parcel, by position."""
    size: int = 0


class Untold:
    """Parcels of sequences in which some server below has not named its downstream servers: any server may get them."""

    def __init__(self) -> None:
        self._sizes: Counter[int] = Counter()
        """Memory of parcels, by sequence."""
        self._full_before: frozenset[ServerId] = frozenset()
        """Receivers that were full at the last call of `bytes_beyond`."""
        self.size = 0
        """Memory of all these parcels, in bytes."""

    def __contains__(self, sequence: int) -> bool:
        return sequence in self._sizes

    def add(self, sequence: int, size: int) -> None:
        """Count a parcel."""
        self._sizes[sequence] += size
        self.size += size

    def remove(self, sequence: int) -> None:
        """Stop counting the parcels of a sequence."""
        self.size -= self._sizes.pop(sequence, 0)

    def bytes_beyond(self, full: frozenset[ServerId], receivers_of: Callable[[int], Collection[ServerId]]) -> int:
        """Return the memory of parcels that may turn out to go to full receivers, and are not counted for these yet."""
        if not full <= self._full_before:
            for sequence in [each for each in self._sizes if not full.isdisjoint(receivers_of(each))]:
                self.remove(sequence)
        self._full_before = full
        return self.size


class Backlogs:
    """The backlogs of all receivers of one origin."""

    def __init__(self, running: Uptime, agenda: Agenda) -> None:
        self._running, self._agenda = running, agenda
        self.limit_bytes = BACKLOG_BYTES_LIMIT
        self.overshoot_limit_bytes = OVERSHOOT_BYTES_LIMIT
        self.most_bytes = BACKLOG_BYTES_MOST
        self.parcel_bytes = PARCEL_BYTES
        self._of: dict[ServerId, _Backlog] = {}
        self.untold = Untold()
        self.full: set[ServerId] = set()
        """Receivers whose backlog has reached the limit."""
        self._receivers_of: dict[int, int] = {}
        """Number of receivers for which a parcel is counted, by position."""
        self.shared_bytes = 0
        """Bytes of all counted parcels; a parcel with several receivers counts once."""

    def add(self, receiver: ServerId, position: int, size: int) -> None:
        """Count a parcel of `size` bytes for a receiver, unless it is counted."""
        backlog = self._of.get(receiver)
        if backlog is None:
            backlog = self._of[receiver] = _Backlog(self._running.now)
        if position in backlog.parcels:
            return
        backlog.parcels[position] = size
        backlog.size += self.memory_of(size)
        if backlog.size >= self.limit_bytes and receiver not in self.full:
            self.full.add(receiver)
            self._agenda.mark(Work.LEASES)
        receivers = self._receivers_of.get(position, 0)
        self._receivers_of[position] = receivers + 1
        if not receivers:
            self.shared_bytes += size

    def remove(self, receiver: ServerId, position: int) -> None:
        """Stop counting a parcel for a receiver."""
        backlog = self._of.get(receiver)
        size = None if backlog is None else backlog.parcels.pop(position, None)
        if backlog is None or size is None:
            return
        backlog.size -= self.memory_of(size)
        if backlog.size < self.limit_bytes and receiver in self.full:
            self.full.discard(receiver)
            self._agenda.mark(Work.LEASES)
        if not backlog.parcels:
            del self._of[receiver]
        receivers = self._receivers_of[position] - 1
        if receivers:
            self._receivers_of[position] = receivers
        else:
            del self._receivers_of[position]
            self.shared_bytes -= size

    def memory_of(self, size: int) -> int:
        """Return the memory that a parcel of `size` bytes counts for."""
        return size + size // UNUSED_PART + self.parcel_bytes

    def note_confirmed(self, receiver: ServerId) -> None:
        """Note that a receiver confirms a parcel now."""
        if receiver in self._of:
            self._of[receiver].since = self._running.now

    def begin_start(self) -> None:
        """Restart the clocks of all backlogs, as the server has just started."""
        for backlog in self._of.values():
            backlog.since = self._running.now

    def overshot(self, more_bytes: int) -> ServerId | None:
        """Return a full receiver with no room for parcels that may go to it. None if there is none.

        `more_bytes`: memory of the parcels whose paths are not known yet.
        """
        fullest = max(sorted(self.full), key=self.bytes_of, default=None)
        if fullest is None:
            return None
        limit_bytes = self.limit_bytes + self.overshoot_limit_bytes
        return fullest if self.bytes_of(fullest) + more_bytes >= limit_bytes else None

    def takes_no_more(self, receiver: ServerId) -> bool:
        """True if no further parcel may be counted for a receiver."""
        return receiver in self.full and self.bytes_of(receiver) >= self.most_bytes

    def receivers(self) -> Iterable[ServerId]:
        """Return the receivers that have not confirmed some parcel."""
        return self._of.keys()

    def bytes_of(self, receiver: ServerId) -> int:
        """Return the memory of a receiver's backlog. 0 if the receiver has confirmed all parcels."""
        backlog = self._of.get(receiver)
        return 0 if backlog is None else backlog.size

    def unconfirmed_since(self, receiver: ServerId) -> float | None:
        """Return the time at which a receiver last confirmed a parcel, or began its backlog.

        None if its backlog is empty.
        """
        backlog = self._of.get(receiver)
        return None if backlog is None else backlog.since
