"""Clients that change the graph on all servers at once: joins and leaves, alone and in batches over several homes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random

from namegraph.events import JoinArc, LeaveArc, UpdateCommand
from namegraph.names import NodeId, ServerId, Subnet, subnet_of
from namegraph.records import RequestId
from simulation.cluster import Cluster

ArcName = tuple[NodeId, NodeId]

FOREIGN = Subnet("elsewhere.example")
"""The domain of processes that no server owns."""

ALONE_SHARE = 0.7
"""Of updates, those of one arc."""

HASTY_SHARE = 0.04
"""Of updates, those whose deadline is so near that they may be aborted when all votes are in."""


@dataclass(slots=True)
class Population:
    """The nodes that clients join, and the commands they sent."""

    groups: list[NodeId]
    processes: list[NodeId]
    commands: dict[int, UpdateCommand] = field(default_factory=dict)


def populate(chance: Random, subnets: Iterable[Subnet]) -> Population:
    """Choose groups and native processes of each subnet, and some foreign ones."""
    groups, processes = [], []
    for subnet in subnets:
        groups += [NodeId(f"g{number}@{subnet}") for number in range(chance.randint(1, 4))]
        processes += [NodeId(f"p{number}@{subnet}") for number in range(chance.randint(0, 2))]
    processes += [NodeId(f"f{number}@{FOREIGN}") for number in range(chance.randint(0, 2))]
    return Population(groups, processes)


def submit_burst(
    chance: Random, cluster: Cluster, population: Population, present: Iterable[ArcName], *, updates: int
) -> None:
    """Let clients ask for so many updates within a short time. `present` are the arcs there are by now."""
    arcs = set(present)
    share_of_joins = chance.choice([0.4, 0.6, 0.75, 0.9])
    spread = chance.choice([0, 1, 5, 30])
    for _ in range(updates):
        operations = _operations(chance, population, arcs, share_of_joins)
        if not operations:
            continue
        ticket = len(population.commands)
        delay = chance.random() * spread
        deadline = cluster.now + delay + 1.0 if chance.random() < HASTY_SHARE else None
        command = UpdateCommand(ticket, RequestId(f"r{ticket}"), operations, deadline)
        population.commands[ticket] = command
        cluster.submit(ServerId(subnet_of(operations[0].parent)), command, delay=delay)
        for operation in operations:
            arc = (operation.parent, operation.child)
            if isinstance(operation, JoinArc):
                arcs.add(arc)
            else:
                arcs.discard(arc)


def _operations(
    chance: Random, population: Population, arcs: set[ArcName], share_of_joins: float
) -> tuple[JoinArc | LeaveArc, ...]:
    size = 1 if chance.random() < ALONE_SHARE else chance.randint(2, 4)
    operations: dict[ArcName, JoinArc | LeaveArc] = {}
    for _ in range(size):
        if arcs and chance.random() > share_of_joins:
            parent, child = chance.choice(sorted(arcs))
            operations.setdefault((parent, child), LeaveArc(parent, child))
            continue
        parent = chance.choice(population.groups)
        is_group = chance.random() < 0.8 or not population.processes
        child = chance.choice(population.groups if is_group else population.processes)
        if parent != child:
            operations.setdefault((parent, child), JoinArc(parent, child, cost=chance.randint(0, 2)))
    return tuple(operations.values())
