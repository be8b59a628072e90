"""The root of a resolution: every state against every event, and what its answer holds."""

from dataclasses import replace

import pytest

from namegraph.graph.name_graph import ArcState
from namegraph.model.names import NodeId, ServerId
from namegraph.model.rows import NodeKind
from namegraph.model.slices import at_once
from namegraph.model.target_sets import Target, only
from namegraph.wire.message_parts import UpdateId
from resolver.parts import InDoubt, PartRequest, ServerPart, Unchanged
from resolver.plans import OnwardNodes, PlanStep
from resolver.resolution import (
    CHANGES,
    CONTRADICTS,
    IN_DOUBT,
    OTHER_VIEW,
    Ask,
    DistributedResolution,
    ResolvedIds,
    WalkAgain,
)
from resolver.steps import DeliveryStep
from resolver.target_masks import Masks

TOP, P, Q, R = (NodeId(f"{letter}@{letter}.example") for letter in "opqr")
HOME, AT_P, AT_Q, AT_R = (ServerId(f"{letter}.example") for letter in "opqr")
ANN, FAR = NodeId("ann@p.example"), NodeId("zoe@far.example")
UPDATE = UpdateId(AT_P, 7)


def onward(server, *groups, processes=()):
    return OnwardNodes(server, groups, processes)


def ask(*servers, known=None):
    return Ask(tuple(PartRequest(server, only(TOP), (known or {}).get(server)) for server in servers))


LEADS_TO_P = ServerPart("h1", (FAR,), (), (onward(AT_P, P),))
LEADS_TO_Q = ServerPart("h3", (), (), (onward(AT_Q, Q),))
WHOLE_P = ServerPart("p1", (ANN, FAR), (P,))
ALONE = ServerPart("h2", (FAR,), (TOP,))


def started(**options):
    resolution = DistributedResolution(only(TOP), root=HOME, homes={TOP: HOME}, **options)
    return resolution, resolution.begin()


def second_walk(home=LEADS_TO_P, at_p=WHOLE_P):
    """Return a resolution whose first walk came to the home and to p, and whose second walk has begun."""
    resolution, _ = started()
    resolution.answer(HOME, home)
    assert resolution.answer(AT_P, at_p) == WalkAgain(was_in_doubt=False)
    resolution.begin()
    return resolution


def agreed_walk():
    resolution = second_walk()
    resolution.answer(HOME, Unchanged())
    resolution.answer(AT_P, Unchanged())
    return resolution.agreed()


# Before the first walk


def test_nothing_is_known_before_the_first_walk():
    resolution = DistributedResolution(only(TOP), root=HOME, homes={TOP: HOME})
    assert resolution.answer(HOME, ALONE) == Ask()
    assert resolution.failed(HOME, "why") == Ask()
    assert resolution.agreed() is None
    assert resolution.walks == resolution.requests == 0
    assert not resolution.why_failed


def test_a_deadline_that_passed_before_the_first_walk_leaves_nothing_to_tell():
    resolved = DistributedResolution(only(TOP), root=HOME, homes={TOP: HOME}).expire()
    assert (resolved.processes, resolved.groups, resolved.in_transition) == ((), (), True)


def test_the_first_walk_asks_the_home_alone_for_everything():
    resolution, first = started()
    assert first == ask(HOME)
    assert (resolution.walks, resolution.requests) == (1, 0)


def test_what_is_told_is_united_in_slices_where_that_is_wanted():
    resolution, _ = started(unites_in_slices=True)
    step = resolution.answer(HOME, ALONE)
    assert resolution.agreed() is None
    resolved = at_once(step.slices)
    assert (resolved.processes, resolved.groups) == ((FAR,), (TOP,))
    assert resolution.agreed().resolved is resolved
    assert resolution.expire() is resolved


def test_what_is_known_when_the_deadline_passes_is_united_in_slices_too():
    resolution, _ = started(unites_in_slices=True)
    resolution.answer(HOME, LEADS_TO_P)
    resolved = at_once(resolution.expire().slices)
    assert (resolved.unreachable, resolved.in_transition) == ((P,), True)


