"""Arcs that waited for the other end and cannot be joined: the servers that report them, and their join or leave."""

from unittest.mock import patch

import pytest

from namegraph.events import ReadCommand
from namegraph.graph.name_graph import ArcState
from namegraph.model.names import NodeId
from namegraph.model.operations import ChildKind, CreateGroup, DeleteGroup, JoinArc, LeaveArc
from namegraph.model.outcomes import Committed, Member
from namegraph.model.refusals import Reason
from namegraph.model.rows import NodeKind
from namegraph.model.slices import at_once
from namegraph.wire.view_messages import DigestReply
from resolver.membership import MembershipResolver
from simulation.cluster import connections
from tests.simulation.scene import (
    FIRST_READ,
    FROM_NOBODY,
    NOBODY,
    TO_GROUP_AS_PROCESS,
    TO_NOBODY,
    A,
    B,
    C,
    G,
    H,
    Scene,
    cut_off_before_the_commit,
    rejected_where,
)

NODES = [*G.values(), *H.values(), *NOBODY.values()]


def told_of(scene, server):
    """Return all answers of a server that suspended arcs may affect."""
    resolver = MembershipResolver(scene.core(server))
    groups = [G[server], H[server]]
    return (
        {group: (plan.processes, plan.groups, plan.apart) for group in groups if (plan := resolver.resolve(group))},
        {node: (resolver.memberships(node), resolver.uncertainty().above(node)) for node in NODES},
        {(group, node) for group in groups for node in NODES if resolver.check(group, node)},
        {(group, node) for group in groups for node in NODES if resolver.explain(group, node)},
        set(resolver.export(subnet=None)),
        resolver.uncertainty().of_own_arcs(),
    )


def read(scene, group):
    """Return the answer of an ordered read."""
    ticket = FIRST_READ + len(scene.cluster.answers)
    scene.cluster.submit(scene.core(A).home_of(group), ReadCommand(ticket, group))
    scene.cluster.run()
    answer = scene.cluster.answers[ticket]
    return answer.members, answer.unreachable


@pytest.mark.parametrize("has_restarted", [False, True])
@pytest.mark.parametrize(("arc", "kind", "at"), [TO_GROUP_AS_PROCESS, TO_NOBODY, FROM_NOBODY])
def test_a_rejected_arc_is_in_no_answer_and_makes_none_incomplete(arc, kind, at, has_restarted):
    scene = rejected_where(arc, kind, at=at)
    if has_restarted:
        scene.cluster.restart_all()
        scene.cluster.run()
    told = [told_of(scene, server) for server in (A, B, C)]
    reads = [read(scene, group) for group in (H[A], G[A], G[C])]
    ((found, why),) = scene.core(at).suspended_arcs()
    assert tuple(found) == arc
    assert why.startswith("rejected: ")
    graph = scene.core(at).graph
    assert graph.arc_state(graph.suspended[graph.index[arc[0]], graph.index[arc[1]]]) is ArcState.SUSPENDED
    scene.done(at, LeaveArc(*arc))
    assert [told_of(scene, server) for server in (A, B, C)] == told
    assert [read(scene, group) for group in (H[A], G[A], G[C])] == reads
    scene.check((H[A], G[A]), (G[C], H[B]))


@pytest.mark.parametrize(("arc", "kind", "at"), [TO_GROUP_AS_PROCESS, TO_NOBODY, FROM_NOBODY])
def test_what_may_still_be_joined_is_told_as_before(arc, kind, at):
    scene = rejected_where(arc, kind, at=at)
    kept = MembershipResolver(scene.core(at))
    before = kept.resolve(G[at])
    scene.part([A], [B, C])
    other = next(server for server in (A, C) if server != at)
    away = kept.resolve(G[at]).apart
    if at == C:
        assert kept.uncertainty().above(G[C]) == [A]
    elif kind is ChildKind.PROCESS:
        assert [one.processes for one in away] == [(arc[1],)]
        assert kept.check(H[A], arc[1])
        assert (Member(arc[1], NodeKind.PROCESS) in read(scene, H[A])[0], read(scene, H[A])[1]) == (True, ())
    else:
        assert [one.groups for one in away] == [(arc[1],)]
        assert read(scene, H[A])[1] == (arc[1],)
    assert all(why == f"the server {other} is out of reach" for _, why in scene.core(at).suspended_arcs())
    scene.meet([A], [B, C])
    assert kept.resolve(G[at]).apart == before.apart == ()


