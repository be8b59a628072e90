"""Clients that delete and create again a group whose server was cut off before it heard of an arc.

Both ends have acknowledged two updates, of which the second ended the effect of the first. The client picks an arc that
is suspended at one end and was never heard of at the other end. Without such clients the case comes up once in
thousands of runs.

Source: docs/protocol-partitions.md, "Healing".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from random import Random

from namegraph import (
    ArcRecord,
    CreateGroup,
    DeleteGroup,
    NodeId,
    NodeKind,
    Operation,
    RequestId,
    ServerCore,
    ServerId,
    UpdateCommand,
)
from simulation.checks.partition_ledger import PartitionLedger
from simulation.cluster.cluster import WORLD, Cluster
from simulation.cluster.networks import Errand
from simulation.workload.clients import Population

LOOKS, SECONDS_BETWEEN = 30, 10.0
"""Number of looks for such a group in each burst, until one is found, and the seconds between two looks."""


class RecreatedGroups:
    """Clients of one cluster that create groups anew."""

    def __init__(self, cluster: Cluster, population: Population, chance: Random, apart: PartitionLedger) -> None:
        self._cluster = cluster
        self._population = population
        self._apart = apart
        self._chance = chance
        self._is_done = False
        self.tally: Counter[str] = Counter()

    def submit_burst(self) -> None:
        """Let at most one group be deleted and created again within some time from now."""
        self._is_done = False
        for number in range(LOOKS):
            self._cluster.send_errand(WORLD, Errand(self._look), delay=number * SECONDS_BETWEEN)

    def _look(self) -> None:
        found = [] if self._is_done else [*self._found()]
        if not found:
            return
        self._is_done = True
        server, group = self._chance.choice(found)
        self.tally["groups made anew that missed an arc"] += 1
        self._population.made_anew.add(group)
        # A server that has not heard of the deletion may leave arcs of the group.
        self._apart.groups.add(group)
        self._ask(server, DeleteGroup(group, force=True))
        again = partial(self._ask, server, CreateGroup(group))
        self._cluster.send_errand(WORLD, Errand(again), delay=self._chance.expovariate(0.1))

    def _found(self) -> Iterator[tuple[ServerId, NodeId]]:
        """Yield groups that do not know an arc of theirs which is suspended at its other end."""
        for core in self._up():
            graph = core.graph
            for parent, child in graph.suspended:
                ends = graph.ids[parent], graph.ids[child]
                for end in (node for node in (parent, child) if not core.owns(node)):
                    home = core.home_of(graph.ids[end])
                    is_group = end == parent or graph.kind(end) is NodeKind.GROUP
                    if is_group and home not in self._cluster.down and _misses(self._cluster.servers[home], ends):
                        yield home, graph.ids[end]

    def _up(self) -> list[ServerCore]:
        return [core for server, core in self._cluster.servers.items() if server not in self._cluster.down]

    def _ask(self, server: ServerId, operation: Operation) -> None:
        commands = self._population.commands
        ticket = len(commands)
        commands[ticket] = UpdateCommand(ticket, RequestId(f"r{ticket}"), (operation,))
        self._cluster.submit(server, commands[ticket])


def _misses(core: ServerCore, ends: tuple[NodeId, NodeId]) -> bool:
    """True if a server knows nothing of an arc, not even a tombstone."""
    graph = core.graph
    if not all(end in graph.index for end in ends):
        return True
    parent, child = (graph.index[end] for end in ends)
    known: list[ArcRecord | None] = [graph.suspended.get((parent, child)), graph.tombstones.get((parent, child))]
    return graph.arc(parent, child) is None and not any(known)
