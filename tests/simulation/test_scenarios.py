"""The races of NG 6.1 and 6.2.2, and others, as scenarios; each fails on a core that lacks the clause it is about."""

from pathlib import Path

import pytest

from simulation.cluster.failures import FAULTS
from simulation.scenario.runner import ScenarioRunner
from simulation.scenario.schedule import read_scenario
from tests.simulation.clauses import without

SCENARIOS = Path(__file__).parent / "scenarios"

NEEDED = {
    "undetected_loop": "turns are awaited",
    "incomplete_loop": "turns are awaited",
    "phantom_loop": "turns are awaited",
    "incorrect_loop": "turns are awaited",
    "normal_arc_added": "entries are handed on",
    "primary_way_left": "turns are awaited",
    "irrelevant_entry": "who holds a handed-on entry is told",
    "virtual_node_formed": "entries are handed on",
    "virtual_node_broken": "who is ready says that it is in doubt",
    "loop_closes_before_a_way_in": "who is ready says that it is in doubt",
    "vote_before_a_ready_join": "votes count arcs of ready joins",
    "entry_node_that_came_and_went": "only what was affected when ready is compared",
    "ready_before_the_last_vote": "answers that come before the last vote are kept",
    "record_ahead_of_its_arcs": "ancestor sets follow what records say",
    "news_ahead_of_its_commit": "control is compared with what it was when ready",
    "server_found_behind_the_newest_message": "who is found late is posted all that is not settled",
    "member_two_servers_below": "who confirms names the servers further below",
    "member_behind_a_suspended_arc": "what was apart is posted once more",
    "message_that_comes_before_healing": "parcels wait until servers are healed",
}

ONCE_FAILED = [
    "both_ends_deleted",
    "group_created_and_joined",
    "outcome_missed_between_views",
    "heal_interrupted",
    "group_deleted_by_who_missed_its_arc",
    "parent_deleted_by_who_missed_its_arc",
    "offers_of_one_counter",
    "offer_interrupted",
    "held_put_aside",
    "suspended_before_all_are_open",
    "record_ahead_of_its_group",
    "process_known_as_group_still",
    "deleted_and_joined_as_process",
    "decided_before_a_view_that_is_not_open",
]
"""Left by a mistake in the core, not by the lack of a clause."""

WITH_MANY_ENTRY_NODES = {"arc_left_before_an_earlier_commit": "all are told the entry nodes of the whole update"}
"""Clauses for updates with so many entry nodes that these are not named to all servers: their parts are small."""


def stage(name):
    return ScenarioRunner(read_scenario((SCENARIOS / f"{name}.txt").read_text(encoding="utf-8")))


def test_every_scenario_is_here():
    assert {path.stem for path in SCENARIOS.iterdir()} == {*NEEDED, *ONCE_FAILED, *WITH_MANY_ENTRY_NODES}


@pytest.mark.parametrize("name", [*NEEDED, *ONCE_FAILED])
def test_it_ends_as_expected(name):
    stage(name).run()


@pytest.mark.parametrize("name", WITH_MANY_ENTRY_NODES)
def test_it_ends_as_expected_where_entry_nodes_are_not_named_to_all(name):
    with without(WITH_MANY_ENTRY_NODES[name]):
        stage(name).run()


@pytest.mark.parametrize("name", NEEDED)
def test_it_fails_without_the_clause_it_is_about(name):
    with without(NEEDED[name]), pytest.raises(FAULTS):
        stage(name).run()


@pytest.mark.parametrize("name", [*NEEDED, *ONCE_FAILED, *WITH_MANY_ENTRY_NODES])
def test_it_says_which_race_it_is_and_what_would_go_wrong(name):
    header = (SCENARIOS / f"{name}.txt").read_text(encoding="utf-8").partition("servers")[0]
    assert "NG 6." in header or "protocol section" in header
    assert "If " in header
