"""Joins, leaves and creations that are done if needed. The unneeded ones are named, on one server and over several."""

import pytest

from namegraph.model.operations import CreateGroup, DeleteGroup, JoinArc, LeaveArc
from namegraph.model.outcomes import Committed
from namegraph.model.refusals import Reason, Refusal
from namegraph.state.request_log import decode_outcome, encode_outcome
from tests.cores import CoreUnderTest
from tests.several_servers import Servers

A, B, C, ANN, BOB, EVE = "a@x", "b@x", "c@y", "ann@x", "bob@y", "eve@z"


def join(parent, child):
    return JoinArc(parent, child, if_needed=True)


def leave(parent, child):
    return LeaveArc(parent, child, if_needed=True)


def test_one_server_names_what_was_not_needed_and_does_the_rest():
    core = CoreUnderTest("x")
    core.ask(CreateGroup(A), JoinArc(A, ANN))
    answer = core.ask(CreateGroup(A, True), join(A, ANN), join(A, BOB), leave(A, EVE), CreateGroup(B, True))
    assert isinstance(answer, Committed)
    assert answer.unchanged == (1, 2, 4)
    assert core.questions().check(A, BOB)
    assert core.questions().check(A, ANN)


def test_an_operation_that_is_refused_without_it_is_refused_beside_one_with_it():
    core = CoreUnderTest("x")
    core.ask(CreateGroup(A), JoinArc(A, ANN))
    answer = core.ask(join(A, BOB), JoinArc(A, ANN))
    assert isinstance(answer, Refusal)
    assert (answer.reason, answer.facts["operation"]) == (Reason.ALREADY_MEMBER, "2")
    assert not core.questions().check(A, BOB)


def test_each_operation_sees_those_before_it():
    core = CoreUnderTest("x")
    core.ask(CreateGroup(A), JoinArc(A, ANN))
    answer = core.ask(leave(A, ANN), join(A, ANN), join(A, ANN), join(A, BOB), leave(A, BOB), leave(A, BOB))
    assert answer.unchanged == (3, 6)
    assert core.questions().check(A, ANN)


def test_a_group_that_does_not_exist_is_missing_whatever_is_needed():
    core = CoreUnderTest("x")
    core.ask(CreateGroup(A))
    for operation in (join(B, ANN), leave(B, ANN), DeleteGroup(B)):
        assert core.ask(operation).reason is Reason.GROUP_NOT_FOUND


def test_the_same_request_gets_the_first_answer_again_also_after_a_restart():
    core = CoreUnderTest("x")
    core.ask(CreateGroup(A), JoinArc(A, ANN))
    first = core.ask(join(A, ANN), join(A, BOB), request_id="mine")
    assert core.ask(join(A, ANN), join(A, BOB), request_id="mine") == first
    core.restart()
    again = core.ask(join(A, ANN), join(A, BOB), request_id="mine")
    assert (again.revision, again.unchanged) == (first.revision, (1,))


def ask(servers, *operations):
    ticket = servers.submit(*operations)
    servers.cluster.run()
    return servers.cluster.answers[ticket]


@pytest.fixture
def servers():
    found = Servers("x", "y", "z", groups=(A, B, C))
    found.do(JoinArc(A, C))
    found.do(JoinArc(C, BOB))
    return found


def test_over_several_servers_each_home_of_a_parent_names_what_was_not_needed_there(servers):
    answer = ask(servers, join(A, C), join(C, BOB), join(C, EVE), leave(C, ANN), join(B, C), leave(A, EVE))
    assert isinstance(answer, Committed)
    assert answer.unchanged == (1, 2, 4, 6)
    assert servers.core(C).graph.arc(*(servers.core(C).graph.index[name] for name in (C, EVE))) is not None


def test_an_update_that_was_not_needed_at_all_is_committed_and_changes_nothing(servers):
    before = {server: set(core.graph.present_arcs()) for server, core in servers.cluster.servers.items()}
    answer = ask(servers, join(A, C), join(C, BOB), leave(C, EVE))
    assert isinstance(answer, Committed)
    assert (answer.unchanged, answer.effects) == ((1, 2, 3), ())
    assert {server: set(core.graph.present_arcs()) for server, core in servers.cluster.servers.items()} == before


def test_places_are_remembered_as_runs():
    outcome = Committed("1@x", unchanged=(*range(1, 50_001), 50_003, 99_999, 100_000))
    assert decode_outcome(encode_outcome(outcome)) == outcome
    assert len(encode_outcome(outcome)) < 200
    assert decode_outcome('{"revision":"1@x","effects":[],"counts":null}').unchanged == ()
