"""Runs one seed: servers, nodes, bursts of concurrent updates; checks everything after each burst."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random

from namegraph.events import Committed, CreateGroup, UpdateCommand
from namegraph.names import ServerId, Subnet, subnet_of
from namegraph.records import RequestId
from namegraph.refusals import Reason
from simulation.checkers import check_all, check_quiet
from simulation.clients import Population, populate, submit_burst
from simulation.cluster import Cluster
from simulation.flight import Watcher
from simulation.invariants import InvariantViolatedError
from simulation.serial import ArcName, TrueGraph, run_serially

BURSTS_AT_MOST = 6

EXPECTED_REFUSALS = frozenset({Reason.ALREADY_MEMBER, Reason.NOT_A_MEMBER, Reason.DEADLINE_EXCEEDED})


@dataclass(slots=True)
class Tally:
    """What happened in a run."""

    outcomes: Counter[str] = field(default_factory=Counter)
    messages: Counter[str] = field(default_factory=Counter)
    effects: Counter[str] = field(default_factory=Counter)
    walks: Counter[str] = field(default_factory=Counter)
    """Walks while updates were under way."""

    def add(self, other: Tally) -> None:
        """Add another run."""
        self.outcomes += other.outcomes
        self.messages += other.messages
        self.effects += other.effects
        self.walks += other.walks


def run_seed(seed: int, *, servers: int | None = None, updates: int | None = None) -> Tally:
    """Run one seed; raises `AssertionError` where anything is wrong. None: the seed chooses."""
    chance = Random(seed)  # noqa: S311 - a seed must replay
    count = chance.randint(2, 6) if servers is None else servers
    subnets = [Subnet(f"s{number}.example") for number in range(count)]
    cluster = Cluster(subnets, chance, is_wild=chance.random() < 0.7)
    population = populate(chance, subnets)
    create_groups(cluster, population)
    watcher = Watcher(cluster, population.commands, Random(seed))  # noqa: S311 - a seed must replay
    arcs: dict[ArcName, int] = {}
    left = updates
    bursts = 0
    while (bursts < chance.randint(1, BURSTS_AT_MOST)) if left is None else left > 0:
        size = chance.randint(2, 12)
        if left is not None:
            size = min(size, left)
            left -= size
        submit_burst(chance, cluster, population, arcs, updates=size)
        cluster.run(watcher.watch)
        check_quiet(cluster.servers, population.commands, cluster.answers)
        arcs = run_serially(population.commands, cluster.answers, cluster.places)
        check_all(cluster.servers, TrueGraph(arcs))
        bursts += 1
    return _tally(cluster, watcher)


def create_groups(cluster: Cluster, population: Population) -> None:
    """Create all groups, each at its home."""
    for number, group in enumerate(population.groups):
        ticket = -1 - number
        command = UpdateCommand(ticket, RequestId(f"create {group}"), (CreateGroup(group),))
        cluster.submit(ServerId(subnet_of(group)), command)
    cluster.run()
    for number in range(len(population.groups)):
        assert isinstance(cluster.answers.pop(-1 - number), Committed)


def _tally(cluster: Cluster, watcher: Watcher) -> Tally:
    tally = Tally(messages=cluster.counts(), walks=watcher.walks)
    for outcome in cluster.answers.values():
        if isinstance(outcome, Committed):
            tally.outcomes["committed"] += 1
            tally.effects.update(effect.kind.value for effect in outcome.effects)
        else:
            tally.outcomes[outcome.reason.value] += 1
            if outcome.reason not in EXPECTED_REFUSALS:
                raise InvariantViolatedError(f"an update was refused: {outcome.message}")
    return tally
