"""Servers that stay away for longer than the limit: the others forget, and nothing that was left comes back with them.

Whole seeds with limits are among those of `shadowtree simulate --faults`.
"""

from unittest.mock import patch

import pytest

from namegraph.events import Tick
from namegraph.model.names import NodeId
from namegraph.model.operations import ChildKind, CreateGroup, DeleteGroup, JoinArc, LeaveArc
from namegraph.model.outcomes import Committed
from namegraph.state.forgotten_arcs import ForgottenArcs
from simulation.cluster.failures import FAULTS
from simulation.cluster.networks import Arrival
from simulation.run import SeedRun, run_seed
from tests.simulation.scene import A, B, C, G, H, Scene, cut_off_before_the_commit, stop_before_the_commit

LIMIT = 1_000.0
"""Longer than it takes to come to rest."""

ANN = NodeId(f"ann@{C}")
"""A process of the server that is away."""


class AbsenceScene(Scene):
    def __init__(self):
        super().__init__(forgets_at_once=True)
        self.limit(A, B, C)

    def limit(self, *servers, seconds=LIMIT):
        for server in servers:
            self.core(server).limit_absences(seconds)

    def wait(self, *servers):
        """Let the limit pass at some servers. Each step tells the time, and each server has its own."""
        for now in (self.cluster.now, self.cluster.now + 2 * LIMIT):
            for server in servers:
                self.cluster.take(Arrival(now, server, Tick(), None))
                self.core(server)._context.absences.count(self.core(server)._context.absent(), now)

    def stir(self, *servers, groups=H):
        """Make an unrelated change, after which servers look for state to forget."""
        for server in servers:
            name = NodeId(f"passing@{server}")
            self.done(server, JoinArc(groups[server], name, ChildKind.PROCESS))
            self.done(server, LeaveArc(groups[server], name))

    def tombstones(self, *servers):
        return [len(self.core(server).graph.tombstones) for server in servers]

    def overdue(self):
        return {server: self.core(server).overdue for server in (A, B, C)}

    def go_on_without(self, *servers, groups=H):
        """Let the limit pass at some servers, so that they forget."""
        self.wait(*servers)
        self.stir(*servers, groups=groups)


@pytest.fixture
def apart():
    """Two servers, and one that is cut off from them, with arcs between all of them."""
    scene = AbsenceScene()
    scene.done(A, JoinArc(G[A], G[C]), JoinArc(G[A], ANN, ChildKind.PROCESS), JoinArc(G[A], G[B]))
    scene.done(C, JoinArc(H[C], H[A]), JoinArc(H[C], H[B]))
    scene.part([A, B], [C])
    return scene


def leave_all(scene):
    scene.done(A, LeaveArc(G[A], G[C]), LeaveArc(G[A], ANN), LeaveArc(G[A], G[B]))
    scene.done(A, LeaveArc(H[C], H[A]))
    scene.done(B, LeaveArc(H[C], H[B]))


def test_what_was_left_is_kept_for_a_server_that_is_away_until_the_limit_and_not_beyond(apart):
    leave_all(apart)
    apart.stir(A, B)
    assert all(apart.tombstones(A, B))
    assert apart.overdue() == {A: [], B: [], C: []}
    apart.go_on_without(A, B)
    apart.stir(A, B)
    assert apart.tombstones(A, B) == [0, 0]
    assert apart.overdue() == {A: [C], B: [C], C: []}
    assert not apart.core(A)._context.unilateral_leaves


def test_nothing_that_was_left_comes_back_with_it_though_it_does_not_know_that_it_was_away_for_long(apart):
    leave_all(apart)
    apart.go_on_without(A, B)
    assert (G[A], G[C]) in apart.suspended(C)
    apart.meet([A, B], [C])
    apart.check()
    assert apart.overdue() == {A: [], B: [], C: []}


def test_one_that_did_not_run_meanwhile_brings_nothing_back_either():
    scene = AbsenceScene()
    scene.done(A, JoinArc(G[A], G[C]))
    scene.done(C, JoinArc(H[C], H[A]))
    scene.cluster.crash_for_good(C)
    scene.cluster.run()
    scene.done(A, LeaveArc(G[A], G[C]))
    scene.done(A, LeaveArc(H[C], H[A]))
    scene.go_on_without(A, B)
    assert scene.tombstones(A) == [0]
    scene.cluster.bring_back(C)
    scene.cluster.run()
    scene.check()


def test_it_does_where_it_is_not_taken_for_one_that_has_gone_back(apart):
    leave_all(apart)
    apart.go_on_without(A, B)
    with patch.object(ForgottenArcs, "was_left", lambda *_: False):
        apart.meet([A, B], [C])
    apart.check((G[A], G[C]), (G[A], ANN), (H[C], H[A]), (H[C], H[B]))


def test_not_all_have_to_come_to_that_at_one_time(apart):
    leave_all(apart)
    apart.go_on_without(A)
    # What leads to the one that is away is forgotten by each alone, what leads to one another is not yet.
    assert apart.core(A).overdue == [C]
    assert apart.core(B).overdue == []
    assert apart.tombstones(A) == [1]
    apart.meet([A, B], [C])
    apart.check()


