"""Ancestor sets that are missing are filled, those of a question first, whatever steps come meanwhile."""

import asyncio
import weakref
from itertools import pairwise

import pytest

from namegraph.committed_state import CommittedState
from namegraph.graph import ancestor_sets
from nameserver.driver import ancestry_filling
from nameserver.driver.ancestry_filling import AncestryFilling
from tests.cores import CoreUnderTest

CHAIN = [f"c{number}@x.example" for number in range(20)]


class FakeLoop:
    """A run loop that takes no steps but those that a test makes."""

    is_in_long_step = False

    async def between_steps(self):
        await asyncio.sleep(0)
        while self.is_in_long_step:
            await asyncio.sleep(0)


class Scene:
    def __init__(self):
        self.server = CoreUnderTest("x.example")
        self.server.bring([(*arc, 1) for arc in pairwise(CHAIN)])
        self.server.core.ancestors.forget_all()
        self.seen = CommittedState(self.server.core)
        self.run_loop = FakeLoop()
        self.filling = AncestryFilling(core=self.server.core, reads=self.seen, run_loop=self.run_loop)

    def are_known(self, names=CHAIN):
        graph, sets = self.server.core.graph, self.server.core.ancestors
        return all(sets.is_known(graph.index[name]) for name in names)

    def ancestors_seen(self, name):
        graph, sets = self.seen.graph, self.seen.ancestors
        return {graph.ids[node] for node in sets.of(graph.index[name])}

    def begin_long_step(self):
        self.seen.hold()
        self.run_loop.is_in_long_step = True

    async def until(self, condition):
        async with asyncio.timeout(10):
            while not condition():
                await asyncio.sleep(0)


async def settle():
    """Let everything run that can."""
    for _ in range(100):
        await asyncio.sleep(0)


@pytest.fixture
def scene(monkeypatch):
    monkeypatch.setattr(ancestor_sets, "FILLED_AT_ONCE", 3)
    monkeypatch.setattr(ancestry_filling, "REST_SECONDS", 0.0)
    monkeypatch.setattr(ancestry_filling, "LOOK_SECONDS", 0.0)
    return Scene()


async def test_a_question_has_the_sets_filled_that_it_is_about_and_no_others(scene):
    await scene.filling.fill_for([CHAIN[5], "nobody@x.example"])
    assert scene.are_known(CHAIN[:6])
    assert not scene.are_known(CHAIN[6:])


async def test_others_get_their_turn_between_the_slices_of_a_question(scene):
    filling = asyncio.ensure_future(scene.filling.fill_for(CHAIN[-1:]))
    turns = 0
    while not filling.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns > len(CHAIN) / 3


async def test_others_get_their_turn_between_names_of_which_each_takes_no_time(scene, monkeypatch):
    monkeypatch.setattr(ancestry_filling, "TURN_SECONDS", 0.0)
    monkeypatch.setattr(ancestry_filling, "NAMES_AT_ONCE", 1)
    await scene.filling.fill_for(CHAIN)
    filling = asyncio.ensure_future(scene.filling.fill_for(CHAIN))
    turns = 0
    while not filling.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns > len(CHAIN)


async def test_what_nobody_asks_for_is_filled_and_again_after_a_step(scene):
    filling = asyncio.ensure_future(scene.filling.fill_forever())
    await scene.until(scene.are_known)
    scene.server.core.ancestors.forget_all()
    await scene.until(scene.are_known)
    filling.cancel()


async def test_sets_that_a_long_step_left_missing_are_filled_once_it_is_durable(scene):
    """Until then, the filler would take its time from the thread that writes."""
    filling = asyncio.ensure_future(scene.filling.fill_forever())
    await scene.until(scene.are_known)
    scene.begin_long_step()
    scene.server.bring([("t@x.example", CHAIN[0], 1)])
    scene.server.core.ancestors.forget_all()
    await settle()
    assert not scene.are_known(), "the step goes on in another thread"
    scene.run_loop.is_in_long_step = False
    await settle()
    assert not scene.are_known(), "the step is not durable"
    assert "t@x.example" not in scene.seen.graph.index
    scene.seen.let_go(earliest=True)
    await scene.until(scene.are_known)
    assert scene.ancestors_seen(CHAIN[-1]) == {*CHAIN, "t@x.example"}
    filling.cancel()


