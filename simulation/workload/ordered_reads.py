"""Clients that read a group at one point in the order of updates, and the check of their answers.

A read is ordered like an update, so its answer is compared with the graph after all updates of lower priority.

Source: docs/protocol-updates.md, "Reads in order".
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from random import Random

from namegraph import Committed, Priority, ReadCommand, Reason, ServerId, subnet_of
from simulation.checks.partition_ledger import PartitionLedger
from simulation.cluster.cluster import Cluster
from simulation.oracle.serial_model import TrueGraph, TrueState, states
from simulation.oracle.violation import InvariantViolatedError
from simulation.workload.clients import Population

READS_AT_MOST = 4
"""Limit on the reads of each burst of updates."""

SPREADS = (1.0, 5.0, 30.0, 100.0)
"""Time spans within which clients read. Each burst draws one."""

FIRST_TICKET = 1_000_000
"""Lowest ticket of reads, above all tickets of updates."""


class OrderedReads:
    """Clients of one cluster that read in order."""

    def __init__(self, cluster: Cluster, population: Population, chance: Random, apart: PartitionLedger) -> None:
        self._cluster = cluster
        self._apart = apart
        self._population = population
        self._chance = chance
        self._commands: dict[int, ReadCommand] = {}
        self._to_check: list[int] = []
        self.tally: Counter[str] = Counter()

    def submit_burst(self) -> None:
        """Let clients read some groups within a short time."""
        chance, population = self._chance, self._population
        spread = chance.choice(SPREADS)
        for _ in range(chance.randint(0, READS_AT_MOST)):
            group = chance.choice(population.groups + population.spare_groups)
            ticket = FIRST_TICKET + len(self._commands)
            self._commands[ticket] = ReadCommand(ticket, group)
            self._to_check.append(ticket)
            home = ServerId(subnet_of(group))
            self._cluster.submit(home, self._commands[ticket], delay=chance.random() * spread)

    def check(self) -> None:
        """Check all answers since the last check. Call this while no update is under way."""
        population, cluster = self._population, self._cluster
        places: list[Priority] = []
        graphs = [TrueState(set(population.groups), {})]
        for place, _, _, state in states(
            population.commands, cluster.answers, cluster.places, population.groups, self._apart
        ):
            places.append(place)
            graphs.append(state)
        for ticket in self._to_check:
            read_at = cluster.places.get(ticket)
            self._compare(ticket, None if read_at is None else graphs[bisect_left(places, read_at)])
        self._to_check = []

    def _compare(self, ticket: int, state: TrueState | None) -> None:
        group = self._commands[ticket].group
        answer = self._cluster.answers.get(ticket)
        match answer:
            case Committed(members=members) if state is not None:
                self.tally["told"] += 1
                uncertain = self._apart.arcs if answer.unreachable else self._apart.decided_apart
                truth = TrueGraph({**dict.fromkeys(uncertain, 0), **state.arcs})
                certain = TrueGraph({arc: cost for arc, cost in state.arcs.items() if arc not in uncertain})
                expected, sure = truth.below([group]), certain.below([group])
                found = [member.node for member in members]
                hidden = truth.below(answer.unreachable)
                self.tally["told of a part"] += bool(answer.unreachable)
                is_right = sure - hidden <= set(found) <= expected and found == sorted(set(found))
                # An update in doubt may have deleted the group. Then the answer must name the group as unreachable.
                is_there = group in state.groups or group in answer.unreachable
                _require(ticket, is_there, f"{group} is not there")
                _require(ticket, is_right, f"{group} is told to have {found}, not {sorted(expected)}")
            case None | Committed():
                raise InvariantViolatedError(f"stuck: the read {ticket} of {group}: {answer}")
            case _ if answer.reason is Reason.UNAVAILABLE:
                self.tally["refused since a server was out of reach"] += 1
            case _:
                self.tally["refused"] += 1
                _require(ticket, state is not None and group not in state.groups, f"{group} is there: {answer}")


def _require(ticket: int, holds: bool, what: str) -> None:
    if not holds:
        raise InvariantViolatedError(f"read {ticket}: {what}")
