"""Simulated links, pauses and disks affect servers as the transport and the run loop would."""

import random
from unittest.mock import patch

import pytest

from namegraph.events import Effects, Lane, PeerLost, PeerMessage, PeerMet, UpdateCommand
from namegraph.model.names import NodeId, ServerId, Subnet
from namegraph.model.operations import CreateGroup, JoinArc
from namegraph.model.outcomes import Committed
from namegraph.model.refusals import Reason
from namegraph.model.rows import Records, RequestId
from namegraph.wire.view_messages import Open
from simulation.checks.cluster_invariants import check_quiet
from simulation.cluster import connections
from simulation.cluster.cluster import WORLD, Cluster
from simulation.cluster.connections import BreakingConnections
from simulation.cluster.disk import HeldAnswer, Inflow, StepQueue, TakenStep
from simulation.cluster.networks import Arrival, Channel, Errand, PostedLetter, RandomNetwork, SentMessage

A, B, C = (ServerId(f"{name}.example") for name in "abc")
GROUPS = {server: NodeId(f"g@{server}") for server in (A, B, C)}


class Scene:
    """Three connected servers with a group each."""

    def __init__(self, seed=1):
        chance = random.Random(seed)
        self.network = RandomNetwork(chance, is_wild=False)
        self.cluster = Cluster([Subnet(server) for server in (A, B, C)], self.network, crashes=chance)
        self.commands = {}
        for server, group in GROUPS.items():
            self.ask(server, CreateGroup(group))
        self.cluster.run()
        self.links = BreakingConnections(self.cluster, self.network, chance)
        self.cluster.connections = self.links
        self.begin = self.cluster.now

    def ask(self, server, *operations, at=0.0):
        ticket = len(self.commands)
        self.commands[ticket] = UpdateCommand(ticket, RequestId(f"r{ticket}"), operations)
        self.cluster.submit(server, self.commands[ticket], delay=at)
        return ticket

    def join(self, above, below, *, at):
        return self.ask(above, JoinArc(GROUPS[above], GROUPS[below]), at=at)

    def at(self, time, run):
        self.cluster.send_errand(WORLD, Errand(run), delay=time)

    def cut(self, *channels, begin, end):
        self.at(begin, lambda: self.links.cut(channels))
        self.at(end, lambda: self.links.mend(channels))

    def run(self):
        self.cluster.run()
        self.cluster.learn_unknown()
        check_quiet(self.cluster.servers, self.commands, self.cluster.answers)

    def outcome(self, ticket):
        answer = self.cluster.answers[ticket]
        return "committed" if isinstance(answer, Committed) else answer.reason

    def taken(self, kind):
        """Return the times and servers of events of a kind."""
        arrivals = [happened for happened in self.cluster.history if isinstance(happened, Arrival)]
        return [
            (arrival.time - self.begin, arrival.server, arrival.event.peer)
            for arrival in arrivals
            if isinstance(arrival.event, kind)
        ]


def both(one, other):
    return Channel(one, other), Channel(other, one)


def test_a_cut_that_nobody_notices_only_delays_what_is_on_its_way():
    scene = Scene()
    with patch.object(connections, "NOTICED_AFTER", (1e9,)):
        scene.cut(*both(A, B), begin=1.0, end=100.0)
        ticket = scene.join(A, B, at=2.0)
        scene.cluster.on_answer = lambda *_: answered.append(scene.cluster.now - scene.begin)
        answered = []
        scene.run()
    assert scene.outcome(ticket) == "committed"
    assert 100 < answered[0] < 150
    assert not scene.taken(PeerLost)


def test_each_end_of_a_cut_is_told_at_its_own_time_and_meets_the_other_again():
    scene = Scene()
    scene.cut(*both(A, B), begin=1.0, end=1000.0)
    early, late = scene.join(A, B, at=2.0), scene.join(B, C, at=1100.0)
    scene.run()
    (first, *one), (second, *other) = scene.taken(PeerLost)
    assert sorted([one, other]) == [[A, B], [B, A]]
    assert first < second < 1000
    assert [time > 1000 for time, _, _ in scene.taken(PeerMet)] == [True, True]
    assert (scene.outcome(early), scene.outcome(late)) == (Reason.UNAVAILABLE, "committed")


