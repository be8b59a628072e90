"""State that servers keep of people who joined and left: counts of rows and of entries in memory, early and late.

The cores run in one process, on disks that are dicts, so a change takes a tenth of a millisecond. Counts of single
changes do not depend on the machine. Counts of changes in batches also depend on how long a batch takes, since servers
forget meanwhile.
"""

from __future__ import annotations

import time
from collections import deque

from benchmarks.report import Figure
from namegraph import (
    ChildKind,
    CreateGroup,
    Event,
    JoinArc,
    LeaveArc,
    NodeId,
    PeerLetter,
    PeerMessage,
    PeerMet,
    PeerReceived,
    ServerCore,
    ServerId,
    Subnet,
    Tick,
    UpdateCommand,
)
from simulation.cluster.disk import Disk

FEW = 10_000
"""Joins and leaves before the counts with which later counts are compared. State kept for a while is full by then."""
MANY = 300_000
MANY_QUICKLY = 30_000

MEMBERS = 100
"""People in the group at the same time, for single changes."""

BATCH = 500
"""People who join in one update. The people of the batch before leave in it."""

GROWTH_TARGET = 1.05


class Servers:
    """Some cores that know one another, each with a disk. Letters are handed over at once."""

    def __init__(self, count: int) -> None:
        self.names = [ServerId(f"s{number}.example") for number in range(count)]
        owners = {Subnet(name): name for name in self.names}
        self.cores = {name: ServerCore(server=name, subnets=[Subnet(name)], peers=owners) for name in self.names}
        self.disks = {name: Disk(name) for name in self.names}
        self._letters: deque[tuple[ServerId, PeerLetter]] = deque()
        self._tickets = iter(range(1, 1 << 62))
        for name in self.names:
            for peer in self.names:
                if peer != name:
                    self._step(name, PeerMet(peer, (Subnet(peer),)))

    def change(self, *operations: CreateGroup | JoinArc | LeaveArc) -> None:
        """Let the first server carry out one update, with all letters that follow."""
        ticket = next(self._tickets)
        self._step(self.names[0], UpdateCommand(ticket, f"r{ticket}", operations))
        while self._letters:
            sender, letter = self._letters.popleft()
            self._step(letter.receiver, PeerMessage(sender, letter.number, letter.encoded))
            self._step(sender, PeerReceived(letter.receiver, letter.number))
        for name in self.names:
            deadline = self.cores[name].next_deadline
            if deadline is not None and deadline <= time.perf_counter():
                self._step(name, Tick())

    def tick(self) -> None:
        """Let some time pass."""
        for name in self.names:
            self._step(name, Tick())

    def _step(self, name: ServerId, event: Event) -> None:
        effects = self.cores[name].step(event, time.perf_counter())
        self.disks[name].write(effects.records)
        self._letters.extend((name, letter) for letter in effects.messages)

    def kept(self) -> dict[str, int]:
        """Return the counts of all state that the servers keep, except for remembered answers, which have a limit of
        their own.
        """
        counts: dict[str, int] = {}
        for name in self.names:
            graph, stored = self.cores[name].graph, self.disks[name].read()
            for what, count in (
                ("numbers of nodes", len(graph.ids)),
                ("tombstones", len(graph.tombstones)),
                ("rows of nodes", len(list(stored.nodes))),
                ("rows of arcs", len(list(stored.arcs))),
                ("rows of virtual nodes", len(list(stored.virtual_nodes))),
                ("rows of the protocol", len(list(stored.protocol))),
            ):
                counts[what] = counts.get(what, 0) + count
        return counts


def come_and_go(servers: Servers, first: int, last: int, subnet: str) -> None:
    """Let people number `first` to `last` join, each under a new name. Each leaves once `MEMBERS` others have come."""
    group = NodeId(f"crowd@{servers.names[0]}")
    for number in range(first, last):
        servers.change(JoinArc(group, NodeId(f"p{number}@{subnet}"), ChildKind.PROCESS))
        if number >= MEMBERS:
            servers.change(LeaveArc(group, NodeId(f"p{number - MEMBERS}@{subnet}")))


def come_and_go_together(servers: Servers, first: int, last: int, subnet: str) -> None:
    """Let people join and leave as in `come_and_go`, but in batches."""
    group = NodeId(f"crowd@{servers.names[0]}")
    for begin in range(first, last, BATCH):
        leaving = range(max(0, begin - BATCH), begin)
        servers.change(
            *(LeaveArc(group, NodeId(f"p{number}@{subnet}")) for number in leaving),
            *(JoinArc(group, NodeId(f"p{begin + number}@{subnet}"), ChildKind.PROCESS) for number in range(BATCH)),
        )


def measure(*, quick: bool) -> list[Figure]:
    """Measure one server and two servers, with people of either server and foreign people."""
    many = MANY_QUICKLY if quick else MANY
    figures = []
    for count, whose, subnet, how in (
        (1, "its own", "s0.example", come_and_go),
        (2, "its own", "s0.example", come_and_go),
        (2, "nobody's", "people.example", come_and_go),
        (2, "the other one's", "s1.example", come_and_go),
        (1, "its own, in batches", "s0.example", come_and_go_together),
        (2, "the other one's, in batches", "s1.example", come_and_go_together),
    ):
        servers = Servers(count)
        servers.change(CreateGroup(NodeId(f"crowd@{servers.names[0]}")))
        how(servers, 0, FEW // 2, subnet)
        few = servers.kept()
        how(servers, FEW // 2, many // 2, subnet)
        kept = servers.kept()
        grown = max(kept[what] / max(few[what], 1) for what in kept)
        text = ", ".join(f"{what} {few[what]:,} to {kept[what]:,}" for what in kept)
        about = f"{count} server{'s' * (count > 1)}, people of {whose}: kept after {many:,} changes, to {FEW:,}"
        figures.append(Figure(f"{about} ({text})", grown, GROWTH_TARGET, "times"))
    return figures
