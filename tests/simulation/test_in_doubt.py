"""Updates whose outcome a server has missed: its answers about them until it is healed."""

import pytest

from namegraph.events import ReadCommand, UpdateCommand
from namegraph.model.names import NodeId
from namegraph.model.operations import ChildKind, CreateGroup, DeleteGroup, JoinArc, LeaveArc
from namegraph.model.outcomes import Committed
from namegraph.model.refusals import Reason, RefusedError
from namegraph.model.rows import RequestId
from namegraph.state import in_doubt
from namegraph.update.causal_reads import Wait
from namegraph.wire.update_messages import Ready
from resolver.membership import MembershipResolver
from simulation.run import run_seed
from tests.simulation.scene import FIRST_READ, A, B, C, G, H, Scene, cut_off_before_the_commit, stop_before_the_commit


def test_who_is_cut_off_before_it_hears_of_an_outcome_says_what_it_may_have_missed():
    scene = Scene()
    assert isinstance(cut_off_before_the_commit(scene, B, A, JoinArc(G[B], H[A])), Committed)
    resolver = MembershipResolver(scene.core(A))
    assert resolver.uncertainty().above(H[A]) == [B]
    assert resolver.uncertainty().above(G[A]) == []
    scene.cluster.restart_all()
    assert [one.coordinator for one in scene.core(A).uncertainty().missed] == [B]
    scene.meet([A], [B, C])
    assert not scene.core(A).uncertainty()
    assert scene.core(A).uncertainty().above(H[A]) == []
    scene.check((G[B], H[A]))


def is_refused(core, revision):
    """True if a server says at once that it cannot know whether it reflects an update."""
    try:
        core.waits_for(revision)
    except RefusedError as error:
        return error.refusal.reason is Reason.UNAVAILABLE
    return False


def test_a_read_that_asks_for_an_update_which_a_server_missed_is_refused_there_until_the_two_are_settling_it():
    scene = Scene()
    before = scene.done(B, JoinArc(G[B], G[A])).revision
    missed = cut_off_before_the_commit(scene, B, A, JoinArc(G[B], H[A])).revision
    core = scene.core(A)
    # Its counter tells nothing: it has seen the priority of the update, and higher ones.
    assert core.waits_for(core.revision) is core.waits_for(before) is Wait.REFLECTED
    with pytest.raises(RefusedError, match=r"may lack .* out of reach") as caught:
        core.waits_for(missed)
    assert caught.value.refusal.reason is Reason.UNAVAILABLE
    assert caught.value.refusal.facts == {"revision": missed, "unreachable": B, "server": A}
    assert scene.core(B).waits_for(missed) is Wait.REFLECTED
    scene.meet_until(lambda: not is_refused(core, missed), [A], [B, C])
    assert core.waits_for(missed) is Wait.NOT_YET
    scene.cluster.run()
    assert core.waits_for(missed) is Wait.REFLECTED
    scene.check((G[B], G[A]), (G[B], H[A]))


def test_after_a_restart_it_is_waited_for_until_it_is_known_who_is_out_of_reach():
    scene = Scene()
    missed = cut_off_before_the_commit(scene, B, A, JoinArc(G[B], H[A])).revision
    scene.cluster.restart_all()
    assert scene.core(A).waits_for(missed) is Wait.NOT_YET
    scene.meet([A], [B, C])
    assert scene.core(A).waits_for(missed) is Wait.REFLECTED


def test_a_group_that_may_have_new_members_is_not_resolved_in_full():
    scene = Scene()
    scene.done(A, JoinArc(H[A], G[A]))
    told = cut_off_before_the_commit(scene, C, A, JoinArc(G[C], H[B]), JoinArc(G[A], H[B]))
    assert isinstance(told, Committed)
    core = scene.core(A)
    assert core.uncertainty().of_own_arcs() == [C]
    for group in (G[A], H[A]):
        assert core.uncertainty().below(group) == [C]
        ticket = FIRST_READ + len(scene.cluster.answers)
        scene.cluster.submit(A, ReadCommand(ticket, group))
        scene.cluster.run()
        assert scene.cluster.answers.pop(ticket).unreachable == (group,)
    scene.meet([A], [B, C])
    assert not core.uncertainty().missed
    scene.check((H[A], G[A]), (G[C], H[B]), (G[A], H[B]))


def test_a_group_that_may_have_been_created_is_not_denied():
    scene = Scene()
    new = NodeId(f"new@{A}")
    cut_off_before_the_commit(scene, B, A, JoinArc(G[B], H[B]), CreateGroup(new))
    assert scene.refused(A, JoinArc(new, H[A])) is Reason.UNAVAILABLE
    scene.meet([A], [B, C])
    scene.done(A, JoinArc(new, H[A]))
    scene.check((G[B], H[B]), (new, H[A]))


def test_that_a_group_was_deleted_while_apart_survives_a_crash_right_after():
    scene = Scene()
    told = cut_off_before_the_commit(scene, B, A, JoinArc(G[B], H[A]))
    assert isinstance(told, Committed)
    scene.done(A, DeleteGroup(H[A]))
    scene.cluster.restart_all()
    scene.done(A, CreateGroup(H[A]))
    scene.meet([A], [B, C])
    scene.check()


