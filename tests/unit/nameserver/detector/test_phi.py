"""The improbability that a silence still ends."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nameserver.detector.phi import WINDOW_LIMIT, DetectorLimits, PhiAccrual

LIMITS = DetectorLimits(heartbeat_seconds=0.5, acceptable_pause_seconds=4.0, threshold=8.0)
PAUSE = LIMITS.acceptable_pause_seconds

gaps = st.lists(st.floats(0, 100), max_size=300)
seconds = st.floats(0, 1e6)


def after(gaps, limits=LIMITS):
    """Return a detector that heard something after each gap, and the time of the last."""
    now = 0.0
    detector = PhiAccrual(limits, now)
    for gap in gaps:
        now += gap
        detector.arrived(now)
    return detector, now


def seconds_until(detector, now, threshold, pause=0.0):
    """Return the seconds of silence that reach the threshold, to a hundredth."""
    return next(n / 100 for n in range(100_000) if detector.phi(now + n / 100, pause=pause) >= threshold)


@given(gaps, seconds, seconds, st.floats(0, 60))
def test_phi_never_falls_while_nothing_is_heard_and_has_no_largest_value(gaps, one, other, pause):
    detector, now = after(gaps)
    sooner, later = sorted((one, other))
    assert 0 <= detector.phi(now + sooner, pause=pause) <= detector.phi(now + later, pause=pause) < math.inf


@given(gaps, st.floats(0, PAUSE))
def test_whatever_was_heard_before_a_pause_that_is_accepted_is_no_loss(gaps, silence):
    detector, now = after(gaps)
    assert detector.phi(now + silence, pause=PAUSE) < 1 / 3 < 1


@given(gaps)
def test_whatever_was_heard_before_a_silence_that_does_not_end_is_a_loss(gaps):
    detector, now = after(gaps)
    assert detector.phi(now + 1e6, pause=PAUSE) >= LIMITS.threshold


@given(gaps, st.floats(0, 100), seconds)
def test_a_longer_pause_that_is_accepted_means_a_lower_phi(gaps, pause, silence):
    detector, now = after(gaps)
    assert detector.phi(now + silence, pause=pause) <= detector.phi(now + silence)


@given(st.lists(st.floats(0, 1e3), min_size=WINDOW_LIMIT, max_size=3 * WINDOW_LIMIT))
def test_the_window_is_bounded(gaps):
    detector, _ = after(gaps)
    assert detector.window_size <= WINDOW_LIMIT


@given(gaps, st.floats(0, 100))
def test_a_sign_of_life_ends_the_silence(gaps, gap):
    detector, now = after([*gaps, gap])
    assert detector.silence(now) == 0
    assert detector.phi(now) < LIMITS.threshold


@pytest.mark.parametrize("beats", [0, 1, 10, 1_000])
def test_of_a_server_that_beats_like_a_clock_a_silence_of_twice_the_interval_is_suspect(beats):
    detector, now = after([0.5] * beats)
    assert 0.9 < seconds_until(detector, now, LIMITS.threshold) < 1.2
    assert PAUSE + 0.9 < seconds_until(detector, now, LIMITS.threshold, pause=PAUSE) < PAUSE + 1.2


def test_it_takes_longer_where_signs_of_life_come_late_now_and_then():
    steady, now = after([0.5] * 100)
    unsteady, later = after([0.5, 0.5, 0.5, 1.5] * 25)
    assert seconds_until(unsteady, later, 8) > 2 * seconds_until(steady, now, 8)


def test_a_busy_time_does_not_make_an_idle_one_look_like_death():
    busy, now = after([0.001] * 60_000)
    assert busy.phi(now + 0.6) < 1
    assert seconds_until(busy, now, 8) > 0.9


def test_a_long_gap_between_many_short_ones_is_remembered():
    rare, now = after(([0.001] * 400 + [0.9]) * 50)
    never, later = after([0.001] * 400 * 50)
    assert seconds_until(rare, now, 8) > seconds_until(never, later, 8) + 0.2


def test_what_is_long_past_is_forgotten():
    detector, now = after([3.0] * 50 + [0.5] * WINDOW_LIMIT)
    assert seconds_until(detector, now, 8) < 1.2


@given(gaps, seconds)
def test_a_time_in_which_nothing_could_be_heard_tells_nothing(gaps, away):
    detector, now = after(gaps)
    expected = detector.phi(now + 1.0)
    detector.resume(now + away)
    assert detector.silence(now + away) == 0
    assert detector.phi(now + away + 1.0) == pytest.approx(expected, rel=1e-3, abs=1e-6)


def test_the_first_estimate_is_the_interval_with_a_quarter_to_either_side():
    detector, now = after([])
    assert detector.phi(now + 0.5) == pytest.approx(math.log10(2))
    # One deviation above the mean: 16 of 100 silences of a normal distribution last longer.
    assert detector.phi(now + 0.625) == pytest.approx(-math.log10(0.1587), abs=0.01)


def test_times_that_go_back_change_nothing():
    detector, now = after([0.5] * 10)
    detector.arrived(now - 3)
    assert detector.silence(now) == 0
    assert detector.silence(now - 5) == 0
