"""Servers forget arcs that were left, in agreement, and nothing that was left comes back because of that.

Whole seeds that forget at once are among those of `shadowtree simulate`, with faults and without.
"""

import pytest

from namegraph.events import PeerMet, UpdateCommand
from namegraph.model.names import NodeId, Subnet
from namegraph.model.operations import ChildKind, CreateGroup, DeleteGroup, JoinArc, LeaveArc
from namegraph.model.protocol_versions import FORGETTING_VERSION, OLDEST_PROTOCOL_VERSION
from namegraph.model.rows import RequestId
from namegraph.wire.update_messages import Commit
from namegraph.wire.view_messages import ForgetLeft, HintedOutcome, LeftForgotten
from simulation.cluster.networks import Arrival
from tests.simulation.scene import A, B, C, G, H, Scene

ANN = NodeId(f"ann@{B}")
"""A process of another server than the group that it joins."""

ROUNDS = 150
"""Number of joins and leaves of a person over two servers. `python -m benchmarks forgetting` makes more."""


class ForgettingScene(Scene):
    def __init__(self, *, is_configured=True):
        super().__init__(is_configured=is_configured, forgets_at_once=True)

    def copy(self, server):
        return self.cluster.copy_of_disk(server)

    def go_back(self, server, disk):
        """Crash a server, and start it on another disk."""
        self.cluster.crash(server, down_for=0.5, disk=disk)
        self.cluster.run()
        self.cluster.run()

    def stir(self):
        """Make an unrelated change, after which servers look for state to forget."""
        for server in (A, B, C):
            name = NodeId(f"passing@{server}")
            self.done(server, JoinArc(H[server], name, ChildKind.PROCESS))
            self.done(server, LeaveArc(H[server], name))

    def meets_again(self, server, peer, version):
        """Let a server introduce itself to another one, in a version of the protocol."""
        met = PeerMet(peer, (Subnet(peer),), version)
        self.cluster.take(Arrival(self.cluster.now, server, met, None))
        self.cluster.run()

    def tombstones(self):
        """Return the number of tombstones at each server."""
        return [len(self.core(server).graph.tombstones) for server in (A, B, C)]

    def knows(self, name):
        """Return the servers that have a number for a name."""
        return [server for server in (A, B, C) if name in self.core(server).graph.index]

    def ask_until_told(self, server, *operations, kind, to):
        """Ask for an update that ends without a server, which is cut off as soon as it is sent a message of a type."""
        self.ask_until_sent(server, *operations, kind=kind, to=to)
        self.part([other for other in (A, B, C) if other != to], [to])

    def ask_until_sent(self, server, *operations, kind, to):
        """Ask for an update, and go on until a server is sent a message of a type."""
        self.commands[len(self.commands)] = UpdateCommand(len(self.commands), RequestId("cut"), operations)
        self.cluster.submit(server, self.commands[len(self.commands) - 1])
        before = len(self.cluster.sent)
        while not any(sent.receiver == to and isinstance(sent.message, kind) for sent in self.cluster.sent[before:]):
            self.cluster.take(self.network.next())

    def sent(self, kind):
        return [sent for sent in self.cluster.sent if isinstance(sent.message, kind)]


@pytest.fixture
def scene():
    return ForgettingScene()


def test_both_homes_forget_an_arc_that_was_left_and_the_name_of_its_child(scene):
    scene.done(A, JoinArc(G[A], ANN, ChildKind.PROCESS))
    assert scene.knows(ANN) == [A, B]
    scene.done(A, LeaveArc(G[A], ANN))
    assert len(scene.sent(ForgetLeft)) == len(scene.sent(LeftForgotten)) == 1
    assert scene.tombstones() == [0, 0, 0]
    scene.stir()
    assert scene.knows(ANN) == []
    scene.check()


def test_a_server_that_does_not_understand_it_is_not_asked_to_forget_until_it_is_upgraded(scene):
    scene.meets_again(A, B, OLDEST_PROTOCOL_VERSION)
    scene.done(A, JoinArc(G[A], ANN, ChildKind.PROCESS), JoinArc(G[A], H[C], ChildKind.GROUP))
    scene.done(A, LeaveArc(G[A], ANN), LeaveArc(G[A], H[C]))
    assert {sent.receiver for sent in scene.sent(ForgetLeft)} == {C}
    assert scene.tombstones() == [1, 1, 0]
    scene.meets_again(A, B, FORGETTING_VERSION)
    scene.stir()
    assert scene.tombstones() == [0, 0, 0]
    scene.check()


def test_an_arc_that_is_joined_after_it_was_forgotten_has_a_higher_version_than_before(scene):
    for version in (1, 3, 5):
        scene.done(A, JoinArc(G[A], G[B]))
        arc = next(scene.core(A).graph.present_arcs())
        assert arc.version == version
        scene.check((G[A], G[B]))
        scene.done(A, LeaveArc(G[A], G[B]))
        assert scene.tombstones() == [0, 0, 0]


def test_a_server_that_is_away_keeps_what_was_left_from_being_forgotten(scene):
    scene.done(A, JoinArc(G[A], G[B]), JoinArc(G[A], H[A]))
    scene.part([A, B], [C])
    scene.done(A, LeaveArc(G[A], G[B]), LeaveArc(G[A], H[A]))
    scene.done(A, CreateGroup(NodeId(f"n@{A}")))
    assert scene.tombstones()[:2] == [2, 1]
    scene.meet([A, B], [C])
    scene.stir()
    assert scene.tombstones() == [0, 0, 0]
    scene.check()


def test_what_one_end_left_while_apart_is_forgotten_once_both_know_it(scene):
    scene.done(A, JoinArc(G[A], G[B]))
    scene.part([A], [B, C])
    scene.done(A, LeaveArc(G[A], G[B]))
    scene.done(B, LeaveArc(G[A], G[B]))
    scene.meet([A], [B, C])
    scene.stir()
    assert scene.tombstones() == [0, 0, 0]
    scene.check()


