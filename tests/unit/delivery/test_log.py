"""How far the log goes, how large it is, and when what nobody needs is cut."""

import pytest

from delivery.log import CUT_AT_LEAST, CUT_AT_LEAST_BYTES, SEGMENT_ENTRIES, Log
from namegraph import DurableState


@pytest.fixture
def log():
    return Log(DurableState())


def fill(log, entries, size):
    for _ in range(entries):
        log.append(0, bytes(size))
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
