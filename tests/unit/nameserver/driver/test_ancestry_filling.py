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

    def __init__(self):
        self.step_count = 0

    async def between_steps(self):
        await asyncio.sleep(0)


class Scene:
    def __init__(self):
        self.server = CoreUnderTest("x.example")
        self.server.bring([(*arc, 1) for arc in pairwise(CHAIN)])
        self.server.core.ancestors.forget_all()
        self.seen = CommittedState(self.server.core)
        self.run_loop = FakeLoop()
        self.filling = AncestryFilling(core=self.seen, run_loop=self.run_loop)

    def are_known(self, names=CHAIN):
        graph, sets = self.server.core.graph, self.server.core.ancestors
        return all(sets.is_known(graph.index[name]) for name in names)

    async def until(self, condition):
        async with asyncio.timeout(10):
            while not condition():
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
    scene.run_loop.step_count += 1
    await scene.until(scene.are_known)
    filling.cancel()


async def test_what_a_long_step_left_missing_is_filled_once_that_is_durable_though_no_other_step_came(scene):
    filling = asyncio.ensure_future(scene.filling.fill_forever())
    await scene.until(scene.are_known)
    scene.seen.hold()
    scene.server.bring([("t@x.example", CHAIN[0], 1)])
    scene.server.core.ancestors.forget_all()
    scene.run_loop.step_count += 1
    for _ in range(100):
        await asyncio.sleep(0)
    assert not scene.are_known(), "readers do not see the step yet"
    scene.seen.let_go(earliest=True)
    await scene.until(scene.are_known)
    filling.cancel()


async def test_sets_that_were_held_are_kept_by_nobody_once_they_are_let_go(scene):
    filling = asyncio.ensure_future(scene.filling.fill_forever())
    await scene.until(scene.are_known)
    scene.seen.hold()
    scene.run_loop.step_count += 1
    for _ in range(100):
        await asyncio.sleep(0)
    held = weakref.ref(scene.seen.ancestors)
    left = scene.seen.let_go(earliest=True)
    del left
    assert held() is None
    filling.cancel()


async def test_a_question_goes_on_with_the_state_before_a_long_step_that_begins_meanwhile(scene):
    asked = [CHAIN[-1], "new@x.example"]
    filling = asyncio.ensure_future(scene.filling.fill_for(asked))
    await asyncio.sleep(0)
    scene.seen.hold()
    scene.server.bring([(CHAIN[-1], "new@x.example", 1), ("t@x.example", CHAIN[0], 1)])
    await filling
    before = {scene.seen.graph.ids[node] for node in scene.seen.ancestors.of(scene.seen.graph.index[CHAIN[-1]])}
    assert before == set(CHAIN)
    assert "new@x.example" not in scene.seen.graph.index
    scene.seen.let_go(earliest=True)
    await scene.filling.fill_for(asked)
    now = {scene.seen.graph.ids[node] for node in scene.seen.ancestors.of(scene.seen.graph.index[asked[1]])}
    assert now == {*CHAIN, *asked, "t@x.example"}


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
    scene.run_loop.step_count += 1
    await scene.until(lambda: not sets._changed)
    assert scene.are_known()
    filling.cancel()
