"""The number of function calls of one step: parts with nothing to do cost a step nothing."""

import pytest

from delivery.model.events import CloseParcels
from namegraph import CreateGroup, Lane, NodeId, PeerReceived, ServerId, Tick
from tests.counted_work import calls
from tests.unit.delivery.servers import Servers

A, B = map(ServerId, ("a.x", "b.x"))
ANN, BOB = "ann@a.x", "bob@b.x"

OF_THE_DELIVERY_HALF = 8
"""Most calls of the delivery half in a step without work for it."""


@pytest.fixture
def unused():
    """Two servers that have sent no message."""
    servers = Servers("a.x", "b.x")
    servers.step(A, Tick())
    return servers


@pytest.fixture
def used():
    """Two servers with unread messages, each settled."""
    servers = Servers("a.x", "b.x")
    servers.create("g@a.x", "h@b.x")
    servers.join("g@a.x", "h@b.x")
    for group, process in (("g@a.x", ANN), ("h@b.x", BOB)):
        servers.join(group, process)
        servers.listen(process)
    for _ in range(3):
        servers.send("g@a.x")
    servers.step(A, Tick())
    return servers


NOTHING = (Tick(), *(PeerReceived(B, 0, lane) for lane in Lane))
"""Events without work for the delivery half."""


def of_step(servers, event):
    """Return the calls of a step of the first server, whose output is dropped."""
    return calls(lambda: servers.servers[A].step(event, servers.now))


def of_half(servers, event):
    """Return the calls of the delivery half in such a step."""
    core = servers.servers[A]
    step, found = core.delivery.step, []

    def counted(*given):
        taken = []
        found.append(calls(lambda: taken.append(step(*given))))
        return taken[0]

    core.delivery.step = counted
    core.step(event, servers.now)
    core.delivery.step = step
    return found[0]


@pytest.mark.parametrize("event", NOTHING)
def test_a_step_without_work_costs_the_delivery_half_next_to_nothing(unused, used, event):
    assert of_half(unused, event) == of_half(used, event) <= OF_THE_DELIVERY_HALF


@pytest.mark.parametrize("event", NOTHING)
def test_messages_that_are_kept_make_no_step_without_work_dearer(unused, used, event):
    assert of_step(unused, event) == of_step(used, event) <= (70 if isinstance(event, Tick) else 35)


def test_the_deadline_of_a_server_without_work_costs_few_calls(unused, used):
    for servers in (unused, used):
        assert calls(lambda core=servers.servers[A]: core.next_deadline) <= 20


def test_an_update_costs_the_delivery_half_no_more_where_messages_are_kept(unused, used):
    def of_update(servers):
        return of_half(servers, servers.update_command(servers.ticket(), CreateGroup(NodeId("new@a.x"))))

    assert of_update(used) == of_update(unused) <= 2 * OF_THE_DELIVERY_HALF


def test_a_message_costs_the_parts_alone_that_have_work(used):
    assert of_half(used, used.new_send("g@a.x")) <= 90
    assert of_half(used, CloseParcels()) <= 600
