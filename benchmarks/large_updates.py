"""Joins and leaves between groups of different servers that have thousands of others above and below: the cores alone.

The example graph is dealt by domain over five cores in this process, which are fed by hand: no network, no disk, no
encoding for either. What counts is the processor time of the server that has most to do.
"""

from __future__ import annotations

import gzip
import random
import statistics
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence

from benchmarks.report import Figure
from benchmarks.servers import EXAMPLE, example_weights
from namegraph.events import (
    ChildKind,
    Committed,
    Event,
    ImportCommand,
    JoinArc,
    LeaveArc,
    Operation,
    Outcome,
    PeerMessage,
    PeerMet,
    PeerReceived,
    UpdateCommand,
)
from namegraph.names import NodeId, ServerId, Subnet, subnet_of
from namegraph.records import NodeKind, Records, RequestId
from namegraph.server_core import ServerCore
from shadowtree.cli.demo_servers import deal

SERVERS = 5
SEED = 7
PAIRS = 16
QUICK_PAIRS = 4

_KINDS = {"group": NodeKind.GROUP.value, "member": NodeKind.PROCESS.value}


def measure(*, quick: bool) -> list[Figure]:
    """Join random groups of different servers, and leave them again."""
    cores = FedCores(deal(example_weights(), SERVERS))
    cores.bring(example_rows())
    pairs = list(random_pairs(cores, random.Random(SEED), QUICK_PAIRS if quick else PAIRS))
    joins = [cores.timed(JoinArc(parent, child, ChildKind.GROUP)) for parent, child in pairs]
    leaves = [cores.timed(LeaveArc(parent, child)) for parent, child in reversed(pairs)]
    figures = []
    for what, seconds, target in (("join", joins, 0.25), ("leave", leaves, 0.5)):
        of_busiest = [max(each.values()) for each in seconds]
        in_all = statistics.median(sum(each.values()) for each in seconds)
        note = (
            f"mean {statistics.mean(of_busiest):.2f}, longest {max(of_busiest):.2f}; of all servers, p50 {in_all:.2f}"
        )
        name = f"{what} of two random groups of the example over {SERVERS} servers, cores alone, busiest server, p50"
        figures.append(Figure(name, statistics.median(of_busiest), target, "s of processor", note=note))
    return figures


def example_rows() -> list[tuple[NodeId, NodeId, int]]:
    """The arcs of the example graph: parent, child, number of the child's kind."""
    with gzip.open(EXAMPLE, "rt", encoding="utf-8") as lines:
        columns = (line.rstrip("\n").split("\t") for line in lines)
        return [(NodeId(parent), NodeId(child), _KINDS[kind]) for parent, child, kind in columns if child]


class FedCores:
    """Cores that know one another; letters are handed over in the order in which they were written."""

    def __init__(self, shares: Sequence[Sequence[str]]) -> None:
        """A core for each share of subnets."""
        self.home_of_subnet = {subnet: ServerId(min(share)) for share in shares for subnet in share}
        owners = {Subnet(subnet): server for subnet, server in self.home_of_subnet.items()}
        self.cores = {
            ServerId(min(share)): ServerCore(server=ServerId(min(share)), subnets=map(Subnet, share), peers=owners)
            for share in shares
        }
        self.letters: deque[tuple[ServerId, ServerId, PeerMessage]] = deque()
        """(receiver, sender, letter), in order."""
        self.seconds: Counter[ServerId] = Counter()
        """Of the processor, by server, since they were last cleared."""
        self._tickets = iter(range(1_000_000_000))
        self._outcome: Outcome | None = None
        for server in self.cores:
            for peer in self.cores:
                if peer != server:
                    self._step(server, PeerMet(peer, ()))

    def home_of(self, node: NodeId) -> ServerId:
        """The server of a group's subnet."""
        return self.home_of_subnet[subnet_of(node)]

    def bring(self, rows: Iterable[tuple[NodeId, NodeId, int]]) -> None:
        """Import these arcs: parent, child, number of the child's kind."""
        numbers: dict[NodeId, int] = {}
        columns: tuple[list[int], list[int]] = ([], [])
        kinds = bytearray()
        for parent, child, kind in rows:
            columns[0].append(numbers.setdefault(parent, len(numbers)))
            columns[1].append(numbers.setdefault(child, len(numbers)))
            kinds.append(kind)
        names = list(numbers)
        ticket = next(self._tickets)
        command = ImportCommand(ticket, RequestId(f"r{ticket}"), names, *columns, bytes(kinds), [])
        self._run(self.home_of(names[columns[0][0]]), command)

    def timed(self, operation: Operation) -> Counter[ServerId]:
        """Do an update; return how many seconds of the processor each server needed."""
        ticket = next(self._tickets)
        first = operation.parent if isinstance(operation, JoinArc | LeaveArc) else operation.group
        self.seconds.clear()
        self._run(self.home_of(first), UpdateCommand(ticket, RequestId(f"r{ticket}"), (operation,)))
        return Counter(self.seconds)

    def _run(self, server: ServerId, command: ImportCommand | UpdateCommand) -> None:
        self._outcome = None
        self._step(server, command)
        while self.letters:
            receiver, sender, letter = self.letters.popleft()
            self._step(receiver, letter)
            self._step(sender, PeerReceived(receiver, letter.number))
        assert isinstance(self._outcome, Committed), self._outcome

    def _step(self, server: ServerId, event: Event) -> None:
        begun = time.process_time()
        effects = self.cores[server].step(event, 0.0)
        self.seconds[server] += time.process_time() - begun
        self.took(server, effects.records)
        for letter in effects.messages:
            self.letters.append((letter.receiver, server, PeerMessage(server, letter.number, letter.encoded)))
        for reply in effects.replies:
            self._outcome = reply.outcome

    def took(self, server: ServerId, records: Records) -> None:
        """A step is to be made durable: nothing is, here."""


def random_pairs(cores: FedCores, chances: random.Random, count: int) -> Iterator[tuple[NodeId, NodeId]]:
    """Groups of different servers with no arc from the first to the second."""
    groups = sorted(
        name
        for server, core in cores.cores.items()
        for node, name in enumerate(core.graph.ids)
        if core.graph.kinds[node] == NodeKind.GROUP and core.home_of(name) == server
    )
    while count:
        parent, child = chances.sample(groups, 2)
        graph = cores.cores[cores.home_of(parent)].graph
        below = graph.index.get(child)
        if cores.home_of(parent) != cores.home_of(child) and below not in graph.children[graph.index[parent]]:
            count -= 1
            yield parent, child
