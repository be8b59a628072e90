"""One server crashes at the end of a seed and stays away: the others come to rest without it, or it is back at last.

Whoever waits for it may wait, and letters to it are kept. Everything else is as if there had never been such a server,
but for the arcs between it and the others, which are suspended. What it had decided, and told nobody but some of the
others, is as these have it.

One that is not back is retired at each of the others in the end: nothing of it is left there, and nothing waits for it.

Source: protocol.md sections 6 and 7; NG 6.3.
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
"""Within what time it crashes."""

BACK_SHARE = 0.5
"""Of such servers, those that are back after all once the others are at rest."""


FIRST_TICKET = 20_000_000
"""Of commands of operators: above all others."""


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
        """What it may have told its callers alone: others were in doubt of it."""

    def lose(self) -> None:
        """Let it crash within some time from now."""
        delay = self._chance.random() * self._chance.choice(SPREADS)
        self._cluster.send_errand(WORLD, Errand(partial(self._cluster.crash_for_good, self.server)), delay=delay)

    def retire(self, watch: Callable[[], None]) -> None:
        """Let operators retire it at each of the others; the cluster is at rest then. `watch` is called each step."""
        cluster, subnet = self._cluster, Subnet(self.server)
        cluster.unconfigured.add(subnet)
        for server in self.others():
            # Started again without its name in the configuration.
            cluster.crash(server, down_for=0.0)
        cluster.run(watch)
        for _ in cluster.servers:
            # One that knows of arcs which another one has not ended is done when that one is.
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
        """The servers that are there."""
        return {server: core for server, core in self._cluster.servers.items() if server != self.server}

    def population_without(self) -> Population:
        """Clients that want nothing of it; their commands are among those of all."""
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
        """The arcs that have no end at it."""
        return [arc for arc in arcs if self._is_elsewhere(arc)]

    def note(self, apart: PartitionLedger) -> None:
        """Take notice of what was asked for, and neither callers nor the others were told of: what became of it?"""
        self._note_unheard()
        for operation in self._untold():
            if isinstance(operation, CreateGroup | DeleteGroup):
                apart.groups.add(operation.group)
                apart.arcs.update(arc for arc in self._known_arcs() if operation.group in arc)
            else:
                apart.arcs.add((operation.parent, operation.child))

    def check(self, state: TrueState) -> None:
        """The others are at rest, and what they own is as it should be; `state` of the serial run."""
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
            (change.parent, change.child) for change in operations if not isinstance(change, CreateGroup | DeleteGroup)
        }

    def _elsewhere(self, nodes: Iterable[NodeId]) -> list[NodeId]:
        return [node for node in nodes if self._home(node) != self.server]

    def _is_elsewhere(self, arc: ArcName) -> bool:
        return self.server not in map(self._home, arc)

    def _home(self, node: NodeId) -> ServerId:
        """A foreign process is at home nowhere."""
        return ServerId(subnet_of(node))


def _require(what: str, holds: bool, why: str) -> None:
    if not holds:
        raise InvariantViolatedError(f"{what}: {why}")