def test_nobody_is_told_that_there_is_nothing_to_do_where_an_update_in_doubt_may_have_done_the_opposite():
    scene = Scene()
    scene.done(C, JoinArc(H[C], H[A]), JoinArc(G[A], H[A]))
    cut_off_before_the_commit(scene, B, A, JoinArc(G[B], H[B]), JoinArc(G[A], H[B]), LeaveArc(G[A], H[A]))
    # It may be that H[A] has left, and that H[B] is there.
    assert scene.refused(A, JoinArc(G[A], H[A])) is Reason.UNAVAILABLE
    assert scene.refused(A, JoinArc(G[A], H[A], if_needed=True)) is Reason.UNAVAILABLE
    assert scene.refused(A, LeaveArc(G[A], G[B])) is Reason.UNAVAILABLE
    assert scene.refused(A, LeaveArc(H[A], G[A])) is Reason.UNAVAILABLE
    new = NodeId(f"new@{A}")
    scene.done(A, CreateGroup(new), JoinArc(new, G[A]))
    scene.meet([A], [B, C])
    assert scene.refused(A, LeaveArc(G[A], H[A])) is Reason.NOT_A_MEMBER
    scene.check((H[C], H[A]), (G[B], H[B]), (G[A], H[B]), (new, G[A]))


def test_a_group_that_may_have_been_created_is_not_taken_for_a_process():
    scene = Scene()
    new, person = NodeId(f"new@{A}"), NodeId(f"person@{A}")
    cut_off_before_the_commit(scene, B, A, JoinArc(G[B], H[B]), CreateGroup(new))
    for kind in (ChildKind.AUTO, ChildKind.PROCESS):
        assert scene.refused(A, JoinArc(H[A], new, kind=kind)) is Reason.UNAVAILABLE
    scene.done(A, JoinArc(H[A], person))
    scene.meet([A], [B, C])
    scene.done(A, JoinArc(H[A], new))
    scene.check((G[B], H[B]), (H[A], person), (H[A], new))


def test_nor_by_an_arc_that_was_joined_elsewhere_to_wait_for_it():
    scene = Scene()
    new = NodeId(f"new@{A}")
    scene.part([C], [A, B])
    stop_before_the_commit(scene, B, A, JoinArc(G[B], H[B]), CreateGroup(new))
    scene.part([A], [B])
    scene.done(C, JoinArc(G[C], new, kind=ChildKind.PROCESS, offline=True))
    scene.meet([A], [C])
    assert scene.suspended(C) == {(G[C], new)}, "rejected: B alone knows"
    scene.meet([A, C], [B])
    scene.done(A, JoinArc(new, H[A]))
    assert scene.suspended(C) == {(G[C], new)}, "rejected: it is a group"
    scene.done(C, LeaveArc(G[C], new))
    scene.check((G[B], H[B]), (new, H[A]))


@pytest.mark.parametrize("seed", range(4))
def test_it_may_be_taken_for_one_once_its_home_was_told_that_it_was_not_created(seed):
    scene = Scene(seed=seed)
    new = NodeId(f"new@{A}")
    ticket = scene.begin(B, JoinArc(G[B], H[B]), CreateGroup(new))
    scene.go_on_until(lambda sent: isinstance(sent.message, Ready) and sent.sender == A)
    scene.part([A], [B, C])
    assert scene.cluster.answers[ticket].reason is Reason.UNAVAILABLE, "nothing was done"
    scene.done(C, JoinArc(G[C], new, kind=ChildKind.PROCESS, offline=True))
    scene.meet([A], [B, C])
    scene.check((G[C], new))


@pytest.mark.parametrize("more", [[], ["joined again"], ["joined to another"]], ids=" ".join)
@pytest.mark.parametrize("parents", [[B], [A, B], [B, C]], ids=" ".join)
def test_a_process_that_became_a_group_by_an_update_that_its_home_missed_becomes_one(parents, more):
    scene = Scene()
    new = NodeId(f"new@{A}")
    for server in parents:
        scene.done(server, JoinArc(G[server], new))
    joined = [(G[B] if more == ["joined again"] else H[B], new)] if more else []
    leaves = [LeaveArc(G[server], new) for server in sorted(parents, key=lambda server: server != B)]
    told = cut_off_before_the_commit(scene, B, A, *leaves, CreateGroup(new), *(JoinArc(*arc) for arc in joined))
    assert isinstance(told, Committed)
    # One of those that have missed it may be away still.
    scene.part([C], [A, B])
    scene.meet([A], [B])
    scene.meet([C], [A, B])
    scene.check(*joined)
    scene.done(A, JoinArc(new, H[A]))
    scene.check(*joined, (new, H[A]))


