"""Extent and size of the log, and the time when unneeded entries are cut."""

import pytest

from delivery.log.log import CUT_AT_LEAST, CUT_AT_LEAST_BYTES, SEGMENT_ENTRIES, SEGMENT_SECONDS, Log
from delivery.model.agenda import Agenda
from delivery.model.words import Position
from namegraph import DurableState


@pytest.fixture
def log():
    return Log(DurableState(), Agenda())


def fill(log, entries, size):
    for _ in range(entries):
        log.append(0, bytes(size), messages=1, at=0.0)
    log.take_rows()


def test_small_entries_are_cut_many_together(log):
    fill(log, CUT_AT_LEAST, 10)
    log.cut_through(CUT_AT_LEAST - 1)
    assert (log.cut, log.take_rows()[1]) == (0, None)
    log.cut_through(CUT_AT_LEAST)
    assert (log.cut, log.take_rows()[1]) == (CUT_AT_LEAST, CUT_AT_LEAST)


def test_large_entries_are_cut_once_they_are_much(log):
    fill(log, 9, CUT_AT_LEAST_BYTES // 4)
    log.cut_through(3)
    assert log.cut == 0
    log.cut_through(4)
    assert log.cut == 4
    log.cut_through(7)
    assert log.cut == 4


@pytest.mark.parametrize("cut", [1, 400, SEGMENT_ENTRIES - 1, SEGMENT_ENTRIES, SEGMENT_ENTRIES + 1, 2_300])
def test_what_was_cut_does_not_count(log, cut):
    fill(log, 2_300, 50)
    assert log.size == 2_300 * 50
    log.cut_through(cut, at_least=1)
    assert log.size == pytest.approx((2_300 - cut) * 50, abs=50)
    fill(log, 5, 50)
    assert log.size == pytest.approx((2_305 - cut) * 50, abs=50)


def test_a_log_without_entries_has_no_size(log):
    assert log.size == 0
    fill(log, 3, 50)
    log.cut_through(3, at_least=1)
    assert log.size == 0


def test_a_segment_ends_after_a_while_and_is_too_old_when_all_in_it_is(log):
    log.limit_seconds = 3_600.0
    for at in (0.0, SEGMENT_SECONDS - 1, SEGMENT_SECONDS, SEGMENT_SECONDS + 1):
        log.append(1, b"parcel", messages=1, at=at)
    assert log.oldest_through == 2
    assert not log.is_too_old(3_600.0 + SEGMENT_SECONDS - 1)
    assert log.is_too_old(3_600.0 + SEGMENT_SECONDS)


def test_a_segment_knows_what_it_has_for_whom(log):
    for audience, messages in ((1, 2), (2, 1), (1, 3), (0, 9)):
        log.append(audience, b"parcel", messages=messages, at=0.0)
    assert log.oldest_for() == {1: (5, Position(3, 2)), 2: (1, Position(2, 0))}


@pytest.mark.parametrize(
    ("position", "expected"),
    [
        (Position.before(1), 9),
        (Position(1, 0), 8),
        (Position(1, 1), 7),
        (Position.before(2), 7),
        (Position(2, 3), 7),
        (Position(3, 2), 4),
        (Position(4, 3), 0),
        (Position.before(5), 0),
    ],
)
def test_what_somebody_has_behind_a_position_counts_by_message(log, position, expected):
    for audience, messages in ((1, 2), (2, 4), (1, 3), (3, 4)):
        log.append(audience, b"parcel", messages=messages, at=0.0)
    assert log.behind(position, lambda audience: audience in (1, 3)) == expected


def test_of_earlier_segments_all_counts_that_is_not_behind_somebody(log):
    for at in (0.0, 0.0, SEGMENT_SECONDS, SEGMENT_SECONDS):
        log.append(1, b"parcel", messages=2, at=at)
    found = [log.behind(Position(entry, 1), bool) for entry in range(1, 5)]
    assert found == [8, 4, 2, 0]


def test_after_a_restart_all_of_the_newest_segment_counts_unless_none_of_it_is_left():
    durable = DurableState()
    before = Log(durable, Agenda())
    for _ in range(3):
        before.append(1, b"parcel", messages=1, at=0.0)
    log = Log(DurableState(durable.take_rows()), Agenda())
    assert [log.behind(Position(entry, 0), bool) for entry in (1, 3)] == [3, 0]
    for _ in range(2):
        log.append(1, b"parcel", messages=1, at=0.0)
    assert [log.behind(Position(entry, 0), bool) for entry in (1, 4, 5)] == [5, 1, 0]


def test_segments_are_the_same_after_a_restart():
    durable = DurableState()
    log = Log(durable, Agenda())
    for at in (0.0, 1.0, SEGMENT_SECONDS):
        log.append(1, b"parcel", messages=1, at=at)
    again = Log(DurableState(durable.take_rows()), Agenda())
    assert (again.last, again.size, again.oldest_through, again.oldest_for()) == (3, 18, 2, log.oldest_for())
