"""Pauses between attempts."""

import pytest

from nameserver.session.backoff import FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS, Backoff


def pauses(chance, count=10):
    backoff = Backoff(lambda: chance)
    return [backoff.next_pause_seconds() for _ in range(count)]


def test_pauses_double_up_to_a_limit():
    assert pauses(0.0)[:3] == [FIRST_PAUSE_SECONDS, 2 * FIRST_PAUSE_SECONDS, 4 * FIRST_PAUSE_SECONDS]
    assert pauses(0.0)[-1] == LONGEST_PAUSE_SECONDS


def test_chance_shortens_a_pause_to_half_at_most():
    assert pauses(1.0) == pytest.approx([pause / 2 for pause in pauses(0.0)])


def test_a_success_begins_anew():
    backoff = Backoff(lambda: 0.0)
    for _ in range(5):
        backoff.next_pause_seconds()
    backoff.reset()
    assert backoff.next_pause_seconds() == FIRST_PAUSE_SECONDS
