"""Collecting an update: each refusal with its facts, and the net change of what is done. Semantics 4 to 7 and 11."""

import pytest

from namegraph.events import ImportCommand
from namegraph.model.names import parse_name
from namegraph.model.operations import ChildKind, CreateGroup, DeleteGroup, JoinArc, LeaveArc
from namegraph.model.outcomes import Committed, EffectKind, ImportCounts
from namegraph.model.refusals import Reason
from namegraph.model.rows import NodeKind, RequestId
from namegraph.update.admission import NEIGHBOURS_NAMED_LIMIT
from resolver.census import Counts
from resolver.membership import MembershipResolver
from simulation.checks.invariants import ExternalView, check_all
from tests.cores import CoreUnderTest

A, B, C, D = (parse_name(f"{letter}@x.example") for letter in "abcd")
ANN, BOB = parse_name("ann@people.example"), parse_name("bob@x.example")
ELSEWHERE = parse_name("a@elsewhere.example")
AUTO, GROUP, PROCESS = ChildKind


@pytest.fixture
def server():
    """Groups a, b, c; b is in a, ann is in b."""
    server = CoreUnderTest("x.example")
    server.create(A, B, C)
    server.join(A, B)
    server.join(B, ANN)
    return server


def refused(server, *operations):
    """(reason, facts) of an update that must be refused and leave nothing behind."""
    before = server.core.revision, list(server.core.graph.ids), set(server.core.graph.present_arcs())
    refusal = server.ask(*operations)
    assert (server.core.revision, list(server.core.graph.ids), set(server.core.graph.present_arcs())) == before
    assert "\n" not in refusal.message
    return refusal.reason, dict(refusal.facts)


def resolve(server, group):
    plan = MembershipResolver(server.core).resolve(group)
    return set(plan.processes), set(plan.groups)


# Create


def test_creating_a_group_that_exists_is_refused(server):
    assert refused(server, CreateGroup(A)) == (Reason.GROUP_EXISTS, {"group": A})


def test_creating_a_group_of_a_process_in_use_is_refused(server):
    server.join(A, BOB)
    facts = {"group": BOB, "parents": A, "servers": server.core.server}
    assert refused(server, CreateGroup(BOB)) == (Reason.NAME_IN_USE, facts)


def test_a_name_that_no_group_holds_any_longer_may_become_a_group(server):
    server.join(A, BOB)
    server.leave(A, BOB)
    server.create(BOB)
    assert server.core.graph.kind(server.core.graph.index[BOB]) is NodeKind.GROUP


def test_creating_a_group_of_an_unknown_subnet_is_refused(server):
    facts = {"group": ELSEWHERE, "subnet": "elsewhere.example", "server": "x.example"}
    assert refused(server, CreateGroup(ELSEWHERE)) == (Reason.UNKNOWN_SUBNET, facts)


def test_owning_a_subnet_does_not_mean_to_own_what_is_below_it(server):
    reason, facts = refused(server, CreateGroup(parse_name("a@sub.x.example")))
    assert (reason, facts["subnet"]) == (Reason.UNKNOWN_SUBNET, "sub.x.example")


# Delete


def test_deleting_an_unknown_group_is_refused(server):
    assert refused(server, DeleteGroup(D)) == (Reason.GROUP_NOT_FOUND, {"group": D, "server": "x.example"})
    assert refused(server, DeleteGroup(D, force=True))[0] is Reason.GROUP_NOT_FOUND


def test_deleting_a_process_is_refused(server):
    assert refused(server, DeleteGroup(ANN, force=True))[0] is Reason.GROUP_NOT_FOUND


def test_deleting_a_group_in_use_is_refused_and_names_parents_and_children(server):
    assert refused(server, DeleteGroup(B)) == (Reason.GROUP_IN_USE, {"group": B, "parents": A, "children": ANN})
    assert refused(server, DeleteGroup(A)) == (Reason.GROUP_IN_USE, {"group": A, "parents": "", "children": B})


def test_lists_of_facts_can_be_told_apart_whatever_their_names_hold(server):
    commas = parse_name("Doe, John@people.example")
    server.join(B, commas)
    assert refused(server, DeleteGroup(B))[1]["children"].split("\n") == sorted([ANN, commas])


def test_a_refused_deletion_names_a_bounded_number_of_neighbours_and_counts_the_rest(server):
    for number in range(NEIGHBOURS_NAMED_LIMIT + 5):
        server.join(C, parse_name(f"p{number:02}@people.example"))
    refusal = server.ask(DeleteGroup(C))
    assert refusal.facts["children"].count("@") == NEIGHBOURS_NAMED_LIMIT
    assert "and 5 more" in refusal.message