# While a walk is under way


def test_a_walk_that_is_under_way_cannot_begin_again():
    resolution, _ = started()
    with pytest.raises(AssertionError, match="under way"):
        resolution.begin()


def test_a_walk_that_stays_at_home_is_an_instant_and_needs_no_second():
    resolution, _ = started()
    resolved = resolution.answer(HOME, ALONE)
    assert (resolved.processes, resolved.groups) == ((FAR,), (TOP,))
    assert not resolved.in_transition


def test_servers_are_asked_as_they_become_known_each_once():
    resolution, _ = started()
    assert resolution.answer(HOME, ServerPart("h1", (), (), (onward(AT_P, P), onward(AT_Q, Q)))) == ask(AT_P, AT_Q)
    assert resolution.answer(AT_P, ServerPart("p1", (), (P,), (onward(AT_Q, Q), onward(AT_R, R), onward(HOME)))) == ask(
        AT_R
    )
    assert resolution.answer(AT_R, ServerPart("r1", (), (R,))) == Ask()
    assert resolution.answer(AT_Q, ServerPart("q1", (), (Q,))) == WalkAgain(was_in_doubt=False)
    assert resolution.requests == 3


def test_an_answer_that_nobody_asked_for_changes_nothing():
    resolution, _ = started()
    assert resolution.answer(AT_Q, ServerPart("q1", (ANN,), (Q,))) == Ask()
    assert resolution.failed(AT_Q, "why") == Ask()
    assert not resolution.why_failed
    resolution.answer(HOME, LEADS_TO_P)
    assert resolution.answer(HOME, ALONE) == Ask(), "a second answer of one server"
    assert resolution.answer(AT_P, WHOLE_P) == WalkAgain(was_in_doubt=False)


def test_a_doubt_ends_the_walk_once_all_that_were_asked_have_answered():
    resolution, _ = started()
    resolution.answer(HOME, ServerPart("h1", (), (), (onward(AT_P, P), onward(AT_Q, Q))))
    assert resolution.answer(AT_P, InDoubt(UPDATE)) == Ask()
    leads_on = ServerPart("q1", (), (Q,), (onward(AT_R, R),))
    assert resolution.answer(AT_Q, leads_on) == WalkAgain(True, (UPDATE,)), "r is not asked"


def test_a_doubt_at_home_ends_the_walk():
    resolution, _ = started()
    assert resolution.answer(HOME, InDoubt()) == WalkAgain(True)


def test_a_server_that_cannot_be_asked_leaves_its_groups_unreachable_and_its_processes_known():
    resolution, _ = started()
    resolution.answer(HOME, ServerPart("h1", (), (), (onward(AT_P, P, processes=(ANN,)),)))
    resolved = resolution.failed(AT_P, "no answer")
    assert resolved.unreachable == (P,)
    assert resolved.processes == (ANN,)
    assert not resolved.in_transition
    assert resolution.why_failed == {AT_P: "no answer"}
    assert resolution.agreed() is None, "an incomplete answer is not remembered"


def test_a_server_that_cannot_be_asked_is_not_asked_by_the_second_walk():
    resolution, _ = started()
    resolution.answer(HOME, ServerPart("h1", (), (), (onward(AT_P, P), onward(AT_Q, Q))))
    resolution.answer(AT_P, ServerPart("p1", (), (P,), (onward(AT_Q, Q),)))
    assert resolution.failed(AT_Q, "no answer") == WalkAgain(False)
    assert resolution.begin() == ask(HOME, AT_P, known={HOME: "h1", AT_P: "p1"})
    resolution.answer(HOME, Unchanged())
    resolved = resolution.answer(AT_P, Unchanged())
    assert (resolved.groups, resolved.unreachable) == ((P,), (Q,))


def test_a_home_that_cannot_be_asked_leaves_the_originator_unreachable():
    resolution, _ = started()
    assert resolution.failed(HOME, "it is shutting down").unreachable == (TOP,)


