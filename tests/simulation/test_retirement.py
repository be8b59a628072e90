"""Servers that are gone for good, and what the others keep of them."""

import pytest

from namegraph.events import AddPeer, RemovePeer, RetirePeer
from namegraph.model.names import NodeId, ServerId, Subnet
from namegraph.model.operations import JoinArc, LeaveArc
from namegraph.model.outcomes import Committed
from namegraph.model.refusals import Reason
from resolver.membership import MembershipResolver
from simulation.checks.cluster_invariants import check_all, check_quiet
from simulation.oracle.serial_model import TrueGraph
from tests.simulation.scene import FIRST_READ, A, B, C, G, H, Scene

KIM, ANN, GUEST = NodeId(f"kim@{A}"), NodeId(f"ann@{C}"), NodeId("guest@nowhere")
KEPT = [(G[A], G[B]), (H[B], KIM), (G[B], H[A]), (H[A], GUEST)]
"""Arcs of `with_one_gone` that have no end at the lost server."""

ENDED = [(G[B], G[C]), (G[C], G[A]), (H[C], KIM), (H[A], ANN), (H[A], H[C])]


@pytest.fixture
def with_one_gone():
    """C is gone, which had arcs of all kinds with the others."""
    scene = Scene(is_configured=False)
    for arc in KEPT + ENDED:
        home = ServerId(arc[0].partition("@")[2])
        scene.done(home, JoinArc(*arc))
    scene.part([A, B], [C])
    return scene


def check_without(scene, gone):
    """Require that all is at rest at the other servers, and known for sure."""
    others = {server: core for server, core in scene.cluster.servers.items() if server != gone}
    check_quiet(others, scene.commands, scene.cluster.answers)
    check_all(others, TrueGraph(dict.fromkeys(KEPT, 0)), {node for at in (G, H) for node in (at[A], at[B])})
    for core in others.values():
        resolver = MembershipResolver(core)
        assert core.suspended_arcs() == []
        assert not resolver.uncertainty() or resolver.uncertainty().of_own_arcs() == []
        for member in (KIM, G[A], G[B], H[A], H[B]):
            assert resolver.uncertainty().above(member) == []
        assert core.servers_met == [server for server in others if server != core.server]


@pytest.mark.parametrize("order", [(A, B), (B, A)])
def test_a_server_that_is_gone_for_good_is_retired_at_each_of_the_others(with_one_gone, order):
    scene = with_one_gone
    assert scene.refused(A, LeaveArc(H[C], KIM)) is Reason.UNAVAILABLE
    refusal = scene.command(A, RemovePeer, Subnet(C))
    assert refusal.reason is Reason.NAME_IN_USE
    assert f"`shadowtree peers remove {C} --force`" in refusal.message
    first, second = (scene.retire(server, C) for server in order)
    assert second is None
    if first is not None:
        # What the other one had not ended yet was known here.
        assert f"what the server {order[1]} owns" in first.message
        assert scene.retire(order[0], C) is None
    check_without(scene, C)
    # Names of its domain are nobody's: a person of it is welcome again.
    scene.done(A, JoinArc(H[A], ANN))
    scene.done(A, LeaveArc(H[A], ANN))
    check_without(scene, C)


@pytest.mark.parametrize("order", [(A, B), (B, A)])
def test_a_server_that_was_retired_and_comes_back_gets_nothing_back(with_one_gone, order):
    scene = with_one_gone
    for server in (*order, *order):
        if C in scene.core(server).servers_met:
            scene.retire(server, C)
    for server in order:
        assert isinstance(scene.command(server, AddPeer, Subnet(C), f"{C}:7400"), Committed)
    scene.meet([A, B], [C])
    assert scene.members(A) == scene.members(B) == scene.members(C) == {A, B, C}
    scene.check(*KEPT)
    scene.done(C, JoinArc(G[C], G[A]))
    scene.check(*KEPT, (G[C], G[A]))


def test_only_a_server_that_is_out_of_reach_is_retired():
    scene = Scene(is_configured=False)
    scene.done(C, JoinArc(G[C], KIM))
    refusal = scene.command(A, RetirePeer, Subnet(C))
    assert refusal.reason is Reason.INVALID_REQUEST
    assert "is in one view with this one" in refusal.message
    assert scene.command(A, RetirePeer, Subnet(A)).reason is Reason.INVALID_REQUEST
    assert scene.command(A, RetirePeer, Subnet("nobody.example")).reason is Reason.INVALID_REQUEST
    scene.check((G[C], KIM))


def test_a_server_that_is_back_before_it_was_retired_keeps_what_it_has(with_one_gone):
    scene = with_one_gone
    ticket = FIRST_READ
    scene.meet_until(lambda: scene.core(A).view_change_in_progress, [A, B], [C])
    scene.cluster.submit(A, RetirePeer(ticket, Subnet(C)))
    scene.cluster.run()
    assert scene.cluster.answers.pop(ticket).reason in (Reason.UNAVAILABLE, Reason.INVALID_REQUEST)
    scene.check(*KEPT, *ENDED)


def test_what_was_to_be_ended_stays_where_the_server_comes_back_meanwhile(with_one_gone):
    scene = with_one_gone
    ticket = FIRST_READ
    scene.cluster.submit(A, RetirePeer(ticket, Subnet(C)))
    scene.cluster.take(scene.network.next())
    assert not scene.core(A).is_idle()
    scene.meet([A, B], [C])
    answer = scene.cluster.answers.pop(ticket)
    ended = [arc for arc in ENDED if A in (ServerId(end.partition("@")[2]) for end in arc)]
    left = [arc for arc in ENDED if arc not in ended]
    scene.check(*KEPT, *(left if isinstance(answer, Committed) else ENDED))