def test_both_sides_may_forget_one_another(apart):
    leave_all(apart)
    apart.done(C, LeaveArc(H[C], H[A]))
    apart.done(C, DeleteGroup(G[C], force=True))
    apart.go_on_without(A, B, C)
    assert apart.tombstones(A, B, C) == [0, 0, 0]
    assert G[C] not in apart.core(C).graph.index
    apart.meet([A, B], [C])
    apart.check()
    assert apart.core(C).graph.group(G[C]) is None


def test_what_both_still_have_is_there_again(apart):
    apart.done(A, LeaveArc(G[A], ANN))
    apart.go_on_without(A, B)
    apart.meet([A, B], [C])
    apart.check((G[A], G[C]), (G[A], G[B]), (H[C], H[A]), (H[C], H[B]))


def test_what_either_joined_alone_while_apart_is_not_lost(apart):
    """Also where it is older, as updates are counted, than what was forgotten at the other end."""
    apart.done(C, JoinArc(G[C], G[A], ChildKind.GROUP, offline=True))
    apart.done(C, JoinArc(H[B], H[C], ChildKind.GROUP, offline=True))
    leave_all(apart)
    apart.done(A, JoinArc(H[A], ANN, ChildKind.PROCESS, offline=True))
    apart.go_on_without(A, B)
    apart.meet([A, B], [C])
    apart.check((G[C], G[A]), (H[B], H[C]), (H[A], ANN))


def test_without_a_word_of_what_was_joined_alone_it_would_be(apart):
    apart.done(C, JoinArc(G[C], G[A], ChildKind.GROUP, offline=True))
    leave_all(apart)
    apart.go_on_without(A, B)
    apart.core(C)._context.unconfirmed_below.clear()
    apart.meet([A, B], [C])
    apart.check()


def test_what_either_joined_alone_is_not_lost_where_they_part_again_before_they_are_healed(apart):
    apart.done(C, JoinArc(G[C], G[A], ChildKind.GROUP, offline=True))
    apart.done(C, JoinArc(H[B], H[C], ChildKind.GROUP, offline=True))
    leave_all(apart)
    apart.go_on_without(A, B)
    apart.meet_in_one_view([A, B], [C])
    assert not apart.core(C).is_healed
    apart.part([A, B], [C])
    assert (G[C], G[A]) in apart.suspended(C)
    apart.go_on_without(A, B)
    apart.meet([A, B], [C])
    apart.check((G[C], G[A]), (H[B], H[C]))


def test_a_join_that_both_ends_know_is_not_taken_for_one_that_was_joined_alone(apart):
    """It was once: then the servers have met, and the other end has left it in their next parting."""
    apart.done(C, JoinArc(G[C], G[A], ChildKind.GROUP, offline=True))
    apart.done(C, JoinArc(H[B], H[C], ChildKind.GROUP, offline=True))
    apart.meet([A, B], [C])
    apart.part([A, B], [C])
    leave_all(apart)
    apart.done(A, LeaveArc(G[C], G[A]))
    apart.done(B, LeaveArc(H[B], H[C]))
    apart.go_on_without(A, B)
    apart.meet([A, B], [C])
    apart.check()


def test_a_seed_in_which_two_servers_part_again_before_they_are_healed():
    run_seed(7000189, faults=True, messages=True, servers=5, updates=40)


def test_that_something_was_forgotten_for_it_is_durable(apart):
    leave_all(apart)
    apart.go_on_without(A, B)
    for server in (A, B):
        apart.cluster.crash(server, down_for=0.5)
    apart.cluster.run()
    apart.meet([A, B], [C])
    apart.check()


def test_a_group_that_was_deleted_and_forgotten_is_made_anew_without_the_arcs_of_who_was_away(apart):
    apart.done(A, DeleteGroup(H[A], force=True))
    apart.go_on_without(A, B, groups=G)
    assert H[A] not in apart.core(A).graph.index
    apart.done(A, CreateGroup(H[A]))
    apart.meet([A, B], [C])
    assert (H[C], H[A]) not in apart.suspended(C)
    apart.check((G[A], G[C]), (G[A], ANN), (G[A], G[B]), (H[C], H[B]))


def test_once_healed_what_is_rejected_at_the_other_end_is_not_taken_for_left(apart):
    nobody = NodeId(f"nobody@{A}")
    apart.done(C, JoinArc(G[C], nobody, ChildKind.GROUP, offline=True))
    leave_all(apart)
    apart.go_on_without(A, B)
    apart.meet([A, B], [C])
    assert (G[C], nobody) in apart.suspended(C)
    apart.done(A, CreateGroup(nobody))
    apart.check((G[C], nobody))


def test_what_an_update_in_doubt_may_have_joined_is_kept_apart_from_what_was_left():
    """C has decided it, and could not tell A, which is in doubt of it for longer than the limit."""
    scene = AbsenceScene()
    scene.done(A, JoinArc(G[A], G[C]))
    cut_off_before_the_commit(scene, C, A, JoinArc(G[C], H[A]))
    scene.done(A, LeaveArc(G[A], G[C]))
    scene.go_on_without(A)
    assert scene.core(A).in_doubt_about
    scene.meet([A], [B, C])
    scene.check((G[C], H[A]))


