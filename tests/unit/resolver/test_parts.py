"""Answers of a server to a root: all of an originator at once, on condition, or the statement that it is in doubt."""

from dataclasses import replace
from unittest.mock import patch

import pytest

from namegraph.committed_state import CommittedState
from namegraph.events import ReadCommand
from namegraph.model.names import NodeId, ServerId
from namegraph.model.operations import CreateGroup, DeleteGroup, JoinArc, LeaveArc
from namegraph.model.refusals import Reason, RefusedError
from namegraph.model.slices import at_once
from namegraph.model.target_sets import Target, only
from resolver import steps
from resolver.parts import InDoubt, PartRequest, Parts, ServerPart, Unchanged
from resolver.plans import OnwardNodes, PlanCache
from resolver.resolution import Ask, Count, DistributedResolution, WalkAgain
from tests.several_servers import Servers

A, D, B, C = (NodeId(name) for name in ("a@a.example", "d@a.example", "b@b.example", "c@c.example"))
AT_A, AT_B, AT_C = (ServerId(f"{letter}.example") for letter in "abc")
ANN, FAR = NodeId("ann@b.example"), NodeId("zoe@far.example")


def started():
    """a to b to c and to d, which is at home with a: a walk from a to d zigzags. ann is at home with b."""
    servers = Servers("a.example", "b.example", "c.example", groups=(A, B, C, D))
    servers.do(JoinArc(A, B), JoinArc(B, C), JoinArc(B, FAR), JoinArc(C, D), JoinArc(D, ANN), JoinArc(D, FAR))
    return servers


@pytest.fixture
def servers():
    return started()


def ask(servers, server, originator=A, known=None, **options):
    return servers.parts[server].answer(PartRequest(server, only(originator), known, **options))


def test_a_server_answers_once_for_all_that_it_owns_by_whatever_way_it_is_reached(servers):
    at_home, at_b, at_c = (ask(servers, server) for server in (AT_A, AT_B, AT_C))
    assert (at_home.groups, at_home.processes) == ((D,), (FAR,)), "d comes back over b and c"
    assert at_home.onward == (OnwardNodes(AT_B, (B,), (ANN,)),)
    assert (at_b.groups, at_b.processes, at_b.onward) == ((B,), (ANN, FAR), (OnwardNodes(AT_C, (C,), ()),))
    assert (at_c.groups, at_c.processes, at_c.onward) == ((C,), (), (OnwardNodes(AT_A, (D,), ()),))


def test_a_group_on_a_loop_reaches_itself_and_every_component_has_the_same_part(servers):
    servers.do(JoinArc(D, A))
    assert ask(servers, AT_A).groups == (A, D)
    assert ask(servers, AT_C, originator=B) == ask(servers, AT_C, originator=A)


def test_a_part_that_is_known_is_not_told_again(servers):
    part = ask(servers, AT_B)
    assert ask(servers, AT_B, known=part.version) == Unchanged()
    assert ask(servers, AT_B, known="of another server") == part


def test_a_change_that_is_made_and_undone_has_a_new_version(servers):
    part = ask(servers, AT_B)
    servers.do(LeaveArc(B, FAR))
    changed = ask(servers, AT_B, known=part.version)
    assert changed.processes == (ANN,)
    servers.do(JoinArc(B, FAR))
    again = ask(servers, AT_B, known=part.version)
    assert (again.groups, again.processes, again.onward) == (part.groups, part.processes, part.onward)
    assert len({part.version, changed.version, again.version}) == 3


def test_a_part_stays_known_while_the_server_takes_part_in_updates_of_what_the_originator_does_not_reach(servers):
    above, below = NodeId("e@a.example"), NodeId("f@b.example")
    servers.do(CreateGroup(above))
    servers.do(CreateGroup(below))
    part = ask(servers, AT_B)
    servers.do(JoinArc(above, below))
    servers.do(JoinArc(above, B))
    servers.do(LeaveArc(above, below))
    assert ask(servers, AT_B, known=part.version) == Unchanged()


def test_a_version_of_an_earlier_start_never_holds(servers):
    core = servers.core(B)
    first, second = (Parts(core, PlanCache(core), start=start) for start in ("first", "second"))
    request = PartRequest(AT_B, only(A), first.answer(PartRequest(AT_B, only(A))).version)
    assert first.answer(request) == Unchanged()
    assert isinstance(second.answer(request), ServerPart)


