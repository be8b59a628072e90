"""Records of boundaries are compared where an update reached; servers say what they would if they compared all."""

from contextlib import contextmanager
from random import Random

import pytest
from namegraph.boundary_records import BoundaryRecords
from namegraph.settled import Settled

from namegraph.duplication import controlled_arcs
from namegraph.events import Committed, CreateGroup, JoinArc, LeaveArc, UpdateCommand
from namegraph.names import NodeId, ServerId, Subnet, subnet_of
from namegraph.records import NodeIndex, RequestId
from simulation.cluster import Cluster
from simulation.networks import RandomNetwork
from simulation.run import SeedRun

SUBNETS = [Subnet(f"{name}.example") for name in "abcde"]


@contextmanager
def everything_compared():
    """Servers that take no record for right, and compute each from the graph."""
    with pytest.MonkeyPatch.context() as patch:
        take = Settled.take

        def take_all(self, nodes):
            self.forget_all()
            return take(self, nodes)

        patch.setattr(Settled, "take", take_all)
        patch.setattr(Settled, "is_settled", lambda *_: False)
        yield


@contextmanager
def counted_in_part(counts):
    """Note how many arcs into each derived node that was compared in part turned out to need another record."""
    with pytest.MonkeyPatch.context() as patch:
        differing = BoundaryRecords.differing

        def count(self, partly, **wanted):
            found = differing(self, partly, **wanted)
            if partly:
                counts.append(len(found))
            return found

        patch.setattr(BoundaryRecords, "differing", count)
        yield


class Dense:
    """Updates at random on five servers whose groups hold one another, in layers, many times over."""

    def __init__(self, seed, *, groups=40, with_loops=False):
        self.chance = Random(seed)
        self.cluster = Cluster(SUBNETS, RandomNetwork(Random(seed)))
        self.names = [NodeId(f"g{number:02}@{self.chance.choice(SUBNETS)}") for number in range(groups)]
        self.with_loops = with_loops
        self.arcs = {}
        self.letters = []
        for name in self.names:
            self.run([[CreateGroup(name)]])
        for _ in range(4):
            self.run([[self.some_join() for _ in range(groups // 2)]])

    def some_join(self):
        while True:
            parent, child = self.chance.sample(self.names, 2)
            if not self.with_loops or self.chance.random() < 0.9:
                parent, child = sorted((parent, child))
            if (parent, child) not in self.arcs:
                self.arcs[parent, child] = None
                return JoinArc(parent, child, cost=self.chance.randrange(2))

    def some_leave(self):
        arc = self.chance.choice(list(self.arcs))
        del self.arcs[arc]
        return LeaveArc(*arc)

    def some_update(self):
        """One arc, or several at once."""
        steps = [self.some_join, self.some_leave]
        return [self.chance.choice(steps)() for _ in range(self.chance.choice([1, 1, 1, 3]))]

    def run(self, updates):
        first_ticket = len(self.cluster.answers)
        for ticket, operations in enumerate(updates, start=first_ticket):
            first = operations[0]
            asked = ServerId(subnet_of(first.group if isinstance(first, CreateGroup) else first.parent))
            self.cluster.submit(asked, UpdateCommand(ticket, RequestId(f"r{ticket}"), tuple(operations)))
        self.cluster.run()
        for ticket in range(first_ticket, first_ticket + len(updates)):
            if not isinstance(self.cluster.answers[ticket], Committed):
                # An arc of it was joined and left again by another one.
                self.arcs = self.arcs_there()
        self.letters += self.cluster.sent
        self.cluster.sent.clear()

    def arcs_there(self):
        found = {}
        for core in self.cluster.servers.values():
            ids = core.graph.ids
            found.update({(ids[arc.parent], ids[arc.child]): None for arc in core.graph.present_arcs()})
        return dict.fromkeys(sorted(found))


def story(seed, *, with_loops, updates=30):
    dense = Dense(seed, with_loops=with_loops)
    for number in range(updates):
        dense.run([dense.some_update() for _ in range(1 + number % 3)])
    return dense


@pytest.mark.parametrize("with_loops", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_the_letters_are_those_of_servers_that_compare_everything(seed, with_loops):
    counts = []
    with counted_in_part(counts):
        letters = story(seed, with_loops=with_loops).letters
    assert sum(counts) > 30, "records were found that differ"
    assert 0 in counts, "comparing in part also found none"
    with everything_compared():
        assert story(seed, with_loops=with_loops).letters == letters


@pytest.mark.parametrize("faults", [False, True])
def test_so_they_are_in_clusters_with_restarts_and_faults(faults):
    def letters(seed):
        run = SeedRun(seed, servers=4, updates=40, faults=faults)
        run.run()
        return run.sent

    counts = []
    for seed in range(5):
        with counted_in_part(counts):
            found = letters(seed)
        with everything_compared():
            assert letters(seed) == found
    assert sum(counts) > 0, "records were found that differ"


@pytest.mark.parametrize("seed", range(4))
def test_what_counts_as_settled_is_what_the_graph_says(seed):
    dense = Dense(seed, with_loops=seed % 2 == 1)
    for _ in range(20):
        dense.run([dense.some_update()])
        settled = [wrong for core in dense.cluster.servers.values() for wrong in settled_records(core)]
        assert settled
        assert not any(settled)


def settled_records(core):
    """For each arc from elsewhere into a settled node, whether its record is wrong."""
    boundary, graph = core.boundary, core.graph
    for child in range(len(graph.ids)):
        if not core.owns(NodeIndex(child)) or not boundary._settled.is_settled(NodeIndex(child)):
            continue
        controlled = controlled_arcs(graph, core.ancestors, NodeIndex(child))
        said = {(found.arc.parent, found.arc.child): found.blocked for found in controlled}
        for arc in boundary._entering_from_elsewhere([NodeIndex(child)]):
            sent = boundary._computed().expanded(boundary._sent_of(arc))
            yield sent != said.get((arc.parent, arc.child), sent ^ sent)
