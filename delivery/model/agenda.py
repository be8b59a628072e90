"""Work that the parts of one storage of messages have for coming steps.

    an event, another part --mark------> due --a step does it, in the order of `Work`--> done
    running time passes    --mark_from-> due                   |
                                                               '--something is left--> marked again

A part marks its work when the work comes up. A step does the marked work alone, so a part with nothing to do costs a
step nothing. Work of `LOOKING` waits for a step that looks: see `delivery.core`.
"""

from __future__ import annotations

from enum import IntEnum
from math import inf


class Work(IntEnum):
    """Kinds of work."""

    START = 0
    """Begin the clocks of this start."""
    PARCELS = 1
    """Make parcels of the messages that wait."""
    POSTS = 2
    """Handle posts of other servers."""
    ANSWERS = 3
    """Note which servers take no answers."""
    LEASES = 4
    """Let other servers serve foreign processes."""
    AGAIN = 5
    """Post parcels again to servers whose lanes began anew."""
    ROUNDS = 6
    """Begin rounds that wait for a view."""
    OVERS = 7
    """Tell servers that dead letters are over."""
    EXPIRY = 8
    """Give up parcels and queued messages, or tell of parcels that were given up."""
    SEQUENCES = 9
    """Forget idle sequences."""
    RETENTION = 10
    """Cut the log."""
    UPTIME = 11
    """Store the running time."""
    RECIPIENTS = 12
    """Forget recipients of gateways."""
    RELEASE = 13
    """Forget settled parcels that no lane needs."""
    ENTRIES = 14
    """Hand over new and cut entries of the log."""
    FRAMES = 15
    """Send frames of lanes in memory."""


LOOKING = frozenset((Work.EXPIRY, Work.SEQUENCES, Work.UPTIME, Work.RETENTION, Work.RECIPIENTS))
"""Work on state that time or other servers have made superfluous."""


class Agenda:
    """Work of one storage."""

    __slots__ = ("_from", "at_once", "due", "next_from")

    def __init__(self) -> None:
        self.due: set[Work] = set()
        """Work for the next step."""
        self.at_once: set[Work] = set()
        """Work in `due` that wants a step of its own."""
        self._from: dict[Work, float] = {}
        """Running time from which on work is due, in seconds."""
        self.next_from = inf
        """Earliest such time."""

    def mark(self, work: Work) -> None:
        """Mark work for the next step."""
        self.due.add(work)

    def mark_at_once(self, work: Work) -> None:
        """Mark work for a step of its own, which the shell takes at once."""
        self.due.add(work)
        self.at_once.add(work)

    def mark_from(self, work: Work, seconds: float) -> None:
        """Mark work for a running time, or for an earlier one if that is marked."""
        self._from[work] = min(seconds, self._from.get(work, inf))
        self.next_from = min(seconds, self.next_from)

    def is_timed(self, work: Work) -> bool:
        """True if work is marked for some running time."""
        return work in self._from

    def pass_time(self, seconds: float) -> None:
        """Mark the work whose running time has come."""
        for work in [work for work, since in self._from.items() if since <= seconds]:
            del self._from[work]
            self.due.add(work)
        self.next_from = min(self._from.values(), default=inf)

    def take_off(self, work: Work) -> None:
        """Take work off the agenda. Whoever does it marks it again if something is left."""
        self.due.discard(work)
        self.at_once.discard(work)