def test_one_way_loss_ends_what_needs_both_ways_and_delivers_what_goes_the_other():
    scene = Scene()
    with patch.object(connections, "NOTICED_AFTER", (30.0,)):
        scene.cut(Channel(B, A), begin=1.0, end=1000.0)
        ticket = scene.join(A, B, at=1.5)
        scene.run()
    assert scene.outcome(ticket) == Reason.UNAVAILABLE
    arrived = {happened.sent.channel for happened in scene.cluster.history if getattr(happened, "sent", None)}
    assert Channel(A, B) in arrived


def test_a_server_that_two_others_reach_does_not_connect_them():
    scene = Scene()
    scene.cut(*both(A, B), begin=1.0, end=1000.0)
    through_c, direct = scene.join(A, C, at=500.0), scene.join(A, B, at=501.0)
    scene.at(900, lambda: outcomes.extend([scene.outcome(through_c), scene.outcome(direct)]))
    outcomes = []
    scene.run()
    assert outcomes == ["committed", Reason.UNAVAILABLE]


def test_a_paused_server_takes_what_waited_when_it_goes_on():
    scene = Scene()
    scene.at(1.0, lambda: scene.network.freeze(B, scene.cluster.now + 500))
    ticket = scene.join(A, B, at=2.0)
    scene.run()
    steps = [h.time - scene.begin for h in scene.cluster.history if isinstance(h, Arrival) and h.server == B]
    assert not any(2 < time < 500 for time in steps)
    assert scene.outcome(ticket) == "committed"
    assert not scene.taken(PeerLost)


def test_others_may_notice_a_pause_and_are_met_after_it():
    scene = Scene()
    scene.at(1.0, lambda: (scene.network.freeze(B, scene.cluster.now + 500), scene.links.paused(B)))
    ticket = scene.join(A, B, at=2.0)
    scene.run()
    assert scene.outcome(ticket) == Reason.UNAVAILABLE
    assert {(A, B), (C, B)} <= {(end, other) for _, end, other in scene.taken(PeerLost)}
    assert {(A, B), (B, A), (B, C), (C, B)} == {(end, other) for _, end, other in scene.taken(PeerMet)}


def test_letters_and_replies_leave_when_the_slow_disk_has_written():
    scene = Scene()
    scene.cluster.queues[A].mean_delay = 1000.0
    scene.join(A, B, at=1.0)
    own = scene.ask(A, CreateGroup(NodeId(f"h@{A}")), at=1.0)
    sent_before = len(scene.cluster.sent)
    seen = []
    scene.at(2.0, lambda: seen.append((len(scene.cluster.sent) - sent_before, own in scene.cluster.answers)))
    scene.run()
    assert seen == [(0, False)]
    assert {scene.outcome(ticket) for ticket in scene.commands} == {"committed"}


@pytest.mark.parametrize("seed", range(8))
def test_a_crash_loses_what_waits_for_a_slow_disk_and_what_is_being_written_whole_or_not_at_all(seed):
    scene = Scene(seed)
    cluster = scene.cluster
    cluster.queues[A].mean_delay = 1e6
    names = [NodeId(f"{letter}@{A}") for letter in "wxyz"]
    for place, name in enumerate(names):
        scene.ask(A, CreateGroup(name), at=1.0 + place)
    held = []
    scene.at(
        6.0, lambda: cluster.when_durable(A, HeldAnswer(lambda: held.append("let out"), lambda: held.append("lost")))
    )
    scene.at(7.0, lambda: cluster.crash(A, down_for=1.0))
    there = []
    scene.at(7.5, lambda: there.append([name in cluster.servers[A].graph.index for name in names]))
    scene.at(7.6, lambda: setattr(cluster.queues[A], "mean_delay", 0.0))
    scene.run()
    assert there[0] in ([True, False, False, False], [False, False, False, False])
    assert held == ["lost"]


def test_a_server_that_stays_away_is_lost_and_its_clients_ask_again():
    scene = Scene()
    scene.at(1.0, lambda: scene.cluster.crash(B, down_for=500.0))
    at_a, at_b, later = scene.join(A, B, at=50.0), scene.join(B, C, at=50.0), scene.join(B, C, at=700.0)
    scene.run()
    assert {(A, B), (C, B)} <= {(end, other) for _, end, other in scene.taken(PeerLost)}
    # A server that is back is alone until the others have agreed on a view with it.
    assert scene.outcome(at_a) is Reason.UNAVAILABLE
    assert {scene.outcome(at_b), scene.outcome(later)} <= {Reason.UNAVAILABLE, Reason.ALREADY_MEMBER, "committed"}
    assert "committed" in (scene.outcome(at_b), scene.outcome(later))