def test_deleting_with_force_leaves_first_and_releases_what_only_it_held(server):
    server.delete(B, force=True)
    assert not list(server.core.graph.present_arcs())
    assert server.counts() == Counts(groups=2, processes=0, arcs=0, virtual_nodes=0)
    check_all(server.core, ExternalView(frozenset({A, C}), {}))


def test_a_group_without_arcs_is_deleted_without_force_and_may_be_created_again(server):
    server.delete(C)
    assert refused(server, DeleteGroup(C))[0] is Reason.GROUP_NOT_FOUND
    server.create(C)
    assert resolve(server, C) == (set(), set())


def test_deleting_with_force_a_group_of_a_loop_breaks_the_loop(server):
    server.join(B, C)
    server.join(C, A)
    outcome = server.delete(C, force=True)
    assert [(effect.kind, effect.groups) for effect in outcome.effects] == [(EffectKind.BROKEN, (A, B, C))]
    check_all(server.core, ExternalView(frozenset({A, B}), {(A, B): NodeKind.GROUP, (B, ANN): NodeKind.PROCESS}))


# Join


def test_joining_to_an_unknown_group_is_refused(server):
    assert refused(server, JoinArc(D, A)) == (Reason.GROUP_NOT_FOUND, {"group": D, "server": "x.example"})


def test_a_refusal_about_a_group_of_an_unknown_subnet_says_that_nobody_owns_it(server):
    refusal = server.ask(JoinArc(ELSEWHERE, A))
    assert refusal.reason is Reason.GROUP_NOT_FOUND
    assert "knows no server that owns the subnet elsewhere.example" in refusal.message


def test_joining_to_a_process_is_refused(server):
    assert refused(server, JoinArc(ANN, A))[0] is Reason.GROUP_NOT_FOUND


def test_joining_an_unknown_group_as_a_group_is_refused_and_names_it(server):
    assert refused(server, JoinArc(A, D, GROUP)) == (Reason.GROUP_NOT_FOUND, {"group": D, "server": "x.example"})


def test_joining_a_process_as_a_group_is_refused(server):
    assert refused(server, JoinArc(A, ANN, GROUP))[0] is Reason.GROUP_NOT_FOUND


def test_joining_a_group_as_a_process_is_refused(server):
    assert refused(server, JoinArc(A, C, PROCESS)) == (Reason.WRONG_KIND, {"group": A, "member": C})


def test_joining_what_is_a_group_without_saying_so_joins_the_group(server):
    server.join(A, C, AUTO)
    assert resolve(server, A) == ({ANN}, {B, C})


def test_joining_what_is_no_group_without_saying_so_joins_a_process(server):
    server.join(A, D, AUTO)
    assert resolve(server, A) == ({ANN, D}, {B})


def test_joining_an_arc_that_exists_is_refused(server):
    facts = {"group": A, "member": B}
    assert refused(server, JoinArc(A, B)) == (Reason.ALREADY_MEMBER, facts)
    assert refused(server, JoinArc(A, B, GROUP)) == (Reason.ALREADY_MEMBER, facts)
    assert refused(server, JoinArc(B, ANN, PROCESS))[0] is Reason.ALREADY_MEMBER


def test_a_self_arc_is_refused_whatever_else_is_wrong(server):
    for name in (A, D, ANN):
        assert refused(server, JoinArc(name, name)) == (Reason.SELF_ARC, {"group": name, "member": name})


# Leave


def test_leaving_an_arc_that_does_not_exist_is_refused(server):
    for member in (C, D, BOB):
        assert refused(server, LeaveArc(A, member)) == (Reason.NOT_A_MEMBER, {"group": A, "member": member})
    assert refused(server, LeaveArc(A, ANN))[0] is Reason.NOT_A_MEMBER, "a member of a member is no immediate one"


def test_leaving_an_unknown_group_is_refused(server):
    assert refused(server, LeaveArc(D, A))[0] is Reason.GROUP_NOT_FOUND


def test_leaving_as_the_wrong_kind_is_refused_and_as_the_right_kind_done(server):
    assert refused(server, LeaveArc(A, B, PROCESS))[0] is Reason.NOT_A_MEMBER
    assert refused(server, LeaveArc(B, ANN, GROUP))[0] is Reason.NOT_A_MEMBER
    server.do(LeaveArc(A, B, GROUP), LeaveArc(B, ANN, PROCESS))
    assert server.counts().arcs == 0