@pytest.mark.parametrize("limit", [0, 1, 2, 3])
def test_of_many_suspended_arcs_those_that_are_rejected_are_listed_first(limit):
    scene = Scene()
    for parent in (H[A], G[A]):
        scene.done(A, JoinArc(parent, NodeId(f"ann@{B}"), ChildKind.PROCESS))
    scene.part([A], [B, C])
    scene.done(A, JoinArc(*TO_NOBODY[0], TO_NOBODY[1], offline=True))
    scene.meet([A], [C])
    listed, total = at_once(scene.core(A).list_suspended(limit=limit))
    everything = scene.core(A).suspended_arcs()
    rejected = [each for each in everything if each[1].startswith("rejected")]
    assert (len(rejected), total) == (1, len(everything)) and total >= 3
    assert len(listed) == limit and listed == sorted(listed)
    assert set(rejected) <= set(listed) or not limit
    assert set(listed) <= set(everything)


@pytest.mark.parametrize(
    ("arc", "kind", "at", "reason"),
    [
        (*TO_GROUP_AS_PROCESS, Reason.WRONG_KIND),
        (*TO_NOBODY, Reason.GROUP_NOT_FOUND),
        (*FROM_NOBODY, Reason.GROUP_NOT_FOUND),
    ],
)
def test_joining_a_rejected_arc_tries_it_again_and_says_why_it_cannot_be(arc, kind, at, reason):
    scene = rejected_where(arc, kind, at=at)
    assert scene.refused(A, JoinArc(*arc, kind)) is reason
    assert scene.refused(A, CreateGroup(NodeId(f"new@{A}")), JoinArc(*arc, kind, if_needed=True)) is reason
    assert scene.suspended(at) == {arc}
    scene.done(at, LeaveArc(*arc))
    assert scene.refused(at, LeaveArc(*arc)) in (Reason.NOT_A_MEMBER, Reason.GROUP_NOT_FOUND, Reason.UNAVAILABLE)


def test_a_member_of_another_kind_joins_as_what_it_is():
    scene = rejected_where(TO_GROUP_AS_PROCESS[0], ChildKind.PROCESS, at=A)
    scene.done(A, JoinArc(*scene.arc))
    assert MembershipResolver(scene.core(B)).memberships(H[B]) == [G[A], G[C], H[A]]
    assert scene.refused(A, JoinArc(*scene.arc)) is Reason.ALREADY_MEMBER
    scene.check((H[A], G[A]), scene.arc, (G[C], H[B]))
    scene.part([A], [B, C])
    assert [why for _, why in scene.core(A).suspended_arcs()] == [f"the server {C} is out of reach"]
    scene.meet([A], [B, C])
    scene.check((H[A], G[A]), scene.arc, (G[C], H[B]))


def test_a_rejected_arc_is_left_and_joined_in_one_update():
    scene = rejected_where(TO_GROUP_AS_PROCESS[0], ChildKind.PROCESS, at=A)
    scene.done(A, LeaveArc(*scene.arc), JoinArc(*scene.arc, ChildKind.GROUP))
    scene.check((H[A], G[A]), scene.arc, (G[C], H[B]))


@pytest.fixture
def rejected():
    """Return a scene with a group joined to a group that never existed."""
    scene = Scene()
    scene.part([A], [B, C])
    scene.arc = NOBODY[A], G[C]
    scene.done(C, JoinArc(*scene.arc, offline=True))
    scene.meet([A], [B, C])
    ((arc, why),) = scene.core(C).suspended_arcs()
    assert (tuple(arc), why) == (scene.arc, f"rejected: the group nobody@{A} is not there")
    return scene


