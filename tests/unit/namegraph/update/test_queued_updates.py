"""A coordinator has few updates of clients under way at once, and begins the others in order as these end."""

from dataclasses import replace

import pytest

from namegraph import (
    CreateGroup,
    DeleteGroup,
    JoinArc,
    NodeId,
    PeerLost,
    Reason,
    RequestId,
    ServerId,
    Tick,
    UpdateCommand,
)
from namegraph.model.priorities import parse_revision
from namegraph.update import coordinator
from namegraph.verify import sender_rules
from tests.unit.delivery.servers import Servers

A, B, C = map(ServerId, ("a.x", "b.x", "c.x"))
PARENT = "parent@a.x"
LIMIT = 2
TICKETS = 1_000
"""Above those of the updates that made the groups."""


@pytest.fixture
def servers():
    found = Servers(A, B, C)
    found.create(PARENT, *(f"child-{number}@b.x" for number in range(6)))
    found.servers[A].limit_begun(LIMIT)
    return found


def join(number, *, deadline=None):
    operations = (JoinArc(NodeId(PARENT), NodeId(f"child-{number}@b.x")),)
    return UpdateCommand(TICKETS + number, RequestId(f"join {number}"), operations, deadline)


def answer(servers, number):
    (found,) = servers.answers[TICKETS + number]
    return found


def asked_at_b(servers):
    """Return the number of A's updates that are not over at B, once all letters have come. No letter comes back."""
    servers.held.add((B, A))
    servers.run()
    return servers.servers[B].entries.asked_by(A)


def phases(servers):
    return [phase for _, phase in servers.servers[A].coordinated_updates()]


def test_updates_beyond_the_limit_are_not_asked_of_others_and_all_are_done_in_order(servers):
    for number in range(6):
        servers.step(A, join(number))
    assert asked_at_b(servers) == LIMIT
    assert phases(servers) == ["order"] * LIMIT + ["queued"] * (6 - LIMIT)
    servers.held.clear()
    servers.run()
    assert phases(servers) == []
    finals = [parse_revision(answer(servers, number).revision).final for number in range(6)]
    assert finals == sorted(finals)
    assert len(servers.servers[A].graph.children[servers.servers[A].graph.index[NodeId(PARENT)]]) == 6


def test_an_update_that_is_asked_for_again_waits_where_the_first_one_is_queued(servers):
    for number in range(LIMIT + 1):
        servers.step(A, join(number))
    servers.step(A, replace(join(LIMIT), ticket=TICKETS + 99))
    assert phases(servers).count("queued") == 1
    servers.run()
    assert answer(servers, 99) == answer(servers, LIMIT)


def test_the_deadline_of_a_queued_update_ends_it_and_says_why(servers):
    servers.held.add((A, B))
    for number in range(LIMIT):
        servers.step(A, join(number))
    servers.step(A, join(LIMIT, deadline=5.0))
    servers.now = 6.0
    servers.step(A, Tick())
    refusal = answer(servers, LIMIT)
    assert refusal.reason is Reason.DEADLINE_EXCEEDED
    assert f"{LIMIT} earlier updates of this server were under way; nothing was done" in refusal.message
    assert phases(servers) == ["order"] * LIMIT


def test_queued_updates_outlast_the_loss_of_a_server(servers):
    servers.create("other@c.x")
    servers.held.add((A, C))
    other = (JoinArc(NodeId(PARENT), NodeId("other@c.x")),)
    for number in (100, 101):
        servers.step(A, UpdateCommand(TICKETS + number, RequestId(f"join {number}"), other))
    servers.step(A, join(0))
    assert phases(servers) == ["order", "order", "queued"]
    servers.gone.add(C)
    servers.held.clear()
    for server in (A, B):
        servers.step(server, PeerLost(C, "its machine is off"))
    servers.run()
    assert phases(servers) == []
    assert answer(servers, 0).revision
    assert answer(servers, 100).reason is Reason.UNAVAILABLE


def test_what_takes_long_to_begin_and_what_concerns_this_server_alone_is_not_queued(servers):
    for number in range(LIMIT):
        servers.step(A, join(number))
    many = tuple(JoinArc(NodeId(PARENT), NodeId(f"m{number}@b.x")) for number in range(101))
    servers.step(A, UpdateCommand(TICKETS + 50, RequestId("many"), many))
    assert phases(servers) == ["order"] * (LIMIT + 1)
    for operation in (CreateGroup(NodeId("own@a.x")), DeleteGroup(NodeId("own@a.x"))):
        (reply,) = servers.step(A, UpdateCommand(TICKETS + 60, RequestId(str(operation)), (operation,))).replies
        assert reply.outcome.revision


def test_queued_updates_end_with_the_process_and_leave_nothing(servers):
    for number in range(4):
        servers.step(A, join(number))
    servers.restart(A)
    servers.run()
    assert phases(servers) == []
    assert servers.servers[B].entries.asked_by(A) == 0
    assert servers.join(PARENT, "child-5@b.x").revision


def test_others_take_twice_as_many_of_a_coordinator_as_it_begins_for_clients():
    assert coordinator.BEGUN_LIMIT == 100
    assert sender_rules.ORDERS_LIMIT == 2 * coordinator.BEGUN_LIMIT
