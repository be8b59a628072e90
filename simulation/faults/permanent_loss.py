"""Loss of one server at the end of a seed: the other servers come to rest without it. In some seeds it comes back
later.

Callers that wait for the lost server may wait, and letters to it are kept. Otherwise the cluster behaves as if the
server had never existed, except that the arcs between it and other servers are suspended. Decisions that it had told
only some of the others are as these servers have them.

A server that does not come back is retired at each of the others in the end. Then no state of it is left there, and no
update or message waits for it.

Source: docs/protocol-partitions.md, "For good" and "Who stays away"; NG 6.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from itertools import chain
from random import Random

from namegraph import (
    CreateGroup,
    DeleteGroup,
    NodeId,
    Operation,
    RemovePeer,
    RetirePeer,
    ServerCore,
    ServerId,
    SetPolicy,
    Subnet,
    subnet_of,
)
from namegraph.model.slices import at_once
from namegraph.update.locality import names_in
from simulation.checks.cluster_invariants import check_all
from simulation.checks.partition_ledger import PartitionLedger
from simulation.cluster.cluster import WORLD, Cluster
from simulation.cluster.networks import Errand
from simulation.oracle.serial_model import ArcName, TrueGraph, TrueState
from simulation.oracle.violation import InvariantViolatedError
from simulation.workload.clients import Population

SPREADS = (1.0, 30.0, 100.0)
"""Time spans within which the server crashes."""

BACK_SHARE = 0.5
"""Share of lost servers that come back once the others are at rest."""


FIRST_TICKET = 20_000_000
"""Lowest ticket of operators' commands, above all other tickets."""