def test_the_basis_of_a_server_is_the_same_until_it_takes_part_in_an_update_of_whatever(servers):
    bases = {server: parts.basis() for server, parts in servers.parts.items()}
    assert all(bases.values())
    servers.do(LeaveArc(B, FAR))
    changed = {server for server, parts in servers.parts.items() if parts.basis() != bases[server]}
    assert AT_B in changed
    assert changed <= {AT_A, AT_B}
    servers.do(JoinArc(B, FAR))
    assert servers.parts[AT_B].basis() not in ("", bases[AT_B]), "it was another one meanwhile"


def test_no_basis_of_an_earlier_start_is_that_of_a_later_one(servers):
    core = servers.core(B)
    assert len({Parts(core, PlanCache(core), start=start).basis() for start in ("first", "second")}) == 2


def test_a_server_that_is_ready_for_an_update_has_no_basis(servers):
    found = []

    def look():
        is_ready = any(entry.is_ready for entry in servers.core(C).entries.by_update.values())
        found.append((is_ready, servers.parts[AT_C].basis()))

    servers.submit(LeaveArc(B, C))
    servers.cluster.run(look)
    assert {is_ready for is_ready, basis in found if not basis} == {True}
    assert {is_ready for is_ready, basis in found if basis} == {False}


@pytest.mark.parametrize("originator", [NodeId("nobody@a.example"), D, NodeId("g@far.example")])
def test_a_server_that_the_originator_does_not_reach_is_in_doubt(servers, originator):
    assert ask(servers, AT_C, originator=originator) == InDoubt()


@pytest.mark.parametrize("name", [NodeId("nobody@a.example"), NodeId("deleted@a.example")])
def test_a_group_that_does_not_exist_at_its_home_is_refused(servers, name):
    servers.do(CreateGroup(NodeId("deleted@a.example")))
    servers.do(DeleteGroup(NodeId("deleted@a.example")))
    with pytest.raises(RefusedError) as caught:
        ask(servers, AT_A, originator=name)
    assert caught.value.refusal.reason is Reason.GROUP_NOT_FOUND


def answers_during(servers, *operations, server, originator=A):
    """Return the answers of a server after each step of an update."""
    found = []
    servers.submit(*operations)
    servers.cluster.run(lambda: found.append(ask(servers, server, originator)))
    return found


def test_a_server_is_in_doubt_from_its_ready_to_the_commit(servers):
    before = ask(servers, AT_C)
    answers = answers_during(servers, LeaveArc(B, C), server=AT_C)
    in_doubt = [answer for answer in answers if isinstance(answer, InDoubt) and answer.update is not None]
    assert {answer.update.coordinator for answer in in_doubt} == {AT_B}
    first = answers.index(in_doubt[0])
    assert answers[:first] == [before] * first
    assert answers[first : first + len(in_doubt)] == in_doubt
    assert answers[first + len(in_doubt) :] == [InDoubt()] * (len(answers) - first - len(in_doubt)), "no longer reached"


def test_a_server_that_is_ready_for_what_the_originator_does_not_reach_is_in_no_doubt(servers):
    above, below = NodeId("e@a.example"), NodeId("f@b.example")
    servers.do(CreateGroup(above))
    servers.do(CreateGroup(below))
    was_ready = []

    def look():
        was_ready.extend(entry.is_ready for entry in servers.core(B).entries.by_update.values())
        assert isinstance(ask(servers, AT_B), ServerPart)

    servers.submit(JoinArc(above, below))
    servers.cluster.run(look)
    assert True in was_ready


def test_an_ordered_read_changes_nothing_and_casts_no_doubt(servers):
    was_ready = []

    def look():
        was_ready.extend(entry.is_ready for entry in servers.core(B).entries.by_update.values())
        assert isinstance(ask(servers, AT_B), ServerPart)

    servers.cluster.submit(AT_A, ReadCommand(ticket=999, group=A))
    servers.cluster.run(look)
    assert True in was_ready


def test_steps_are_told_where_they_are_asked_for(servers):
    assert ask(servers, AT_B).steps == ()
    steps = [delivery.step for delivery in ask(servers, AT_B, with_steps=True).steps]
    assert [(step.tail, step.head) for step in steps] == [(D, ANN), (A, B), (B, FAR)]


@pytest.fixture
def small_slices(monkeypatch):
    monkeypatch.setattr(steps, "STEPS_OF_A_SLICE", 1)


REQUEST = PartRequest(AT_B, only(A), with_steps=True)
MADE_AGAIN = patch("resolver.parts.at_once", side_effect=AssertionError("the steps are made again"))


def filled(parts, request, between):
    """Return the result of filling, and its number of slices. `between`: called with the number after each slice."""
    found = []

    def slices():
        found.append((yield from parts.fill(request)))

    count = 0
    for count, _ in enumerate(slices(), start=1):
        between(count)
    return found[0], count


