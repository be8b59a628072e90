"""An update whose deadline passes names who is really waited for, also where that is needed by an earlier one alone."""

import pytest

from namegraph.core import ServerCore
from namegraph.events import Tick, UpdateCommand
from namegraph.model.names import ServerId, Subnet, parse_name
from namegraph.model.operations import ChildKind, CreateGroup, JoinArc
from namegraph.model.refusals import Reason
from namegraph.model.rows import RequestId

HERE, PEER, THIRD = ServerId("a.x"), ServerId("b.x"), ServerId("c.x")
TOP, MIDDLE = parse_name("top@a.x"), parse_name("middle@a.x")
LOW, DEEP, ANN = parse_name("low@b.x"), parse_name("deep@c.x"), parse_name("ann@a.x")


@pytest.fixture
def core():
    peers = {Subnet(PEER): PEER, Subnet(THIRD): THIRD}
    core = ServerCore(server=HERE, subnets=[Subnet(HERE)], peers=peers)
    for ticket, group in enumerate((TOP, MIDDLE), start=100):
        core.step(UpdateCommand(ticket, RequestId(f"create {ticket}"), (CreateGroup(group),)), 0.0)
    return core


def join(core, ticket, parent, child, kind=ChildKind.GROUP, deadline=None):
    command = UpdateCommand(ticket, RequestId(f"r{ticket}"), (JoinArc(parent, child, kind),), deadline)
    assert core.step(command, 0.0).replies == []


def missing(core, now):
    """Return the answer to the one caller whose deadline has passed."""
    (reply,) = core.step(Tick(), now).replies
    assert reply.outcome.reason is Reason.DEADLINE_EXCEEDED
    return reply.outcome.message


def test_who_has_not_answered_is_missing(core):
    join(core, 1, TOP, LOW, deadline=1.0)
    assert "(missing: b.x)" in missing(core, 2.0)


def test_an_update_that_waits_behind_another_names_whom_that_waits_for(core):
    join(core, 1, TOP, LOW)
    join(core, 2, TOP, ANN, ChildKind.PROCESS, deadline=1.0)
    assert "(an earlier update waits for b.x)" in missing(core, 2.0)


def test_all_are_named_that_earlier_updates_wait_for_one_behind_another(core):
    join(core, 1, MIDDLE, LOW)
    join(core, 2, TOP, MIDDLE)
    join(core, 3, TOP, ANN, ChildKind.PROCESS, deadline=1.0)
    join(core, 4, TOP, DEEP, deadline=3.0)
    assert "(an earlier update waits for b.x)" in missing(core, 2.0)
    assert "(missing: c.x" in missing(core, 4.0)