@pytest.mark.parametrize("child", [H[A], NodeId(f"person@{A}")])
def test_an_arc_of_an_update_that_a_home_missed_is_told_there_while_the_home_of_its_parent_is_away(child):
    scene = Scene()
    told = cut_off_before_the_commit(scene, B, A, JoinArc(G[B], H[B]), JoinArc(G[C], child))
    assert isinstance(told, Committed)
    scene.part([C], [B])
    scene.meet([A], [B])
    resolver = MembershipResolver(scene.core(A))
    assert scene.core(A).is_healed
    assert resolver.memberships(child) == [G[C]]
    assert resolver.uncertainty().above(child) == [C]
    scene.cluster.restart_all()
    assert MembershipResolver(scene.core(A)).memberships(child) == [G[C]]
    scene.meet([A, B], [C])
    scene.check((G[B], H[B]), (G[C], child))


@pytest.mark.parametrize("limit", [10_000, 1])
def test_who_holds_ancestors_of_a_node_is_in_doubt_of_them_as_their_home_is(monkeypatch, limit):
    monkeypatch.setattr(in_doubt, "SHARED_NODES_LIMIT", limit)
    scene = Scene()
    scene.done(C, JoinArc(G[C], H[A]))
    told = cut_off_before_the_commit(scene, B, C, JoinArc(G[B], H[B]), JoinArc(G[B], G[C]))
    assert isinstance(told, Committed)
    scene.part([A], [B])
    scene.meet([A], [C])
    assert scene.core(A).is_healed and not scene.core(A).uncertainty().missed
    assert MembershipResolver(scene.core(A)).memberships(H[A]) == [G[C]]
    assert scene.core(A).uncertainty().above(H[A]) == [B]
    assert scene.core(A).uncertainty().above(G[A]) == ([] if limit > 1 else [B])
    scene.cluster.restart_all()
    assert [one.coordinator for one in scene.core(A)._context.doubts.missed_by_members] == [B]
    scene.meet([A, C], [B])
    assert not scene.core(A).uncertainty()
    scene.check((G[B], H[B]), (G[B], G[C]), (G[C], H[A]))


def test_so_is_one_that_it_left():
    scene = Scene()
    person = NodeId(f"person@{A}")
    scene.done(C, JoinArc(G[C], H[A]), JoinArc(G[C], person))
    told = cut_off_before_the_commit(scene, B, A, JoinArc(G[B], H[B]), LeaveArc(G[C], H[A]), LeaveArc(G[C], person))
    assert isinstance(told, Committed)
    scene.part([C], [B])
    scene.meet([A], [B])
    resolver = MembershipResolver(scene.core(A))
    assert resolver.memberships(H[A]) == resolver.memberships(person) == []
    assert scene.core(A).uncertainty().above(H[A]) == []
    scene.meet([A, B], [C])
    scene.check((G[B], H[B]))


def test_what_an_update_did_is_there_though_the_home_of_an_arcs_parent_has_gone_back_to_before_it():
    scene = Scene()
    before = scene.cluster.copy_of_disk(C)
    told = cut_off_before_the_commit(scene, B, A, JoinArc(G[B], H[B]), JoinArc(G[C], H[A]))
    assert isinstance(told, Committed)
    scene.cluster.crash(C, down_for=1.0, disk=before)
    scene.cluster.run()
    scene.meet([A], [B, C])
    scene.check((G[B], H[B]), (G[C], H[A]))


def test_a_group_is_deleted_by_an_update_that_its_home_missed_with_arcs_that_others_have_joined_since():
    scene = Scene()
    scene.done(B, JoinArc(G[B], H[A]))
    told = cut_off_before_the_commit(scene, B, A, LeaveArc(G[B], H[A]), DeleteGroup(H[A]))
    assert isinstance(told, Committed)
    scene.done(A, JoinArc(H[A], G[A]), JoinArc(G[A], H[A]))
    scene.meet([A], [B, C])
    scene.check()


@pytest.mark.parametrize("above", [A, B])
def test_so_it_is_with_an_arc_that_its_home_has_joined_by_itself_since(above):
    scene = Scene()
    told = cut_off_before_the_commit(scene, A, C, JoinArc(G[A], G[B]), DeleteGroup(H[C]))
    assert isinstance(told, Committed)
    scene.done(C, JoinArc(H[above], H[C], offline=True))
    scene.meet([A, B], [C])
    assert scene.core(C).graph.group(H[C]) is None
    scene.check((G[A], G[B]))


def test_what_is_refused_while_in_doubt_is_tried_again_when_it_is_repeated():
    scene = Scene()
    cut_off_before_the_commit(scene, B, A, JoinArc(G[B], H[B]), JoinArc(G[A], H[B]))
    reasons = []
    for _ in range(2):
        ticket = FIRST_READ + len(reasons)
        scene.cluster.submit(A, UpdateCommand(ticket, RequestId("again"), (LeaveArc(H[A], G[A]),)))
        scene.cluster.run()
        reasons.append(scene.cluster.answers.pop(ticket).reason)
        scene.meet([A], [B, C])
    assert reasons == [Reason.UNAVAILABLE, Reason.NOT_A_MEMBER]


def test_a_seed_in_which_a_server_misses_that_healing_joined_an_arc_and_forgets_others_meanwhile():
    run_seed(270004499, updates=2, faults=True, messages=True)