def test_unchanged_from_a_server_that_was_told_no_version_is_a_fault_of_that_server():
    resolution, _ = started()
    resolution.answer(HOME, LEADS_TO_P)
    assert resolution.answer(AT_P, Unchanged()).unreachable == (P,)
    assert AT_P in resolution.why_failed


def test_a_deadline_during_a_walk_gives_what_is_known_and_says_so():
    resolution, _ = started()
    resolution.answer(HOME, ServerPart("h1", (), (), (onward(AT_P, P), onward(AT_Q, Q))))
    resolution.answer(AT_Q, InDoubt(UPDATE))
    resolved = resolution.expire()
    assert resolved.in_transition
    assert resolved.unreachable == (P,), "it is silent; q answered"
    assert resolution.agreed() is None


# Between two walks


def test_the_second_walk_asks_all_servers_at_once_on_condition():
    resolution, _ = started()
    resolution.answer(HOME, LEADS_TO_P)
    resolution.answer(AT_P, WHOLE_P)
    assert resolution.answer(AT_P, WHOLE_P) == Ask(), "late"
    assert resolution.failed(AT_P, "late") == Ask()
    assert resolution.begin() == ask(HOME, AT_P, known={HOME: "h1", AT_P: "p1"})
    assert (resolution.walks, resolution.requests) == (2, 2)


def test_a_deadline_between_two_walks_gives_what_the_first_told():
    resolution, _ = started()
    resolution.answer(HOME, LEADS_TO_P)
    resolution.answer(AT_P, WHOLE_P)
    resolved = resolution.expire()
    assert (resolved.processes, resolved.groups, resolved.in_transition) == ((ANN, FAR), (P,), True)
    with pytest.raises(AssertionError, match="over"):
        resolution.begin()


def test_after_a_doubt_what_others_told_is_asked_on_condition():
    resolution, _ = started()
    resolution.answer(HOME, LEADS_TO_P)
    resolution.answer(AT_P, InDoubt(UPDATE))
    assert resolution.begin() == ask(HOME, AT_P, known={HOME: "h1"})
    resolution.answer(HOME, Unchanged())
    assert resolution.answer(AT_P, WHOLE_P) == WalkAgain(False), "p was heard once only"


# The second walk


def test_two_walks_that_agree_give_the_answer():
    resolution = second_walk()
    assert resolution.answer(HOME, Unchanged()) == Ask()
    resolved = resolution.answer(AT_P, Unchanged())
    assert (resolved.processes, resolved.groups) == ((ANN, FAR), (P,))
    assert resolved.duplicates == 1, "the foreign process came from both"
    assert not resolved.in_transition
    assert not resolved.unreachable


def test_the_version_that_was_known_told_whole_is_no_change():
    resolution = second_walk()
    resolution.answer(HOME, LEADS_TO_P)
    assert isinstance(resolution.answer(AT_P, WHOLE_P), ResolvedIds)


def test_a_second_walk_that_differs_is_followed_by_a_third():
    resolution = second_walk()
    resolution.answer(HOME, Unchanged())
    changed = ServerPart("p2", (ANN,), (P,), (onward(AT_Q, Q),))
    assert resolution.answer(AT_P, changed) == ask(AT_Q)
    assert resolution.answer(AT_Q, ServerPart("q1", (), (Q,))) == WalkAgain(False)
    assert resolution.begin() == ask(HOME, AT_P, AT_Q, known={HOME: "h1", AT_P: "p2", AT_Q: "q1"})


def test_a_server_that_is_no_longer_reached_is_not_asked_again_and_not_part_of_the_answer():
    resolution = second_walk()
    resolution.answer(AT_P, Unchanged())
    assert resolution.answer(HOME, ALONE) == WalkAgain(False)
    assert resolution.begin() == ask(HOME, known={HOME: "h2"})
    assert resolution.answer(HOME, Unchanged()).processes == (FAR,)


