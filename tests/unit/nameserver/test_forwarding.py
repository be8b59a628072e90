"""What a call that was forwarded ends with, by what happened to it on the way."""

import grpc
import pytest
from grpc.aio import AioRpcError, Metadata
from grpc_status import rpc_status

from namegraph.refusals import Reason, RefusedError, refuse
from nameserver.failures import as_status, refusal_of
from nameserver.forwarding import is_out_of_reach, raise_failure, working_seconds

LOST, LATE, BUG = grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.INTERNAL


def broken(code, why="Socket closed"):
    """An error that gRPC itself makes."""
    return AioRpcError(code, Metadata(), Metadata(), details=why)


def answered(reason, message="so it is", **facts):
    """An error that another name server gave."""
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
