"""Readers of the processes of each server, and the check of each server's answer who is below a target set.

A process reads its mailbox. An ephemeral listener has a history of its own while it listens. Each process that a
gateway serves has a history of its own, as if it had a mailbox.
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


class SimulatedListener(NamedTuple):
    """A listener without a mailbox."""

    process: NodeId
    subscription: SubscriptionId
    """Subscription under which its history is kept."""


class Readers:
    """Readers of one cluster."""

    def __init__(self, cluster: Cluster, population: Population) -> None:
        self._cluster, self._population = cluster, population
        self._served_by_pattern: dict[NodeId, list[NodeId]] = {}
        self.ephemeral: dict[int, SimulatedListener] = {}
        """Ephemeral listeners by ticket."""

    def at(self, server: ServerId, targets: TargetSet) -> Iterator[tuple[NodeId, NodeId, bool]]:
        """Yield the processes of a server that have a reader: process, reader, and True if the server has it below the
        targets.
        """
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
        """Return the subscriptions whose history a subscription writes. A gateway writes one for each process it may
        serve.
        """
        pattern = subscription.process
        if not is_pattern(pattern):
            return [subscription]
        return [subscription._replace(process=served_by(pattern, process)) for process in self._served(pattern)]

    def _served(self, pattern: NodeId) -> list[NodeId]:
        """Return all processes that a gateway may ever serve."""
        if pattern not in self._served_by_pattern:
            population = self._population
            others = map(nobody_of, self._cluster.servers)
            names = dict.fromkeys((*population.processes, *population.groups, *population.spare_groups, *others))
            self._served_by_pattern[pattern] = [name for name in names if serves(pattern, name)]
        return self._served_by_pattern[pattern]

    def check(self, targets: TargetSet, truth: TrueGraph) -> None:
        """Require that each server has exactly those mailboxes below a target set that are below it by the true
        arcs.
        """
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
                # A foreign process is judged by the answers of its servers over time, since each knows a part of its
                # groups. A process that was made a group keeps its mailbox, and gets no message while it is a group.
                is_owned = core.owner_of_name(process) == server and core.graph.group(process) is None
                if is_owned and not (is_target and process != reader) and is_below != (process in below):
                    takes = "takes" if is_below else "does not take"
                    raise InvariantViolatedError(f"audience: {server} {takes} {reader} for below {targets}")


def served_by(pattern: NodeId, process: NodeId) -> NodeId:
    """Return the reader under which the history of a process served by a gateway is kept."""
    return NodeId(f"{pattern} for {process}")
