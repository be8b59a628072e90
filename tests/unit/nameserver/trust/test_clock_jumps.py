"""A jump of the time of day is noticed, and in doubt for ten minutes."""

import pytest

from nameserver.trust.clock_jumps import ClockJumps


class Clocks:
    def __init__(self):
        self.steady, self.wall = 1_000.0, 50_000.0
        self.jumps = ClockJumps(clock=lambda: self.steady, wall_clock=lambda: self.wall)

    def pass_time(self, seconds, jump=0.0):
        self.steady += seconds
        self.wall += seconds + jump
        return self.jumps.look()


@pytest.mark.parametrize("jump", [301.0, -301.0, 86_400.0])
def test_a_jump_is_in_doubt_for_ten_minutes_of_the_clock_that_does_not_jump(jump):
    clocks = Clocks()
    assert clocks.pass_time(5.0) is None
    assert not clocks.jumps.is_in_doubt
    assert clocks.pass_time(1.0, jump=jump) == jump
    assert clocks.jumps.is_in_doubt
    assert clocks.pass_time(599.0) is None
    assert clocks.jumps.is_in_doubt
    clocks.pass_time(1.0)
    assert not clocks.jumps.is_in_doubt


def test_a_clock_that_drifts_or_is_corrected_a_little_is_not_in_doubt():
    clocks = Clocks()
    for _ in range(100):
        assert clocks.pass_time(10.0, jump=-5.0) is None
    assert not clocks.jumps.is_in_doubt
