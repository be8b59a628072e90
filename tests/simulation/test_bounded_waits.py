"""Entries that are given up before `Ready`, very often, let no update pass that is decided later."""

from collections import Counter

import pytest

from namegraph.state.wait_limits import WaitLimits
from namegraph.update.coordinator import Coordinator
from namegraph.update.participant import Participant
from simulation.run import SeedRun

NEVER = 1e9
HASTY = WaitLimits(
    before_ready=20.0,
    attempt=60.0,
    **dict.fromkeys(("after_ready", "entry", "answer", "accept", "install", "settle", "open"), NEVER),
)
"""Limits in units of simulated time, in which a message takes 1, and up to 100 if it is very late."""


@pytest.fixture
def count(monkeypatch):
    """Count the calls of methods that end an attempt."""
    counts = Counter()
    for kind, name in ((Participant, "give_up"), (Coordinator, "_begin_anew")):
        called = getattr(kind, name)

        def counting(*arguments, called=called, name=name):
            counts[name] += 1
            return called(*arguments)

        monkeypatch.setattr(kind, name, counting)
    return counts


def test_an_update_given_up_by_a_participant_keeps_its_place_in_no_order(count):
    for seed in range(330_000, 330_006):
        SeedRun(seed, servers=4, updates=12, wait_limits=HASTY).run()
    assert count["give_up"] > 20
    assert count["_begin_anew"] > 20