def test_a_process_is_gone_when_its_last_group_is_left_and_not_before(server):
    server.join(A, ANN)
    server.leave(B, ANN)
    assert server.counts().processes == 1
    server.leave(A, ANN)
    assert server.counts().processes == 0


# Several operations


def test_an_update_without_operations_is_refused(server):
    assert refused(server) == (Reason.INVALID_REQUEST, {})


def test_a_batch_is_refused_whole_and_names_the_operation_by_number(server):
    reason, facts = refused(server, CreateGroup(D), JoinArc(D, parse_name("new@people.example")), JoinArc(A, B))
    assert (reason, facts) == (Reason.ALREADY_MEMBER, {"group": A, "member": B, "operation": "3"})
    message = server.ask(CreateGroup(D), JoinArc(A, B)).message
    assert message.startswith("operation 2 of 2: ")
    assert message.endswith("; nothing was done")


def test_each_operation_sees_those_before_it(server):
    server.do(
        CreateGroup(D), JoinArc(D, A, GROUP), LeaveArc(A, B), DeleteGroup(B, force=True), CreateGroup(B), JoinArc(B, D)
    )
    assert resolve(server, B) == (set(), {A, D})


def test_an_operation_that_needs_a_later_one_is_refused(server):
    assert refused(server, JoinArc(A, D, GROUP), CreateGroup(D))[0] is Reason.GROUP_NOT_FOUND
    assert refused(server, JoinArc(A, D, AUTO), CreateGroup(D))[0] is Reason.NAME_IN_USE


def test_joining_and_leaving_in_one_update_leaves_no_trace_in_the_graph(server):
    before = set(server.core.graph.present_arcs())
    outcome = server.do(JoinArc(A, C), LeaveArc(A, C), JoinArc(C, BOB), LeaveArc(C, BOB), LeaveArc(A, B), JoinArc(A, B))
    assert outcome.effects == ()
    assert set(server.core.graph.present_arcs()) == before
    assert server.counts().processes == 1


def test_a_loop_closed_and_opened_in_one_update_never_was(server):
    outcome = server.do(JoinArc(B, A), LeaveArc(A, B))
    assert outcome.effects == ()
    assert resolve(server, B) == ({ANN}, {A})


def test_deleting_without_force_sees_the_arcs_of_the_same_update(server):
    assert refused(server, JoinArc(C, BOB), DeleteGroup(C))[1] == {
        "group": C,
        "parents": "",
        "children": BOB,
        "operation": "2",
    }
    server.do(LeaveArc(A, B), LeaveArc(B, ANN), DeleteGroup(B))
    assert refused(server, DeleteGroup(B))[0] is Reason.GROUP_NOT_FOUND


def test_a_batch_may_close_several_loops_at_once(server):
    e, f = parse_name("e@x.example"), parse_name("f@x.example")
    outcome = server.do(
        *map(CreateGroup, (D, e, f)), JoinArc(B, A), JoinArc(C, D), JoinArc(D, C), JoinArc(e, f), JoinArc(f, e)
    )
    assert [(effect.kind, effect.groups) for effect in outcome.effects] == [
        (EffectKind.FORMED, (A, B)),
        (EffectKind.FORMED, (C, D)),
        (EffectKind.FORMED, (e, f)),
    ]


# A name that changes what it stands for, and an arc that changes its cost, within one update (each was a bug)


def test_a_group_that_becomes_a_process_of_the_same_parent_changes_the_answers_kept(server):
    resolver = MembershipResolver(server.core)
    assert resolver.resolve(A).groups == (B,)
    server.do(DeleteGroup(B, force=True), JoinArc(A, B))
    assert (resolver.resolve(A).groups, resolver.resolve(A).processes) == ((), (B,))


def test_a_process_that_becomes_a_group_of_the_same_parent_changes_the_answers_kept(server):
    resolver = MembershipResolver(server.core)
    server.join(A, BOB)
    assert resolver.resolve(A).processes == (ANN, BOB)
    server.do(LeaveArc(A, BOB), CreateGroup(BOB), JoinArc(A, BOB))
    assert (resolver.resolve(A).groups, resolver.resolve(A).processes) == ((B, BOB), (ANN,))


def test_an_arc_left_and_joined_at_another_cost_has_the_new_cost(server):
    server.join(B, C)
    server.join(A, C)
    ancestors, graph = server.core.ancestors, server.core.graph
    arc = graph.index[A], graph.index[C]
    outcome = server.do(LeaveArc(A, C), JoinArc(A, C, cost=7))
    assert graph.arc(*arc).cost == 7
    assert graph.arc(*arc).version == 3
    assert outcome.effects == ()
    assert ancestors.is_controlled(graph.index[C])


