"""Who reads what comes for each process of a server, and whether servers say rightly who is below a target set.

A mailbox is read by its process. One that listens without a mailbox has a history of its own while it listens. Those
whom a gateway serves have a history each, as if each had a mailbox of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from delivery.mailboxes.audiences import processes_below
from delivery.model.words import is_pattern, serves
from namegraph import NodeId, ServerId, TargetSet
from simulation.cluster.cluster import Cluster
from simulation.history.recorded import SubscriptionId
from simulation.oracle.serial_model import TrueGraph
from simulation.oracle.violation import InvariantViolatedError
from simulation.workload.clients import Population
from simulation.workload.offline_joins import nobody_of


class Listener(NamedTuple):
    """One that listens without a mailbox."""

    process: NodeId
    subscription: SubscriptionId
    """As which its history is kept."""


class Readers:
    """The readers of one cluster."""

    def __init__(self, cluster: Cluster, population: Population) -> None:
        self._cluster, self._population = cluster, population
        self._served_by_pattern: dict[NodeId, list[NodeId]] = {}
        self.ephemeral: dict[int, Listener] = {}
        """By ticket."""

    def at(self, server: ServerId, targets: TargetSet) -> Iterator[tuple[NodeId, NodeId, bool]]:
        """Of a server's processes, who reads for each, and whether it is below a target set as that server says."""
        delivery = self._cluster.servers[server].delivery
        audience = delivery.audience(targets)
        yield from ((process, process, number in audience) for process, number in delivery.mailboxes.numbers.items())
        for ticket, (process, subscription) in self.ephemeral.items():
            if subscription.server == server and ticket in delivery.listeners:
                yield process, subscription.process, delivery.listeners.numbers[process] in audience
        if not delivery.mailboxes.gateways:
            return
        assert delivery.reach is not None, "set before the first step"
        below = set[NodeId]()
        for target in targets:
            less = {one for name in target.excluding for one in processes_below(name, delivery.reach)}
            below |= set(processes_below(target.name, delivery.reach)) - less
        for pattern in delivery.mailboxes.gateways:
            yield from ((process, served_by(pattern, process), process in below) for process in self._served(pattern))

    def read_by(self, subscription: SubscriptionId) -> list[SubscriptionId]:
        """Whose history a subscription is: of a gateway, that of each whom it may serve."""
        pattern = subscription.process
        if not is_pattern(pattern):
            return [subscription]
        return [subscription._replace(process=served_by(pattern, process)) for process in self._served(pattern)]

    def _served(self, pattern: NodeId) -> list[NodeId]:
        """All whom a gateway may serve at some time."""
        if pattern not in self._served_by_pattern:
            population = self._population
            others = map(nobody_of, self._cluster.servers)
            names = dict.fromkeys((*population.processes, *population.groups, *population.spare_groups, *others))
            self._served_by_pattern[pattern] = [name for name in names if serves(pattern, name)]
        return self._served_by_pattern[pattern]

    def check(self, targets: TargetSet, truth: TrueGraph) -> None:
        """Each server takes for below a target set those of its mailboxes that the arcs say are."""
        below = set[NodeId]()
        for target in targets:
            below |= truth.below([target.name]) - truth.below(target.excluding)
        for server, core in self._cluster.servers.items():
            if server in self._cluster.down:
                continue
            for process, reader, is_below in self.at(server, targets):
                if core.graph.group(process) is not None:
                    is_addressed = any(each.name == process and process not in each.excluding for each in targets)
                    if is_below != is_addressed and process == reader:
                        raise InvariantViolatedError(f"audience: {server} is wrong of the archive of {process}")
                is_target = any(each.name == process for each in targets)
                # A process that nobody owns is judged by what its servers told all along: each knows a part of its
                # groups. One that was made a group keeps its mailbox, and gets nothing while it is one.
                is_owned = core.owner_of_name(process) == server and core.graph.group(process) is None
                if is_owned and not (is_target and process != reader) and is_below != (process in below):
                    takes = "takes" if is_below else "does not take"
                    raise InvariantViolatedError(f"audience: {server} {takes} {reader} for below {targets}")


def served_by(pattern: NodeId, process: NodeId) -> NodeId:
    """The reader as which the history of one whom a gateway serves is kept."""
    return NodeId(f"{pattern} for {process}")
