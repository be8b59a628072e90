"""One of five servers lies; `shadowtree simulate --hostile` runs more seeds."""

from collections import Counter

import pytest

from namegraph.core import ServerCore
from simulation.hostile import LIMITS, UNITS_PER_SECOND, HostileRun
from simulation.oracle.violation import InvariantViolatedError
from tests.seeds import seeds

LOCKS_AND_CLAIMS = 12


def test_the_others_keep_all_that_must_hold_among_them():
    told, longest = Counter(), 0.0
    for seed in seeds(LOCKS_AND_CLAIMS):
        run = HostileRun(seed)
        told += run.run().troubles
        longest = max(longest, run._cluster.longest_lock)
    assert sum(count for lie, count in told.items() if not lie.startswith("fault")) > 50
    assert 1.0 < longest < 40.0


@pytest.mark.parametrize("seed", [13, 28, 35, 175])
def test_seeds_that_failed_once(seed):
    HostileRun(seed).run()


@pytest.mark.parametrize(
    ("kind", "rule", "instead", "failing"),
    [
        # Coordinators that do not decide are lost at once, and others leave out the server that has complained.
        (ServerCore, "_mistrust", lambda self, *arguments: self._give_up(*arguments), (13, 28)),
    ],
    ids=["mistrust before loss"],
)
def test_without_a_rule_servers_that_do_not_lie_part(monkeypatch, kind, rule, instead, failing):
    for seed in failing:
        HostileRun(seed).run()
    monkeypatch.setattr(kind, rule, instead)
    for seed in failing:
        with pytest.raises(InvariantViolatedError, match=r"^(blame|parted|lock): "):
            HostileRun(seed).run()


def test_a_server_that_keeps_entries_of_a_liar_for_ever_is_found_out(monkeypatch):
    monkeypatch.setattr("simulation.hostile.LIMITS", LIMITS.in_units(1_000.0))
    failed = 0
    for seed in (8, 13, 26, 28):
        try:
            HostileRun(seed).run()
        except InvariantViolatedError as error:
            failed += str(error).startswith("lock: ")
    assert failed
    assert LIMITS.scale == UNITS_PER_SECOND
