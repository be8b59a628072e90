"""Ordered reads tell what a group has at their place in the order of updates, and no more."""

import random

from namegraph.events import ReadCommand, UpdateCommand
from namegraph.model.names import NodeId, ServerId, Subnet
from namegraph.model.operations import CreateGroup, JoinArc, LeaveArc
from namegraph.model.outcomes import Committed
from namegraph.model.rows import RequestId
from simulation.cluster.cluster import Cluster
from simulation.cluster.networks import RandomNetwork
from simulation.run import run_seed
from tests.universe import Universe

A, B = ServerId("a.example"), ServerId("b.example")
X, Y, P, F = (NodeId(name) for name in (f"x@{A}", f"y@{B}", f"p@{B}", "f@elsewhere.example"))


def test_a_read_tells_nothing_that_an_update_before_it_has_taken_away():
    """When the read is asked for, the arc is still there, and so the other server takes part."""
    chance = random.Random(1)
    cluster = Cluster([Subnet(A), Subnet(B)], RandomNetwork(chance, is_wild=False))
    asked = [
        (A, (CreateGroup(X),)),
        (B, (CreateGroup(Y), JoinArc(Y, P), JoinArc(Y, F))),
        (A, (JoinArc(X, Y),)),
    ]
    for ticket, (server, operations) in enumerate(asked):
        cluster.submit(server, UpdateCommand(ticket, RequestId(f"r{ticket}"), operations))
        cluster.run()
    leave = UpdateCommand(10, RequestId("leave"), (LeaveArc(X, Y),))
    for command in (ReadCommand(9, X), leave, ReadCommand(11, X)):
        cluster.submit(A, command)
    cluster.run()
    assert cluster.places[9] < cluster.places[10] < cluster.places[11]
    before, after = ([member.node for member in cluster.answers[ticket].members] for ticket in (9, 11))
    assert before == sorted([X, Y, P, F])
    assert after == [X]


def test_reads_among_updates_tell_the_graph_of_their_place():
    told = sum(run_seed(seed, faults=True).reads["told"] for seed in range(300, 308))
    assert told > 20


def test_no_request_of_a_client_has_the_id_of_a_read():
    universe = Universe("a", "b")
    below = [NodeId(f"y{number}@b") for number in range(12)]
    for group in ["x@a", *below]:
        universe.ask(CreateGroup(NodeId(group)))
    counter = universe.servers["a"]._context.counter
    updates = [
        universe.submit(JoinArc(NodeId("x@a"), child), request_id=f"read {counter + number}")
        for number, child in enumerate(below, start=2 * len(below))  # A vote takes a number too.
    ]
    reads = range(100, 130)
    for ticket in reads:
        universe.cluster.submit(ServerId("a"), ReadCommand(ticket, NodeId("x@a")))
    universe.cluster.run()
    assert all(isinstance(universe.cluster.answers[ticket], Committed) for ticket in [*updates, *reads])