def test_a_doubt_of_a_server_that_is_no_longer_reached_does_not_count():
    resolution = second_walk()
    resolution.answer(AT_P, InDoubt())
    assert resolution.answer(HOME, LEADS_TO_Q) == ask(AT_Q)
    assert resolution.answer(AT_Q, ServerPart("q1", (), (Q,))) == WalkAgain(was_in_doubt=False)


def test_an_arc_that_only_its_parents_home_holds_is_a_doubt_however_often_it_is_told():
    resolution, _ = started()
    resolution.answer(HOME, LEADS_TO_P)
    assert resolution.answer(AT_P, ServerPart("p1", (ANN,), ())) == WalkAgain(was_in_doubt=True)
    for _ in range(3):
        resolution.begin()
        resolution.answer(HOME, Unchanged())
        assert resolution.answer(AT_P, Unchanged()) == WalkAgain(was_in_doubt=True)


def test_a_process_that_only_its_parents_home_knows_is_a_doubt():
    home = ServerPart("h1", (), (), (onward(AT_P, P, processes=(ANN,)),))
    resolution, _ = started()
    resolution.answer(HOME, home)
    assert resolution.answer(AT_P, ServerPart("p1", (), (P,))) == WalkAgain(was_in_doubt=True)


# Servers that keep walks from agreeing


def leave_out(resolution):
    at_once(resolution.leave_out_changing())
    return dict(resolution.why_failed)


def flipping(number):
    return ServerPart(f"p{number}", (ANN, FAR), (P,))


def test_a_server_that_changes_its_part_in_each_walk_is_left_out_and_named():
    resolution = second_walk()
    for number in range(2, 5):
        resolution.answer(HOME, Unchanged())
        assert resolution.answer(AT_P, flipping(number)) == WalkAgain(False)
        resolution.begin()
    resolution.answer(HOME, Unchanged())
    assert resolution.answer(AT_P, flipping(5)) == WalkAgain(False)
    assert leave_out(resolution) == {AT_P: CHANGES}
    assert resolution.begin() == ask(HOME, known={HOME: "h1"})
    resolved = resolution.answer(HOME, Unchanged())
    assert (resolved.processes, resolved.unreachable, resolved.in_transition) == ((FAR,), (P,), False)
    assert resolution.agreed() is None


def test_a_server_that_changed_once_is_not_blamed_beside_one_that_always_does():
    home = ServerPart("h1", (), (), (onward(AT_P, P), onward(AT_Q, Q)))
    resolution, _ = started()
    resolution.answer(HOME, home)
    resolution.answer(AT_Q, ServerPart("q1", (), (Q,)))
    resolution.answer(AT_P, flipping(1))
    for number in range(2, 5):
        resolution.begin()
        resolution.answer(HOME, Unchanged())
        resolution.answer(AT_Q, ServerPart("q2", (), (Q,)) if number == 4 else Unchanged())
        assert resolution.answer(AT_P, flipping(number)) == WalkAgain(False)
    assert leave_out(resolution) == {AT_P: CHANGES}


def test_a_server_that_is_in_doubt_is_left_out():
    resolution = second_walk()
    resolution.answer(HOME, Unchanged())
    assert resolution.answer(AT_P, InDoubt(UPDATE)) == WalkAgain(True, (UPDATE,))
    assert leave_out(resolution) == {AT_P: IN_DOUBT}


def test_a_server_in_another_view_than_the_root_is_left_out():
    resolution, _ = started()
    resolution.answer(HOME, LEADS_TO_P)
    assert resolution.answer(AT_P, replace(WHOLE_P, view="7@p")) == WalkAgain(True)
    assert leave_out(resolution) == {AT_P: OTHER_VIEW}


def test_a_server_that_leads_to_what_its_home_denies_is_left_out():
    home = ServerPart("h1", (), (), (onward(AT_P, P), onward(AT_Q, Q)))
    resolution, _ = started()
    resolution.answer(HOME, home)
    ghost = NodeId("ghost@q.example")
    resolution.answer(AT_P, ServerPart("p1", (), (P,), (onward(AT_Q, ghost),)))
    assert resolution.answer(AT_Q, ServerPart("q1", (), (Q,))) == WalkAgain(True)
    assert leave_out(resolution) == {AT_P: CONTRADICTS}


