"""When a call is tried again, and what its caller is told in the end."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shadowtree.client.failures import Failure
from shadowtree.client.retry import DEFAULT_TIMEOUT_S, LAST_TRY_S, LONGEST_PAUSE_S, PATIENCE_S, TimeLimit
from shadowtree.client.retry import Attempts as RealAttempts
from shadowtree.errors import (
    ClientClosed,
    DeadlineExceeded,
    GroupNotFound,
    InvalidRequest,
    OutcomeUnknown,
    ServerFault,
    ShadowtreeError,
    Unavailable,
)

NEVER_SENT = Failure(Unavailable("refused"), is_answer=False, was_sent=False, may_pass=True)
LOST = Failure(Unavailable("lost"), is_answer=False, was_sent=True, may_pass=True)
TOO_LATE = Failure(DeadlineExceeded("late"), is_answer=False, was_sent=True, may_pass=False)
BROKEN = Failure(ServerFault("broken"), is_answer=False, was_sent=True, may_pass=False)
UNAVAILABLE = Failure(Unavailable("the home is out of reach"), is_answer=True, was_sent=True, may_pass=False)
REFUSED = Failure(GroupNotFound("none"), is_answer=True, was_sent=True, may_pass=False)


def Attempts(*, now, timeout, otherwise=DEFAULT_TIMEOUT_S, **more):  # noqa: N802 - makes one
    return RealAttempts(limit=TimeLimit.of(now=now, timeout=timeout, otherwise=otherwise), **more)


def end_of(attempts, failures):
    """Let the failures happen one after the other, the last one for ever; returns the time and the error."""
    now = 0.0
    failures = list(failures)
    while True:
        failure = failures.pop(0) if len(failures) > 1 else failures[0]
        try:
            now += attempts.pause_after(failure, now)
        except ShadowtreeError as error:
            return now, error


def test_pauses_grow_up_to_a_limit():
    attempts = Attempts(now=0.0, timeout=1000.0)
    pauses = [attempts.pause_after(NEVER_SENT, 0.0) for _ in range(12)]
    assert pauses == sorted(pauses)
    assert pauses[-1] == LONGEST_PAUSE_S


@given(st.floats(0.001, 100.0))
def test_a_server_out_of_reach_is_tried_while_the_deadline_lasts_and_never_longer(timeout):
    ended, error = end_of(Attempts(now=0.0, timeout=timeout), [NEVER_SENT])
    assert error is NEVER_SENT.error
    assert ended < timeout
    assert ended >= timeout - 2 * LAST_TRY_S


def test_attempts_to_connect_that_hang_cost_patience_from_the_first_one_on():
    limit = TimeLimit.of(now=0.0, timeout=None, otherwise=60.0, patience=8.0)
    attempts = RealAttempts(limit=limit)
    attempts.timeout(0.0)
    assert 0 < attempts.pause_after(NEVER_SENT, 4.0) < 4.0
    with pytest.raises(Unavailable, match="refused"):
        attempts.pause_after(NEVER_SENT, 8.0)


def test_a_call_that_is_lost_after_a_long_time_is_tried_again_as_long_as_any_other():
    limit = TimeLimit.of(now=0.0, timeout=None, otherwise=60.0, patience=8.0)
    attempts = RealAttempts(limit=limit)
    attempts.timeout(0.0)
    assert attempts.pause_after(LOST, 30.0) > 0
    assert attempts.pause_after(LOST, 37.0) > 0


def test_an_attempt_to_connect_that_outlasts_patience_does_not_leave_out_the_other_servers():
    attempts = Attempts(now=0.0, timeout=None, servers=2)
    attempts.timeout(0.0)
    assert attempts.pause_after(NEVER_SENT, 4.0) == 0.0
    with pytest.raises(Unavailable):
        attempts.pause_after(NEVER_SENT, 8.0)


def test_without_a_deadline_patience_is_short():
    ended, _ = end_of(Attempts(now=0.0, timeout=None), [NEVER_SENT])
    assert 0 < ended < PATIENCE_S


@pytest.mark.parametrize("failure", [REFUSED, TOO_LATE, BROKEN])
def test_answers_and_lasting_failures_are_not_tried_again(failure):
    ended, error = end_of(Attempts(now=0.0, timeout=10.0), [failure])
    assert (ended, error) == (0.0, failure.error)


def test_a_server_that_cannot_be_reached_says_nothing_about_a_write_that_was_sent_before():
    _, error = end_of(Attempts(now=0.0, timeout=10.0, request_id="mine"), [LOST, UNAVAILABLE])
    assert isinstance(error, OutcomeUnknown)
    assert error.facts["request_id"] == "mine"
    _, error = end_of(Attempts(now=0.0, timeout=10.0, request_id="mine"), [NEVER_SENT, UNAVAILABLE])
    assert error is UNAVAILABLE.error
    _, error = end_of(Attempts(now=0.0, timeout=10.0), [LOST, UNAVAILABLE])
    assert error is UNAVAILABLE.error


def test_an_attempt_has_what_is_left_of_the_time():
    attempts = Attempts(now=100.0, timeout=5.0)
    assert attempts.timeout(101.0) == 4.0
    assert attempts.timeout(106.0) == 0.0
    assert Attempts(now=100.0, timeout=None).timeout(101.0) == DEFAULT_TIMEOUT_S - 1.0
    assert Attempts(now=100.0, timeout=None, otherwise=math.inf).timeout(101.0) is None
    assert Attempts(now=100.0, timeout=math.inf).timeout(101.0) is None


@pytest.mark.parametrize("wrong", ["5", math.nan, True, [5]])
def test_a_timeout_that_is_no_number_is_refused(wrong):
    with pytest.raises(InvalidRequest, match="timeout is a number of seconds"):
        TimeLimit.of(now=0.0, timeout=wrong, otherwise=1.0)


@pytest.mark.parametrize("timeout", [0, 0.0, -1, -math.inf])
def test_a_timeout_that_leaves_no_time_is_over_before_anything_is_sent(timeout):
    with pytest.raises(DeadlineExceeded, match="nothing was sent"):
        TimeLimit.of(now=0.0, timeout=timeout, otherwise=1.0)


def test_all_servers_are_tried_before_the_first_pause_and_between_two():
    attempts = Attempts(now=0.0, timeout=10.0, servers=3)
    pauses = [attempts.pause_after(NEVER_SENT, 0.0) for _ in range(9)]
    assert [bool(pause) for pause in pauses] == [False, False, True] * 3


def test_a_stream_that_breaks_at_its_deadline_has_had_its_time():
    broken = Failure(ServerFault("broken"), is_answer=False, was_sent=True, may_pass=True)
    with pytest.raises(DeadlineExceeded):
        Attempts(now=0.0, timeout=1.0).pause_after(broken, 0.999)
    assert Attempts(now=0.0, timeout=1.0).pause_after(broken, 0.5) > 0
    _, error = end_of(Attempts(now=0.0, timeout=None), [broken])
    assert error is broken.error


def test_what_became_of_a_write_that_the_closing_of_the_client_cut_off_is_unknown():
    closed = Failure(ClientClosed("closed"), is_answer=False, was_sent=True, may_pass=False)
    _, error = end_of(Attempts(now=0.0, timeout=10.0, request_id="mine"), [closed])
    assert isinstance(error, OutcomeUnknown)
    _, error = end_of(Attempts(now=0.0, timeout=10.0), [closed])
    assert error is closed.error


@pytest.mark.parametrize("failures", [[LOST], [LOST, NEVER_SENT], [NEVER_SENT, LOST, NEVER_SENT], [TOO_LATE]])
def test_a_write_that_may_have_arrived_ends_in_an_unknown_outcome(failures):
    _, error = end_of(Attempts(now=0.0, timeout=1.0, request_id="mine"), failures)
    assert isinstance(error, OutcomeUnknown)
    assert error.facts["request_id"] == "mine"
    assert isinstance(error, DeadlineExceeded) == (failures == [TOO_LATE])


def test_a_write_that_never_left_was_not_done():
    _, error = end_of(Attempts(now=0.0, timeout=1.0, request_id="mine"), [NEVER_SENT])
    assert error is NEVER_SENT.error


def test_a_refusal_after_a_lost_answer_is_certain():
    _, error = end_of(Attempts(now=0.0, timeout=1.0, request_id="mine"), [LOST, REFUSED])
    assert error is REFUSED.error


def test_a_read_has_no_outcome_to_be_unknown():
    _, error = end_of(Attempts(now=0.0, timeout=1.0), [LOST])
    assert error is LOST.error
