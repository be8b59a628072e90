"""What a server answers a root: everything of an originator at once, on condition, or that it is in doubt."""

import pytest

from namegraph.events import ReadCommand
from namegraph.model.names import NodeId, ServerId
from namegraph.model.operations import CreateGroup, DeleteGroup, JoinArc, LeaveArc
from namegraph.model.refusals import Reason, RefusedError
from resolver.parts import InDoubt, Part, PartRequest, Parts, Unchanged
from resolver.plans import Onward, PlanCache
from tests.several_servers import Servers

A, D, B, C = (NodeId(name) for name in ("a@a.example", "d@a.example", "b@b.example", "c@c.example"))
AT_A, AT_B, AT_C = (ServerId(f"{letter}.example") for letter in "abc")
ANN, FAR = NodeId("ann@b.example"), NodeId("zoe@far.example")


@pytest.fixture
def servers():
    """a to b to c and to d, which is at home with a: a walk from a to d zigzags. ann is at home with b."""
    servers = Servers("a.example", "b.example", "c.example", groups=(A, B, C, D))
    servers.do(JoinArc(A, B), JoinArc(B, C), JoinArc(B, FAR), JoinArc(C, D), JoinArc(D, ANN), JoinArc(D, FAR))
    return servers


def ask(servers, server, originator=A, known=None, **options):
    return servers.parts[server].answer(PartRequest(server, originator, known, **options))


def test_a_server_answers_once_for_all_that_it_owns_by_whatever_way_it_is_reached(servers):
    at_home, at_b, at_c = (ask(servers, server) for server in (AT_A, AT_B, AT_C))
    assert (at_home.groups, at_home.processes) == ((D,), (FAR,)), "d comes back over b and c"
    assert at_home.onward == (Onward(AT_B, (B,), (ANN,)),)
    assert (at_b.groups, at_b.processes, at_b.onward) == ((B,), (ANN, FAR), (Onward(AT_C, (C,), ()),))
    assert (at_c.groups, at_c.processes, at_c.onward) == ((C,), (), (Onward(AT_A, (D,), ()),))


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
    request = PartRequest(AT_B, A, first.answer(PartRequest(AT_B, A)).version)
    assert first.answer(request) == Unchanged()
    assert isinstance(second.answer(request), Part)


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
    """What a server answers after each step of an update."""
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
        assert isinstance(ask(servers, AT_B), Part)

    servers.submit(JoinArc(above, below))
    servers.cluster.run(look)
    assert True in was_ready


def test_an_ordered_read_changes_nothing_and_casts_no_doubt(servers):
    was_ready = []

    def look():
        was_ready.extend(entry.is_ready for entry in servers.core(B).entries.by_update.values())
        assert isinstance(ask(servers, AT_B), Part)

    servers.cluster.submit(AT_A, ReadCommand(ticket=999, group=A))
    servers.cluster.run(look)
    assert True in was_ready


def test_steps_are_told_where_they_are_asked_for(servers):
    assert ask(servers, AT_B).steps == ()
    steps = [delivery.step for delivery in ask(servers, AT_B, with_steps=True).steps]
    assert [(step.tail, step.head) for step in steps] == [(D, ANN), (A, B), (B, FAR)]
