"""A caller of a server that restarts as planned waits for it and retries, but no longer than its deadline."""

import asyncio

import pytest
from grpc.aio import AioRpcError, Metadata
from grpc_status import rpc_status

from namegraph import Reason, RefusedError, refuse
from nameserver.routing.planned_restarts import COMES_BACK, RESTARTS_LIMIT, outlast_restarts
from nameserver.wire.status_mapping import as_status


class FakeRestarting:
    """Servers that come back when the test says so, or at once."""

    def __init__(self, *away, are_soon_back=True):
        self.away, self.heard, self.comebacks = set(away), [], 0
        self._back = asyncio.Event()
        if are_soon_back:
            self._back.set()

    def is_coming_back(self, server):
        return server in self.away

    def heard_that_it_leaves(self, server):
        self.heard.append(server)
        self.away.add(server)

    async def until_back(self, server):
        await self._back.wait()
        self.away.discard(server)
        self.comebacks += 1


class Attempts:
    """Fails in these ways, one after another, and then answers."""

    def __init__(self, *failures):
        self.failures, self.count = list(failures), 0

    async def __call__(self):
        self.count += 1
        if self.failures:
            raise self.failures.pop(0)
        return "done"


def unavailable(**facts):
    return refuse(Reason.UNAVAILABLE, "out of reach; nothing was done", **facts)


def told_by_another(refused):
    status = rpc_status.to_status(as_status(refused.refusal))
    return AioRpcError(status.code, Metadata(), Metadata(*status.trailing_metadata), details=status.details)


@pytest.mark.parametrize("failure", [unavailable(server="b"), unavailable(unreachable="b", server="a")])
@pytest.mark.parametrize("form", [lambda error: error, told_by_another])
async def test_what_needs_a_server_that_restarts_is_tried_again_when_it_is_back(failure, form):
    attempts = Attempts(form(failure))
    assert await outlast_restarts(attempts, FakeRestarting("b"), seconds=None) == "done"
    assert attempts.count == 2


async def test_a_server_that_says_in_its_refusal_that_it_comes_back_is_waited_for():
    restarting = FakeRestarting()
    attempts = Attempts(told_by_another(unavailable(**{COMES_BACK: "b"})))
    assert await outlast_restarts(attempts, restarting, seconds=None) == "done"
    assert restarting.heard == ["b"]


@pytest.mark.parametrize(
    "failure",
    [
        unavailable(server="c"),
        unavailable(),
        refuse(Reason.ALREADY_MEMBER, "is in it", server="b"),
        refuse(Reason.OUTCOME_UNKNOWN, "fell silent", server="b"),
    ],
)
async def test_all_other_refusals_are_told_at_once(failure):
    attempts = Attempts(failure)
    with pytest.raises(RefusedError) as caught:
        await outlast_restarts(attempts, FakeRestarting("b"), seconds=None)
    assert (caught.value, attempts.count) == (failure, 1)


async def test_what_may_have_been_done_is_tried_again_only_where_that_is_harmless():
    unknown = refuse(Reason.OUTCOME_UNKNOWN, "fell silent", server="b")
    assert await outlast_restarts(Attempts(unknown), FakeRestarting("b"), seconds=None, may_be_done=True) == "done"


@pytest.mark.parametrize("form", [lambda error: error, told_by_another])
@pytest.mark.parametrize("reason", [Reason.UNAVAILABLE, Reason.DEADLINE_EXCEEDED])
async def test_what_one_attempt_may_have_done_is_not_told_as_undone_by_the_next(form, reason):
    unknown = form(refuse(Reason.OUTCOME_UNKNOWN, "it fell silent", server="b"))
    attempts = Attempts(unknown, form(refuse(reason, "nothing was done", unreachable="c")))
    with pytest.raises((RefusedError, AioRpcError)) as caught:
        await outlast_restarts(attempts, FakeRestarting("b"), seconds=None, may_be_done=True)
    assert caught.value is unknown
    assert attempts.count == 2


async def test_the_refusal_is_told_when_the_time_is_over():
    failure = unavailable(server="b")
    attempts = Attempts(failure)
    with pytest.raises(RefusedError) as caught:
        await outlast_restarts(attempts, FakeRestarting("b", are_soon_back=False), seconds=0.01)
    assert (caught.value, attempts.count) == (failure, 1)


async def test_a_server_that_restarts_again_and_again_is_not_waited_for_without_end():
    restarting = FakeRestarting()
    attempts = Attempts(*(unavailable(**{COMES_BACK: "b"}) for _ in range(2 * RESTARTS_LIMIT)))
    with pytest.raises(RefusedError):
        await outlast_restarts(attempts, restarting, seconds=None)
    assert attempts.count == RESTARTS_LIMIT + 1


async def test_a_server_that_came_back_while_it_was_missed_is_asked_again():
    restarting, attempts = FakeRestarting(), Attempts(unavailable(server="b"))

    async def attempt():
        try:
            return await attempts()
        finally:
            restarting.comebacks += attempts.count == 1

    assert await outlast_restarts(attempt, restarting, seconds=None) == "done"
    assert attempts.count == 2
