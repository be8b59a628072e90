"""Whole seeds that ask for memberships while servers are apart: the judge finds each wrong answer given as certain."""

import pytest

from namegraph.state.uncertainty import Uncertainty
from simulation.oracle.violation import InvariantViolatedError
from simulation.run import run_seed

SEEDS = (222, 450)


@pytest.mark.parametrize("seed", SEEDS)
def test_who_is_always_certain_is_found_out(seed, monkeypatch):
    monkeypatch.setattr(Uncertainty, "above", lambda _uncertainty, _name: [])
    with pytest.raises(InvariantViolatedError, match="memberships: "):
        run_seed(seed, updates=2, faults=True)


@pytest.mark.parametrize("seed", SEEDS)
def test_who_is_certain_of_what_is_so_is_not(seed):
    told = run_seed(seed, updates=2, faults=True).walks
    assert told["memberships told as certain"] + told["memberships told as uncertain"]
