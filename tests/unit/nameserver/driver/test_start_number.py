"""Numbers of starts."""

from delivery.origin.origin import START_CHANCES
from delivery.wire.posts import NUMBER_LIMIT
from nameserver.driver.start_number import CHANCE_BITS, start_number

YEAR_2100_MS = 4_102_444_800_000


def test_a_later_start_has_a_higher_number_and_one_at_the_same_time_another(monkeypatch):
    def at(milliseconds):
        monkeypatch.setattr("time.time_ns", lambda: milliseconds * 1_000_000)
        return start_number()

    assert max(at(1) for _ in range(100)) < min(at(2) for _ in range(100))
    assert len({at(1) for _ in range(100)}) > 90
    assert 2**CHANCE_BITS == START_CHANCES
    assert at(YEAR_2100_MS) < NUMBER_LIMIT
