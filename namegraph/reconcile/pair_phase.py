"""How far a parents' home is with settling the arcs between it and one children's home.

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

A children's home replies without being asked when it creates a group that a rejected arc waits for. So a reply has a
meaning in each phase, and an update of an earlier reply may end in each.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto

from namegraph.wire.message_parts import ReconcileArc

BATCH = 5_000
"""Arcs that are settled by one update: others wait for it where they touch the same nodes."""


class PairPhase(Enum):
    """How far two homes are with settling the arcs that lead from the one to the other."""

    SETTLED = auto()
    """Nothing is to be done."""
    COMPARING = auto()
    """The reply to a digest is to come, or is kept until lost groups are recreated."""
    SETTLING = auto()
    """Updates bring each arc to its newest state, batch by batch."""
    INTERRUPTED = auto()
    """A server was lost: all is compared again when everybody in the view is there again."""


@dataclass(slots=True)
class Pair:
    """What a parents' home has to settle with one children's home."""

    phase: PairPhase = PairPhase.SETTLED
    _waiting: list[ReconcileArc] = field(default_factory=list)
    """Arcs that are still to be settled: none, unless SETTLING."""

    def compare(self) -> None:
        """A digest is sent."""
        self.phase, self._waiting = PairPhase.COMPARING, []

    def reply(self, newest: list[ReconcileArc]) -> list[ReconcileArc]:
        """The newest state of each arc is known. Returns those to settle first."""
        self.phase, self._waiting = PairPhase.SETTLING, newest
        return self.next_batch()

    def next_batch(self) -> list[ReconcileArc]:
        """A batch is over. Returns the arcs to settle next; none where all are settled, or all is compared anew."""
        if self.phase is PairPhase.SETTLING and not self._waiting:
            self.phase = PairPhase.SETTLED
        batch, self._waiting = self._waiting[:BATCH], self._waiting[BATCH:]
        return batch

    def interrupt(self) -> None:
        """What is under way came to nothing."""
        self.phase, self._waiting = PairPhase.INTERRUPTED, []
