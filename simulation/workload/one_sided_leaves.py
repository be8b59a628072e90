"""Clients that change suspended arcs at the end that is in reach: the home of the child.

While the home of the parent is away, clients leave arcs at the home of the child. They join some of these arcs there
again, to wait. A client picks from the arcs that are suspended at that instant. The suspension may be over before the
server reads the command, and the server may refuse.

Source: docs/protocol-partitions.md, "While apart".
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
"""Limit on the one-sided leaves of each burst of updates."""

SPREADS = (30.0, 100.0, 300.0)
"""Time spans within which the leaves are submitted. They are long, since views part some time after links do."""

BATCH_SHARE = 0.3
"""Share of leaves in one update with the join of an arc, whose child may belong to another server of the view."""

JOINED_AGAIN_SHARE = 0.3
"""Share of leaves after which the arc is joined at the same end, to wait for the home of its parent."""


class OneSidedLeaves:
    """Clients of one cluster that leave suspended arcs."""

    def __init__(self, cluster: Cluster, population: Population, chance: Random, apart: PartitionLedger) -> None:
        self._cluster = cluster
        self._apart = apart
        self._population = population
        self._chance = chance
        self.tally: Counter[str] = Counter()

    def submit_burst(self) -> None:
        """Let clients leave some suspended arcs, if there are any, within a random time from now."""
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
        # A group that was deleted meanwhile has no members: the arc would stay rejected.
        if parent in self._population.groups and self._chance.random() < JOINED_AGAIN_SHARE:
            # The other end hears of this join when it is back.
            self._apart.decided_apart.add((parent, child))
            again = partial(self._ask, server, JoinArc(parent, child, ChildKind.GROUP, offline=True))
            self._cluster.send_errand(WORLD, Errand(again), delay=self._chance.expovariate(0.1))

    def _suspended_into(self, server: ServerId) -> list[tuple[ServerId, NodeId, NodeId]]:
        """Return the suspended arcs that can be left at a server, as the home of their child, a group."""
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