def test_a_member_that_joined_while_apart_after_it_was_forgotten_is_there_when_all_meet(scene):
    scene.done(A, JoinArc(G[A], ANN, ChildKind.PROCESS))
    scene.done(A, LeaveArc(G[A], ANN))
    scene.part([A, C], [B])
    scene.done(A, JoinArc(G[A], ANN, ChildKind.PROCESS, offline=True))
    scene.meet([A, C], [B])
    scene.check((G[A], ANN))


@pytest.mark.parametrize("server", [A, B])
def test_an_older_copy_does_not_bring_back_an_arc_that_was_left_and_forgotten(scene, server):
    """At the home of the parent, or of the child."""
    scene.done(A, JoinArc(G[A], G[B]), JoinArc(G[A], ANN, ChildKind.PROCESS))
    old = scene.copy(server)
    scene.done(A, LeaveArc(G[A], G[B]), LeaveArc(G[A], ANN))
    assert scene.tombstones() == [0, 0, 0]
    scene.go_back(server, old)
    scene.check()


@pytest.mark.parametrize("server", [A, B])
def test_what_was_joined_since_an_older_copy_comes_back_though_other_arcs_were_forgotten(scene, server):
    scene.done(A, JoinArc(G[A], G[B]))
    old = scene.copy(server)
    scene.done(A, LeaveArc(G[A], G[B]))
    scene.done(A, JoinArc(G[A], H[B]))
    scene.go_back(server, old)
    scene.check((G[A], H[B]))


@pytest.mark.parametrize("child", [G[C], G[B]])
def test_what_an_older_copy_has_yet_to_tell_of_an_arc_that_was_forgotten_is_old_news(scene, child):
    """A has decided to join an arc, and was cut off before it could tell the home of the parent; that learnt it, and
    the arc was left since."""
    scene.ask_until_told(A, JoinArc(G[A], H[A]), JoinArc(H[B], child, ChildKind.GROUP), kind=Commit, to=B)
    old = scene.copy(A)
    scene.meet([A, C], [B])
    scene.check((G[A], H[A]), (H[B], child))
    scene.done(B, LeaveArc(H[B], child))
    scene.stir()
    assert scene.tombstones() == [0, 0, 0]
    offers = len(scene.sent(HintedOutcome))
    scene.go_back(A, old)
    assert len(scene.sent(HintedOutcome)) > offers
    scene.check((G[A], H[A]))


def test_what_was_left_with_a_server_that_was_removed_is_kept_in_case_it_comes_back():
    scene = ForgettingScene(is_configured=False)
    scene.done(A, JoinArc(G[A], G[C]), JoinArc(G[A], H[A]))
    scene.part([A, B], [C])
    assert scene.retire(A, C) is None
    assert scene.retire(B, C) is None
    scene.done(A, LeaveArc(G[A], H[A]))
    scene.done(A, JoinArc(H[A], NodeId("ann@people.example"), ChildKind.PROCESS))
    scene.done(A, LeaveArc(H[A], NodeId("ann@people.example")))
    graph = scene.core(A).graph
    assert [(graph.ids[parent], graph.ids[child]) for parent, child in graph.tombstones] == [(G[A], G[C])]


def test_a_group_that_was_forgotten_is_made_anew_without_its_arcs(scene):
    scene.done(A, JoinArc(G[A], G[B]), JoinArc(G[B], H[C]))
    scene.done(B, DeleteGroup(G[B], force=True))
    scene.stir()
    assert scene.knows(G[B]) == []
    scene.done(B, CreateGroup(G[B]))
    scene.check()


def test_however_many_groups_are_made_and_deleted_what_is_kept_stays_small(scene):
    for number in range(ROUNDS // 3):
        group = NodeId(f"group-{number}@{A}")
        scene.done(A, CreateGroup(group))
        scene.done(A, JoinArc(group, G[B]))
        scene.done(A, DeleteGroup(group, force=True))
    stored = scene.copy(A).read()
    assert len(scene.core(A)._context.group_versions) < 10
    assert len(list(stored.protocol)) < 20
    assert len(list(stored.nodes)) < 15
    scene.check()


def test_a_deletion_that_is_offered_again_once_its_time_is_forgotten_is_old_news(scene):
    """B decided it, and goes back to a time before it heard that it is done; the group was made anew since."""
    passing = NodeId(f"passing@{B}")
    deletion = (JoinArc(G[B], passing, ChildKind.PROCESS), DeleteGroup(G[A], force=True))
    scene.ask_until_sent(B, *deletion, kind=Commit, to=A)
    old = scene.copy(B)
    scene.cluster.run()
    scene.done(A, CreateGroup(G[A]))
    scene.stir()
    assert not scene.core(A)._context.group_versions
    offers = len(scene.sent(HintedOutcome))
    scene.go_back(B, old)
    assert len(scene.sent(HintedOutcome)) > offers
    assert scene.core(A).graph.group(G[A]) is not None


def test_however_many_members_of_another_server_come_and_go_what_is_kept_stays_small(scene):
    for number in range(ROUNDS):
        scene.done(A, JoinArc(G[A], NodeId(f"p{number}@{B}"), ChildKind.PROCESS))
        scene.done(A, LeaveArc(G[A], NodeId(f"p{number}@{B}")))
    for server in (A, B):
        graph, stored = scene.core(server).graph, scene.copy(server).read()
        assert len(graph.ids) < 10
        assert len(list(stored.nodes)) == len(graph.ids)
        assert not graph.tombstones
        assert not list(stored.arcs)
        assert len(list(stored.protocol)) < 20
