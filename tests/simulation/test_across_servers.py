"""One update at a time over several servers: answers to callers, and refusals."""

import random

import pytest

from namegraph.events import UpdateCommand
from namegraph.model.names import NodeId, ServerId, Subnet, parse_name, subnet_of
from namegraph.model.operations import ChildKind, CreateGroup, DeleteGroup, JoinArc, LeaveArc
from namegraph.model.outcomes import Committed, EffectKind
from namegraph.model.refusals import Reason
from namegraph.model.rows import NodeKind, RequestId
from namegraph.wire.message_parts import ArcId
from resolver.membership import MembershipResolver
from simulation.checks.cluster_invariants import check_all
from simulation.cluster.cluster import Cluster
from simulation.cluster.networks import RandomNetwork
from simulation.oracle.serial_model import TrueGraph


class Caller:
    """Asks the home of the first node, and waits."""

    def __init__(self, *groups):
        self.cluster = Cluster([Subnet(f"{name}.example") for name in "abc"], RandomNetwork(random.Random(0)))
        self.arcs = {}
        for group in groups:
            self.ask(CreateGroup(parse_name(group)))

    def ask(self, *operations, request_id=None):
        ticket = len(self.cluster.answers)
        first = operations[0]
        asked = first.parent if isinstance(first, JoinArc | LeaveArc) else first.group
        request = RequestId(request_id or f"r{ticket}")
        self.cluster.submit(ServerId(subnet_of(asked)), UpdateCommand(ticket, request, operations))
        self.cluster.run()
        answer = self.cluster.answers[ticket]
        if isinstance(answer, Committed) and request_id is None:
            for operation in operations:
                if isinstance(operation, JoinArc):
                    self.arcs[operation.parent, operation.child] = operation.cost
                elif isinstance(operation, LeaveArc):
                    del self.arcs[operation.parent, operation.child]
        check_all(self.cluster.servers, TrueGraph(self.arcs))
        return answer

    def join(self, parent, child, kind=ChildKind.AUTO, cost=0):
        return self.ask(JoinArc(NodeId(parent), NodeId(child), kind, cost))

    def leave(self, parent, child):
        return self.ask(LeaveArc(NodeId(parent), NodeId(child)))


A, B, C, D = "a@a.example", "b@b.example", "c@c.example", "d@a.example"


@pytest.fixture
def three():
    return Caller(A, B, C, D)


def kinds(answer):
    return [(effect.kind, effect.groups, effect.servers) for effect in answer.effects]


def test_a_normal_arc_between_servers_forms_nothing(three):
    assert kinds(three.join(A, B)) == []


def test_a_loop_through_three_servers_is_reported_with_all_of_them(three):
    three.join(A, B)
    three.join(B, C)
    assert kinds(three.join(C, A)) == [(EffectKind.FORMED, (A, B, C), ("a.example", "b.example", "c.example"))]


def test_a_loop_grows_changes_inside_and_breaks_into_what_is_retained(three):
    three.join(A, B)
    three.join(B, A)
    three.join(B, C)
    grown = three.join(C, A)
    assert kinds(grown) == [(EffectKind.GROWN, (A, B, C), ("a.example", "b.example", "c.example"))]
    changed = three.join(A, C)
    assert [kind for kind, _, _ in kinds(changed)] == [EffectKind.CHANGED]
    three.leave(A, C)
    broken = three.leave(C, A)
    assert [(kind, groups) for kind, groups, _ in kinds(broken)] == [
        (EffectKind.BROKEN, (A, B, C)),
        (EffectKind.FORMED, (A, B)),
    ]


def test_the_home_of_the_child_says_who_must_not_cross_an_arc_and_the_parents_home_describes_it(three):
    three.join(D, A)
    three.join(D, B)
    three.join(A, C)
    three.join(B, C)
    at_parent, at_child = (three.cluster.servers[ServerId(server)] for server in ("b.example", "c.example"))
    arc = ArcId(NodeId(B), NodeId(C))
    assert at_parent.arcs_judged_elsewhere(at_parent.graph.index[B]) == {"c.example": [arc]}
    told = {arc: at_child.rd_record(arc)}
    assert told == {arc: (D,)}
    (record,) = MembershipResolver(at_parent).describe(NodeId(B), pathname_limit=1, told=told).rd_records
    assert (record.source, record.sink, record.ancestors) == (D, C, (D,))


def test_a_description_shows_no_record_that_was_not_told(three):
    three.join(D, A)
    three.join(D, B)
    three.join(A, C)
    three.join(B, C)
    resolver = MembershipResolver(three.cluster.servers[ServerId("b.example")])
    for told in ({}, {ArcId(NodeId(B), NodeId(C)): (NodeId("unknown@a.example"),)}):
        assert resolver.describe(NodeId(B), pathname_limit=1, told=told).rd_records == ()


