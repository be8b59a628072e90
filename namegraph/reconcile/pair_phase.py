"""Progress of a parents' home in settling the arcs between it and one children's home.

              digest sent             reply names arcs            last batch is over
    SETTLED --------------> COMPARING ------------------> SETTLING -------------------> SETTLED
                               ^  ^                        |   |
                               |  +--- an end declined ----+   | a server was lost
                               +---------- all are back --- INTERRUPTED

    event              SETTLED        COMPARING      SETTLING               INTERRUPTED
    compare            COMPARING      COMPARING      COMPARING              COMPARING
    reply with arcs    SETTLING       SETTLING       SETTLING               SETTLING
    reply without      SETTLED        SETTLED        SETTLED                SETTLED
    batch is over      -              -              SETTLING or SETTLED    -
    interrupt          INTERRUPTED    INTERRUPTED    INTERRUPTED            INTERRUPTED

A children's home also replies unasked, when it creates a group that a rejected arc waits for. A reply therefore has
a meaning in each phase, and an update of an earlier reply may end in each.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto

from namegraph.wire.message_parts import ReconcileArc

BATCH = 5_000
"""Arcs that are settled by one update. Other updates of the same nodes wait for it."""


class PairPhase(Enum):
    """Progress of two homes in settling the arcs that lead from one to the other."""

    SETTLED = auto()
    """No arc is left to settle."""
    COMPARING = auto()
    """The reply to a digest is pending, or is kept until lost groups are recreated."""
    SETTLING = auto()
    """Updates bring each arc to its newest state, batch by batch."""
    INTERRUPTED = auto()
    """A server was lost. All arcs are compared again once every server of the view is back."""


@dataclass(slots=True)
class PairState:
    """State of a parents' home towards one children's home."""

    phase: PairPhase = PairPhase.SETTLED
    _waiting: list[ReconcileArc] = field(default_factory=list)
    """Arcs that are still to be settled. Empty unless SETTLING."""

    def compare(self) -> None:
        """Record that a digest is sent."""
        self.phase, self._waiting = PairPhase.COMPARING, []

    def reply(self, newest: list[ReconcileArc]) -> list[ReconcileArc]:
        """Record the newest state of each arc. Return the arcs to settle first."""
        self.phase, self._waiting = PairPhase.SETTLING, newest
        return self.next_batch()

    def next_batch(self) -> list[ReconcileArc]:
        """Record that a batch is over. Return the arcs to settle next. Empty if all are settled, or all are compared
        anew."""
        if self.phase is PairPhase.SETTLING and not self._waiting:
            self.phase = PairPhase.SETTLED
        batch, self._waiting = self._waiting[:BATCH], self._waiting[BATCH:]
        return batch

    def interrupt(self) -> None:
        """Record that the work under way came to nothing."""
        self.phase, self._waiting = PairPhase.INTERRUPTED, []
