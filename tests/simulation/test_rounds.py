"""Number of rounds in which the participants of an update are found: orders, votes, further orders."""

import heapq
from itertools import count

import pytest

from namegraph.events import ImportCommand, UpdateCommand
from namegraph.model.names import NodeId, ServerId, Subnet, subnet_of
from namegraph.model.operations import CreateGroup, JoinArc, LeaveArc
from namegraph.model.outcomes import Committed
from namegraph.model.rows import RequestId
from namegraph.update.coordinator import ROOTS_LIMIT
from namegraph.wire.update_messages import Order
from simulation.checks.cluster_invariants import check_all
from simulation.cluster.cluster import Cluster
from simulation.cluster.networks import Arrival
from simulation.oracle.serial_model import TrueGraph
from tests.simulation.clauses import without

GROUP_KIND = 1


class EvenNetwork:
    """Every message takes the same time, so that what is sent at one time belongs to one round."""

    def __init__(self):
        self.now = 0.0
        self._arrivals = []
        self._places = count()

    def put(self, server, event, *, delay):
        heapq.heappush(self._arrivals, (self.now + delay, next(self._places), Arrival(self.now, server, event, None)))

    def send(self, sent, event):
        arrival = Arrival(self.now + 1.0, sent.receiver, event, sent)
        heapq.heappush(self._arrivals, (arrival.time, next(self._places), arrival))

    def lose(self, one, other):
        raise AssertionError(f"{one} and {other} stay connected")

    def next(self):
        if not self._arrivals:
            return None
        self.now, _, arrival = heapq.heappop(self._arrivals)
        return arrival


class Chain:
    """Groups one below the other, dealt over servers in turn."""

    def __init__(self, servers, depth):
        subnets = [Subnet(f"s{number}.example") for number in range(servers)]
        self.cluster = Cluster(subnets, EvenNetwork())
        self.groups = [NodeId(f"g{number}@{subnets[number % servers]}") for number in range(depth)]
        for subnet in subnets:
            self._ask(subnet, *(CreateGroup(group) for group in self.groups if group.endswith(f"@{subnet}")))
        request = RequestId("import")
        parents, children = list(range(depth - 1)), list(range(1, depth))
        kinds = bytes([GROUP_KIND] * (depth - 1))
        command = ImportCommand(len(self.cluster.answers), request, self.groups, parents, children, kinds, [])
        self._run(subnets[0], command)

    def close(self):
        """Join the first group to the last one. Return the number of rounds."""
        return self._rounds_of(JoinArc(self.groups[-1], self.groups[0]))

    def open(self):
        """Leave that arc again."""
        return self._rounds_of(LeaveArc(self.groups[-1], self.groups[0]))

    def check(self, *, is_closed):
        arcs = list(zip(self.groups, self.groups[1:], strict=False))
        closing = [(self.groups[-1], self.groups[0])] if is_closed else []
        check_all(self.cluster.servers, TrueGraph(dict.fromkeys([*arcs, *closing], 0)))

    def _rounds_of(self, operation):
        self.cluster.sent.clear()
        self._ask(subnet_of(operation.parent), operation)
        return len({sent.time for sent in self.cluster.sent if isinstance(sent.message, Order)})

    def _ask(self, server, *operations):
        ticket = len(self.cluster.answers)
        self._run(server, UpdateCommand(ticket, RequestId(f"r{ticket}"), operations))

    def _run(self, server, command):
        self.cluster.submit(ServerId(server), command)
        self.cluster.run()
        assert isinstance(self.cluster.answers[command.ticket], Committed)


@pytest.mark.parametrize("depth", [10, 100, 1000])
@pytest.mark.parametrize("servers", [2, 3, 8])
def test_a_chain_is_closed_to_a_ring_and_opened_in_one_round(servers, depth):
    chain = Chain(servers, depth)
    assert chain.close() == 1
    if depth == 10:
        chain.check(is_closed=True)
    assert chain.open() == 1
    if depth == 10:
        chain.check(is_closed=False)


@pytest.mark.parametrize("servers", [2, 3, 8])
def test_rounds_do_not_grow_with_depth(servers):
    chains = [Chain(servers, depth) for depth in (50, 500)]
    assert len({chain.close() for chain in chains}) == 1
    assert len({chain.open() for chain in chains}) == 1


@pytest.mark.parametrize(
    "clause",
    [
        "servers further below are named",
        "all are told the entry nodes of the whole update",
        "votes say which entry nodes are covered",
    ],
)
def test_what_is_said_in_advance_saves_rounds(clause):
    rounds = Chain(8, 100).close()
    with without(clause):
        assert rounds < Chain(8, 100).close()


def test_they_would_grow_if_arcs_were_not_followed_through_the_nodes_of_others():
    with without("arcs are followed through the nodes of others"):
        assert Chain(3, 20).close() < Chain(3, 40).close() > 3


@pytest.mark.parametrize(("children", "named"), [(ROOTS_LIMIT, ROOTS_LIMIT), (ROOTS_LIMIT + 2, ROOTS_LIMIT // 2 + 1)])
def test_a_server_is_told_the_entry_nodes_of_others_unless_there_are_too_many(children, named):
    subnets = [Subnet(f"{name}.example") for name in "abc"]
    cluster = Cluster(subnets, EvenNetwork())
    top = NodeId("top@a.example")
    below = [NodeId(f"g{number}@{subnets[1 + number % 2]}") for number in range(children)]
    operations = (*map(CreateGroup, [top, *below]), *(JoinArc(top, child) for child in below))
    cluster.submit(ServerId("a.example"), UpdateCommand(1, RequestId("r"), operations))
    cluster.run()
    assert isinstance(cluster.answers[1], Committed)
    orders = [sent.message for sent in cluster.sent if isinstance(sent.message, Order)]
    assert [len(order.cover.entry_nodes) for order in orders] == [named, named]