def test_a_native_process_is_known_at_its_home(three):
    three.join(A, "ann@b.example")
    graph = three.cluster.servers[ServerId("b.example")].graph
    assert graph.kind(graph.index["ann@b.example"]) is NodeKind.PROCESS
    three.leave(A, "ann@b.example")
    assert graph.kind(graph.index["ann@b.example"]) is NodeKind.ABSENT


def test_a_foreign_process_concerns_its_parents_home_alone(three):
    three.cluster.sent.clear()
    three.join(A, "zoe@elsewhere.example")
    assert not three.cluster.sent


def test_a_batch_over_three_homes_is_done_whole_or_not_at_all(three):
    arcs = [(A, B), (B, C), (C, D)]
    assert isinstance(three.ask(*(JoinArc(NodeId(p), NodeId(c)) for p, c in arcs)), Committed)
    refused = three.ask(JoinArc(NodeId(A), NodeId(C)), JoinArc(NodeId(B), NodeId(C)))
    assert refused.reason is Reason.ALREADY_MEMBER
    assert (NodeId(A), NodeId(C)) not in three.arcs


@pytest.mark.parametrize(
    ("operation", "reason"),
    [
        (JoinArc(NodeId(A), NodeId("no@b.example"), ChildKind.GROUP), Reason.GROUP_NOT_FOUND),
        (JoinArc(NodeId("no@a.example"), NodeId(B)), Reason.GROUP_NOT_FOUND),
        (JoinArc(NodeId(A), NodeId(B), ChildKind.PROCESS), Reason.WRONG_KIND),
        (LeaveArc(NodeId(A), NodeId(B)), Reason.NOT_A_MEMBER),
    ],
)
def test_what_cannot_be_is_refused_by_the_server_that_knows(three, operation, reason):
    answer = three.ask(operation)
    assert answer.reason is reason
    assert not three.cluster.servers[ServerId("a.example")].entries.by_update


def test_a_group_that_has_arcs_to_other_servers_is_deleted_with_force_alone(three):
    three.join(A, B)
    three.join(C, A)
    three.join(A, "ann@b.example")
    refused = three.ask(DeleteGroup(NodeId(A)))
    assert (refused.reason, refused.facts["parents"]) == (Reason.GROUP_IN_USE, C)
    three.arcs.clear()
    assert isinstance(three.ask(DeleteGroup(NodeId(A), force=True)), Committed)
    for core in three.cluster.servers.values():
        assert core.graph.group(NodeId(A)) is None
    assert isinstance(three.ask(CreateGroup(NodeId(A))), Committed)


def test_one_update_may_join_and_leave_one_arc_over_servers(three):
    arc = (NodeId(A), NodeId(B))
    assert isinstance(three.ask(JoinArc(*arc), LeaveArc(*arc), JoinArc(*arc, cost=7)), Committed)
    assert isinstance(three.ask(LeaveArc(*arc), JoinArc(*arc, cost=3)), Committed)
    arcs = three.cluster.servers[ServerId("b.example")].graph.present_arcs()
    assert [arc.cost for arc in arcs] == [3]


def test_an_update_may_create_a_group_elsewhere_and_join_it(three):
    made = NodeId("new@c.example")
    assert isinstance(three.ask(JoinArc(NodeId(A), NodeId(B)), CreateGroup(made), JoinArc(NodeId(A), made)), Committed)
    refused = three.ask(JoinArc(NodeId(B), made), CreateGroup(made))
    assert refused.reason is Reason.GROUP_EXISTS
    assert refused.facts["operation"] == "2"


def test_an_update_may_create_a_group_and_join_one_of_another_server_to_it(three):
    made = NodeId("new@c.example")
    assert isinstance(three.ask(CreateGroup(made), JoinArc(made, NodeId(A))), Committed)


def test_a_process_that_becomes_a_group_above_others_leaves_no_trace_of_what_it_was_in(three):
    three.join(A, "n@b.example")
    three.ask(
        LeaveArc(NodeId(A), NodeId("n@b.example")),
        CreateGroup(NodeId("n@b.example")),
        JoinArc(NodeId("n@b.example"), NodeId(C)),
    )
    assert three.ask(DeleteGroup(NodeId(A))).revision


def test_a_group_in_use_stays_so_before_a_forced_deletion_of_its_parent(three):
    three.join(B, A)
    made = NodeId("new@b.example")
    refused = three.ask(CreateGroup(made), DeleteGroup(NodeId(A)), DeleteGroup(NodeId(B), force=True))
    assert refused.reason is Reason.GROUP_IN_USE


def test_a_repeated_request_gets_the_first_answer(three):
    operation = JoinArc(NodeId(A), NodeId(B))
    first = three.ask(operation)
    assert three.ask(operation, request_id="r4") == first
