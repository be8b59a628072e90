"""The absence of servers is counted while this server runs, and is durable. A server that is away too long is
overdue.
"""

import pytest

from namegraph.model.names import ServerId
from namegraph.state.absences import COUNTED_EVERY_SECONDS, Absences
from namegraph.state.durable_maps import DurableState

B, C = ServerId("b.x"), ServerId("c.x")


def limited(durable, seconds=100.0):
    absences = Absences(durable)
    absences.limit_seconds = seconds
    return absences


def restarted(durable):
    """Return the state that a restarting server finds, from rows written with something that could not wait."""
    durable.must_write = True
    return limited(DurableState(durable.take_rows()))


@pytest.fixture
def durable():
    return DurableState()


def test_a_server_is_overdue_once_it_was_away_for_the_limit(durable):
    absences = limited(durable)
    for now, is_overdue in ((1_000.0, False), (1_099.0, False), (1_100.0, True)):
        absences.count([B], now)
        assert absences.is_overdue(B) is is_overdue
    assert not absences.is_overdue(C)


def test_without_a_limit_nobody_is(durable):
    absences = limited(durable, None)
    absences.count([B], 0.0)
    absences.count([B], 1e9)
    assert not absences.is_overdue(B)


def test_time_in_which_this_server_did_not_run_does_not_count_and_its_clock_may_begin_anew(durable):
    absences = limited(durable)
    absences.count([B], 1_000.0)
    absences.count([B], 1_060.0)
    absences = restarted(durable)
    absences.count([B], 5.0)
    assert absences.seconds(B) == 60.0
    absences.count([B], 45.0)
    assert absences.is_overdue(B)


def test_time_in_which_a_server_was_there_does_not_count_and_what_it_was_away_before_does(durable):
    """It was in a view that did not come to be healed."""
    absences = limited(durable)
    for absent, now in (([B], 0.0), ([B], 40.0), ([], 50.0), ([B], 500.0), ([B], 520.0)):
        absences.count(absent, now)
    assert absences.seconds(B) == 60.0


def test_once_healed_it_is_counted_from_nothing(durable):
    absences = limited(durable)
    absences.count([B], 0.0)
    absences.count([B], 90.0)
    absences.is_over(B)
    assert absences.seconds(B) == 0.0
    absences.count([B], 100.0)
    absences.count([B], 150.0)
    assert not absences.is_overdue(B)


def test_to_count_changes_nothing_that_cannot_wait(durable):
    absences = limited(durable)
    absences.count([B], 0.0)
    absences.count([B], 90.0)
    assert durable.take_rows() == []


def test_it_is_counted_often_enough(durable):
    for limit, pause in ((100.0, 10.0), (1e6, COUNTED_EVERY_SECONDS), (None, COUNTED_EVERY_SECONDS)):
        absences = limited(DurableState(), limit)
        absences.count([], 1_000.0)
        assert not absences.is_due(999.0 + pause)
        assert absences.is_due(1_000.0 + pause)
