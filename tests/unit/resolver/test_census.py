"""Each node and arc of a graph over several servers is counted by one of them."""

import random

from namegraph.events import UpdateCommand
from namegraph.model.operations import CreateGroup, JoinArc
from resolver.census import Census, Counts
from simulation.cluster.cluster import Cluster
from simulation.cluster.networks import RandomNetwork

GROUPS = ("g1@a.example", "g2@a.example", "h1@b.example", "h2@b.example")
ARCS = (
    ("g1@a.example", "h1@b.example"),
    ("h1@b.example", "g1@a.example"),
    ("g1@a.example", "g2@a.example"),
    ("h1@b.example", "h2@b.example"),
    ("g2@a.example", "ann@b.example"),
    ("h2@b.example", "guest@elsewhere.example"),
    ("g2@a.example", "guest@elsewhere.example"),
)


def test_counts_of_all_servers_add_up_and_follow_the_graph():
    cluster = Cluster(["a.example", "b.example"], RandomNetwork(random.Random(1)))
    censuses = {server: Census(core) for server, core in cluster.servers.items()}
    tickets = iter(range(100))

    def do(operation, home):
        ticket = next(tickets)
        cluster.submit(home.partition("@")[2], UpdateCommand(ticket, f"r{ticket}", (operation,)))
        cluster.run()

    for group in GROUPS:
        do(CreateGroup(group), group)
    assert censuses["a.example"].counts() == Counts(groups=2, processes=0, arcs=0, virtual_nodes=0)
    for parent, child in ARCS:
        do(JoinArc(parent, child), parent)
    assert censuses["a.example"].counts() == Counts(groups=2, processes=1, arcs=4, virtual_nodes=1)
    # Ann is at home here; the guest is foreign, and lives at both.
    assert censuses["b.example"].counts() == Counts(groups=2, processes=2, arcs=3, virtual_nodes=0)