class PermanentLoss:
    """The server of one cluster that stays away."""

    def __init__(self, cluster: Cluster, population: Population, chance: Random) -> None:
        self._cluster = cluster
        self._population = population
        self._chance = chance
        self.server = chance.choice(list(cluster.servers))
        self.is_back_at_last = chance.random() < BACK_SHARE
        self._tickets = FIRST_TICKET
        self._unheard: dict[Operation, None] = {}
        """Operations whose outcome it may have told only its callers. Other servers were in doubt of them."""

    def lose(self) -> None:
        """Let the server crash within a random time from now."""
        delay = self._chance.random() * self._chance.choice(SPREADS)
        self._cluster.send_errand(WORLD, Errand(partial(self._cluster.crash_for_good, self.server)), delay=delay)

    def retire(self, watch: Callable[[], None]) -> None:
        """Let operators retire the server at each of the others. Call this at rest. `watch`: called at each step."""
        cluster, subnet = self._cluster, Subnet(self.server)
        cluster.unconfigured.add(subnet)
        for server in self.others():
            # The server restarts without the lost server's name in its configuration.
            cluster.crash(server, down_for=0.0)
        cluster.run(watch)
        for _ in cluster.servers:
            # A server with arcs that another server has not ended yet is done only after that server.
            for server in self.others():
                while self._knows_it(server):
                    before = len(at_once(cluster.servers[server].suspended_with_subnet(subnet)))
                    self._command(server, RetirePeer, watch)
                    if len(at_once(cluster.servers[server].suspended_with_subnet(subnet))) == before:
                        break
                if self._knows_it(server):
                    self._command(server, RemovePeer, watch)
        for server, core in self.others().items():
            _require("retired", not self._knows_it(server), f"{server} still knows {self.server}")
            left = [arc for arc, _ in core.suspended_arcs() if not self._is_elsewhere(arc)]
            _require("retired", not left, f"{server} has suspended {left}")

    def _knows_it(self, server: ServerId) -> bool:
        return self._cluster.servers[server].has_met(self.server)

    def _command(self, server: ServerId, kind: type[RetirePeer | RemovePeer], watch: Callable[[], None]) -> None:
        self._tickets += 1
        self._cluster.submit(server, kind(self._tickets, Subnet(self.server)))
        self._cluster.run(watch)
        self._cluster.answers.pop(self._tickets)

    def others(self) -> dict[ServerId, ServerCore]:
        """Return the servers that are present."""
        return {server: core for server, core in self._cluster.servers.items() if server != self.server}

    def population_without(self) -> Population:
        """Return clients that use no node of the lost server. Their commands are among those of all clients."""
        population = self._population
        wanted, loops = self.arcs_without(population.wanted), self.arcs_without(population.loops)
        return Population(
            self._elsewhere(population.groups),
            self._elsewhere(population.processes),
            [],
            wanted if loops else [],
            loops if wanted else [],
            population.alone_share,
            population.commands,
        )

    def arcs_without(self, arcs: Iterable[ArcName]) -> list[ArcName]:
        """Return the arcs that have no end at the lost server."""
        return [arc for arc in arcs if self._is_elsewhere(arc)]

    def note(self, apart: PartitionLedger) -> None:
        """Note the operations of which neither callers nor the other servers were told the outcome."""
        self._note_unheard()
        for operation in self._untold():
            if isinstance(operation, CreateGroup | DeleteGroup | SetPolicy):
                apart.groups.add(operation.group)
                apart.arcs.update(arc for arc in self._known_arcs() if operation.group in arc)
            else:
                apart.arcs.add((operation.parent, operation.child))

    def check(self, state: TrueState) -> None:
        """Require that the others are at rest, with the graph of `state`, the state of the serial run, as far as they
        own it.
        """
        others = self.others()
        for server, core in others.items():
            _require("stuck", core.is_idle(), f"{server} has entries {sorted(core.entries.by_update)}")
            _require("stuck", core.is_healed, f"{server} is not healed with {core.members}")
            _require("view", set(core.members) == others.keys(), f"{server} is in a view of {core.members}")
            graph = core.graph
            for suspended, why in core.suspended_arcs():
                is_over = why.startswith("rejected") or not self._is_elsewhere(suspended)
                _require("stuck", is_over, f"{server} has suspended {suspended}: {why}")
            for record in graph.present_arcs():
                arc = graph.ids[record.parent], graph.ids[record.child]
                _require("view", self._is_elsewhere(arc), f"{server} has not suspended {arc}")
        groups = {group for group in self._elsewhere(state.groups) if group not in self._untold_groups()}
        for group in self._untold_groups():
            home = others.get(self._home(group))
            if home is not None and home.graph.group(group) is not None:
                groups.add(group)
        arcs = {arc: cost for arc, cost in state.arcs.items() if self._is_elsewhere(arc)}
        check_all(others, TrueGraph(arcs), groups)

    def _untold(self) -> list[Operation]:
        cluster = self._cluster
        commands = self._population.commands
        untold = [command for ticket, command in commands.items() if ticket not in cluster.answers]
        for command in untold:
            asked_at = cluster.asked_at(command.ticket)
            _require("stuck", asked_at == self.server, f"the caller {command.ticket} at {asked_at} was not answered")
        return [*(operation for command in untold for operation in command.operations), *self._unheard]

    def _note_unheard(self) -> None:
        in_doubt = set(chain.from_iterable(core.in_doubt_about for core in self.others().values()))
        for ticket, command in self._population.commands.items():
            if self._cluster.asked_at(ticket) == self.server:
                named = [change for change in command.operations if not in_doubt.isdisjoint(names_in([change]))]
                self._unheard.update(dict.fromkeys(named))

    def _untold_groups(self) -> list[NodeId]:
        return [change.group for change in self._untold() if isinstance(change, CreateGroup | DeleteGroup)]

    def _known_arcs(self) -> set[ArcName]:
        operations = [change for command in self._population.commands.values() for change in command.operations]
        return {
            (change.parent, change.child)
            for change in operations
            if not isinstance(change, CreateGroup | DeleteGroup | SetPolicy)
        }

    def _elsewhere(self, nodes: Iterable[NodeId]) -> list[NodeId]:
        return [node for node in nodes if self._home(node) != self.server]

    def _is_elsewhere(self, arc: ArcName) -> bool:
        return self.server not in map(self._home, arc)

    def _home(self, node: NodeId) -> ServerId:
        """Return the home of a node. A foreign process has no home among the servers."""
        return ServerId(subnet_of(node))


def _require(what: str, holds: bool, why: str) -> None:
    if not holds:
        raise InvariantViolatedError(f"{what}: {why}")
