"""Servers whose disk fails, and which start again from an older copy of it, or from an empty disk.

Decisions of such a server after the copy was made are lost if no other server knows of them. Everything else comes
back: a server with its newest disk at the other end of an arc knows the newest state of the arc, even a removal. In the
end both ends of every arc agree, and every invariant holds.

Source: docs/protocol-partitions.md, "Older copies"; docs/decisions/0012-older-copies.md.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import partial
from random import Random

from namegraph import (
    Committed,
    CreateGroup,
    DeleteGroup,
    JoinArc,
    NodeId,
    NodeIndex,
    NodeKind,
    Priority,
    ServerCore,
    ServerId,
    SetPolicy,
    UpdateCommand,
    UpdateId,
)
from namegraph.wire.codec import decode_outcome
from namegraph.wire.update_messages import Commit, Done
from simulation.checks.partition_ledger import PartitionLedger
from simulation.cluster.cluster import WORLD, Cluster
from simulation.cluster.disk import Disk
from simulation.cluster.networks import Errand
from simulation.oracle.serial_model import ArcName, TrueState
from simulation.oracle.violation import InvariantViolatedError
from simulation.workload.clients import Population

EMPTY_SHARE = 0.2
"""Share of failed disks without a copy."""

SPREADS = (1.0, 10.0, 60.0)
"""Time spans within which copies are made, and within which disks fail after that."""

DOWN_FOR = (0.5, 10.0, 60.0)
"""Mean times until a copy is in place."""


class StaleDisks:
    """The copies of one cluster's disks, and the servers that have gone back to one."""

    def __init__(self, cluster: Cluster, population: Population, chance: Random) -> None:
        self._cluster = cluster
        self._population = population
        self._chance = chance
        self._copies: dict[ServerId, list[Disk]] = {server: [] for server in cluster.servers}
        self._apart_before: set[ArcName] = set()
        """Arcs that were apart before the first disk failed. The serial run does not know their fate."""
        self._gone_back = cluster.on_old_disks
        self._tickets_before = 0
        """Number of updates submitted before the first disk failed."""

    def make_copies(self) -> None:
        """Let some servers copy their disks within a random time from now."""
        for server in self._cluster.servers:
            if self._chance.random() < 0.5:
                self._later(partial(self._make_copy, server))

    def fail_disks(self, apart: PartitionLedger) -> None:
        """Let some disks fail within a random time from now."""
        self._apart_before = set(apart.arcs)
        chance, servers = self._chance, list(self._cluster.servers)
        self._tickets_before = len(self._population.commands)
        for server in chance.sample(servers, min(len(servers) - 1, chance.choice([1, 1, 2, 3]))):
            self._later(partial(self._fail, server))

    def note(self, apart: PartitionLedger) -> None:
        """Note the arcs and groups that the lost state of a server may contradict.

        These are the arcs and groups of updates asked for at such a server, and the arcs with an end there.
        """
        for server in self._gone_back:
            for ticket, command in self._population.commands.items():
                if self._cluster.asked_at(ticket) == server:
                    _add(apart, command)
        for arc in self._known_arcs():
            if self._ends(arc) & self._gone_back.keys():
                apart.arcs.add(arc)
        spare = self._population.spare_groups
        apart.groups.update(group for group in spare if self._home(group) in self._gone_back)

    def check(self, state: TrueState, apart: PartitionLedger) -> None:
        """Require that no arc which a server with its newest disk knows is lost, and that no removed arc comes back."""
        if not self._gone_back:
            return
        doubtful = self._doubtful(state) | apart.decided_apart | self._apart_before
        present = set(self._present())
        for arc in sorted((present ^ state.arcs.keys()) - doubtful):
            if self._ends(arc) - self._gone_back.keys():
                what = "came back" if arc in present else "is lost"
                raise InvariantViolatedError(f"I8: {arc} {what}")

    def agree_on_groups(self, groups: set[NodeId]) -> set[NodeId]:
        """Return the existing groups. Homes decide on groups whose changes a server that has gone back may have
        forgotten.
        """
        doubtful = {
            operation.group
            for ticket, command in self._population.commands.items()
            for operation in command.operations
            if isinstance(operation, CreateGroup | DeleteGroup | SetPolicy)
            and self._cluster.asked_at(ticket) in self._gone_back
        }
        agreed = {group for group in groups - doubtful if self._home(group) not in self._gone_back}
        for server, core in self._cluster.servers.items():
            found = _groups_of(core)
            agreed |= found if server in self._gone_back else found & doubtful
        return agreed

    def _make_copy(self, server: ServerId) -> None:
        self._copies[server].append(self._cluster.copy_of_disk(server))

    def _fail(self, server: ServerId) -> None:
        chance, copies = self._chance, self._copies[server]
        is_empty = not copies or chance.random() < EMPTY_SHARE
        disk = Disk(server) if is_empty else chance.choice(copies)
        if server not in self._cluster.down:
            down_for = chance.expovariate(1.0) * chance.choice(DOWN_FOR)
            self._cluster.crash(server, down_for=down_for, disk=disk)

    def _later(self, run: partial[None]) -> None:
        delay = self._chance.random() * self._chance.choice(SPREADS)
        self._cluster.send_errand(WORLD, Errand(run), delay=delay)

    def _doubtful(self, state: TrueState) -> set[ArcName]:
        """Return the arcs of which only a server that has gone back may have known the newest state."""
        found: set[ArcName] = set()
        lost_groups = {group for group in self._population.spare_groups if self._home(group) in self._gone_back}
        # The server may have forgotten a group's deletion too. Then arcs to the process of that name are rejected.
        for server in self._gone_back:
            found_there = _groups_of(self._cluster.servers[server])
            lost_groups |= {group for group in found_there ^ state.groups if self._home(group) == server}
        found.update(arc for arc in self._known_arcs() if lost_groups.intersection(arc))
        heard = self._heard()
        for ticket, command in self._population.commands.items():
            answer = self._cluster.answers[ticket]
            if self._cluster.asked_at(ticket) not in self._gone_back:
                continue
            is_late = ticket >= self._tickets_before
            for operation in command.operations:
                if isinstance(operation, CreateGroup | DeleteGroup | SetPolicy):
                    continue
                arc = operation.parent, operation.child
                is_sure = isinstance(answer, Committed)
                if is_late:
                    others = self._ends(arc) - self._gone_back.keys()
                    is_sure = is_sure and isinstance(operation, JoinArc) and others <= heard[ticket]
                if not is_sure:
                    found.add(arc)
        return found

    def _heard(self) -> dict[int, set[ServerId]]:
        """Return the servers that have confirmed each update, by ticket. Updates that others missed its coordinator may
        have lost.
        """
        done: dict[UpdateId, set[ServerId]] = defaultdict(set)
        by_final: dict[Priority, UpdateId] = {}
        for sent in self._cluster.sent:
            match sent.message:
                case Commit(update_id=update_id, outcome=outcome):
                    by_final[decode_outcome(outcome).final] = update_id
                case Done(update_id=update_id):
                    done[update_id].add(sent.sender)
        updates = {ticket: by_final.get(place) for ticket, place in self._cluster.places.items()}
        return defaultdict(set, {ticket: done[update] for ticket, update in updates.items() if update is not None})

    def _present(self) -> Iterable[ArcName]:
        for server, core in self._cluster.servers.items():
            graph = core.graph
            for parent, arcs in enumerate(graph.children):
                if core.home_of(graph.ids[parent]) == server:
                    yield from ((graph.ids[parent], graph.ids[child]) for child in arcs)

    def _known_arcs(self) -> set[ArcName]:
        found = set(self._present())
        for command in self._population.commands.values():
            for operation in command.operations:
                if not isinstance(operation, CreateGroup | DeleteGroup | SetPolicy):
                    found.add((operation.parent, operation.child))
        return found

    def _ends(self, arc: ArcName) -> set[ServerId]:
        return {self._home(arc[0], arc[1]), self._home(arc[1], arc[0])}

    def _home(self, node: NodeId, other: NodeId | None = None) -> ServerId:
        """Return the home of a node. A foreign process lives where its group does."""
        some = next(iter(self._cluster.servers.values()))
        if other is not None and not some.knows_subnet_of(node):
            return some.home_of(other)
        return some.home_of(node)


def _add(apart: PartitionLedger, command: UpdateCommand) -> None:
    for operation in command.operations:
        if isinstance(operation, CreateGroup | DeleteGroup | SetPolicy):
            apart.groups.add(operation.group)
        else:
            apart.arcs.add((operation.parent, operation.child))


def _groups_of(core: ServerCore) -> set[NodeId]:
    graph = core.graph
    nodes = map(NodeIndex, range(len(graph.ids)))
    return {graph.ids[node] for node in nodes if graph.kind(node) is NodeKind.GROUP and core.owns(node)}
