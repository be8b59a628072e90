"""Clients that join arcs to servers that are away. These arcs wait suspended until the servers meet.

A client joins a member of an absent server to a group, or a group to a group of an absent server. Some of these arcs
cannot be joined: the group does not exist, or the node is of another kind than the arc takes it for. Then the arc is
rejected when the servers meet, until it is left, or the group is created.

Source: docs/protocol-partitions.md, "While apart" and "Rejected".
"""

from __future__ import annotations

from collections import Counter
from random import Random

from namegraph import ChildKind, JoinArc, LeaveArc, NodeId, Operation, RequestId, ServerId, UpdateCommand, subnet_of
from simulation.checks.partition_ledger import PartitionLedger
from simulation.cluster.cluster import WORLD, Cluster
from simulation.cluster.networks import Errand
from simulation.workload.clients import Population

JOINS_AT_MOST = 6
"""Limit on the offline joins of each burst of updates."""

SPREADS = (30.0, 100.0, 300.0)
"""Time spans within which the joins are submitted. They are long, since views part some time after links do."""

BELOW_SHARE = 0.4
"""Share of joins at the home of the child."""

AGAIN_SHARE = 0.3
"""Share of attempts that change a rejected arc, if there is one."""


class OfflineJoins:
    """Clients of one cluster that join offline."""

    def __init__(self, cluster: Cluster, population: Population, chance: Random, apart: PartitionLedger) -> None:
        self._cluster = cluster
        self._apart = apart
        self._population = population
        self._chance = chance
        self.tally: Counter[str] = Counter()

    def submit_burst(self) -> None:
        """Let clients join some arcs offline, or change rejected arcs, within a random time from now."""
        spread = self._chance.choice(SPREADS)
        for _ in range(self._chance.randint(0, JOINS_AT_MOST)):
            change = self._change_rejected if self._chance.random() < AGAIN_SHARE else self._join
            self._cluster.send_errand(WORLD, Errand(change), delay=self._chance.random() * spread)

    def _join(self) -> None:
        chance, population = self._chance, self._population
        server = chance.choice([*self._cluster.servers])
        core = self._cluster.servers[server]
        away = [other for other in core.servers_met if not core.is_in_view(other)]
        own = [group for group in population.groups if core.home_of(group) == server]
        if server in self._cluster.down or not away or not own:
            return
        other = chance.choice(away)
        # The last of these names never exists.
        names = [*population.spare_groups, *population.processes, nobody_of(other)]
        name = chance.choice([name for name in names if ServerId(subnet_of(name)) == other])
        if chance.random() < BELOW_SHARE and name not in population.processes:
            join = JoinArc(name, chance.choice(own), ChildKind.GROUP, offline=True)
        else:
            join = JoinArc(chance.choice(own), name, chance.choice([ChildKind.GROUP, ChildKind.PROCESS]), offline=True)
        self.tally["joined to wait"] += 1
        self._ask(server, join)

    def _change_rejected(self) -> None:
        """Join a rejected arc in the ordinary way, or leave it."""
        found = [
            (server, arc)
            for server, core in self._cluster.servers.items()
            if server not in self._cluster.down
            for arc, why in core.suspended_arcs()
            if why.startswith("rejected")
        ]
        if not found:
            return
        server, arc = self._chance.choice(found)
        home = self._cluster.servers[server].home_of(arc.parent)
        if self._chance.random() < 0.5:
            self.tally["rejected and left"] += 1
            self._ask(server, LeaveArc(*arc))
        elif home not in self._cluster.down:
            self.tally["rejected and joined again"] += 1
            self._ask(home, JoinArc(*arc, self._chance.choice([*ChildKind])))

    def _ask(self, server: ServerId, change: JoinArc | LeaveArc) -> None:
        # The fate of such an arc depends on the node at its other end, which no serial run knows.
        self._apart.arcs.add((change.parent, change.child))
        self._apart.decided_apart.add((change.parent, change.child))
        operations: tuple[Operation, ...] = (change,)
        commands = self._population.commands
        ticket = len(commands)
        commands[ticket] = UpdateCommand(ticket, RequestId(f"r{ticket}"), operations)
        self._cluster.submit(server, commands[ticket])


def nobody_of(server: ServerId) -> NodeId:
    """Return a name that a server does not know until another server joins it."""
    return NodeId(f"nobody@{server}")
