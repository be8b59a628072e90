"""Purpose of the clauses of the update protocol. `test_scenarios` has more of them, one race each."""

from pathlib import Path

import pytest

from simulation.cluster.failures import FAULTS
from simulation.run import run_seed
from simulation.scenario.runner import ScenarioRunner
from simulation.scenario.schedule import read_scenario
from tests.simulation.clauses import without

SCENARIOS = Path(__file__).parent / "scenarios"

SEEDS = {
    "turns are awaited": 1,
    "entries are handed on": 38,
    "who holds a handed-on entry is told": 1,
}
"""The first that fails; another one where what a seed chooses has changed."""

SEEDS_WITH_FAULTS = {"servers further below are named while the view is open alone": 27}

STALE_RECORD_KEPT = """
# While s is ready for update 1, it keeps a record of c that it no longer needs and that changes elsewhere. Update 4
# changes it again, with s taking part for another reason; update 5 puts c above m again.
servers c q s w x
groups c@c m@s n@s q@q w@w x@x
arc x@x c@c
arc c@c m@s

hold q>s Ready 1
at s join n@s q@q
run
at c leave c@c m@s
run
at w join w@w c@c
run
at x leave x@x c@c, join x@x m@s
run
at c join c@c m@s
run
"""


@pytest.mark.parametrize("clause", SEEDS)
def test_a_seed_fails_without_it(clause):
    with without(clause), pytest.raises(FAULTS):
        run_seed(SEEDS[clause])


@pytest.mark.parametrize("seed", [115, 148, *range(10)])
def test_clients_rename_groups_take_names_over_and_leave_everywhere(seed):
    """Of seeds 115 and 148 the record of changes lacked a name that was taken over."""
    assert run_seed(seed, composites=True).outcomes["committed"]


@pytest.mark.parametrize("clause", SEEDS_WITH_FAULTS)
def test_a_seed_with_faults_fails_without_it(clause):
    with without(clause), pytest.raises(FAULTS):
        run_seed(SEEDS_WITH_FAULTS[clause], faults=True)


def test_a_stale_record_does_harm_unless_a_difference_that_does_not_fit_drops_it():
    stage = ScenarioRunner(read_scenario(STALE_RECORD_KEPT))
    with without("a difference that does not fit is dropped"), pytest.raises(FAULTS):
        stage.run()


def test_nodes_handed_on_since_harm_nobody_even_if_a_commit_is_about_them_too():
    """What is compared for control was fixed when the update became ready; all else of an outcome names its nodes."""
    path = SCENARIOS / "entry_node_that_came_and_went.txt"
    with without("a commit is about what was ready"):
        ScenarioRunner(read_scenario(path.read_text(encoding="utf-8"))).run()


def test_a_stale_record_harms_nobody_even_if_all_is_pruned_at_once():
    """`Ready` names versions of what the update brings below others alone; all else is relayed."""
    with without("nothing is pruned while an update is ready"):
        ScenarioRunner(read_scenario(STALE_RECORD_KEPT)).run()
