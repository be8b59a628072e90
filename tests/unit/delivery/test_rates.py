"""Rate limits of an origin in messages a second: for all senders together, and for each named sender."""

import pytest

from delivery.origin.rates import SENDERS_LIMIT, Rates
from namegraph import Reason


@pytest.fixture
def rates():
    found = Rates()
    found.per_second, found.of_sender_per_second = 10, 4
    return found


def taken(rates, sender, now, count):
    return sum(rates.take(sender, now) is None for _ in range(count))


def test_what_a_second_allows_may_come_at_once_and_then_one_whenever_there_is_room(rates):
    assert taken(rates, "s", 100.0, 20) == 4
    assert taken(rates, "s", 100.2, 20) == 0
    assert taken(rates, "s", 100.25, 20) == 1
    assert taken(rates, "s", 200.0, 20) == 4


@pytest.mark.parametrize(("names", "allowed"), [(("",), 10), (("a", "b", "c"), 10), (("a", ""), 10), (("a",), 4)])
def test_all_together_have_a_rate_and_each_that_gives_its_name_another_one(rates, names, allowed):
    assert sum(taken(rates, name, 5.0, 7) for name in names * 3) == allowed


def test_over_a_long_time_no_more_come_than_the_rate_allows(rates):
    times = [100 + number / 50 for number in range(50 * 60)]
    assert sum(rates.take("s", now) is None for now in times) == pytest.approx(4 * 61, abs=1)


def test_a_refusal_says_when_to_send_again_and_takes_nothing(rates):
    assert taken(rates, "s", 1.0, 4) == 4
    refusals = [rates.take("s", 1.0).refusal for _ in range(3)]
    assert {refusal.reason for refusal in refusals} == {Reason.RATE_EXCEEDED}
    assert {refusal.facts["retry_after_ms"] for refusal in refusals} == {"250"}
    assert "more than 4 messages a second of s" in refusals[0].message
    assert rates.refused == 3
    assert rates.take("s", 1.25) is None
    # Of all, no more were taken than were accepted.
    assert taken(rates, "", 1.25, 20) == 7


def test_less_than_one_a_second_is_one_at_a_time(rates):
    rates.per_second = 0.1
    assert [now for now in range(100, 130) if rates.take("", float(now)) is None] == [100, 110, 120]
    assert rates.take("", 129.0).refusal.facts["retry_after_ms"] == "1000"


def test_of_all_together_no_sender_is_to_blame(rates):
    assert taken(rates, "", 1.0, 20) == 10
    assert "at this server" in rates.take("s", 1.0).refusal.message


def test_no_more_senders_are_remembered_than_the_limit():
    rates = Rates()
    rates.per_second, rates.of_sender_per_second = 1e9, 1
    for number in range(SENDERS_LIMIT + 10):
        assert rates.take(f"s{number}", 0.0) is None
    assert len(rates._senders) == SENDERS_LIMIT
    assert rates.take("s0", 0.0) is not None
    assert rates.take("late", 5.0) is None
    assert list(rates._senders) == ["late"]