@pytest.mark.parametrize(("crash_step", "outcome"), [(1, Reason.DEADLINE_EXCEEDED), (5, "committed")])
def test_a_client_that_has_gone_learns_the_outcome_by_its_request_id(crash_step, outcome):
    """The server crashes at one of its steps: all of it is durable, and nothing is said."""
    scene = Scene()
    steps = iter(range(1, 100))
    scene.cluster.crash_within = lambda server: 0.0 if server == A and next(steps) == crash_step else None
    ticket = scene.join(A, B, at=1.0)
    with patch("simulation.cluster.cluster.GONE_SHARE", 1.0):
        scene.cluster.run()
    assert ticket in scene.cluster.unknown
    scene.run()
    assert scene.outcome(ticket) == outcome


def test_what_waits_for_a_server_whose_pause_gets_longer_stays_in_order():
    network = RandomNetwork(random.Random(1), is_wild=False)
    network.freeze(B, 100.0)
    network.send(SentMessage(0.0, A, B, Open()), PeerMessage(A, 1, b""))
    network.put(A, Errand(lambda: None), delay=50.0)
    assert network.next().server == A  # The letter was put off meanwhile.
    network.freeze(B, 200.0)
    network.send(SentMessage(50.0, A, B, Open()), PeerMessage(A, 2, b""))
    assert [network.next().event.number for _ in range(2)] == [1, 2]


def test_what_a_cut_has_held_back_comes_to_a_paused_server_before_what_was_sent_later():
    network = RandomNetwork(random.Random(1), is_wild=False)
    network.stop(Channel(A, B))
    network.send(SentMessage(0.0, A, B, Open()), PeerMessage(A, 1, b""))
    network.put(A, Errand(lambda: None), delay=50.0)
    assert network.next().server == A  # The letter came to the cut meanwhile.
    network.send(SentMessage(50.0, A, B, Open()), PeerMessage(A, 2, b""))
    network.go_on(Channel(A, B))
    network.freeze(B, 100.0)
    assert [network.next().event.number for _ in range(2)] == [1, 2]


def test_what_waits_for_a_paused_server_stays_in_order_where_a_cut_lasts_longer_than_the_pause():
    network = RandomNetwork(random.Random(1), is_wild=False)
    network.freeze(B, 100.0)
    network.send(SentMessage(0.0, A, B, Open()), PeerMessage(A, 1, b""))
    network.put(A, Errand(lambda: None), delay=50.0)
    assert network.next().server == A  # The letter was put off meanwhile, and comes to the cut after the next one.
    network.stop(Channel(A, B))
    network.send(SentMessage(50.0, A, B, Open()), PeerMessage(A, 2, b""))
    network.put(A, Errand(lambda: None), delay=100.0)
    assert network.next().server == A
    network.go_on(Channel(A, B))
    assert [network.next().event.number for _ in range(2)] == [1, 2]


def test_posts_of_a_channel_that_come_one_right_behind_the_other_are_taken_together_now_and_then():
    network = RandomNetwork(random.Random(1), is_wild=False)
    lanes = [Lane.POST] * 20 + [Lane.LETTERS] * 2 + [Lane.POST] * 2
    for number, lane in enumerate(lanes, start=1):
        network.send(SentMessage(0.0, A, B, PostedLetter(number, b"")), PeerMessage(A, number, b"", lane))
    taken = []
    while (arrival := network.next()) is not None:
        taken.append(getattr(arrival.event, "posts", (arrival.event,)))
    assert [event.number for together in taken for event in together] == [*range(1, len(lanes) + 1)]
    assert len({len(together) for together in taken}) > 2
    assert all(len(together) == 1 or {event.lane for event in together} == {Lane.POST} for together in taken)
    assert not network.next()


def test_a_letter_that_comes_again_while_a_disk_is_slow_leaves_what_is_durable_so():
    queue = StepQueue()
    letters = [PeerMessage(A, 1, b""), PeerMessage(A, 2, b""), PeerMessage(A, 1, b"")]
    effects, inflow = Effects(Records()), Inflow(A, Lane.LETTERS)
    before = [{inflow: 0}, {inflow: 1}, {}]
    queue.waiting = [
        TakenStep(letter, effects, [], {inflow: 2}, 0, 0, handled_before=handled_before)
        for letter, handled_before in zip(letters, before, strict=True)
    ]
    assert queue.handled_before(A) == 0
    queue.waiting = queue.waiting[2:]
    assert queue.handled_before(A) is None
