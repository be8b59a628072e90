"""Each target under some thousands of inputs, and under every input that once failed."""

import pytest
from hypothesis import settings

from tests.fuzzing.engine import FOUND, check, found_inputs, run, shortened, told
from tests.fuzzing.targets import TARGETS, shares_of
from tests.seeds import USUAL_EXAMPLES

INPUTS = 50_000
"""Inputs of all targets together. `make fuzz` tries a million."""
SHARES = shares_of(INPUTS * min(settings().max_examples, USUAL_EXAMPLES) // USUAL_EXAMPLES)


@pytest.mark.parametrize("name", TARGETS)
def test_no_input_breaks_a_target_or_its_limits(name, tmp_path):
    tally = run(TARGETS[name], seed=0, inputs=SHARES[name])
    failures = [shortened(TARGETS[name], failure) if failure.data else failure for failure in tally.failures]
    assert not failures, "\n".join(told(failure, tmp_path) for failure in failures)
    assert tally.inputs == SHARES[name]
    # Inputs that are all refused at the first byte would prove nothing.
    assert tally.refused < 0.95 * tally.inputs


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_takes_the_inputs_that_others_are_made_of(name):
    seeds = TARGETS[name].seeds()
    assert seeds
    for data in seeds[:: max(1, len(seeds) // 100)]:
        TARGETS[name].take(data)


@pytest.mark.parametrize("path", sorted(FOUND.glob("*/*")), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_what_once_failed_fails_no_more(path):
    failure = check(TARGETS[path.parent.name], path.read_bytes())
    assert failure is None, failure


def test_inputs_that_once_failed_are_of_a_target_and_are_started_from():
    names = {path.name for path in FOUND.iterdir()}
    assert names <= TARGETS.keys()
    assert all(found_inputs(name) for name in names)


def test_shares_of_all_targets_are_as_many_inputs_as_were_asked_for():
    for inputs in (1, 1_000, 50_000, 1_000_000):
        shares = shares_of(inputs)
        assert shares.keys() == TARGETS.keys()
        assert inputs <= sum(shares.values()) <= inputs + len(TARGETS)
    assert shares_of(10, ["frames"]) == {"frames": 10}
