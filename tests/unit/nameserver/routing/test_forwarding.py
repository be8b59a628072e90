"""The end of a forwarded call, by its fate on the way."""

import asyncio
from contextlib import contextmanager

import grpc
import pytest
from grpc.aio import AioRpcError, Metadata
from grpc_status import rpc_status

from namegraph.model.refusals import Reason, RefusedError, refuse
from nameserver.routing.forwarding import Forwarder, is_out_of_reach, raise_failure, working_seconds
from nameserver.wire.status_mapping import as_status, refusal_of

LOST, LATE, BUG = grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.INTERNAL


def broken(code, why="Socket closed"):
    """Return an error that gRPC itself makes."""
    return AioRpcError(code, Metadata(), Metadata(), details=why)


def answered(reason, message="so it is", **facts):
    """Return an error that another name server gave."""
    status = rpc_status.to_status(as_status(refuse(reason, message, **facts).refusal))
    return AioRpcError(status.code, Metadata(), Metadata(*status.trailing_metadata), details=status.details)


def told(error, *, changes):
    with pytest.raises((RefusedError, AioRpcError)) as caught:
        raise_failure(error, "two", changes=changes)
    return caught.value


@pytest.mark.parametrize("changes", [False, True])
@pytest.mark.parametrize(
    "error",
    [
        answered(Reason.GROUP_NOT_FOUND, group="g@x"),
        answered(Reason.UNAVAILABLE),
        answered(Reason.DEADLINE_EXCEEDED),
        broken(BUG),
    ],
)
def test_an_answer_is_passed_on_as_it_is(error, changes):
    assert told(error, changes=changes) is error


@pytest.mark.parametrize("code", [LOST, grpc.StatusCode.CANCELLED])
def test_a_connection_that_breaks_leaves_a_change_in_doubt_and_a_question_unanswered(code):
    refusal = told(broken(code), changes=True).refusal
    assert (refusal.reason, refusal.facts["server"]) == (Reason.OUTCOME_UNKNOWN, "two")
    refusal = told(broken(code), changes=False).refusal
    assert (refusal.reason, refusal.facts["unreachable"]) == (Reason.UNAVAILABLE, "two")


def test_a_server_that_does_not_answer_in_time_is_named():
    refusal = told(broken(LATE), changes=True).refusal
    assert (refusal.reason, refusal.facts["server"]) == (Reason.OUTCOME_UNKNOWN, "two")
    refusal = told(broken(LATE), changes=False).refusal
    assert (refusal.reason, refusal.facts["unreachable"]) == (Reason.DEADLINE_EXCEEDED, "two")


@pytest.mark.parametrize(("given", "kept"), [(None, None), (1.0, 0.8), (5.0, 4.0), (60.0, 59.0)])
def test_some_of_the_callers_time_is_kept_for_telling_what_was_waited_for(given, kept):
    class Call:
        def time_remaining(self):
            return given

    assert working_seconds(Call()) == kept


def test_a_change_that_was_never_sent_was_not_done():
    refusal = told(broken(LOST, "failed to connect to all addresses; last error: refused"), changes=True).refusal
    assert (refusal.reason, refusal.facts["unreachable"]) == (Reason.UNAVAILABLE, "two")


def test_a_refusal_is_read_back_with_its_facts():
    refusal = refusal_of(answered(Reason.GROUP_IN_USE, "in use", group="g@x", parents="p@x"))
    assert (refusal.reason, refusal.message) == (Reason.GROUP_IN_USE, "in use")
    assert refusal.facts == {"group": "g@x", "parents": "p@x"}


@pytest.mark.parametrize("packed", [None, b"\xff\xff", b""])
def test_what_is_no_refusal_of_a_name_server_is_not_taken_for_one(packed):
    trailing = Metadata() if packed is None else Metadata(("grpc-status-details-bin", packed))
    assert refusal_of(AioRpcError(LOST, Metadata(), trailing, details="?")) is None


@pytest.mark.parametrize(
    ("error", "is_a_gap"),
    [
        (refuse(Reason.UNAVAILABLE, "away"), True),
        (refuse(Reason.UNKNOWN_SUBNET, "nobody's"), False),
        (refuse(Reason.UNAVAILABLE, "not reflected", revision="7@two"), False),
        (answered(Reason.UNAVAILABLE), True),
        (answered(Reason.UNAVAILABLE, revision="7@two"), False),
        (answered(Reason.GROUP_NOT_FOUND), False),
        (answered(Reason.DEADLINE_EXCEEDED), True),
        (refuse(Reason.DEADLINE_EXCEEDED, "late"), True),
        (broken(BUG), False),
    ],
)
def test_a_part_is_a_gap_only_where_its_server_is_silent(error, is_a_gap):
    assert is_out_of_reach(error) is is_a_gap


# -- calls under way


class SilentServer:
    """A directory of one server, which takes calls and never answers; `lose` it as the transport would."""

    def __init__(self):
        self.calls = []
        self.under_way_now = []

    async def channel_to(self, server):
        return self

    def unary_unary(self, *_):
        def call(request, *, timeout, metadata):
            self.calls.append(asyncio.get_running_loop().create_future())
            return self.calls[-1]

        return call

    stream_unary = unary_unary

    comebacks = 0

    def is_coming_back(self, server):
        return False

    @contextmanager
    def under_way(self, server, call):
        self.under_way_now.append(call)
        yield
        self.under_way_now.remove(call)

    def lose(self):
        for call in list(self.under_way_now):
            call.cancel()


async def begun(asking, directory):
    task = asyncio.ensure_future(asking)
    while not directory.under_way_now:
        await asyncio.sleep(0)
    return task


@pytest.mark.parametrize(
    ("changes", "reason"), [(False, Reason.UNAVAILABLE), (True, Reason.OUTCOME_UNKNOWN)], ids=["question", "change"]
)
async def test_a_call_ends_when_its_server_is_lost(changes, reason):
    directory = SilentServer()
    forwarder = Forwarder(server="one", directory=directory)
    task = await begun(forwarder.ask("two", "/method", b"", seconds=None, changes=changes), directory)
    directory.lose()
    with pytest.raises(RefusedError) as caught:
        await task
    assert (caught.value.refusal.reason, caught.value.refusal.facts["server"]) == (reason, "two")


async def test_a_change_of_many_messages_whose_server_is_lost_is_in_doubt():
    directory = SilentServer()
    forwarder = Forwarder(server="one", directory=directory)
    task = await begun(forwarder.send("two", "/method", None, seconds=None), directory)
    directory.lose()
    with pytest.raises(RefusedError) as caught:
        await task
    assert caught.value.refusal.reason is Reason.OUTCOME_UNKNOWN


async def test_a_caller_who_goes_away_is_not_taken_for_a_server_that_is_lost():
    directory = SilentServer()
    task = await begun(Forwarder(server="one", directory=directory).ask("two", "/m", b"", seconds=None), directory)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_a_part_above_the_limit_of_a_message_is_a_gap_and_refuses_nothing_else():
    error = broken(grpc.StatusCode.RESOURCE_EXHAUSTED, "CLIENT: Received message larger than max (9 vs. 8)")
    assert is_out_of_reach(error)
    assert not is_out_of_reach(answered(Reason.LIMIT_EXCEEDED))
