"""A server that is being stopped finishes updates under way, and no peer begins an update with it."""

import pytest

from namegraph.core import ServerCore
from namegraph.events import PeerLeaving, PeerLost, PeerMet, UpdateCommand
from namegraph.model.names import ServerId, Subnet, parse_name
from namegraph.model.operations import ChildKind, CreateGroup, JoinArc
from namegraph.model.refusals import Reason
from namegraph.model.rows import RequestId

HERE, PEER = ServerId("a.x"), ServerId("b.x")
TOP, LOW = parse_name("top@a.x"), parse_name("low@b.x")
LEAVING = PeerLeaving(PEER, "it is being stopped")


@pytest.fixture
def core():
    core = ServerCore(server=HERE, subnets=[Subnet("a.x")], peers={Subnet("b.x"): PEER})
    core.step(UpdateCommand(1, RequestId("create"), (CreateGroup(TOP),), None), 0.0)
    return core


def join(core, ticket):
    """Ask for a join that needs the other server; returns the replies of that step."""
    operations = (JoinArc(TOP, LOW, ChildKind.GROUP),)
    return core.step(UpdateCommand(ticket, RequestId(f"r{ticket}"), operations, None), 0.0).replies


def test_a_new_update_that_needs_a_leaving_server_is_refused_at_once(core):
    core.step(LEAVING, 0.0)
    (reply,) = join(core, 2)
    assert reply.outcome.reason is Reason.UNAVAILABLE
    assert "b.x is out of reach (it is being stopped); nothing was done" in reply.outcome.message
    assert not core.is_finishing()


def test_an_update_under_way_goes_on_until_the_server_is_lost(core):
    assert join(core, 2) == []
    assert core.is_finishing()
    assert core.step(LEAVING, 0.0).replies == []
    assert core.is_finishing()
    (reply,) = core.step(PeerLost(PEER, "stopped: b.x is shutting down"), 0.0).replies
    assert reply.outcome.reason is Reason.UNAVAILABLE
    assert "stopped: b.x is shutting down" in reply.outcome.message
    assert not core.is_finishing()


def test_a_server_that_left_and_is_met_again_takes_part_again(core):
    core.step(LEAVING, 0.0)
    core.step(PeerMet(PEER, (Subnet("b.x"),)), 0.0)
    assert join(core, 2) == []
    assert core.is_finishing()
