"""The faults and their times, drawn from a seed: the same seed breaks the same things at the same times."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.mail_chaos.scene import ORGANISATIONS

KINDS = {
    "killed_gateway": "kill -9 of a gateway",
    "ended_gateway": "SIGTERM of a gateway",
    "stopped_gateway": "SIGSTOP of a gateway",
    "killed_server": "kill -9 of a name server",
    "stopped_server": "SIGSTOP of a name server",
    "parted": "two name servers cut from each other",
    "no_inbox": "a mail server gone",
    "stalled_inbox": "a mail server that answers nothing",
    "cut_connections": "connections to a mail server cut",
}
"""Broken things by the method of `Organisations`."""

OF_NAME_SERVERS = {"killed_server", "stopped_server", "parted"}
SHORT_SECONDS = (0.0, 2.0)
LONG_SECONDS = (2.0, 10.0)
"""Shortest and longest duration of a fault in seconds, each half of the time."""
REST_SECONDS = 6.0
"""Seconds from the end of one fault of a thing to its next fault. A start takes a while."""


@dataclass(frozen=True)
class Fault:
    """A fault. `begins` and `ends`: seconds since the first possible fault."""

    kind: str
    begins: float
    ends: float
    organisations: tuple[str, ...]

    def __str__(self):
        return f"{self.begins:6.1f} s to {self.ends:6.1f} s  {KINDS[self.kind]}: {', '.join(self.organisations)}"

    @property
    def things(self):
        """Return the things it breaks, as (part, organisation). A thing has only one fault at a time."""
        part = self.kind.rpartition("_")[2] if self.kind not in ("parted", "cut_connections") else self.kind
        return {(part, name) for name in self.organisations}


def plan(seed, *, seconds, every):
    """Return a fault every `every` seconds. Each ends by itself within the time, and several may last at once.

    Kinds come in shuffled rounds, so that a short run has as many of them as possible.
    """
    chance = random.Random(seed)
    found, rested_at, kinds = [], {}, []
    begins = every
    while begins < seconds:
        if not kinds:
            kinds = chance.sample([*KINDS], len(KINDS))
        kind = kinds.pop()
        ends = min(begins + chance.uniform(*chance.choice((SHORT_SECONDS, LONG_SECONDS))), seconds)
        fault = Fault(kind, begins, ends, tuple(chance.sample(ORGANISATIONS, 2 if kind == "parted" else 1)))
        if all(rested_at.get(thing, 0.0) <= begins for thing in fault.things):
            found.append(fault)
            rested_at |= dict.fromkeys(fault.things, ends + REST_SECONDS)
        begins += every
    return found