@pytest.mark.usefixtures("small_slices")
def test_steps_that_were_made_in_slices_are_told_without_making_them_again(servers):
    unrelated = NodeId("e@b.example")

    def change_something_else(number):
        if number == 1:
            servers.do(CreateGroup(unrelated))

    prepared, slices = filled(servers.parts[AT_B], REQUEST, change_something_else)
    without, _ = filled(servers.parts[AT_B], replace(REQUEST, with_steps=False), lambda number: None)
    assert slices > 3
    assert without is None
    with MADE_AGAIN:
        told = servers.parts[AT_B].answer(REQUEST, prepared)
    assert told == ask(servers, AT_B, with_steps=True)
    assert len(told.steps) == 3


@pytest.mark.usefixtures("small_slices")
@pytest.mark.parametrize("change", [LeaveArc(B, FAR), JoinArc(C, FAR), JoinArc(D, A)])
def test_steps_that_an_update_overtakes_are_those_of_one_state(change):
    def overtaken(servers, changed_in):
        return filled(servers.parts[AT_B], REQUEST, lambda number: number != changed_in or servers.do(change))

    _, slices = overtaken(started(), None)
    for changed_in in range(1, slices + 1):
        servers = started()
        prepared, _ = overtaken(servers, changed_in)
        parts = servers.parts[AT_B]
        with MADE_AGAIN:
            told = parts.answer(REQUEST, prepared)
        assert told == ask(servers, AT_B, with_steps=True)
        fresh = Parts(servers.core(B), PlanCache(servers.core(B)), start="fresh").answer(REQUEST)
        assert told.steps == fresh.steps


@pytest.mark.usefixtures("small_slices")
def test_steps_that_no_longer_hold_when_they_are_told_are_made_again(servers):
    parts = servers.parts[AT_B]
    prepared, _ = filled(parts, REQUEST, lambda number: None)
    servers.do(LeaveArc(B, FAR))
    assert FAR not in {delivery.step.head for delivery in parts.answer(REQUEST, prepared).steps}


@pytest.fixture
def seen(servers):
    """The state that readers of the server of b see."""
    return CommittedState(servers.core(B))


def by_readers(seen):
    """Return the answers to roots from the state that readers see, and the number of slices without disturbance."""
    parts = Parts(seen, PlanCache(seen), start="seen")
    at_once(parts.fill(REQUEST))
    _, slices = filled(parts, REQUEST, lambda number: None)
    return parts, slices


@pytest.mark.usefixtures("small_slices")
def test_steps_are_not_begun_again_because_of_an_update_that_is_not_durable(servers, seen):
    parts, undisturbed = by_readers(seen)
    before = parts.answer(REQUEST)

    def change(number):
        if number == undisturbed - 1:
            seen.hold()
            servers.do(LeaveArc(B, FAR))

    prepared, slices = filled(parts, REQUEST, change)
    assert slices == undisturbed
    with MADE_AGAIN:
        assert parts.answer(REQUEST, prepared) == before


@pytest.mark.usefixtures("small_slices")
def test_steps_are_begun_again_when_readers_see_an_update_that_concerns_them(servers, seen):
    parts, undisturbed = by_readers(seen)
    seen.hold()
    servers.do(LeaveArc(B, FAR))
    prepared, slices = filled(parts, REQUEST, lambda number: number != undisturbed - 1 or seen.let_go(earliest=True))
    assert slices > undisturbed
    with MADE_AGAIN:
        told = parts.answer(REQUEST, prepared)
    assert told.steps == ask(servers, AT_B, with_steps=True).steps
    assert FAR not in {delivery.step.head for delivery in told.steps}
    assert seen.graph.children.former is None


@pytest.mark.usefixtures("small_slices")
def test_no_steps_are_made_of_a_part_that_is_known(servers):
    known = replace(REQUEST, known_version=ask(servers, AT_B, with_steps=True).version)
    prepared, _ = filled(servers.parts[AT_B], known, lambda number: None)
    assert prepared is None
    assert servers.parts[AT_B].answer(known, prepared) == Unchanged()


# Sets of groups


def ask_set(servers, server, *targets, known=None):
    return servers.parts[server].answer(PartRequest(server, targets, known))


def test_a_part_of_a_set_has_each_name_once_with_the_targets_that_reach_it(servers):
    part = ask_set(servers, AT_B, Target(D), Target(A, (C,)))
    assert (part.processes, part.groups) == ((ANN, FAR), (B,))
    of_ann, of_far = part.process_masks
    assert (of_ann, part.group_masks) == ((0b11, 0b10), ((0b10, 0),)), "d has ann, by whatever way, and is below c"
    assert of_far == (0b10, 0), "of who lives at several servers only what is known here is told"
    assert part.onward == (OnwardNodes(AT_C, (C,), ()),)


