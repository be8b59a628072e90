"""The status shows a peer as connected once reads know that it was met: until then they may deny what it knows."""

from types import SimpleNamespace

import pytest

from delivery.server import Server
from namegraph import AddPeer, CommittedState, PeerMet, ServerId, Subnet
from nameserver.admin_service import AdminCalls
from resolver.census import Census
from resolver.reach import GraphReach
from shadowtree.v1.admin_pb2 import GetStatusRequest

HERE, THERE = ServerId("a.x"), ServerId("b.x")
STOPPED = "stopped since 2026-01-01T00:00:00Z: for a moment"


class Transport:
    """Stands for the connections with one peer."""

    release = "1"

    def __init__(self, state):
        self.trust = None
        self._report = SimpleNamespace(server=THERE, address="127.0.0.1:1", subnets=(Subnet("b.x"),), state=state)

    def reports(self):
        return [self._report]


@pytest.mark.parametrize(
    ("state", "before"), [("connected", "connecting"), ("connected, but it is stuck", "connecting"), (STOPPED, STOPPED)]
)
async def test_a_peer_is_connected_once_readers_see_that_it_was_met(state, before):
    core = Server(server=HERE, subnets=[Subnet("a.x")])
    core.begin_delivery(GraphReach, start=7)
    core.step(AddPeer(1, Subnet("b.x"), "127.0.0.1:1"), 0.0)
    reads = CommittedState(core)
    run_loop = SimpleNamespace(storage_failure=None, datagrams=SimpleNamespace(sent=0, handed=0, dropped=0))
    admin = AdminCalls(
        core=core,
        reads=reads,
        census=Census(reads),
        transport=Transport(state),
        run_loop=run_loop,
        planned_end=None,
        operators=None,
        say=None,
    )

    async def shown():
        (peer,) = (await admin.get_status(GetStatusRequest(), None)).peers
        return peer.state

    reads.hold()
    core.step(PeerMet(THERE, (Subnet("b.x"),)), 0.0)
    assert await shown() == before
    reads.let_go(earliest=True)
    assert await shown() == state
