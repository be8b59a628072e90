"""During a long step readers see the state before it."""

import weakref

import pytest
from pyroaring import BitMap

from namegraph.committed_state import LONG_FROM_OPERATIONS, CommittedState
from namegraph.core import ServerCore
from namegraph.events import PeerLost, PeerMet, UpdateCommand
from namegraph.model.names import NodeId, ServerId, Subnet
from namegraph.model.operations import CreateGroup, DeleteGroup, JoinArc, LeaveArc
from namegraph.model.rows import RequestId

A, B = ServerId("a.x"), ServerId("b.x")
G = NodeId("g@a.x")


def test_readers_see_the_view_before_a_step_that_is_not_durable():
    core = ServerCore(server=A, subnets=[Subnet(A)], peers={Subnet(B): B})
    core.step(PeerMet(B, (Subnet(B),)), 0.0)
    readers = CommittedState(core)
    readers.hold()
    core.step(PeerLost(B, "gone"), 0.0)
    assert (readers.view, readers.members) == ("", ())
    readers.let_go(earliest=True)
    assert (readers.view, readers.members) == ("1@a.x", (A,))


@pytest.fixture
def crowd():
    """A core with a group of so many members that deleting it takes long."""
    core = ServerCore(server=A, subnets=[Subnet(A)])
    core.step(update(CreateGroup(G), *(JoinArc(G, NodeId(f"p{n}@b.x")) for n in range(LONG_FROM_OPERATIONS))), 0.0)
    return core


def test_what_a_large_deletion_leaves_can_be_freed_bit_by_bit(crowd):
    readers = CommittedState(crowd)
    for name in crowd.graph.index.values():
        crowd.ancestors.of(name)
    readers.hold()
    held = weakref.ref(readers.graph)
    crowd.step(UpdateCommand(2, RequestId("another"), (DeleteGroup(G, force=True),)), 0.0)
    left = readers.let_go(earliest=True)
    assert held() is None
    kinds = [type(piece) for some in left for piece in some]
    assert kinds.count(BitMap) == LONG_FROM_OPERATIONS, "the ancestor sets of all members, which were forgotten"
    assert kinds.count(dict) > LONG_FROM_OPERATIONS, "the arcs of the group and those of its members"


def update(*operations):
    return UpdateCommand(1, RequestId("r"), operations)


def test_updates_of_many_operations_take_long_and_deletions_of_large_groups_with_force(crowd):
    readers = CommittedState(crowd)
    joins = [JoinArc(G, NodeId(f"q{n}@b.x")) for n in range(LONG_FROM_OPERATIONS + 1)]
    assert readers.may_take_long(update(*joins))
    assert not readers.may_take_long(update(*joins[1:]))
    assert readers.may_take_long(update(DeleteGroup(G, force=True)))
    assert not readers.may_take_long(update(DeleteGroup(G)))
    assert not readers.may_take_long(update(LeaveArc(G, NodeId("p0@b.x"))))
    assert not readers.may_take_long(update(DeleteGroup(NodeId("unknown@a.x"), force=True)))
