"""Clients that change the graph at all servers at once, by single operations and by batches over several homes.

In half of the seeds clients change any arc. In the others all clients *contend* for the same few arcs: the arcs of a
small layered graph, and some arcs that close loops in it. Clients join and leave these arcs over and over, many at one
instant.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random

from namegraph import (
    Composite,
    CreateGroup,
    DeleteGroup,
    JoinArc,
    LeaveArc,
    LeaveEverywhere,
    NodeId,
    Operation,
    RenameGroups,
    RequestId,
    ServerId,
    SetPolicy,
    Subnet,
    TakeOver,
    UpdateCommand,
    subnet_of,
)
from simulation.cluster.cluster import Cluster

ArcName = tuple[NodeId, NodeId]

FOREIGN = Subnet("elsewhere.example")
"""Domain of the processes that no server owns."""

CONTENDED_SHARE = 0.5
"""Share of seeds whose clients contend."""

HASTY_SHARE = 0.04
"""Share of updates with so near a deadline that they may be aborted before they are ordered."""

GROUPS_CHANGED_SHARE = 0.08
"""Share of operations that create or delete a group. Clients resolve no such group."""

TWICE_SHARE = 0.05
"""Share of operations on an arc that the same update reverts."""

IF_NEEDED_SHARE = 0.05

COMPOSITE_SHARE = 0.08
"""Share of updates that rename a group, take over a name, or leave everywhere, if clients send such commands."""


@dataclass(slots=True)
class Population:
    """The nodes that clients join, the arcs they contend for, and the commands they have sent."""

    groups: list[NodeId]
    processes: list[NodeId]
    spare_groups: list[NodeId]
    """Names of groups that do not exist at the start."""
    wanted: list[ArcName]
    """Arcs that clients contend for. Empty: clients join any arc."""
    loops: list[ArcName]
    """Arcs that close loops among the wanted ones."""
    alone_share: float
    """Share of updates with a single operation."""
    commands: dict[int, UpdateCommand] = field(default_factory=dict)
    has_composites: bool = False
    """True if clients send commands whose operations a server finds."""
    made_anew: set[NodeId] = field(default_factory=set)
    """Groups that were deleted and created again. Such a group may be missing for a while."""


def populate(chance: Random, subnets: Iterable[Subnet], *, composites: bool = False) -> Population:
    """Choose groups and native processes of each subnet, some foreign processes, and the arcs that clients
    contend for.
    """
    if chance.random() < CONTENDED_SHARE:
        return _contending(chance, subnets)
    groups, processes, spare = [], [], []
    for subnet in subnets:
        groups += [NodeId(f"g{number}@{subnet}") for number in range(chance.randint(1, 4))]
        processes += [NodeId(f"p{number}@{subnet}") for number in range(chance.randint(0, 2))]
        spare += [
            NodeId(f"n{number}@{subnet}")
            for number in range(chance.choice([0, 1, 3]) if composites else chance.randint(0, 1))
        ]
    processes += [NodeId(f"f{number}@{FOREIGN}") for number in range(chance.randint(0, 2))]
    return Population(groups, processes, spare, [], [], alone_share=0.7)


def is_foreign(name: NodeId) -> bool:
    """True if a name is that of a process that no server owns."""
    return subnet_of(name) == FOREIGN


def submit_burst(
    chance: Random, cluster: Cluster, population: Population, present: Iterable[ArcName], *, updates: int
) -> None:
    """Submit a number of updates within a short time. `present`: the arcs that exist by now."""
    arcs = set(present)
    share_of_joins = chance.choice([0.4, 0.6, 0.75, 0.9])
    spread = chance.choice([0, 1, 5, 30])
    for _ in range(updates):
        if population.has_composites and chance.random() < COMPOSITE_SHARE:
            _submit_composite(chance, cluster, population, delay=chance.random() * spread)
            continue
        operations = _operations(chance, population, arcs, share_of_joins)
        if not operations:
            continue
        ticket = len(population.commands)
        delay = chance.random() * spread
        deadline = cluster.now + delay + 1.0 if chance.random() < HASTY_SHARE else None
        # Every second client asks which nodes became controlled or released.
        command = UpdateCommand(ticket, RequestId(f"r{ticket}"), operations, deadline, reports_control=ticket % 2 == 0)
        population.commands[ticket] = command
        cluster.submit(_asked(operations[0]), command, delay=delay)
        for operation in operations:
            if isinstance(operation, JoinArc):
                arcs.add((operation.parent, operation.child))
            elif isinstance(operation, LeaveArc):
                arcs.discard((operation.parent, operation.child))


def _submit_composite(chance: Random, cluster: Cluster, population: Population, *, delay: float) -> None:
    ticket = len(population.commands)
    composite, touched, asked = _composite(chance, population)
    command = UpdateCommand(
        ticket,
        RequestId(f"r{ticket}"),
        # Servers ignore these operations. They tell the checks of concurrent reads which arcs may change.
        touched,
        reports_control=ticket % 2 == 0,
        composite=composite,
    )
    population.commands[ticket] = command
    cluster.submit(asked, command, delay=delay)


def _composite(chance: Random, population: Population) -> tuple[Composite, tuple[Operation, ...], ServerId]:
    """Return a command, all operations that it may stand for, and the server that takes it."""
    groups = [*population.groups, *population.spare_groups]
    if population.spare_groups and chance.random() < 0.6:
        old, new = _two_of_a_server(chance, population.spare_groups)
        arcs = [arc for group in groups for name in (old, new) for arc in ((group, name), (name, group))]
        arcs += [(name, process) for name in (old, new) for process in population.processes]
        both = [operation for arc in arcs for operation in (LeaveArc(*arc), JoinArc(*arc))]
        touched = (CreateGroup(old), DeleteGroup(old), CreateGroup(new), DeleteGroup(new), *both)
        if old != new and chance.random() < 0.7:
            return RenameGroups(((old, new),)), touched, ServerId(subnet_of(old))
        return TakeOver(old, chance.random() < 0.5), touched, ServerId(subnet_of(old))
    member = chance.choice([*groups, *population.processes])
    at = subnet_of(chance.choice(groups)) if is_foreign(member) or chance.random() < 0.3 else None
    leaves = tuple(LeaveArc(group, member) for group in groups if at in (None, subnet_of(group)))
    return LeaveEverywhere(member, at), leaves, ServerId(subnet_of(member) if at is None else at)


def _two_of_a_server(chance: Random, groups: list[NodeId]) -> tuple[NodeId, NodeId]:
    old = chance.choice(groups)
    return old, chance.choice([group for group in groups if subnet_of(group) == subnet_of(old)])


def _contending(chance: Random, subnets: Iterable[Subnet]) -> Population:
    groups = []
    for subnet in subnets:
        groups += [NodeId(f"g{number}@{subnet}") for number in range(chance.choice([1, 1, 2, 2, 3]))]
    layers = chance.sample(groups, min(len(groups), chance.randint(3, 7)))
    down = [(parent, child) for place, parent in enumerate(layers) for child in layers[place + 1 :]]
    loops = [(child, parent) for parent, child in chance.sample(down, min(len(down), chance.randint(1, 3)))]
    wanted = chance.sample(down, min(len(down), chance.randint(4, 12)))
    return Population(groups, [], [], wanted, loops, alone_share=chance.choice([0.3, 0.6, 0.9]))


def _operations(
    chance: Random, population: Population, arcs: set[ArcName], share_of_joins: float
) -> tuple[Operation, ...]:
    size = 1 if chance.random() < population.alone_share else chance.randint(2, 4)
    operations: list[Operation] = []
    taken: set[ArcName] = set()
    for _ in range(size):
        if population.wanted:
            arc, is_join = _wanted(chance, population, arcs)
        elif population.spare_groups and chance.random() < GROUPS_CHANGED_SHARE:
            operations.append(_group_change(chance, population))
            continue
        else:
            arc, is_join = _any_arc(chance, population, arcs, share_of_joins)
        if arc[0] == arc[1] or arc in taken:
            continue
        taken.add(arc)
        operations.append(_arc_change(chance, arc, is_join=is_join))
        if chance.random() < TWICE_SHARE:
            operations.append(_arc_change(chance, arc, is_join=not is_join))
    return tuple(operations)


def _wanted(chance: Random, population: Population, arcs: set[ArcName]) -> tuple[ArcName, bool]:
    """Draw a wanted arc. Most often a missing arc is joined, and an existing arc is left."""
    arc = chance.choice(population.loops if chance.random() < 0.3 else population.wanted)
    return arc, (arc not in arcs) == (chance.random() < 0.85)


def _any_arc(chance: Random, population: Population, arcs: set[ArcName], share_of_joins: float) -> tuple[ArcName, bool]:
    if arcs and chance.random() > share_of_joins:
        return chance.choice(sorted(arcs)), False
    groups = population.groups + population.spare_groups
    is_group = chance.random() < 0.8 or not population.processes
    return (chance.choice(groups), chance.choice(groups if is_group else population.processes)), True


def _arc_change(chance: Random, arc: ArcName, *, is_join: bool) -> Operation:
    if_needed = chance.random() < IF_NEEDED_SHARE
    if is_join:
        return JoinArc(*arc, cost=chance.randint(0, 2), if_needed=if_needed)
    return LeaveArc(*arc, if_needed=if_needed)


def _group_change(chance: Random, population: Population) -> Operation:
    group = chance.choice(population.spare_groups)
    if chance.random() < 0.6:
        return CreateGroup(group, if_needed=chance.random() < IF_NEEDED_SHARE)
    return DeleteGroup(group, force=chance.random() < 0.7)


def _asked(operation: Operation) -> ServerId:
    match operation:
        case CreateGroup(group) | DeleteGroup(group) | SetPolicy(group):
            return ServerId(subnet_of(group))
        case JoinArc(parent) | LeaveArc(parent):
            return ServerId(subnet_of(parent))
