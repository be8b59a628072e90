"""Waking time."""

from hypothesis import given
from hypothesis import strategies as st

from nameserver.detector.awake_clock import AwakeClock

STEP = 0.25


@given(st.floats(0, 1e6), st.lists(st.floats(0, 1e4)))
def test_it_goes_no_faster_than_the_clock_and_no_further_than_a_step_at_once(start, gaps):
    clock = AwakeClock(start, longest_step_seconds=STEP)
    now, before = start, 0.0
    for gap in gaps:
        passed, now = (now + gap) - now, now + gap
        waking = clock.read(now)
        assert 0 <= waking - before <= min(passed, STEP) + 1e-9
        before = waking


def test_time_that_is_read_regularly_is_waking_time():
    clock = AwakeClock(0.0, longest_step_seconds=STEP)
    assert [clock.read(n / 8) for n in range(9)][-1] == 1.0


def test_a_pause_counts_as_one_step():
    clock = AwakeClock(0.0, longest_step_seconds=STEP)
    assert clock.read(60.0) == STEP
    assert clock.read(60.125) == STEP + 0.125


def test_a_clock_that_goes_back_stands_still():
    clock = AwakeClock(10.0, longest_step_seconds=STEP)
    clock.read(10.125)
    assert clock.read(5.0) == 0.125
    assert clock.read(10.25) == 0.25