def test_a_group_whose_parent_is_not_there_stays_visible_as_rejected_until_it_leaves(rejected):
    assert rejected.refused(A, LeaveArc(*rejected.arc)) is Reason.GROUP_NOT_FOUND
    rejected.cluster.restart_all()
    rejected.cluster.run()
    assert rejected.suspended(C) == {rejected.arc}
    rejected.done(C, LeaveArc(*rejected.arc))
    rejected.check()


@pytest.mark.parametrize(("arc", "kind", "at"), [TO_NOBODY, FROM_NOBODY])
@pytest.mark.parametrize("has_restarted", [False, True])
def test_a_rejected_arc_is_joined_by_itself_once_the_group_is_created(arc, kind, at, has_restarted):
    scene = rejected_where(arc, kind, at=at)
    if has_restarted:
        scene.cluster.restart_all()
        scene.cluster.run()
    (missing,) = {*arc} & {*NOBODY.values()}
    other = next(server for server in (A, C) if server != at)
    scene.done(other, CreateGroup(NodeId(f"any@{other}")))
    assert scene.suspended(at) == {arc}
    scene.done(other, CreateGroup(missing))
    scene.check((H[A], G[A]), arc, (G[C], H[B]))
    assert scene.refused(A, JoinArc(*arc)) is Reason.ALREADY_MEMBER
    scene.part([A], [B, C])
    scene.meet([A], [B, C])
    scene.check((H[A], G[A]), arc, (G[C], H[B]))


def test_a_rejected_arc_is_joined_in_the_ordinary_way_where_nobody_remembers_that_it_waits():
    arc, kind, at = TO_NOBODY
    scene = rejected_where(arc, kind, at=at)
    with patch.object(connections, "NOTICED_AFTER", (1e9,)), patch.object(connections, "LOST_AFTER", (1e9,)):
        scene.cluster.crash(C, down_for=0.0)
        scene.cluster.run()
        scene.done(C, CreateGroup(NOBODY[C]))
    assert scene.suspended(at) == {arc}
    assert MembershipResolver(scene.core(A)).resolve(H[A]).groups == (G[A],)
    scene.done(A, JoinArc(*arc, kind))
    scene.check((H[A], G[A]), arc, (G[C], H[B]))


def test_a_group_that_is_created_while_servers_heal_gets_the_arcs_that_waited_for_it():
    scene = Scene()
    scene.part([A], [B, C])
    scene.done(A, JoinArc(G[A], NOBODY[C], ChildKind.GROUP, offline=True))
    scene.meet_until(
        lambda: any(isinstance(one.message, DigestReply) and one.message.arcs for one in scene.cluster.sent),
        [A],
        [B, C],
    )
    scene.done(C, CreateGroup(NOBODY[C]))
    scene.cluster.run()
    scene.check((G[A], NOBODY[C]))


def test_a_rejected_group_is_tried_again_when_servers_meet_again(rejected):
    rejected.part([A], [B, C])
    rejected.done(A, CreateGroup(rejected.arc[0]))
    rejected.meet([A], [B, C])
    rejected.check(rejected.arc)


def test_what_left_while_it_was_rejected_and_was_joined_since_is_there_though_its_home_has_missed_that(rejected):
    rejected.done(C, LeaveArc(*rejected.arc))
    rejected.done(A, CreateGroup(rejected.arc[0]))
    assert isinstance(cut_off_before_the_commit(rejected, A, C, JoinArc(*rejected.arc)), Committed)
    rejected.meet([A], [B, C])
    rejected.meet([B], [C])
    rejected.check(rejected.arc)


def test_a_rejected_group_can_be_deleted(rejected):
    assert rejected.refused(C, DeleteGroup(G[C])) is Reason.GROUP_IN_USE
    rejected.done(C, DeleteGroup(G[C], force=True))
    rejected.check()
