"""Servers whose disk fails, and which start again from an older copy of it, or from an empty one.

What such a server decided after the copy was made, and no other server knows of, is lost. All else comes back: of an
arc with an end at a server that has its newest disk, the newest state is known there, a removal too. In the end both
ends of every arc agree, and every invariant holds.

Source: protocol.md section 7, *Heal*; decision 0012.
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
"""Of failed disks, those of which there is no copy."""

SPREADS = (1.0, 10.0, 60.0)
"""Within what time copies are made, and disks fail after that."""

DOWN_FOR = (0.5, 10.0, 60.0)
"""How long it takes to put a copy in place, on average."""


class StaleDisks:
    """The copies of one cluster's disks, and the servers that have gone back to one."""

    def __init__(self, cluster: Cluster, population: Population, chance: Random) -> None:
        self._cluster = cluster
        self._population = population
        self._chance = chance
        self._copies: dict[ServerId, list[Disk]] = {server: [] for server in cluster.servers}
        self._apart_before: set[ArcName] = set()
        """Arcs that were apart before the first disk failed: the serial run does not know what became of them."""
        self._gone_back = cluster.on_old_disks
        self._tickets_before = 0
        """Of updates that were asked for before the first disk failed."""

    def make_copies(self) -> None:
        """Some servers make a copy of their disks within some time from now."""
        for server in self._cluster.servers:
            if self._chance.random() < 0.5:
                self._later(partial(self._make_copy, server))

    def fail_disks(self, apart: PartitionLedger) -> None:
        """Some disks fail within some time from now."""
        self._apart_before = set(apart.arcs)
        chance, servers = self._chance, list(self._cluster.servers)
        self._tickets_before = len(self._population.commands)
        for server in chance.sample(servers, min(len(servers) - 1, chance.choice([1, 1, 2, 3]))):
            self._later(partial(self._fail, server))

    def note(self, apart: PartitionLedger) -> None:
        """What an update that a gone server was asked for, or that has an end there, made is not what it was told."""
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
        """Nothing that a server with its newest disk knows of is lost, or comes back that was removed."""
        if not self._gone_back:
            return
        doubtful = self._doubtful(state) | apart.decided_apart | self._apart_before
        present = set(self._present())
        for arc in sorted((present ^ state.arcs.keys()) - doubtful):
            if self._ends(arc) - self._gone_back.keys():
                what = "came back" if arc in present else "is lost"
                raise InvariantViolatedError(f"I8: {arc} {what}")

    def agree_on_groups(self, groups: set[NodeId]) -> set[NodeId]:
        """The groups there are: as their homes have it where somebody may have gone back with what was told of them."""
        doubtful = {
            operation.group
            for ticket, command in self._population.commands.items()
            for operation in command.operations
            if isinstance(operation, CreateGroup | DeleteGroup) and self._cluster.asked_at(ticket) in self._gone_back
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
        """Arcs of which a server that has gone back may alone have known the newest."""
        found: set[ArcName] = set()
        lost_groups = {group for group in self._population.spare_groups if self._home(group) in self._gone_back}
        # That a group is none any more may be forgotten too, and what became of the process of its name is rejected.
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
                if isinstance(operation, CreateGroup | DeleteGroup):
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
        """By ticket, who has said that they did an update. What others missed its coordinator may have lost."""
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
                if not isinstance(operation, CreateGroup | DeleteGroup):
                    found.add((operation.parent, operation.child))
        return found

    def _ends(self, arc: ArcName) -> set[ServerId]:
        return {self._home(arc[0], arc[1]), self._home(arc[1], arc[0])}

    def _home(self, node: NodeId, other: NodeId | None = None) -> ServerId:
        """A foreign process lives where its group does."""
        some = next(iter(self._cluster.servers.values()))
        if other is not None and not some.knows_subnet_of(node):
            return some.home_of(other)
        return some.home_of(node)


def _add(apart: PartitionLedger, command: UpdateCommand) -> None:
    for operation in command.operations:
        if isinstance(operation, CreateGroup | DeleteGroup):
            apart.groups.add(operation.group)
        else:
            apart.arcs.add((operation.parent, operation.child))


def _groups_of(core: ServerCore) -> set[NodeId]:
    graph = core.graph
    nodes = map(NodeIndex, range(len(graph.ids)))
    return {graph.ids[node] for node in nodes if graph.kind(node) is NodeKind.GROUP and core.owns(node)}
