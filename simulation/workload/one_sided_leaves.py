"""Clients that change suspended arcs at the end that is there: the home of their child.

While the home of the parent is away, what enters a group from there is left where the group is, and some of it is
joined there again, to wait. Who asks looks at what is suspended at that instant; by the time the server reads it, that
may be over, and the answer a refusal.

Source: protocol.md section 7 (leaving a suspended arc is one tombstone at the end that is reachable).
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from random import Random

from namegraph import (
    ChildKind,
    JoinArc,
    LeaveArc,
    NodeId,
    NodeIndex,
    NodeKind,
    Operation,
    RequestId,
    ServerCore,
    ServerId,
    UpdateCommand,
    subnet_of,
)
from simulation.checks.partition_ledger import PartitionLedger
from simulation.cluster.cluster import WORLD, Cluster
from simulation.cluster.networks import Errand
from simulation.workload.clients import Population

LEAVES_AT_MOST = 6
"""For each burst of updates."""

SPREADS = (30.0, 100.0, 300.0)
"""Within what time they are asked for: views part some time after links do."""

BATCH_SHARE = 0.3
"""Of leaves, those in one update with the join of an arc to what another server of the view may own."""

JOINED_AGAIN_SHARE = 0.3
"""Of leaves, those after which the arc is joined at the same end, to wait for the home of its parent."""


class OneSidedLeaves:
    """Clients of one cluster."""

    def __init__(self, cluster: Cluster, population: Population, chance: Random, apart: PartitionLedger) -> None:
        self._cluster = cluster
        self._apart = apart
        self._population = population
        self._chance = chance
        self.tally: Counter[str] = Counter()

    def submit_burst(self) -> None:
        """Let some arcs be left, if there are any, within some time from now."""
        spread = self._chance.choice(SPREADS)
        for _ in range(self._chance.randint(0, LEAVES_AT_MOST)):
            self._cluster.send_errand(WORLD, Errand(self._leave_one), delay=self._chance.random() * spread)

    def _leave_one(self) -> None:
        found = [arc for server in self._cluster.servers for arc in self._suspended_into(server)]
        if not found:
            return
        server, parent, child = self._chance.choice(found)
        leave = LeaveArc(parent, child)
        self.tally["left at the child's end"] += 1
        below = self._chance.choice([group for group in self._population.groups if group != child])
        if self._chance.random() < BATCH_SHARE and self._cluster.servers[server].is_in_view(ServerId(subnet_of(below))):
            batch: list[Operation] = [leave, JoinArc(child, below, if_needed=True)]
            self._ask(server, *self._chance.sample(batch, 2))
            return
        self._ask(server, leave)
        # A group that was deleted meanwhile has no members: the arc would stay, as rejected.
        if parent in self._population.groups and self._chance.random() < JOINED_AGAIN_SHARE:
            # Of this the other end hears when it is back.
            self._apart.decided_apart.add((parent, child))
            again = partial(self._ask, server, JoinArc(parent, child, ChildKind.GROUP, offline=True))
            self._cluster.send_errand(WORLD, Errand(again), delay=self._chance.expovariate(0.1))

    def _suspended_into(self, server: ServerId) -> list[tuple[ServerId, NodeId, NodeId]]:
        """What can be left at a server, as it is the home of the child, a group."""
        if server in self._cluster.down:
            return []
        core = self._cluster.servers[server]
        graph = core.graph
        arcs = [(graph.ids[parent], graph.ids[child]) for parent, child in graph.suspended if _is_of(core, child)]
        return [(server, parent, child) for parent, child in arcs if not core.is_in_view(core.home_of(parent))]

    def _ask(self, server: ServerId, *operations: Operation) -> None:
        commands = self._population.commands
        ticket = len(commands)
        commands[ticket] = UpdateCommand(ticket, RequestId(f"r{ticket}"), operations)
        self._cluster.submit(server, commands[ticket])


def _is_of(core: ServerCore, child: NodeIndex) -> bool:
    return core.owns(child) and core.graph.kind(child) is NodeKind.GROUP
