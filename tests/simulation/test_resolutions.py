"""Resolutions under concurrent updates. The purpose of each rule is shown by the failure without it."""

from itertools import chain
from unittest.mock import patch

from resolver.parts import Parts
from resolver.resolution import DistributedResolution
from resolver.target_masks import Masks
from simulation.oracle.violation import InvariantViolatedError
from simulation.run import run_seed

SEEDS_ENOUGH_TO_GO_WRONG = 400
"""Number of seeds tried for a failure. One in a hundred or more fails."""


def fails(seed):
    try:
        run_seed(seed)
    except InvariantViolatedError as error:
        return "resolution of" in str(error)
    return False


def goes_wrong(known):
    """Require a failure of the known seed, or of another one, in case seeds draw anew."""
    return any(map(fails, chain([known], range(SEEDS_ENOUGH_TO_GO_WRONG))))


def test_without_the_doubt_of_a_ready_server_members_are_missed():
    with patch.object(Parts, "_ready_for", lambda self, plan: None):
        assert goes_wrong(31)


def test_without_a_second_walk_members_of_different_instants_are_mixed():
    nothing_is_new = property(lambda self: False, lambda self, value: None)
    with patch.object(DistributedResolution, "_is_new", nothing_is_new, create=True):
        assert goes_wrong(24)


def test_unless_what_servers_know_of_a_foreign_process_is_united_the_excepted_are_told():
    with patch.object(Masks, "united", lambda self, other: self):
        assert goes_wrong(73)


def test_that_an_answer_is_said_to_hold_though_its_servers_have_changed_is_found():
    basis = Parts.basis

    def without_count(parts):
        found = basis(parts).split(".")
        return ".".join(found[:1] + found[2:])

    with patch.object(Parts, "basis", without_count):
        assert goes_wrong(1)


def test_that_an_answer_is_said_to_hold_while_an_update_is_under_way_is_found():
    with patch.object(Parts, "_is_quiet", property(lambda _: True)):
        assert goes_wrong(5)


def test_resolutions_under_concurrent_updates_agree_are_in_doubt_and_use_what_is_remembered():
    tally = run_seed(2, servers=4, updates=60)
    for what in (
        "complete",
        "of sets",
        "walks in doubt",
        "walks that told something new",
        "agreed with a remembered walk",
        "confirmed",
        "not confirmed",
        "without a basis",
    ):
        assert tally.walks[what] > 0


def test_a_client_whose_time_ends_is_not_told_by_a_server_that_crashed_what_was_never_durable():
    run_seed(853000488, updates=2, faults=True, messages=True)


def test_a_walk_leads_to_nobody_who_is_not_told_of_while_a_loop_changes():
    run_seed(880500150, servers=5, updates=60, faults=True, messages=True)
