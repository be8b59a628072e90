"""Message counts of NG's worst case, figure 5.1: N groups on N servers, with an arc from each to every later one.

One update above the root changes the ancestry of all groups, and every arc but the first into each is controlled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from namegraph import (
    Committed,
    CreateGroup,
    JoinArc,
    LeaveArc,
    NodeId,
    RequestId,
    ServerId,
    Subnet,
    UpdateCommand,
    subnet_of,
)
from simulation.cluster.cluster import Cluster
from simulation.cluster.networks import RandomNetwork


@dataclass(frozen=True, slots=True)
class Cost:
    """Messages of one update, beside those of NG's static algorithm (its own, ordering and commit)."""

    update: str
    messages: Counter[str]
    of_ng: int


def measure(groups: int) -> tuple[Cluster, list[Cost]]:
    """Join and leave above the root, close a loop over all groups and break it. Also return the cluster at rest."""
    subnets = [Subnet(f"s{number:03}.example") for number in range(groups + 1)]
    cluster = Cluster(subnets, RandomNetwork(Random(1), is_wild=False))  # noqa: S311 - a seed must replay
    tickets = iter(range(10 * groups))
    names = [NodeId(f"g@{subnet}") for subnet in subnets]
    for name in names:
        _run(cluster, next(tickets), CreateGroup(name))
    *chain, above = names
    for number, parent in enumerate(chain[:-1]):
        _run(cluster, next(tickets), *(JoinArc(parent, child) for child in chain[number + 1 :]))
    return cluster, list(_measure(cluster, tickets, chain, above))


def _measure(cluster: Cluster, tickets: Iterator[int], chain: list[NodeId], above: NodeId) -> Iterator[Cost]:
    root, last, n = chain[0], chain[-1], len(chain)
    shared = 4 * (n - 1)
    normal = n * n - 3 * n + 3 + shared
    for update, operation, of_ng in (
        ("join above the root", JoinArc(above, root), normal),
        ("leave above the root", LeaveArc(above, root), normal),
        ("join that closes a loop over all", JoinArc(last, root), n * n - 2 * n + 3 + shared),
        ("leave that breaks it", LeaveArc(last, root), n * n - 1 + shared),
    ):
        yield Cost(update, _run(cluster, next(tickets), operation), of_ng)


def _run(cluster: Cluster, ticket: int, *operations: CreateGroup | JoinArc | LeaveArc) -> Counter[str]:
    cluster.sent.clear()
    first = operations[0]
    asked = first.group if isinstance(first, CreateGroup) else first.parent
    cluster.submit(ServerId(subnet_of(asked)), UpdateCommand(ticket, RequestId(f"r{ticket}"), operations))
    cluster.run()
    assert isinstance(cluster.answers[ticket], Committed), cluster.answers[ticket]
    return cluster.counts()