def test_a_server_that_denies_what_the_root_leads_to_is_left_out():
    resolution, _ = started()
    resolution.answer(HOME, LEADS_TO_P)
    assert resolution.answer(AT_P, ServerPart("p1", (ANN,), ())) == WalkAgain(True)
    assert leave_out(resolution) == {AT_P: CONTRADICTS}


def test_the_root_is_never_left_out():
    resolution = second_walk()
    resolution.answer(HOME, replace(LEADS_TO_P, version="h2"))
    assert resolution.answer(AT_P, Unchanged()) == WalkAgain(False)
    assert leave_out(resolution) == {}


# When it is over


@pytest.mark.parametrize("event", ["answer", "failed", "expire"])
def test_nothing_changes_an_answer_that_was_given(event):
    resolution, _ = started()
    resolved = resolution.answer(HOME, ALONE)
    again = {
        "answer": lambda: resolution.answer(HOME, LEADS_TO_P),
        "failed": lambda: resolution.failed(AT_P, "why"),
        "expire": resolution.expire,
    }[event]()
    assert again is resolved
    assert resolution.agreed().resolved is resolved
    with pytest.raises(AssertionError, match="over"):
        resolution.begin()


@pytest.mark.parametrize("event", ["answer", "failed", "expire"])
def test_what_comes_after_the_deadline_changes_nothing(event):
    resolution, _ = started()
    resolved = resolution.expire()
    again = {
        "answer": lambda: resolution.answer(HOME, ALONE),
        "failed": lambda: resolution.failed(HOME, "why"),
        "expire": resolution.expire,
    }[event]()
    assert again is resolved
    assert resolved.in_transition


# Remembered walks


def test_a_remembered_walk_counts_as_the_first():
    agreed = agreed_walk()
    resolution, first = started(remembered=agreed)
    assert first == ask(HOME, AT_P, known={HOME: "h1", AT_P: "p1"})
    resolution.answer(AT_P, Unchanged())
    assert resolution.answer(HOME, Unchanged()) is agreed.resolved
    assert (resolution.walks, resolution.requests) == (1, 1)
    assert resolution.agreed() is agreed


def test_a_remembered_walk_that_no_longer_holds_is_replaced():
    resolution, _ = started(remembered=agreed_walk())
    resolution.answer(HOME, Unchanged())
    assert resolution.answer(AT_P, ServerPart("p2", (), (P,))) == WalkAgain(False)
    resolution.begin()
    resolution.answer(HOME, Unchanged())
    assert resolution.answer(AT_P, Unchanged()).processes == (FAR,)
    assert resolution.agreed().parts[AT_P].version == "p2"


def test_a_remembered_walk_with_a_server_that_now_fails_is_incomplete():
    resolution, _ = started(remembered=agreed_walk())
    resolution.answer(HOME, Unchanged())
    resolved = resolution.failed(AT_P, "no answer")
    assert (resolved.processes, resolved.unreachable) == ((FAR,), (P,))
    assert resolution.agreed() is None


# Walks for people


def test_a_resolution_with_steps_asks_for_them_and_draws_the_walk():
    to_p = PlanStep(TOP, P, NodeKind.GROUP, ArcState.NORMAL)
    near, far = (PlanStep(tail, FAR, NodeKind.PROCESS, ArcState.NORMAL) for tail in (P, TOP))
    resolution, first = started(with_steps=True, remembered=agreed_walk())
    assert first == Ask((PartRequest(HOME, only(TOP), None, with_steps=True),)), "what is remembered has no steps"
    resolution.answer(HOME, ServerPart("h1", (FAR,), (), (onward(AT_P, P),), (DeliveryStep(far, 2),)))
    resolution.answer(AT_P, ServerPart("p1", (FAR,), (P,), (), (DeliveryStep(to_p, 0), DeliveryStep(near, 1))))
    resolution.begin()
    resolution.answer(HOME, Unchanged())
    assert resolution.answer(AT_P, Unchanged()).walk == (to_p, near)
    assert resolution.agreed() is None


