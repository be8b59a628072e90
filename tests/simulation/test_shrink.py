"""A failing seed shrinks to a short scenario that fails alike, and holds on the whole core."""

import pytest

from simulation.cluster.failures import FAULTS, kind_of
from simulation.run import SeedRun
from simulation.scenario.runner import ScenarioRunner
from simulation.scenario.schedule import Quiet, read_scenario, write_scenario
from simulation.scenario.shrink import NotReproducedError, attempt, shrink
from tests.simulation.clauses import without

WITHOUT_CRASHES = 33
"""A seed in which no server crashes, since messages sent again after a crash depend on more than the schedule. In this
seed servers forget late, as in a scenario.
"""


UNDETECTED_LOOP_AMONG_OTHERS = """
servers a b c d
groups x1@a y1@b x2@c y2@d o@a q@d
arc o@a q@d
arc y1@b x2@c
arc y2@d x1@a
at a join o@a x1@a
quiet
at a join x1@a y1@b, join x1@a p@a
at c join x2@c y2@d
deliver a>b Order 2
at d join q@d f@elsewhere.example
"""


class Attempts:
    """Time that passes by being looked at."""

    def __init__(self, limit):
        self.left = self.limit = limit

    def used(self):
        self.left -= 1
        return 1 - self.left / self.limit


def failed_run(seed):
    run = SeedRun(seed)
    with pytest.raises(FAULTS) as caught:
        run.run()
    return run.recorded(), kind_of(caught.value)


def test_a_failing_seed_becomes_a_short_scenario_that_needs_the_clause():
    with without("turns are awaited"):
        recorded, kind = failed_run(1)
        text = write_scenario(shrink(recorded, kind=kind, time_used=Attempts(400).used))
        with pytest.raises(FAULTS):
            ScenarioRunner(read_scenario(text)).run()
    assert len(text.splitlines()) <= 30
    assert len(read_scenario(text).asks) < len(recorded.asks)
    ScenarioRunner(read_scenario(text)).run()


def test_what_has_no_part_in_a_failure_goes():
    with without("turns are awaited"):
        scenario = read_scenario(UNDETECTED_LOOP_AMONG_OTHERS)
        kind = attempt(scenario, walks=True).kind
        smaller = shrink(scenario, kind=kind, time_used=Attempts(400).used)
    assert [len(ask.operations) for ask in smaller.asks] == [1, 1]
    assert len(smaller.steps) <= 6
    assert len(smaller.groups) <= 4
    assert not any(isinstance(step, Quiet) for step in smaller.steps)


def test_a_run_replays_from_its_record_arrival_for_arrival():
    run = SeedRun(WITHOUT_CRASHES)
    run.run()
    recorded = run.recorded()
    stage = ScenarioRunner(recorded, walks=False)
    stage.run()
    assert [step for step in stage.done if step in set(recorded.steps)] == [*recorded.steps, Quiet()]


def test_what_does_not_fail_is_not_shrunk():
    with pytest.raises(NotReproducedError):
        shrink(read_scenario("servers a\ngroups x@a\nat a join x@a p@a\n"), kind="", time_used=lambda: 0.0)


def test_what_fails_in_another_way_than_the_seed_is_not_shrunk():
    with without("turns are awaited"), pytest.raises(NotReproducedError):
        shrink(read_scenario(UNDETECTED_LOOP_AMONG_OTHERS), kind="InvariantViolatedError I9", time_used=lambda: 0.0)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (AssertionError("I5: a holds x"), "AssertionError I5"),
        (AssertionError("a walk from x@a missed ['y@b'], met []"), "AssertionError missed"),
        (KeyError("x@a"), "KeyError"),
    ],
)
def test_faults_are_alike_by_type_and_invariant(error, kind):
    assert kind_of(error) == kind
