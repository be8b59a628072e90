"""Clients that join members of servers that are away, and groups to groups of such servers, to wait for them.

Some of it cannot be: there is no such group, or it is something else than the arc takes it for. Then it is rejected
when the two meet, until it is left, or the group is created.

Source: protocol.md section 7 (joining a suspended arc is accepted, and if it cannot be, it stays visible as rejected).
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
"""For each burst of updates."""

SPREADS = (30.0, 100.0, 300.0)
"""Within what time they are asked for: views part some time after links do."""

BELOW_SHARE = 0.4
"""Of joins, those at the end of the child."""

AGAIN_SHARE = 0.3
"""Of looks, those that join or leave an arc that was rejected, if there is one."""


class OfflineJoins:
    """Clients of one cluster."""

    def __init__(self, cluster: Cluster, population: Population, chance: Random, apart: PartitionLedger) -> None:
        self._cluster = cluster
        self._apart = apart
        self._population = population
        self._chance = chance
        self.tally: Counter[str] = Counter()

    def submit_burst(self) -> None:
        """Let some arcs be joined, or changed that were rejected, within some time from now."""
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
        # Of these, one is never there.
        names = [*population.spare_groups, *population.processes, nobody_of(other)]
        name = chance.choice([name for name in names if ServerId(subnet_of(name)) == other])
        if chance.random() < BELOW_SHARE and name not in population.processes:
            join = JoinArc(name, chance.choice(own), ChildKind.GROUP, offline=True)
        else:
            join = JoinArc(chance.choice(own), name, chance.choice([ChildKind.GROUP, ChildKind.PROCESS]), offline=True)
        self.tally["joined to wait"] += 1
        self._ask(server, join)

    def _change_rejected(self) -> None:
        """Join it in the ordinary way, or leave it."""
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
        # What becomes of it depends on what its other end is, which no serial run knows.
        self._apart.arcs.add((change.parent, change.child))
        self._apart.decided_apart.add((change.parent, change.child))
        operations: tuple[Operation, ...] = (change,)
        commands = self._population.commands
        ticket = len(commands)
        commands[ticket] = UpdateCommand(ticket, RequestId(f"r{ticket}"), operations)
        self._cluster.submit(server, commands[ticket])


def nobody_of(server: ServerId) -> NodeId:
    """A name that a server has nothing of until another one joins it."""
    return NodeId(f"nobody@{server}")
