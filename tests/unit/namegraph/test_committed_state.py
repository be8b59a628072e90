"""What readers see while a long step goes on is the state before it."""

from namegraph.committed_state import CommittedState
from namegraph.core import ServerCore
from namegraph.events import PeerLost, PeerMet
from namegraph.model.names import ServerId, Subnet

A, B = ServerId("a.x"), ServerId("b.x")


def test_readers_see_the_view_before_a_step_that_is_not_durable():
    core = ServerCore(server=A, subnets=[Subnet(A)], peers={Subnet(B): B})
    core.step(PeerMet(B, (Subnet(B),)), 0.0)
    readers = CommittedState(core)
    readers.hold()
    core.step(PeerLost(B, "gone"), 0.0)
    assert (readers.view, readers.members) == ("", ())
    readers.let_go(earliest=True)
    assert (readers.view, readers.members) == ("1@a.x", (A,))
