"""Clients that ask for the memberships of a node while updates are under way and servers are apart.

The home of the node answers at once, from its own state. A certain answer must be true at the instant of the answer.
Excepted are changes by updates whose callers had no answer by then: the home may have heard of them or not. A server
that its peers have gone on without may not know that yet. Its failure detector makes it stop being certain within a
short time; the simulation takes the detector to do so at once.

Source: docs/protocol-partitions.md, "Answers while servers are apart".
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from random import Random
from typing import NamedTuple

from namegraph import CreateGroup, DeleteGroup, NodeId, ServerId, SetPolicy, subnet_of
from resolver.membership import MembershipResolver
from simulation.checks.partition_ledger import PartitionLedger
from simulation.cluster.cluster import WORLD, Cluster
from simulation.cluster.disk import HeldAnswer
from simulation.cluster.networks import Errand
from simulation.oracle.serial_model import ArcName, TrueGraph
from simulation.oracle.violation import InvariantViolatedError
from simulation.workload.clients import Population, is_foreign

QUESTIONS_AT_MOST = 30
"""Limit on the questions of each burst of updates."""

SPREADS = (1.0, 5.0, 30.0, 100.0, 300.0)
"""Time spans within which clients ask. Each burst draws one."""


class _ToldMemberships(NamedTuple):
    node: NodeId
    groups: frozenset[NodeId]
    instant: int
    under_way: frozenset[int]
    """Tickets of updates that were submitted and not answered."""


class MembershipQuestions:
    """Clients of one cluster that ask for memberships."""

    def __init__(self, cluster: Cluster, population: Population, chance: Random) -> None:
        self._cluster = cluster
        self._population = population
        self._nodes = [
            node
            for node in [*population.groups, *population.processes, *population.spare_groups]
            if not is_foreign(node)
        ]
        self._chance = chance
        self._told: list[_ToldMemberships] = []
        self.tally: Counter[str] = Counter()

    def submit_burst(self) -> None:
        """Let clients ask within a random time from now."""
        spread = self._chance.choice(SPREADS)
        for _ in range(self._chance.randint(0, QUESTIONS_AT_MOST)):
            ask = partial(self._ask, self._chance.choice(self._nodes))
            self._cluster.send_errand(WORLD, Errand(ask), delay=self._chance.random() * spread)

    def _ask(self, node: NodeId) -> None:
        cluster, home = self._cluster, ServerId(subnet_of(node))
        if home in cluster.down:
            return
        gone_on = [server for server, core in cluster.servers.items() if not core.is_in_view(home)]
        resolver = MembershipResolver(cluster.servers[home], unheard=lambda: gone_on)
        if resolver.uncertainty().above(node):
            self.tally["memberships told as uncertain"] += 1
            return
        under_way = frozenset(self._population.commands.keys() - cluster.answers.keys())
        told = _ToldMemberships(node, frozenset(resolver.memberships(node)), cluster.instant, under_way)
        cluster.when_durable(home, HeldAnswer(partial(self._told.append, told), lambda: None))

    def check(self, graphs: Sequence[tuple[int, dict[ArcName, int]]], apart: PartitionLedger) -> None:
        """Compare all answers since the last check with the graphs of that time (`Decisions.take_graphs`)."""
        instants = [instant for instant, _ in graphs]
        at_any_time = {arc for _, arcs in graphs for arc in arcs}
        for told in self._told:
            _, arcs = graphs[bisect_right(instants, told.instant) - 1]
            uncertain = apart.decided_apart | self._touched(told.under_way, at_any_time)
            possible = _groups_of(told.node, {**dict.fromkeys(uncertain, 0), **arcs})
            sure = _groups_of(told.node, {arc: cost for arc, cost in arcs.items() if arc not in uncertain})
            self.tally["memberships told as certain"] += 1
            if not sure <= told.groups <= possible:
                missed, extra = sorted(sure - told.groups), sorted(told.groups - possible)
                what = f"{told.node} as of {told.instant} is told to be in {sorted(told.groups)}"
                raise InvariantViolatedError(f"memberships: {what}: missed {missed}, met {extra}")
        self._told = []

    def _touched(self, tickets: Iterable[int], at_any_time: Iterable[ArcName]) -> set[ArcName]:
        """Return the arcs that these updates may join or leave."""
        arcs, groups = set[ArcName](), set[NodeId]()
        for ticket in tickets:
            for operation in self._population.commands[ticket].operations:
                if isinstance(operation, CreateGroup | DeleteGroup | SetPolicy):
                    groups.add(operation.group)
                else:
                    arcs.add((operation.parent, operation.child))
        return arcs.union(arc for arc in at_any_time if not groups.isdisjoint(arc))


def _groups_of(node: NodeId, arcs: Mapping[ArcName, int]) -> set[NodeId]:
    graph = TrueGraph(arcs)
    return graph.above(graph.parents.get(node, ()))