def test_so_it_is_where_who_decided_it_starts_again_before_it_meets_anybody():
    scene = AbsenceScene()
    scene.done(A, JoinArc(G[A], G[C]))
    stop_before_the_commit(scene, C, A, JoinArc(G[C], H[A]))
    scene.cluster.crash(C, down_for=1.0)
    scene.part([C], [A, B])
    scene.limit(C)
    scene.done(A, LeaveArc(G[A], G[C]))
    scene.go_on_without(A)
    assert scene.core(A).in_doubt_about
    scene.meet([C], [A, B])
    scene.cluster.learn_unknown()
    scene.check((G[C], H[A]))


def failed(seed):
    try:
        SeedRun(seed, faults=True).run()
    except FAULTS:
        return True
    return False


def test_seeds_fail_where_who_comes_back_late_is_not_taken_for_one_that_has_gone_back():
    with patch.object(ForgottenArcs, "was_left", lambda *_: False):
        assert any(map(failed, [5, 7, 8, *range(300)]))


def test_what_was_left_stays_left_though_an_update_in_doubt_concerns_its_child():
    scene = AbsenceScene()
    scene.done(C, JoinArc(H[C], H[A]))
    scene.part([A, B], [C])
    scene.done(A, LeaveArc(H[C], H[A]))
    scene.go_on_without(A, groups=G)
    stop_before_the_commit(scene, B, A, JoinArc(G[B], H[B]), JoinArc(H[A], H[B]))
    scene.part([A], [B])
    scene.meet([A], [C])
    scene.meet([A, C], [B])
    scene.check((G[B], H[B]), (H[A], H[B]))


def test_an_arc_that_a_server_is_told_of_late_is_left_where_its_group_was_deleted_since():
    scene = AbsenceScene()
    told = cut_off_before_the_commit(scene, B, A, JoinArc(G[B], H[B]), JoinArc(G[A], G[C]))
    assert isinstance(told, Committed)
    scene.done(A, DeleteGroup(G[A]))
    scene.done(A, CreateGroup(G[A]))
    scene.part([B], [C])
    scene.meet([A], [B])
    scene.go_on_without(A)
    scene.meet([A, B], [C])
    scene.check((G[B], H[B]))


def test_what_a_server_lost_is_not_taken_for_one_of_the_arcs_that_it_forgot_alone():
    bob = NodeId(f"bob@{A}")
    scene = AbsenceScene()
    scene.done(B, JoinArc(G[B], G[A]))
    old = scene.cluster.copy_of_disk(A)
    scene.done(B, JoinArc(G[B], bob, ChildKind.PROCESS))
    scene.part([A], [B, C])
    scene.cluster.crash(A, down_for=0.5, disk=old)
    scene.cluster.run()
    scene.limit(A)
    scene.wait(A)
    # It does not know yet that it has gone back, and its counter has come beyond what it lost.
    scene.done(A, LeaveArc(G[B], G[A]))
    assert scene.tombstones(A) == [0]
    assert scene.overdue()[A]
    scene.meet([A], [B, C])
    assert scene.core(A).incarnations.own
    scene.check((G[B], bob))


def test_what_a_server_joined_alone_on_an_older_copy_is_not_lost():
    scene = AbsenceScene()
    old = scene.cluster.copy_of_disk(A)
    scene.done(A, JoinArc(G[A], G[C]))
    scene.done(A, LeaveArc(G[A], G[C]))
    scene.stir(A, C)
    assert scene.tombstones(A, C) == [0, 0]
    scene.part([A], [B, C])
    scene.cluster.crash(A, down_for=0.5, disk=old)
    scene.cluster.run()
    scene.limit(A)
    # It does not know yet that it has gone back, and its counter is lower than that of what C has forgotten.
    scene.done(A, JoinArc(H[A], H[C], ChildKind.GROUP, offline=True))
    scene.meet([A], [B, C])
    assert scene.core(A).incarnations.own
    scene.check((H[A], H[C]))


@pytest.mark.parametrize("at", [A, C], ids=["at its parent's home", "at its child's home"])
def test_what_was_joined_alone_and_left_since_does_not_come_back_with_an_older_copy(at):
    scene = AbsenceScene()
    scene.part([A], [B, C])
    scene.done(at, JoinArc(G[A], H[C], ChildKind.GROUP, offline=True))
    old = scene.cluster.copy_of_disk(at)
    scene.meet([A], [B, C])
    scene.done(A, LeaveArc(G[A], H[C]))
    scene.stir(A, C)
    assert scene.tombstones(A, C) == [0, 0]
    others = [server for server in (A, B, C) if server != at]
    scene.part([at], others)
    scene.cluster.crash(at, down_for=0.5, disk=old)
    scene.cluster.run()
    scene.meet([at], others)
    assert scene.core(at).incarnations.own
    scene.check()


def test_a_seed_in_which_a_server_forgets_alone_before_it_knows_that_it_has_gone_back():
    run_seed(230004166, updates=2, faults=True, messages=True)
