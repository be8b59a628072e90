"""A read is held back until the revision that it asks for is reflected, and not longer than there is time."""

import pytest

from namegraph.model.refusals import Reason, RefusedError, refuse
from namegraph.update.causal_reads import Wait
from nameserver.calls.read_your_writes import REVISION_SECONDS, Revisions
from shadowtree.v1 import peer_pb2

REFLECTED, NOT_YET, ASK = Wait.REFLECTED, Wait.NOT_YET, Wait.ASK
WANTED = "7@two"


class FakeCore:
    """Says one thing after the other, and the last one for ever."""

    server = "one"

    def __init__(self, *says):
        self.says = list(says)

    def waits_for(self, revision):
        assert revision == WANTED
        return self.says.pop(0) if len(self.says) > 1 else self.says[0]


class FakeRunLoop:
    """Time passes only while a step is waited for."""

    def __init__(self, step_seconds):
        self.time = 0.0
        self.steps = 0
        self._step_seconds = step_seconds

    def now(self):
        return self.time

    async def next_step(self, seconds):
        self.steps += 1
        self.time += min(seconds, self._step_seconds)

    async def until_durable(self):
        pass


class FakeForwarder:
    def __init__(self, failure=None):
        self.asked = []
        self._failure = failure

    async def ask(self, home, method, request, *, seconds):
        self.asked.append((home, method, peer_pb2.AwaitRevisionRequest.FromString(request).revision))
        if self._failure is not None:
            raise self._failure
        return b""


class FakeContext:
    def __init__(self, seconds=None):
        self._seconds = seconds

    def time_remaining(self):
        return self._seconds


async def reflect(*says, step_seconds=0.1, failure=None, seconds=None):
    run_loop, forwarder = FakeRunLoop(step_seconds), FakeForwarder(failure)
    revisions = Revisions(core=FakeCore(*says), run_loop=run_loop, forwarder=forwarder)
    try:
        await revisions.reflect(WANTED, FakeContext(seconds))
    except RefusedError as error:
        return error.refusal, run_loop, forwarder
    return None, run_loop, forwarder


async def test_what_is_reflected_is_not_waited_for():
    refusal, run_loop, forwarder = await reflect(REFLECTED)
    assert (refusal, run_loop.steps, forwarder.asked) == (None, 0, [])


async def test_an_update_under_way_is_waited_for_step_by_step():
    refusal, run_loop, forwarder = await reflect(NOT_YET, NOT_YET, REFLECTED)
    assert (refusal, run_loop.steps, forwarder.asked) == (None, 2, [])


async def test_what_was_never_seen_is_asked_of_the_server_it_names_once():
    refusal, run_loop, forwarder = await reflect(ASK, NOT_YET, ASK)
    assert (refusal, run_loop.steps) == (None, 1)
    assert forwarder.asked == [("two", "/shadowtree.v1.PeerService/AwaitRevision", WANTED)]


@pytest.mark.parametrize(("seconds", "waited"), [(None, REVISION_SECONDS), (1.0, 0.8), (100.0, REVISION_SECONDS)])
async def test_the_wait_ends_with_a_refusal_before_the_callers_time_is_up(seconds, waited):
    refusal, run_loop, _ = await reflect(NOT_YET, seconds=seconds)
    assert refusal.reason is Reason.UNAVAILABLE
    assert refusal.facts == {"revision": WANTED, "server": "one"}
    assert run_loop.time == pytest.approx(waited)


async def test_where_the_server_it_names_is_out_of_reach_the_read_is_refused():
    refusal, _, _ = await reflect(ASK, failure=refuse(Reason.UNAVAILABLE, "two is away"))
    assert refusal.reason is Reason.UNAVAILABLE
    assert refusal.facts["revision"] == WANTED
    assert refusal.message.endswith("two is away")


async def test_another_servers_question_is_never_passed_on():
    forwarder = FakeForwarder()
    revisions = Revisions(core=FakeCore(ASK), run_loop=FakeRunLoop(0.1), forwarder=forwarder)
    with pytest.raises(RefusedError) as caught:
        await revisions.await_own(peer_pb2.AwaitRevisionRequest(revision=WANTED), FakeContext())
    assert caught.value.refusal.reason is Reason.UNAVAILABLE
    assert forwarder.asked == []


async def test_another_servers_question_is_answered_when_the_update_is_over():
    run_loop = FakeRunLoop(0.1)
    revisions = Revisions(core=FakeCore(NOT_YET, REFLECTED), run_loop=run_loop, forwarder=FakeForwarder())
    await revisions.await_own(peer_pb2.AwaitRevisionRequest(revision=WANTED), FakeContext())
    assert run_loop.steps == 1
