"""During any step readers see the state before it. Afterwards they see the state of the core."""

from random import Random

import pytest

from namegraph import committed_state, queries
from namegraph.committed_state import CommittedState
from namegraph.core import ServerCore
from namegraph.events import (
    AddPeer,
    PeerLost,
    PeerMessage,
    PeerMet,
    PeerReceived,
    ReadCommand,
    RemovePeer,
    UpdateCommand,
)
from namegraph.model.names import NodeId, Subnet
from namegraph.model.operations import JoinArc
from namegraph.model.rows import RequestId
from namegraph.update import order_queue
from simulation.run import run_seed
from tests.reads import server_as_read
from tests.simulation.scene import A, B, C, G, Scene

HELD_SHARE = 0.1
"""Share of steps before which the state is held."""

HELD_FOR_STEPS_AT_MOST = 6
"""Limit on the steps of one server during which a state is held, as with a slow disk."""


class Readers:
    """The readers of one core, who see the state before some steps until later ones are done."""

    def __init__(self, core, chance):
        self.seen = CommittedState(core)
        self._core = core
        self._chance = chance
        self._before = []
        """(what was to be read when the state was held, for how many steps more), the earliest first."""

    def hold(self):
        if len(self._before) < 3:
            self._before.append([server_as_read(self._core), self._chance.randint(1, HELD_FOR_STEPS_AT_MOST)])
            self.seen.hold()

    def stepped(self):
        for held in self._before:
            held[1] -= 1
        if self._before:
            assert server_as_read(self.seen) == self._before[0][0]
        while self._before and self._before[0][1] <= 0:
            self._before.pop(0)
            self.seen.let_go(earliest=True)
            expected = self._before[0][0] if self._before else server_as_read(self._core)
            assert server_as_read(self.seen) == expected
        return bool(self._before)


@pytest.mark.parametrize(("at", "lost"), [(A, B), (B, A)])
def test_losing_a_server_takes_long_at_either_end_of_many_arcs(at, lost, monkeypatch):
    scene = Scene()
    readers = CommittedState(scene.core(at))
    monkeypatch.setattr(committed_state, "LONG_FROM_ARCS", 10)
    assert not readers.may_take_long(PeerLost(lost, "gone"))
    scene.done(A, *(JoinArc(G[A], NodeId(f"p{number}@{B}")) for number in range(11)))
    assert readers.may_take_long(PeerLost(lost, "gone"))
    assert not readers.may_take_long(PeerReceived(lost, 1))


def test_losing_a_server_takes_long_where_its_arcs_enter_above_very_many_nodes(monkeypatch):
    scene = Scene()
    scene.done(A, *(JoinArc(G[A], NodeId(f"p{number}@{A}")) for number in range(11)))
    readers, lost = CommittedState(scene.core(A)), PeerLost(B, "gone")
    monkeypatch.setattr(committed_state, "LARGE_FROM_NODES", 10)
    assert not readers.may_take_long(lost)
    scene.done(B, JoinArc(G[B], G[A]))
    assert readers.may_take_long(lost)
    scene.part((A, C), (B,))
    assert scene.core(A).graph.suspended
    assert readers.may_take_long(PeerMet(B, (Subnet(B),)))


def test_whatever_comes_while_an_update_of_many_operations_is_under_way_may_take_long(monkeypatch):
    scene = Scene()
    readers = CommittedState(scene.core(B))
    monkeypatch.setattr(queries, "LONG_FROM_OPERATIONS", 9)
    short, joins = PeerMessage(A, 1, b"short"), [JoinArc(G[A], NodeId(f"p{number}@{B}")) for number in range(10)]
    scene.cluster.submit(A, UpdateCommand(1_000, RequestId("r"), tuple(joins)))
    took_long = [readers.may_take_long(short)]
    scene.cluster.run(lambda: took_long.append(readers.may_take_long(short)))
    assert (took_long[0], any(took_long), took_long[-1]) == (False, True, False)


@pytest.mark.parametrize("limit", ["LARGE_FROM_NODES", "LARGE_FROM_NAMES"])
def test_whatever_comes_while_an_update_above_very_many_nodes_is_under_way_may_take_long(limit, monkeypatch):
    scene = Scene()
    readers = CommittedState(scene.core(A))
    scene.done(A, *(JoinArc(G[A], NodeId(f"p{number}@{B}")) for number in range(11)))
    monkeypatch.setattr(order_queue, limit, 10)
    short = PeerMessage(B, 1, b"short")
    scene.cluster.submit(A, UpdateCommand(1_000, RequestId("r"), (JoinArc(NodeId(f"h@{A}"), G[A]),)))
    took_long = [readers.may_take_long(short)]
    scene.cluster.run(lambda: took_long.append(readers.may_take_long(short)))
    assert (took_long[0], any(took_long), took_long[-1]) == (False, True, False)


@pytest.mark.parametrize("parent", [A, B])
def test_what_begins_an_update_above_very_many_nodes_takes_long(parent, monkeypatch):
    scene = Scene()
    core, found = scene.core(A), []
    readers, step = CommittedState(core), core.step

    def looked_at(event, now):
        found.append((type(event), readers.may_take_long(event)))
        return step(event, now)

    def took_long(child):
        found.clear()
        scene.done(parent, JoinArc(NodeId(f"h@{parent}"), child))
        return [kind for kind, is_long in found if is_long]

    scene.done(A, *(JoinArc(G[A], NodeId(f"p{number}@{A}")) for number in range(11)))
    monkeypatch.setattr(core, "step", looked_at)
    monkeypatch.setattr(committed_state, "LARGE_FROM_NODES", 10)
    assert took_long(NodeId(f"p1@{A}")) == []
    assert took_long(G[A]) == [UpdateCommand if parent == A else PeerMessage]
    read = ReadCommand(1_000, G[A])
    assert readers.may_take_long(read)
    monkeypatch.setattr(committed_state, "LARGE_FROM_NODES", 12)
    assert not readers.may_take_long(read)


def test_looking_through_very_many_names_for_those_of_a_subnet_takes_long(monkeypatch):
    readers = CommittedState(Scene().core(A))
    commands = (AddPeer(1, Subnet("c.x"), "c.x:1"), RemovePeer(2, Subnet("c.x")))
    assert not any(map(readers.may_take_long, commands))
    monkeypatch.setattr(committed_state, "LONG_FROM_NODES", 0)
    assert all(map(readers.may_take_long, commands))


PLAIN_SEEDS = (1, 2, 4)
SEEDS_WITH_FAULTS = (3, 5, 121)
"""Seeds with faults. In the last one an update in doubt is settled while its readers see the state before."""


@pytest.mark.parametrize("seed", [*PLAIN_SEEDS, *SEEDS_WITH_FAULTS])
def test_readers_see_the_state_before_a_step_until_it_is_durable(seed, monkeypatch):
    chance, readers = Random(seed), {}
    process = ServerCore._process
    held = []

    def watched(core, event, effects, now):
        if chance.random() < HELD_SHARE:
            own = readers.setdefault(id(core), Readers(core, chance))
            own.hold()
            held.append(type(event).__name__)
        process(core, event, effects, now)
        if id(core) in readers and not readers[id(core)].stepped():
            del readers[id(core)]

    monkeypatch.setattr(ServerCore, "_process", watched)
    run_seed(seed, servers=3, faults=seed in SEEDS_WITH_FAULTS)
    assert {"UpdateCommand", "PeerMessage"} <= set(held)
