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
from simulation.decisions import Decisions
from simulation.effects import EffectsCheck
from simulation.invariants import InvariantViolatedError
from simulation.networks import RandomNetwork
from simulation.recording import record
from simulation.resolutions import Resolvers
from simulation.scenario import Scenario
from simulation.serial import ArcName, TrueGraph, run_serially

BURSTS_AT_MOST = 6

RESTART_SHARES = (0.0, 0.0, 0.002, 0.01, 0.05)
"""Of steps, those at which a server crashes and starts again; a seed takes one of these."""

EXPECTED_REFUSALS = frozenset(
    {
        Reason.ALREADY_MEMBER,
        Reason.NOT_A_MEMBER,
        Reason.GROUP_EXISTS,
        Reason.GROUP_IN_USE,
        Reason.GROUP_NOT_FOUND,
        Reason.NAME_IN_USE,
        Reason.DEADLINE_EXCEEDED,
    }
)


@dataclass(slots=True)
class Tally:
    """What happened in a run."""

    outcomes: Counter[str] = field(default_factory=Counter)
    messages: Counter[str] = field(default_factory=Counter)
    effects: Counter[str] = field(default_factory=Counter)
    walks: Counter[str] = field(default_factory=Counter)
    """Resolutions while updates were under way, and what they took."""

    def add(self, other: Tally) -> None:
        """Add another run."""
        self.outcomes += other.outcomes
        self.messages += other.messages
        self.effects += other.effects
        self.walks += other.walks


def run_seed(seed: int, *, servers: int | None = None, updates: int | None = None) -> Tally:
    """Run one seed; raises `AssertionError` where anything is wrong. None: the seed chooses."""
    return SeedRun(seed, servers=servers, updates=updates).run()


class SeedRun:
    """What a seed chooses, under way."""

    def __init__(self, seed: int, *, servers: int | None = None, updates: int | None = None) -> None:
        """None: the seed chooses."""
        self._chance = chance = Random(seed)  # noqa: S311 - a seed must replay
        count = chance.randint(2, 6) if servers is None else servers
        subnets = [Subnet(f"s{number}.example") for number in range(count)]
        network = RandomNetwork(chance, is_wild=chance.random() < 0.7)
        self._restart_share = chance.choice(RESTART_SHARES)
        self._cluster = Cluster(subnets, network, crashes=chance, restart_share=self._restart_share)
        self._population = populate(chance, subnets)
        self._updates = updates
        self._decisions = Decisions(self._cluster)
        own_chance = Random(seed)  # noqa: S311 - as above
        self._resolvers = Resolvers(self._cluster, self._decisions, self._population, own_chance)
        self._effects = EffectsCheck(self._cluster.servers)
        self._burst_begins: list[int] = []

    def run(self) -> Tally:
        """Run all bursts; raises `AssertionError` where anything is wrong."""
        chance, cluster, population = self._chance, self._cluster, self._population
        create_groups(cluster, population)
        arcs: dict[ArcName, int] = {}
        left = self._updates
        while (len(self._burst_begins) < chance.randint(1, BURSTS_AT_MOST)) if left is None else left > 0:
            self._burst_begins.append(len(cluster.history))
            size = chance.randint(2, 12)
            if left is not None:
                size = min(size, left)
                left -= size
            submit_burst(chance, cluster, population, arcs, updates=size)
            self._resolvers.submit_burst()
            cluster.run(self._decisions.watch)
            check_quiet(cluster.servers, population.commands, cluster.answers)
            self._resolvers.check(population.commands)
            state = run_serially(
                population.commands, cluster.answers, cluster.places, population.groups, self._effects.check
            )
            arcs = state.arcs
            check_all(cluster.servers, TrueGraph(arcs), state.groups)
            if self._restart_share:
                cluster.restart_all()
                cluster.run()
                check_all(cluster.servers, TrueGraph(arcs), state.groups)
        return _tally(cluster, self._resolvers)

    def recorded(self) -> Scenario:
        """What has happened so far."""
        history = self._cluster.history
        ends = [*self._burst_begins[1:], len(history)]
        bursts = [history[begin:end] for begin, end in zip(self._burst_begins, ends, strict=True)]
        return record(self._cluster, self._population.groups, bursts)


def create_groups(cluster: Cluster, population: Population) -> None:
    """Create all groups, each at its home."""
    for number, group in enumerate(population.groups):
        ticket = -1 - number
        command = UpdateCommand(ticket, RequestId(f"create {group}"), (CreateGroup(group),))
        cluster.submit(ServerId(subnet_of(group)), command)
    cluster.run()
    for number in range(len(population.groups)):
        assert isinstance(cluster.answers.pop(-1 - number), Committed)


def _tally(cluster: Cluster, resolvers: Resolvers) -> Tally:
    tally = Tally(messages=cluster.counts(), walks=resolvers.tally)
    for outcome in cluster.answers.values():
        if isinstance(outcome, Committed):
            tally.outcomes["committed"] += 1
            tally.effects.update(effect.kind.value for effect in outcome.effects)
        else:
            tally.outcomes[outcome.reason.value] += 1
            if outcome.reason not in EXPECTED_REFUSALS:
                raise InvariantViolatedError(f"an update was refused: {outcome.message}")
    return tally
