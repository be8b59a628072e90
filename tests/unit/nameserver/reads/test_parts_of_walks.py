"""A part with the steps of a walk is of one state, and others are served while it is made, or read."""

import asyncio

import pytest

from namegraph.committed_state import CommittedState
from namegraph.model.names import NodeId, ServerId
from namegraph.model.slices import at_once
from namegraph.model.target_sets import only
from namegraph.wire.message_parts import UpdateId
from nameserver.calls import stable_listing
from nameserver.reads import distributed_resolve
from nameserver.reads.distributed_resolve import DistributedResolutions, own_part
from nameserver.reads.peer_queries import PeerQuestionCalls
from nameserver.wire import resolve_part
from nameserver.wire.resolve_part import NotAPartError, PartReader, part_chunks, read_part
from resolver import steps
from resolver.membership import MembershipResolver
from resolver.parts import InDoubt, PartRequest, Parts, ServerPart
from shadowtree.v1 import peer_pb2 as messages
from tests.callers import unjudged
from tests.cores import CoreUnderTest

TOP = NodeId("top@x.example")
GROUPS = [NodeId(f"g{number:02}@x.example") for number in range(40)]
HERE, THERE = ServerId("x.example"), ServerId("y.example")


@pytest.fixture(autouse=True)
def small_slices(monkeypatch):
    monkeypatch.setattr(stable_listing, "TURN_SECONDS", -1)
    monkeypatch.setattr(steps, "STEPS_OF_A_SLICE", 2)
    monkeypatch.setattr(resolve_part, "ITEMS_OF_A_SLICE", 2)


class Server:
    """One server with a group of many groups. Another server tells the same part."""

    unbelieved = frozenset()

    def __init__(self):
        self._driven = CoreUnderTest("x.example")
        self._driven.create(TOP, *GROUPS)
        for group in GROUPS:
            self._driven.join(TOP, group)
        core = CommittedState(self._driven.core)
        resolver = MembershipResolver(core)
        self._parts = Parts(core, resolver.plans, start="x")
        self._calls = PeerQuestionCalls(
            core=core, checks=None, whole_groups=None, parts=self._parts, run_loop=None, judging=unjudged()
        )
        self._resolutions = DistributedResolutions(
            core=core, resolver=resolver, parts=self._parts, run_loop=None, forwarder=self
        )

    async def stream(self, *_question, seconds):
        for chunk in part_chunks(self.part(), "1@y", ""):
            yield chunk

    def part(self):
        """Computed without a pause."""
        return self._parts.answer(PartRequest(HERE, only(TOP), with_steps=True))

    async def answered(self):
        """Return the answer to another server."""
        request = messages.ResolvePartRequest(originator=TOP, with_steps=True)
        reader = PartReader()
        for chunk in await self._calls.resolve_part(request, None):
            reader.take(chunk)
        return at_once(read_part(reader.chunks))

    async def told_by(self, server):
        return (await self._resolutions.ask(PartRequest(server, only(TOP), with_steps=True), 1.0, "")).answer

    def change(self):
        """Another step leads to the last group."""
        self._driven.leave(TOP, GROUPS[-1])
        self._driven.join(GROUPS[0], GROUPS[-1])


WAYS = [Server.answered, lambda server: server.told_by(HERE), lambda server: server.told_by(THERE)]


async def turns_of(answering, between):
    """Return the result, and the number of turns of other tasks. At each they do `between` with the number."""
    answer = asyncio.ensure_future(answering)
    turns = 0
    await asyncio.sleep(0)
    while not answer.done():
        turns += 1
        between(turns)
        await asyncio.sleep(0)
    return answer.result(), turns


@pytest.mark.parametrize("way", WAYS)
async def test_others_are_served_while_steps_are_made_and_read(way):
    server = Server()
    part, turns = await turns_of(way(server), lambda turn: None)
    assert part == server.part()
    assert turns >= len(GROUPS) / 2


@pytest.mark.parametrize("way", WAYS[:2])
async def test_a_part_that_an_update_overtakes_is_of_the_state_after_it(way):
    _, turns = await turns_of(way(Server()), lambda turn: None)
    for changed_in in range(1, turns + 1):
        server = Server()

        def change(turn, changed_in=changed_in, server=server):
            if turn == changed_in:
                server.change()

        part, _ = await turns_of(way(server), change)
        assert part == server.part()
        assert (GROUPS[0], GROUPS[-1]) in {(each.step.tail, each.step.head) for each in part.steps}


class Silent:
    """A way to another server that sends no part."""

    async def stream(self, *_question, seconds):
        await asyncio.Event().wait()
        yield


async def test_a_part_that_takes_too_long_is_left_out_with_the_reason(monkeypatch):
    monkeypatch.setattr(distributed_resolve, "PART_SECONDS", 0.01)
    core = CoreUnderTest("x.example").core
    asking = DistributedResolutions(core=core, resolver=None, parts=None, run_loop=None, forwarder=Silent())
    with pytest.raises(NotAPartError, match=r"it was not whole after 0\.01 seconds"):
        await asking.ask(PartRequest(THERE, only(TOP)), 1.0, "")


READY, WHOLE = InDoubt(UpdateId(HERE, 1)), ServerPart("v1", (), ())


class OutcomeComes:
    """Parts and a run loop. Each wait for a step takes some seconds and leads to the next answer."""

    def __init__(self, *answers, seconds=0.01):
        self.answers, self.seconds, self.time, self.waits = list(answers), seconds, 0.0, []

    def fill(self, _request):
        yield from ()

    def answer(self, _request, _prepared):
        return self.answers[0]

    def now(self):
        return self.time

    async def next_step(self, seconds):
        self.waits.append(round(seconds, 3))
        self.time += min(self.seconds, seconds)
        self.answers = self.answers[1:] or self.answers


@pytest.mark.parametrize(
    ("scene", "answer", "waits"),
    [
        (OutcomeComes(WHOLE), WHOLE, []),
        (OutcomeComes(READY, WHOLE), WHOLE, [0.05]),
        (OutcomeComes(READY, READY, WHOLE), WHOLE, [0.05, 0.04]),
        (OutcomeComes(READY, seconds=0.03), READY, [0.05, 0.02]),
        (OutcomeComes(InDoubt(), WHOLE), InDoubt(), []),
    ],
    ids=["no doubt", "one step", "two steps", "never", "not known here"],
)
async def test_a_part_waits_a_moment_for_the_outcome_of_an_update_that_is_ready_here(scene, answer, waits):
    assert await own_part(scene, PartRequest(HERE, only(TOP)), scene) == answer
    assert scene.waits == waits