def test_a_native_process_that_only_exceptions_reach_is_not_told_and_a_foreign_one_is(servers):
    part = ask_set(servers, AT_B, Target(C, (A,)), Target(C, (B,)))
    assert dict(zip(part.processes, part.process_masks, strict=True)) == {ANN: (0b11, 0b11), FAR: (0, 0b11)}
    servers.do(LeaveArc(C, D))
    part = ask_set(servers, AT_B, Target(C, (A, D)))
    assert part.processes == (FAR,)


def test_a_server_that_knows_some_of_a_set_tells_their_part_and_one_that_knows_none_is_in_doubt(servers):
    unrelated = NodeId("e@a.example")
    servers.do(CreateGroup(unrelated))
    assert ask_set(servers, AT_C, Target(unrelated), Target(B)).groups == (C,)
    assert ask_set(servers, AT_C, Target(unrelated), Target(D)) == InDoubt()


def test_a_part_of_a_set_stays_known_until_something_below_a_target_or_an_exception_changes(servers):
    asked = (Target(C), Target(B, (D,)))
    part = ask_set(servers, AT_B, *asked)
    assert ask_set(servers, AT_B, *asked, known=part.version) == Unchanged()
    assert ask_set(servers, AT_B, *reversed(asked), known=part.version) != Unchanged(), "another order, other firsts"
    servers.do(LeaveArc(D, ANN))
    changed = ask_set(servers, AT_B, *asked, known=part.version)
    assert changed.processes == (FAR,)


@pytest.mark.parametrize(
    "targets", [(Target(NodeId("nobody@a.example")), Target(B)), (Target(B, (D, NodeId("x@a.example"))),)]
)
def test_a_target_or_an_exception_that_its_home_does_not_know_is_refused(servers, targets):
    with pytest.raises(RefusedError) as caught:
        ask_set(servers, AT_A, *targets)
    assert caught.value.refusal.reason is Reason.GROUP_NOT_FOUND
    assert caught.value.refusal.facts["group"] in (targets[0].name, "x@a.example")


def test_a_server_that_is_ready_for_an_update_below_an_exception_is_in_doubt_of_the_set(servers):
    found = []
    servers.submit(LeaveArc(B, C))
    servers.cluster.run(lambda: found.append(ask_set(servers, AT_C, Target(C, (A,)))))
    assert any(isinstance(answer, InDoubt) and answer.update is not None for answer in found)


def test_exceptions_are_walked_like_targets_for_the_sake_of_who_lives_at_several_servers(servers):
    above, below = NodeId("x@c.example"), NodeId("y@b.example")
    for group in (above, below):
        servers.do(CreateGroup(group))
    guest = NodeId("yan@far.example")
    servers.do(JoinArc(D, guest), JoinArc(above, below), JoinArc(below, guest))
    resolution, resolved, _ = servers.resolve_set((Target(D, (above,)),), root=AT_A)
    assert resolved.processes == (ANN, FAR), "b alone knows that yan is below x, and d does not lead there but for ann"
    assert resolution.requests == 2 * resolution.walks


def test_processes_of_a_server_are_counted_by_their_first_target_and_foreign_ones_named(servers):
    for name in ("bob@b.example", "ben@b.example"):
        servers.do(JoinArc(B, NodeId(name)))
    part = ask(servers, AT_B, counts=True)
    assert (part.processes, part.counted) == ((FAR,), (3,))
    targets = (Target(D, ()), Target(B, (D,)))
    part = servers.parts[AT_B].answer(PartRequest(AT_B, targets, counts=True))
    assert (part.processes, part.counted) == ((FAR,), (1, 2)), "ann is in d, which comes first, the others in b alone"


def test_what_an_older_server_names_though_it_was_to_count_is_counted_by_the_root(servers):
    servers.do(JoinArc(B, NodeId("bob@b.example")))
    targets = (Target(A, ()), Target(C, ()))
    found = []
    for knows_counts in (True, False):
        resolution = DistributedResolution(
            targets, root=AT_A, homes={A: AT_A, C: AT_C}, named_servers=frozenset((AT_A, AT_C))
        )
        step, pending = resolution.begin(), []
        while isinstance(step, Ask | WalkAgain):
            step = resolution.begin() if isinstance(step, WalkAgain) else step
            pending += step.requests
            request = pending.pop()
            asked = request if knows_counts else replace(request, counts=False)
            step = resolution.answer(request.server, servers.parts[request.server].answer(asked))
        found.append((step.processes, step.process_firsts, step.elsewhere, step.counts))
    assert found[0] == found[1] == ((FAR,), (0,), (FAR,), (Count(AT_B, 0, 2),))
