"""Arcs that are joined while the server of the other end is out of reach."""

import pytest

from namegraph.events import PeerLeaving, PeerMet
from namegraph.model.names import NodeId, Subnet
from namegraph.model.operations import ChildKind, DeleteGroup, JoinArc, LeaveArc
from namegraph.model.outcomes import Committed
from namegraph.model.refusals import Reason
from simulation.run import run_seed
from tests.simulation.scene import A, B, C, G, H, Scene


def test_a_member_joins_when_its_server_is_back():
    scene = Scene()
    scene.part([A, B], [C])
    scene.done(A, JoinArc(G[A], G[C], ChildKind.GROUP, offline=True))
    scene.done(A, JoinArc(G[A], NodeId(f"ann@{C}"), ChildKind.PROCESS, offline=True))
    assert scene.suspended(A) == {(G[A], G[C]), (G[A], f"ann@{C}")}
    assert scene.refused(A, JoinArc(H[A], G[C], offline=True)) is Reason.INVALID_REQUEST
    scene.meet([A, B], [C])
    scene.check((G[A], G[C]), (G[A], f"ann@{C}"))


def test_a_member_that_cannot_join_stays_visible_as_rejected():
    scene = Scene()
    scene.part([A, B], [C])
    scene.done(A, JoinArc(G[A], NodeId(f"nobody@{C}"), ChildKind.GROUP, offline=True))
    scene.meet([A, B], [C])
    ((arc, why),) = scene.core(A).suspended_arcs()
    assert tuple(arc) == (G[A], f"nobody@{C}")
    assert why.startswith("rejected: ")
    scene.done(A, LeaveArc(*arc))
    scene.check()


def test_a_group_joins_when_the_server_of_its_parent_is_back():
    scene = Scene()
    scene.done(C, JoinArc(G[C], H[B]))
    scene.done(A, JoinArc(H[A], G[A]))
    scene.part([A], [B, C])
    arcs = [(G[A], G[C]), (G[A], NodeId(f"ann@{C}")), (H[A], H[B])]
    scene.done(C, JoinArc(*arcs[0], offline=True))
    scene.done(C, JoinArc(*arcs[1], ChildKind.PROCESS, offline=True))
    scene.done(B, JoinArc(*arcs[2], offline=True))
    assert scene.refused(C, JoinArc(*arcs[0], offline=True)) is Reason.ALREADY_MEMBER
    assert scene.suspended(C) == {*arcs[:2]}
    assert [why for _, why in scene.core(C).suspended_arcs()] == [f"the server {A} is out of reach"] * 2
    # What is below it at another server may have more above it.
    for server, node in ((C, G[C]), (B, H[B]), (C, arcs[1][1])):
        assert scene.core(server).uncertainty().above(node) == [A]
    scene.meet([A], [B, C])
    scene.check((G[C], H[B]), (H[A], G[A]), *arcs)


def test_what_waits_for_the_server_of_its_parent_can_be_left_and_deleted():
    scene = Scene()
    scene.part([A], [B, C])
    assert scene.refused(C, JoinArc(G[A], G[C])) is Reason.UNAVAILABLE
    assert scene.refused(B, JoinArc(G[A], G[C], ChildKind.GROUP, offline=True)) is Reason.UNAVAILABLE
    assert (
        scene.refused(C, JoinArc(G[A], NodeId(f"nobody@{C}"), ChildKind.GROUP, offline=True)) is Reason.GROUP_NOT_FOUND
    )
    scene.done(C, JoinArc(G[A], G[C], offline=True))
    scene.done(C, LeaveArc(G[A], G[C]))
    scene.done(C, JoinArc(G[A], H[C], offline=True))
    scene.done(C, DeleteGroup(H[C], force=True))
    scene.meet([A], [B, C])
    scene.check()


def test_an_arc_that_waits_at_both_its_ends_is_joined_once():
    scene = Scene()
    scene.done(C, JoinArc(G[C], G[A]))
    scene.part([A], [B, C])
    scene.done(C, JoinArc(G[A], G[C], offline=True))
    scene.done(A, JoinArc(G[A], G[C], ChildKind.GROUP, offline=True))
    scene.meet([A], [B, C])
    assert scene.loops(A) == scene.loops(C) == {frozenset([G[A], G[C]])}
    scene.check((G[C], G[A]), (G[A], G[C]))


@pytest.mark.parametrize("is_back", [True, False])
def test_a_server_that_its_view_still_has_is_waited_for(is_back):
    scene, person = Scene(), NodeId(f"ann@{C}")
    # It stops, and nobody has counted it as lost: for others it may be there.
    scene.cluster.submit(A, PeerLeaving(C, "it stops"))
    ticket = scene.begin(A, JoinArc(G[A], person, ChildKind.PROCESS, offline=True))
    scene.cluster.run()
    assert ticket not in scene.cluster.answers
    if is_back:
        scene.cluster.submit(A, PeerMet(C, (Subnet(C),)))
        scene.cluster.run()
    else:
        scene.part([A, B], [C])
    assert isinstance(scene.cluster.answers[ticket], Committed)
    assert scene.suspended(A) == (set() if is_back else {(G[A], person)})
    if not is_back:
        scene.meet([A, B], [C])
    scene.check((G[A], person))


def test_an_update_that_was_to_be_done_without_a_server_that_is_lost_and_found_within_a_view_asks_it():
    run_seed(31004337, faults=True, messages=True, servers=5, updates=60)


def test_a_process_of_a_server_that_is_away_is_not_taken_for_a_group():
    scene = Scene()
    person = NodeId(f"person@{A}")
    scene.done(B, JoinArc(G[B], person))
    scene.part([A], [B, C])
    assert scene.refused(B, JoinArc(person, H[B], offline=True)) is Reason.GROUP_NOT_FOUND
    scene.meet([A], [B, C])
    scene.check((G[B], person))
