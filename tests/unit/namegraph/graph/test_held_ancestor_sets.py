"""Ancestor sets of an earlier moment: a set that was computed since serves there if it was the same."""

from itertools import pairwise
from unittest.mock import patch

import pytest

from namegraph.graph import ancestor_sets
from namegraph.model.names import NodeId
from namegraph.model.operations import CreateGroup, JoinArc, LeaveArc
from tests.cores import CoreUnderTest

CHAIN = [NodeId(f"c{number}@x.example") for number in range(6)]
SIDE = [NodeId(f"s{number}@x.example") for number in range(3)]


class Scene:
    """c0 to c1 and so on to c5, and s0 to s1 to s2 beside them. No set is kept."""

    def __init__(self):
        self.server = CoreUnderTest("x.example")
        self.server.do(*map(CreateGroup, [*CHAIN, *SIDE]))
        self.server.do(*(JoinArc(*arc) for each in (CHAIN, SIDE) for arc in pairwise(each)))
        self.server.core.ancestors.forget_all()
        self.hold()

    @property
    def present(self):
        return self.server.core.ancestors

    def hold(self):
        self.graph = self.server.core.graph.hold()
        self.held = self.present.hold(self.graph)

    def end(self):
        self.server.core.graph.end_holds()
        self.present.end_holds()

    def fill(self, name):
        """Compute a set of the present."""
        return self.present.of(self.server.core.graph.index[name])

    def serves(self, name):
        """Return True if readers of the moment use the set that the present has."""
        node = self.graph.index[name]
        return self.held.is_known(node) and self.held.of(node) is self.present._sets[node]

    def then(self, name):
        """Return the ancestors at the moment, by name."""
        return {self.graph.ids[node] for node in self.held.of(self.graph.index[name])}


@pytest.fixture
def scene():
    return Scene()


def test_a_set_that_was_computed_since_serves_if_nothing_changed(scene):
    assert not scene.held.is_known(scene.graph.index[CHAIN[5]])
    scene.fill(CHAIN[5])
    assert all(map(scene.serves, CHAIN))
    assert scene.then(CHAIN[5]) == set(CHAIN)


def test_no_set_serves_that_another_thread_computes_and_after_the_next_moment_all_do(scene):
    scene.present.keep_readers_apart()
    scene.fill(CHAIN[5])
    assert not any(map(scene.serves, CHAIN))
    assert scene.then(CHAIN[5]) == set(CHAIN)
    scene.hold()
    assert all(map(scene.serves, CHAIN))


def test_a_set_serves_if_something_changed_at_other_nodes_alone(scene):
    scene.server.do(JoinArc(SIDE[0], SIDE[2]))
    scene.server.do(JoinArc(CHAIN[5], SIDE[0]))
    scene.fill(CHAIN[5])
    scene.fill(SIDE[2])
    assert all(map(scene.serves, CHAIN))
    assert not scene.serves(SIDE[2])


CHANGES = {
    "an arc more": JoinArc(SIDE[2], CHAIN[2]),
    "an arc less": LeaveArc(CHAIN[1], CHAIN[2]),
    "a loop": JoinArc(CHAIN[3], CHAIN[2]),
    "a group more": JoinArc(NodeId("new@x.example"), CHAIN[2]),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_set_does_not_serve_if_something_changed_at_one_of_its_nodes(scene, change):
    if change.parent not in scene.graph.index:
        scene.server.create(change.parent)
    scene.server.do(change)
    scene.fill(CHAIN[5])
    assert not any(map(scene.serves, CHAIN[2:]))
    for number in range(len(CHAIN)):
        assert scene.then(CHAIN[number]) == set(CHAIN[: number + 1])


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_set_from_before_a_change_serves_only_before_it(scene, change):
    """It was computed after the moment, and is replaced by the change."""
    scene.fill(CHAIN[5])
    if change.parent not in scene.graph.index:
        scene.server.create(change.parent)
    scene.server.do(change)
    scene.fill(CHAIN[5])
    for number in range(len(CHAIN)):
        assert scene.then(CHAIN[number]) == set(CHAIN[: number + 1])


def test_no_set_serves_after_a_change_that_is_too_large_to_be_noted(scene):
    with patch.object(ancestor_sets, "ARCS_FOLLOWED_LIMIT", 0):
        scene.server.do(JoinArc(SIDE[0], SIDE[2]))
    scene.fill(CHAIN[5])
    assert not any(map(scene.serves, CHAIN))
    assert scene.then(CHAIN[5]) == set(CHAIN)


def test_no_set_in_question_serves(scene):
    scene.fill(CHAIN[5])
    scene.hold()
    with patch.object(ancestor_sets, "FORGOTTEN_AT_ONCE", 0), patch.object(ancestor_sets, "NODES_FOLLOWED_LIMIT", 0):
        scene.server.do(JoinArc(SIDE[2], CHAIN[2]))
    assert scene.present._changed
    assert scene.then(CHAIN[5]) == set(CHAIN)
    scene.fill(CHAIN[5])
    assert scene.then(CHAIN[5]) == set(CHAIN)


def test_a_change_after_a_later_moment_counts_for_the_earlier_one_too(scene):
    earlier = scene.held, scene.graph
    scene.hold()
    scene.server.do(JoinArc(SIDE[2], CHAIN[2]))
    later = scene.held, scene.graph
    scene.hold()
    scene.fill(CHAIN[5])
    assert all(map(scene.serves, CHAIN))
    for scene.held, scene.graph in (earlier, later):
        assert not scene.serves(CHAIN[5])
        assert scene.then(CHAIN[5]) == set(CHAIN)


def test_sets_that_readers_of_the_moment_compute_stay_theirs(scene):
    scene.server.do(JoinArc(SIDE[2], CHAIN[2]))
    kept = dict(scene.present._sets)
    assert scene.then(CHAIN[5]) == set(CHAIN)
    assert scene.present._sets == kept
    assert len(scene.fill(CHAIN[5])) == len(CHAIN) + len(SIDE)
    assert scene.then(CHAIN[5]) == set(CHAIN)


def test_sets_from_before_the_moment_serve_whatever_has_changed_since(scene):
    before = scene.fill(CHAIN[5])
    scene.hold()
    scene.server.do(LeaveArc(CHAIN[0], CHAIN[1]))
    assert scene.held.is_known(scene.graph.index[CHAIN[5]])
    assert scene.held.of(scene.graph.index[CHAIN[5]]) is before


def test_changes_are_noted_no_more_once_nobody_holds_a_moment(scene):
    assert scene.present._moments
    scene.end()
    assert not scene.present._moments
    scene.server.do(JoinArc(SIDE[2], CHAIN[2]))
    assert scene.present._sets.former is None


def test_drops_count_what_leaves_so_many_sets_missing_that_all_are_looked_at(scene, monkeypatch):
    """Few missing sets are left to the next question: a look at all nodes would cost more."""
    before = scene.present.drops
    scene.fill(CHAIN[5])
    scene.server.do(LeaveArc(CHAIN[0], CHAIN[1]), JoinArc(CHAIN[3], CHAIN[1]))
    assert scene.present.drops == before
    scene.present.forget_all()
    assert scene.present.drops == before + 1
    monkeypatch.setattr(ancestor_sets, "FORGOTTEN_AT_ONCE", 1)
    scene.fill(CHAIN[5])
    scene.server.do(LeaveArc(CHAIN[3], CHAIN[1]), JoinArc(CHAIN[0], CHAIN[1]))
    assert scene.present.drops == before + 2
