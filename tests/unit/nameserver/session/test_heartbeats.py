"""Heartbeats: when they are due, and what they measure."""

import pytest

from nameserver.session.frames import Heartbeat
from nameserver.session.heartbeats import REMEMBERED_LIMIT, Pulse

SESSION = 7


def test_a_heartbeat_is_due_when_nothing_was_sent_for_an_interval():
    pulse = Pulse(0.5, now=9.0)
    assert pulse.is_due(9.0)
    pulse.beat(SESSION, 10.0)
    assert not pulse.is_due(10.25)
    assert pulse.is_due(10.5)
    pulse.spoke(10.5)
    assert not pulse.is_due(10.75)
    pulse.beat(SESSION, 11.0)
    assert not pulse.is_due(11.25)
    assert pulse.is_due(11.5)


def test_a_heartbeat_is_due_now_and_then_whatever_else_is_sent():
    pulse = Pulse(0.5, now=9.0)
    pulse.beat(SESSION, 10.0)
    for quarter in range(1, 4):
        pulse.spoke(10 + quarter / 4)
        assert not pulse.is_due(10 + quarter / 4)
    pulse.spoke(11.0)
    assert pulse.is_due(11.0)
    pulse.beat(SESSION, 11.0)
    pulse.spoke(11.75)
    assert not pulse.is_due(11.75)


def test_a_heartbeat_is_due_at_once_when_a_view_begins():
    here, there = Pulse(0.5, now=9.0), Pulse(0.5, now=9.0)
    here.beat(SESSION, 10.0, view="1@a.x")
    assert not here.is_due(10.0, "1@a.x")
    assert here.is_due(10.0, "2@a.x")
    assert there.view_there is None
    there.take(here.beat(SESSION, 10.0, view="2@a.x"), 10.0)
    assert there.view_there == "2@a.x"


def test_a_heartbeat_is_due_at_once_when_the_database_fails_and_when_it_can_be_written_again():
    pulse = Pulse(0.5, now=9.0)
    pulse.beat(SESSION, 10.0)
    assert not pulse.is_due(10.0)
    assert pulse.is_due(10.0, cannot_write="the disk is full")
    assert pulse.beat(SESSION, 10.0, cannot_write="the disk is full").cannot_write == "the disk is full"
    assert not pulse.is_due(10.0, cannot_write="the disk is full")
    assert pulse.is_due(10.0)


def test_what_the_other_end_is_known_to_have_heard_is_as_old_as_when_it_was_sent():
    here, there = Pulse(0.5, now=0.0), Pulse(0.5, now=0.25)
    assert (here.confirmed_at, there.confirmed_at) == (0.0, 0.25)
    there.take(here.beat(SESSION, 1.0), 1.010)
    here.beat(SESSION, 1.5)
    answer = there.beat(SESSION, 1.6)
    # This end is stopped for a minute before it reads the answer.
    here.take(answer, 61.6)
    assert here.confirmed_at == 1.0


def test_heartbeats_are_numbered_and_name_the_last_one_heard_and_how_long_ago():
    pulse = Pulse(0.5, now=0.0)
    assert pulse.beat(SESSION, 0.5) == Heartbeat(SESSION, 1, 0, 0)
    pulse.take(Heartbeat(SESSION, 41, 0, 0), 0.75)
    assert pulse.beat(SESSION, 1.0) == Heartbeat(SESSION, 2, 41, 250_000)


def test_the_round_trip_is_without_the_time_that_the_other_end_took():
    here, there = Pulse(0.5, now=0.0), Pulse(0.5, now=0.0)
    assert here.round_trip_seconds is None
    there.take(here.beat(SESSION, 1.0), 1.010)
    here.take(there.beat(SESSION, 1.410), 1.425)
    assert here.round_trip_seconds == pytest.approx(0.025)


@pytest.mark.parametrize("heard", [0, 2, 99])
def test_an_answer_to_what_was_not_asked_measures_nothing(heard):
    pulse = Pulse(0.5, now=0.0)
    pulse.beat(SESSION, 0.5)
    pulse.take(Heartbeat(SESSION, 1, heard, 0), 1.0)
    assert pulse.round_trip_seconds is None


def test_a_round_trip_is_never_negative_whatever_the_other_end_says():
    pulse = Pulse(0.5, now=0.0)
    pulse.beat(SESSION, 0.5)
    pulse.take(Heartbeat(SESSION, 1, 1, 2**63), 0.6)
    assert pulse.round_trip_seconds == 0.0


def test_only_so_many_heartbeats_are_remembered():
    pulse = Pulse(0.5, now=0.0)
    for number in range(REMEMBERED_LIMIT + 1):
        pulse.beat(SESSION, float(number))
    pulse.take(Heartbeat(SESSION, 1, 1, 0), 99.0)
    assert pulse.round_trip_seconds is None
    pulse.take(Heartbeat(SESSION, 2, 2, 0), 99.0)
    assert pulse.round_trip_seconds == 98.0
