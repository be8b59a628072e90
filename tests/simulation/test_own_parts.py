"""A coordinator that leaves its own part of a large outcome for later: the others go on, and nothing gets lost."""

import random

import pytest

from namegraph.events import UpdateCommand
from namegraph.model.names import NodeId, ServerId, Subnet
from namegraph.model.operations import CreateGroup, JoinArc
from namegraph.model.rows import RequestId
from simulation.checks.cluster_invariants import check_all
from simulation.cluster.cluster import Cluster
from simulation.cluster.message_text import update_of
from simulation.cluster.networks import RandomNetwork
from simulation.oracle.serial_model import TrueGraph

A, B = ServerId("a.example"), ServerId("b.example")
TOP, BELOW = NodeId("top@a.example"), NodeId("below@b.example")


class Joining:
    """A join of two groups of two servers."""

    def __init__(self, *, own_parts_later):
        network = RandomNetwork(random.Random(0), is_wild=False)
        self.cluster = Cluster([Subnet(A), Subnet(B)], network, own_parts_later=own_parts_later)
        self._ask(-1, A, CreateGroup(TOP))
        self._ask(-2, B, CreateGroup(BELOW))
        self.cluster.run()

    def _ask(self, ticket, server, operation):
        self.cluster.submit(server, UpdateCommand(ticket, RequestId(f"r{ticket}"), (operation,)))

    def until_decided(self):
        self._ask(1, A, JoinArc(TOP, BELOW))
        cluster = self.cluster
        while not any(
            core.has_decided(update) for core in cluster.servers.values() for update in core.entries.by_update
        ):
            arrival = cluster.network.next()
            if arrival is None:
                return False
            cluster.take(arrival)
        return True

    def check(self):
        self.cluster.run()
        check_all(self.cluster.servers, TrueGraph({(TOP, BELOW): 0}))


def test_small_updates_are_decided_and_done_in_one_step():
    joining = Joining(own_parts_later=False)
    assert not joining.until_decided()
    joining.check()


@pytest.mark.parametrize("crashes", [(), (A,), (B,), (A, B), (A, A)])
def test_what_was_decided_is_done_whoever_crashes(crashes):
    joining = Joining(own_parts_later=True)
    assert joining.until_decided()
    for server in crashes:
        joining.cluster.restart(server)
    joining.check()


def test_the_caller_is_answered_when_the_coordinators_own_part_is_done():
    joining = Joining(own_parts_later=True)
    assert joining.until_decided()
    cluster = joining.cluster
    while 1 not in cluster.answers:
        cluster.take(cluster.network.next())
    graph = cluster.servers[A].graph
    assert graph.index[BELOW] in graph.children[graph.index[TOP]]
    own = [sent for sent in cluster.sent if sent.sender == sent.receiver == A and update_of(sent.message) is not None]
    assert [type(sent.message).__name__ for sent in own] == ["Final", "Commit"]