def test_a_long_walk_is_drawn_in_slices():
    names = tuple(NodeId(f"p{number:05}@far.example") for number in range(20_000))
    steps = tuple(DeliveryStep(PlanStep(TOP, name, NodeKind.PROCESS, ArcState.NORMAL), 0) for name in names)
    counts = {}
    for with_steps in (False, True):
        resolution, _ = started(with_steps=with_steps, unites_in_slices=True)
        uniting = resolution.answer(HOME, ServerPart("h1", names, (), (), steps))
        counts[with_steps] = sum(1 for _ in uniting.slices)
    assert counts[True] >= counts[False] + 3 * len(names) / 3_000
    assert resolution.expire().walk == tuple(delivery.step for delivery in steps)


@pytest.mark.parametrize("column", ["groups", "processes"])
def test_whether_very_many_are_told_of_is_found_in_slices(column):
    names = tuple(NodeId(f"n{number:05}@p.example") for number in range(20_000))
    for told in (names, names[:-1]):
        resolution, _ = started(unites_in_slices=True)
        resolution.answer(
            HOME, ServerPart("h1", (), (), (OnwardNodes(AT_P, **{"groups": (), "processes": (), column: names}),))
        )
        judging = resolution.answer(AT_P, ServerPart("p1", **{"groups": (), "processes": (), column: told}))
        slices, found = 0, None
        while found is None:
            try:
                next(judging.slices)
                slices += 1
            except StopIteration as end:
                found = end.value
        assert found == WalkAgain(was_in_doubt=told is not names)
        assert slices >= 2 * len(names) / 3_000


# Sets of groups

SET = (Target(P), Target(Q, (R,)))
HOMES = {P: AT_P, Q: AT_Q, R: AT_R}
REACHED_BY_P, REACHED_BY_Q, EXCEPTED_FROM_Q = Masks(0b01, 0), Masks(0b10, 0), Masks(0, 0b10)


def started_set(**options):
    resolution = DistributedResolution(SET, root=HOME, homes=HOMES, **options)
    return resolution, resolution.begin()


def part_of_set(version, processes=(), groups=(), onward=()):
    names, masks = zip(*processes, strict=True) if processes else ((), ())
    group_names, group_masks = zip(*groups, strict=True) if groups else ((), ())
    return ServerPart(version, names, group_names, onward, process_masks=masks, group_masks=group_masks)


def test_a_set_asks_the_homes_of_all_its_groups_first_and_the_root_only_where_it_is_one():
    resolution, first = started_set()
    assert first == Ask(tuple(PartRequest(server, SET) for server in (AT_P, AT_Q, AT_R)))
    assert resolution.requests == 3


def test_what_servers_know_of_a_foreign_process_is_united_and_the_excepted_are_left_out():
    resolution, _ = started_set()
    both = NodeId("yan@far.example")
    resolution.answer(AT_P, part_of_set("p1", [(ANN, REACHED_BY_P)]))
    resolution.answer(AT_Q, part_of_set("q1", [(FAR, REACHED_BY_Q), (both, REACHED_BY_Q)]))
    resolution.answer(AT_R, part_of_set("r1", [(FAR, EXCEPTED_FROM_Q), (both, Masks(0b01, 0b10))]))
    resolution.begin()
    for server in (AT_P, AT_Q):
        resolution.answer(server, Unchanged())
    resolved = resolution.answer(AT_R, Unchanged())
    assert (resolved.processes, resolved.process_firsts) == ((ANN, both), (0, 0))
    assert resolved.duplicates == 2
    again = DistributedResolution(SET, root=HOME, homes=HOMES, remembered=resolution.agreed())
    again.begin()
    for server in (AT_P, AT_Q):
        again.answer(server, Unchanged())
    assert again.answer(AT_R, Unchanged()) is resolved