async def test_sets_that_were_held_are_kept_by_nobody_once_they_are_let_go(scene):
    filling = asyncio.ensure_future(scene.filling.fill_forever())
    await scene.until(scene.are_known)
    scene.seen.hold()
    scene.server.core.ancestors.forget_all()
    await settle()
    held = weakref.ref(scene.seen.ancestors)
    scene.seen.let_go(earliest=True)
    assert held() is None
    filling.cancel()


async def test_a_question_goes_on_with_the_state_before_a_long_step_that_begins_meanwhile(scene):
    asked = [CHAIN[-1], "new@x.example"]
    filling = asyncio.ensure_future(scene.filling.fill_for(asked))
    await asyncio.sleep(0)
    scene.begin_long_step()
    scene.server.bring([(CHAIN[-1], "new@x.example", 1), ("t@x.example", CHAIN[0], 1)])
    await filling
    assert scene.ancestors_seen(CHAIN[-1]) == set(CHAIN)
    assert "new@x.example" not in scene.seen.graph.index
    scene.run_loop.is_in_long_step = False
    scene.seen.let_go(earliest=True)
    await scene.filling.fill_for(asked)
    assert scene.ancestors_seen(asked[1]) == {*CHAIN, *asked, "t@x.example"}


async def test_a_question_during_a_long_step_has_the_sets_of_readers_filled_and_leaves_those_of_the_core_alone(scene):
    scene.begin_long_step()
    await scene.filling.fill_for(CHAIN[-1:])
    graph, sets = scene.seen.graph, scene.seen.ancestors
    assert sets.is_known(graph.index[CHAIN[-1]])
    assert not scene.server.core.ancestors._sets


async def test_a_question_before_a_batch_is_durable_has_sets_filled_that_stay_when_it_is(scene):
    scene.seen.hold()
    scene.server.create("t@x.example")
    await scene.filling.fill_for(CHAIN[-1:])
    assert scene.seen.ancestors.is_known(scene.seen.graph.index[CHAIN[-1]])
    assert scene.ancestors_seen(CHAIN[-1]) == set(CHAIN)
    scene.seen.let_go(earliest=True)
    assert scene.are_known()
    assert scene.ancestors_seen(CHAIN[-1]) == set(CHAIN)


async def test_a_question_about_a_changed_node_before_its_batch_is_durable_is_answered_by_the_state_before(scene):
    scene.seen.hold()
    scene.server.bring([("t@x.example", CHAIN[0], 1)])
    await scene.filling.fill_for(CHAIN[-1:])
    assert scene.seen.ancestors.is_known(scene.seen.graph.index[CHAIN[-1]])
    assert scene.ancestors_seen(CHAIN[-1]) == set(CHAIN)
    assert scene.are_known(), "those of the core are filled too, for the time after"
    scene.seen.let_go(earliest=True)
    assert scene.ancestors_seen(CHAIN[-1]) == {*CHAIN, "t@x.example"}


async def test_sets_in_question_are_looked_at_and_then_none_is(scene, monkeypatch):
    for limit in ("FORGOTTEN_AT_ONCE", "NODES_FOLLOWED_LIMIT"):
        monkeypatch.setattr(ancestor_sets, limit, 0)
    filling = asyncio.ensure_future(scene.filling.fill_forever())
    await scene.until(scene.are_known)
    sets = scene.server.core.ancestors
    scene.server.bring([], groups=["t@x.example"])
    await scene.until(scene.are_known)
    scene.server.join("t@x.example", CHAIN[0])
    assert sets._changed
    await scene.until(lambda: not sets._changed)
    assert scene.are_known()
    filling.cancel()