# Import


def test_an_import_creates_missing_groups_and_skips_and_counts_what_exists(server):
    outcome = server.bring([(A, B, 1), (A, C, 1), (D, ANN, 2), (A, C, 1)], groups=[parse_name("e@x.example")])
    assert outcome.counts == ImportCounts(arcs=2, groups_created=2, already_there=2)
    assert server.counts().groups == 5


def test_repeating_an_import_completes_it(server):
    rows = [(A, C, 1), (C, ANN, 2), (C, D, 1)]
    server.bring(rows[:1])
    assert server.bring(rows).counts == ImportCounts(arcs=2, groups_created=1, already_there=1)
    assert server.bring(rows).counts == ImportCounts(arcs=0, groups_created=0, already_there=3)


@pytest.mark.parametrize(
    ("rows", "groups", "reason", "facts"),
    [
        ([(ELSEWHERE, ANN, 2)], [], Reason.UNKNOWN_SUBNET, {"group": ELSEWHERE}),
        ([(A, ELSEWHERE, 1)], [], Reason.UNKNOWN_SUBNET, {"group": ELSEWHERE}),
        ([], [ELSEWHERE], Reason.UNKNOWN_SUBNET, {"group": ELSEWHERE}),
        ([(D, C, 2)], [], Reason.WRONG_KIND, {"member": C}),
        ([(D, BOB, 1), (A, BOB, 2)], [], Reason.WRONG_KIND, {"member": BOB}),
        ([(A, BOB, 2), (BOB, ANN, 2)], [], Reason.WRONG_KIND, {"member": BOB}),
        ([(A, BOB, 2)], [BOB], Reason.WRONG_KIND, {"member": BOB}),
        ([(D, D, 1)], [], Reason.SELF_ARC, {"group": D, "member": D}),
        ([(D, A, 3)], [], Reason.INVALID_REQUEST, {}),
        ([(D, A, 0)], [], Reason.INVALID_REQUEST, {}),
    ],
)
def test_an_import_that_cannot_be_done_is_refused_whole(server, rows, groups, reason, facts):
    before = server.core.revision, list(server.core.graph.ids)
    refusal = server.bring([(D, parse_name("new@people.example"), 2), *rows], groups=groups)
    assert refusal.reason is reason
    assert facts.items() <= dict(refusal.facts).items()
    assert (server.core.revision, list(server.core.graph.ids)) == before


def test_an_import_of_a_process_in_use_as_a_group_is_refused():
    server = CoreUnderTest("x.example")
    server.create(A)
    server.join(A, BOB)
    for rows, groups in ([(BOB, ANN, 2)], []), ([(A, BOB, 1)], []), ([], [BOB]):
        refusal = server.bring(rows, groups=groups)
        facts = {"group": BOB, "parents": A, "servers": server.core.server}
        assert (refusal.reason, dict(refusal.facts)) == (Reason.NAME_IN_USE, facts)


@pytest.mark.parametrize(
    "columns",
    [
        {"parents": [0, 0]},
        {"kinds": b""},
        {"children": [7]},
        {"parents": [7]},
        {"groups": [7]},
    ],
)
def test_an_import_with_columns_that_do_not_fit_is_refused(server, columns):
    whole = {"names": [A, C], "parents": [0], "children": [1], "kinds": b"\1", "groups": []}
    command = ImportCommand(1, RequestId("r"), **(whole | columns))
    (reply,) = server.core.step(command, 0.0).replies
    assert reply.outcome.reason is Reason.INVALID_REQUEST


def test_an_import_of_nothing_is_done(server):
    assert server.bring([]).counts == ImportCounts(0, 0, 0)


def test_an_import_may_close_loops_over_what_is_there(server):
    assert isinstance(server.bring([(B, C, 1), (C, A, 1)]), Committed)
    assert resolve(server, A) == ({ANN}, {A, B, C})


def test_a_process_that_is_taken_for_a_group_is_named_as_one():
    core = CoreUnderTest("x")
    core.create("a@x")
    core.join("a@x", "ann@x")
    for operation in (JoinArc(parse_name("ann@x"), parse_name("bob@x")), DeleteGroup(parse_name("ann@x"))):
        refusal = core.ask(operation)
        assert (refusal.reason, refusal.facts["kind"]) == (Reason.GROUP_NOT_FOUND, "process")
    assert "kind" not in core.ask(DeleteGroup(parse_name("nobody@x"))).facts
    assert core.ask(DeleteGroup(parse_name("nobody@else"))).facts["subnet"] == "else"
