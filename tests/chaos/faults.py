"""The faults and their times, drawn from a seed: the same seed breaks the same things at the same times."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum
from itertools import permutations


class Kind(StrEnum):
    """Kinds of faults."""

    KILL = "kill -9 and restart"
    END = "SIGTERM and restart"
    PAUSE = "SIGSTOP and SIGCONT"
    LONG_PAUSE = "SIGSTOP for a minute"
    FULL = "the disk of one server full"
    PART = "two sides cut from each other"
    ISOLATE = "one server cut from all"
    PAIR = "two servers cut from each other, both reach the others"
    ONE_WAY = "one direction of one link lost"


OF_PROCESSES = (Kind.KILL, Kind.END, Kind.PAUSE, Kind.LONG_PAUSE, Kind.FULL)

MINUTE = 60.0
LONG_PAUSE_FROM_SECONDS = 3 * MINUTE
"""Shortest run, in seconds, in which one server is once stopped for a minute."""

SHORT_SECONDS = (0.1, 2.0)
LONG_SECONDS = (2.0, 10.0)
"""Shortest and longest duration of a fault in seconds, each half of the time.

A killed server is lost after 2 s, a silent one after 6.
"""

REST_SECONDS = 5.0
"""Seconds from the end of one fault of a process to its next fault. A start takes a while."""


@dataclass(frozen=True)
class Fault:
    """A fault. `begins` and `ends`: seconds since the first possible fault."""

    kind: Kind
    begins: float
    ends: float
    servers: tuple[int, ...]
    """The process concerned, one side of a cut, or (who is not heard, who does not hear)."""
    is_silent: bool = False
    """True if bytes vanish. False if connections are closed, which is noticed at once."""

    def __str__(self) -> str:
        names = ", ".join("abcde"[number] for number in self.servers)
        how = " (silently)" if self.is_silent else ""
        return f"{self.begins:6.1f} s to {self.ends:6.1f} s  {self.kind}{how}: {names}"

    def broken_ways(self, servers: int) -> set[tuple[int, int]]:
        """Ordered pairs of servers, the first of which the second does not hear."""
        everybody = range(servers)
        match self.kind:
            case Kind.PART | Kind.ISOLATE:
                side = self.servers
                return {way for way in permutations(everybody, 2) if (way[0] in side) != (way[1] in side)}
            case Kind.PAIR:
                return {*permutations(self.servers, 2)}
            case Kind.ONE_WAY:
                source, destination = self.servers
                return {(source, destination)}
        return set()


def plan(seed: int, *, seconds: float, every: float, servers: int) -> list[Fault]:
    """Return a fault every `every` seconds. Each ends by itself within the time, and several may last at once.

    Kinds come in shuffled rounds, so that a short run has as many of them as possible. A long run also has a pause of a
    minute.
    """
    chance = random.Random(seed)
    rested_at = [0.0] * servers
    long_pauses = [_long_pause(chance, seconds, servers)] if seconds >= LONG_PAUSE_FROM_SECONDS else []
    faults = [*long_pauses]
    round_of_kinds: list[Kind] = []
    begins = every
    while begins < seconds:
        if not round_of_kinds:
            kinds = [kind for kind in Kind if kind is not Kind.LONG_PAUSE]
            round_of_kinds = chance.sample(kinds, len(kinds))
        kind = round_of_kinds.pop()
        ends = min(begins + chance.uniform(*chance.choice((SHORT_SECONDS, LONG_SECONDS))), seconds)
        stopped = [
            pause.servers[0]
            for pause in long_pauses
            if pause.begins <= ends + REST_SECONDS and begins <= pause.ends + REST_SECONDS
        ]
        rested = [number for number in range(servers) if rested_at[number] <= begins and number not in stopped]
        if kind in OF_PROCESSES:
            victims = chance.sample(rested, 1) if rested else []
            for victim in victims:
                rested_at[victim] = ends + REST_SECONDS
        else:
            size = 1 if kind is Kind.ISOLATE else 2
            victims = chance.sample(range(servers), size)
        is_silent = kind is Kind.ONE_WAY or (kind not in OF_PROCESSES and chance.random() < 0.5)
        if victims:
            faults.append(Fault(kind, begins, ends, tuple(victims), is_silent))
        begins += every
    return sorted(faults, key=lambda fault: fault.begins)


def _long_pause(chance: random.Random, seconds: float, servers: int) -> Fault:
    begins = chance.uniform(0.0, seconds - MINUTE)
    return Fault(Kind.LONG_PAUSE, begins, begins + MINUTE, (chance.randrange(servers),))
