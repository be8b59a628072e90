"""Correct servers count no faults of one another, whatever happens between them: a letter may come again, no more."""

import pytest

from namegraph.core import ServerCore
from simulation.run import SeedRun

LETTERS_THAT_COME_AGAIN = {"repeated", "out of order"}


@pytest.fixture
def channels(monkeypatch):
    """Record the channels of all servers, at each of their starts."""
    found, start = [], ServerCore._start

    def noting(core, *arguments, **keywords):
        start(core, *arguments, **keywords)
        found.append(core.channels)

    monkeypatch.setattr(ServerCore, "_start", noting)
    return found


@pytest.mark.parametrize("faults", [False, True], ids=["quiet", "troubled"])
def test_correct_servers_count_no_faults(channels, faults):
    for seed in range(320_000, 320_004):
        SeedRun(seed, servers=5, updates=60, faults=faults).run()
    assert channels
    assert {fault for one in channels for _, fault in one.faults} <= LETTERS_THAT_COME_AGAIN
