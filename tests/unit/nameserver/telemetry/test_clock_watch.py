"""Looks that come late tell of a loop that stood still; a time of day that leaps, of a clock that was set."""

import logging

import pytest

from nameserver.telemetry.clock_watch import LOOK_SECONDS, ClockWatch
from nameserver.telemetry.log_lines import LOGGER


class Clocks:
    """Two clocks, and a watch that looks at them."""

    def __init__(self):
        self.time, self.day = 100.0, 5_000.0
        self.late, self.leaps, self.seconds = [], [], 0
        self.watch = ClockWatch(
            each_second=self.count,
            stalled=self.late.append,
            jumped=self.leaps.append,
            clock=lambda: self.time,
            wall_clock=lambda: self.day,
        )

    def count(self):
        self.seconds += 1

    def look_after(self, seconds, *, by_day=None):
        self.time += seconds
        self.day += seconds if by_day is None else by_day
        self.watch.look()


@pytest.fixture
def said(caplog, monkeypatch):
    monkeypatch.setattr(LOGGER, "propagate", True)
    caplog.set_level(logging.INFO, LOGGER.name)
    return lambda: [(record.event, record.fields) for record in caplog.records]


def test_nothing_is_said_of_a_loop_that_goes_on(said):
    clocks = Clocks()
    for _ in range(25):
        clocks.look_after(LOOK_SECONDS)
    assert (said(), clocks.leaps, clocks.seconds) == ([], [], 2)
    assert clocks.late == pytest.approx([0.0] * 25, abs=1e-9)


def test_a_loop_that_stood_still_is_told_with_how_long(said):
    clocks = Clocks()
    clocks.look_after(LOOK_SECONDS + 3.0)
    assert clocks.late == pytest.approx([3.0])
    assert said() == [("loop_stalled", {"seconds": 3.0})]


@pytest.mark.parametrize("leap", [3_600.0, -3_600.0])
def test_a_clock_that_was_set_is_told_with_by_how_much(said, leap):
    clocks = Clocks()
    clocks.look_after(LOOK_SECONDS, by_day=LOOK_SECONDS + leap)
    clocks.look_after(LOOK_SECONDS)
    assert clocks.leaps == pytest.approx([leap])
    assert said() == [("clock_jumped", {"seconds": leap})]


def test_a_clock_that_is_disciplined_is_none_of_that(said):
    clocks = Clocks()
    clocks.look_after(LOOK_SECONDS, by_day=LOOK_SECONDS + 0.5)
    assert (said(), clocks.leaps) == ([], [])