def test_a_home_out_of_reach_leaves_its_groups_unreachable_exceptions_too():
    resolution, _ = started_set()
    resolution.answer(AT_P, part_of_set("p1", [(ANN, REACHED_BY_P)]))
    resolution.failed(AT_R, "no answer")
    assert resolution.answer(AT_Q, part_of_set("q1")) == WalkAgain(False)
    resolution.begin()
    resolution.answer(AT_P, Unchanged())
    resolved = resolution.answer(AT_Q, Unchanged())
    assert (resolved.processes, resolved.unreachable) == ((ANN,), (R,))
    assert resolution.agreed() is None


def test_of_a_process_whose_home_is_away_the_homes_of_its_groups_decide_together():
    resolution, _ = started_set()
    away, other = ServerId("s.example"), NodeId("bob@s.example")
    onward = [
        OnwardNodes(away, (), (NodeId("cat@s.example"), other), (REACHED_BY_Q, masks))
        for masks in (REACHED_BY_Q, EXCEPTED_FROM_Q)
    ]
    resolution.answer(AT_P, part_of_set("p1"))
    resolution.answer(AT_Q, part_of_set("q1", onward=(onward[0],)))
    resolution.answer(AT_R, part_of_set("r1", onward=(onward[1],)))
    assert resolution.failed(away, "no answer") == WalkAgain(False)
    resolution.begin()
    for server in (AT_P, AT_Q):
        resolution.answer(server, Unchanged())
    assert resolution.answer(AT_R, Unchanged()).processes == ("cat@s.example",)


def test_a_process_below_exceptions_alone_need_not_be_told_by_its_home():
    resolution, _ = started_set()
    resolution.answer(AT_Q, part_of_set("q1"))
    resolution.answer(AT_R, part_of_set("r1", onward=(OnwardNodes(AT_P, (), (ANN,), (EXCEPTED_FROM_Q,)),)))
    assert resolution.answer(AT_P, part_of_set("p1")) == WalkAgain(was_in_doubt=False)


def test_a_process_below_a_target_that_its_home_does_not_tell_is_a_doubt():
    resolution, _ = started_set()
    resolution.answer(AT_R, part_of_set("r1"))
    resolution.answer(AT_Q, part_of_set("q1", onward=(OnwardNodes(AT_P, (), (ANN,), (REACHED_BY_Q,)),)))
    assert resolution.answer(AT_P, part_of_set("p1")) == WalkAgain(was_in_doubt=True)


def test_who_does_not_know_all_that_was_done_apart_leaves_the_whole_set_unreachable():
    resolution, _ = started_set()
    resolution.answer(AT_P, ServerPart("p1", (ANN,), (), is_healed=False, process_masks=(REACHED_BY_P,)))
    resolution.answer(AT_Q, part_of_set("q1"))
    resolution.answer(AT_R, part_of_set("r1"))
    resolved = resolution.expire()
    assert (resolved.processes, resolved.unreachable) == ((ANN,), (P, Q, R))


def test_a_walk_for_which_no_home_is_left_to_be_asked_is_over_at_once():
    targets = (Target(P, (P,)),)
    resolution = DistributedResolution(targets, root=HOME, homes={P: AT_P})
    resolution.begin()
    resolution.answer(AT_P, part_of_set("p1", onward=(onward(AT_Q), onward(AT_R))))
    resolution.answer(AT_Q, part_of_set("q1"))
    assert resolution.answer(AT_R, part_of_set("r1")) == WalkAgain(False)
    resolution.begin()
    resolution.answer(AT_Q, part_of_set("q2"))
    resolution.answer(AT_R, Unchanged())
    assert resolution.failed(AT_P, "no answer") == WalkAgain(False)
    resolved = resolution.begin()
    assert isinstance(resolved, ResolvedIds)
    assert (resolved.processes, resolved.unreachable) == ((), (P,))
