"""A disk that takes no writes for a while: no output leaves its server, and the other servers go on without it."""

import random
from unittest.mock import patch

import pytest

from namegraph.events import PeerLost, PeerMet
from namegraph.model.names import NodeId
from namegraph.model.operations import CreateGroup, JoinArc
from namegraph.model.refusals import Reason
from simulation.cluster.networks import Channel
from simulation.faults import write_failures
from simulation.faults.write_failures import WriteFailures
from tests.simulation.test_links import GROUPS, A, B, C, Scene

LASTS = 400.0
"""Far longer than it takes until this is said and heard."""

SHORT = 0.05
"""Far shorter."""


class UnwritableScene(Scene):
    def __init__(self, seed=1):
        super().__init__(seed)
        self.disks = WriteFailures(self.cluster, self.network, self.links, random.Random(seed))

    def fail(self, server, *, begin, lasts=LASTS):
        self.at(begin, lambda: self.disks.begin(server, lasts))

    def lost(self):
        return [(end, other) for _, end, other in self.taken(PeerLost)]

    def met(self, *, after):
        return [(end, other) for time, end, other in self.taken(PeerMet) if time > after]


@pytest.mark.parametrize("seed", range(5))
def test_the_others_lose_it_and_go_on_and_meet_it_again_when_it_writes(seed):
    scene = UnwritableScene(seed)
    scene.fail(A, begin=1.0)
    begun, behind = scene.join(B, A, at=2.0), scene.ask(B, JoinArc(GROUPS[B], NodeId(f"p@{B}")), at=3.0)
    late, among = scene.join(C, A, at=200.0), scene.join(B, C, at=200.0)
    after = scene.join(C, A, at=LASTS + 200.0)
    told = []
    scene.at(LASTS - 50, lambda: told.extend(scene.cluster.answers))
    scene.run()
    assert {begun, behind, late, among} <= set(told)
    assert [scene.outcome(ticket) for ticket in (begun, behind, late, among, after)] == [
        Reason.UNAVAILABLE,
        "committed",
        Reason.UNAVAILABLE,
        "committed",
        "committed",
    ]
    assert sorted(scene.lost()) == [(B, A), (C, A)]
    assert sorted(scene.met(after=LASTS)) == [(B, A), (C, A)]
    assert all(len(core.members) == 3 and core.is_healed for core in scene.cluster.servers.values())


def test_nothing_that_it_steps_leaves_it():
    scene = UnwritableScene()
    scene.fail(A, begin=1.0)
    # The messages that it has sent, and what it was asked for itself.
    own, sent, answered = scene.ask(A, CreateGroup(NodeId(f"h@{A}")), at=2.0), [], []
    scene.join(A, B, at=2.0)
    scene.join(B, A, at=2.0)
    for time in (1.0, LASTS):
        scene.at(time, lambda: sent.append([each for each in scene.cluster.sent if each.sender == A]))
    scene.at(LASTS, lambda: answered.append(own in scene.cluster.answers))
    scene.run()
    assert sent[0] == sent[1]
    assert answered == [False]
    assert scene.outcome(own) == "committed"


def test_a_short_trouble_loses_nobody():
    scene = UnwritableScene()
    scene.fail(A, begin=6.0, lasts=SHORT)
    joined = [scene.join(A, B, at=5.0), scene.join(B, C, at=10.0)]
    scene.run()
    assert [scene.outcome(ticket) for ticket in joined] == ["committed"] * 2
    assert scene.lost() == []


def test_a_new_connection_does_not_make_it_met_before_it_says_so():
    scene = UnwritableScene()
    scene.fail(A, begin=1.0)
    scene.cut(Channel(A, B), Channel(B, A), begin=150.0, end=250.0)
    scene.run()
    # B hears of A's disk, loses the connection, and finds it again: A was lost all the time.
    assert (B, A) not in [(end, other) for time, end, other in scene.taken(PeerMet) if 50.0 < time < LASTS]
    assert (B, A) in scene.met(after=LASTS)


def test_a_server_that_is_started_again_on_such_a_disk_says_so_again():
    scene = UnwritableScene()
    scene.fail(A, begin=1.0)
    scene.at(150.0, lambda: scene.cluster.crash(A, down_for=5.0))
    scene.run()
    reasons = [time for time, end, other in scene.taken(PeerLost) if (end, other) == (C, A)]
    assert min(reasons) < 150.0 < max(reasons) < LASTS
    assert (C, A) in scene.met(after=LASTS)


@pytest.mark.parametrize("seed", range(3))
def test_nothing_leaves_for_it_before_it_is_met_where_it_begins_again(seed):
    """Else who has sent it, and crashes before it has met it, is taken for a server on an older copy of its disk."""
    scene = UnwritableScene(seed)
    cluster, crashed = scene.cluster, []
    old = cluster.copy_of_disk(A)
    scene.join(B, A, at=1.0)
    scene.fail(A, begin=50.0)
    scene.at(150.0, lambda: cluster.crash(A, down_for=5.0, disk=old))

    def crash_once_it_was_heard():
        here, there = cluster.servers[B].channels, cluster.servers[A].channels
        if not crashed and cluster.servers[A].incarnations.own and here.handled_through(A) and there.handled_through(B):
            crashed.append(here.is_met(A))
            cluster.crash(B, down_for=5.0)

    with patch.multiple(write_failures, SAID_AFTER=(1e-3,), TAKEN_BACK_AFTER=1e4):
        cluster.run(after_step=crash_once_it_was_heard)
    scene.run()
    assert crashed == [True]
    assert [bool(cluster.servers[server].incarnations.own) for server in (A, B, C)] == [True, False, False]
