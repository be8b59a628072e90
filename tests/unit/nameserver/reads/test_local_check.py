"""One server's answer about a pair while arcs are suspended.

The answer is either a "yes" that no other server could have made a "no", or it is uncertain and names the servers that
know better.
"""

import pytest

from namegraph.model.names import NodeId
from namegraph.model.operations import ChildKind, CreateGroup, DeleteGroup, JoinArc, LeaveArc
from namegraph.model.outcomes import Committed
from namegraph.model.refusals import Reason, RefusedError
from nameserver.reads.local_check import LocalChecks, PairFinding
from resolver.membership import MembershipResolver
from tests.simulation.scene import (
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
    stop_before_the_commit,
)

ANN = NodeId(f"ann@{C}")
BOB = NodeId("bob@elsewhere.example")


class Server:
    """Answers of one server of a scene."""

    def __init__(self, scene, server, *unheard):
        self.resolver = MembershipResolver(scene.core(server), unheard=lambda: unheard)
        self._checks = LocalChecks(core=scene.core(server), resolver=self.resolver)

    def finding(self, group, member):
        (found,) = self._checks.findings([group], [member], settles=True)
        return PairFinding(found), self._checks.away([group], [member], [found])


@pytest.fixture
def apart():
    """h@b -> g@a -> g@c and ann, of c; c is away."""
    scene = Scene()
    scene.done(B, JoinArc(H[B], G[A]))
    scene.done(A, JoinArc(G[A], G[C]))
    scene.done(A, JoinArc(G[A], ANN))
    scene.part([A, B], [C])
    return scene


@pytest.mark.parametrize("group", [G[A], H[B]])
def test_that_a_group_is_below_an_arc_is_uncertain_while_its_server_is_away(apart, group):
    server = Server(apart, A)
    assert server.finding(group, G[C]) == (PairFinding.APART, [C])
    assert not server.resolver.check(group, G[C])
    assert server.resolver.explain(group, G[C]) == []
    # A resolution says the same of it.
    (away,) = server.resolver.resolve(G[A]).apart
    assert (away.groups, away.processes) == ((G[C],), (ANN,))


@pytest.mark.parametrize("change", [LeaveArc(G[A], G[C]), DeleteGroup(G[C], force=True)])
def test_it_may_have_left_or_be_deleted_by_then(apart, change):
    apart.done(C, change)
    assert Server(apart, A).finding(G[A], G[C]) == (PairFinding.APART, [C])
    apart.meet([A, B], [C])
    assert Server(apart, A).finding(G[A], G[C])[0] is not PairFinding.BELOW
    assert Server(apart, A).resolver.check(G[A], ANN)


@pytest.mark.parametrize(("group", "chain"), [(G[A], [G[A], ANN]), (H[B], [H[B], G[A], ANN])])
def test_that_a_process_is_below_an_arc_is_sure_whoever_is_away(apart, group, chain):
    server = Server(apart, A)
    assert server.finding(group, ANN)[0] is PairFinding.BELOW
    assert server.resolver.check(group, ANN)
    assert server.resolver.explain(group, ANN) == chain
    # The home of the process cannot know what was done at the other end.
    assert Server(apart, C).finding(G[A], ANN) == (PairFinding.APART, [A])


def test_unless_it_rests_on_groups_of_a_server_that_may_have_changed_them(apart):
    server = Server(apart, A, B)
    assert server.finding(G[A], ANN)[0] is PairFinding.BELOW
    assert server.finding(H[B], ANN) == (PairFinding.APART, [B, C])


def test_unless_an_update_may_have_removed_the_arc_of_which_the_outcome_was_missed(apart):
    ticket = stop_before_the_commit(apart, B, A, JoinArc(G[B], H[A]), LeaveArc(G[A], ANN))
    assert Server(apart, A).finding(G[A], ANN)[0] is PairFinding.BELOW
    assert Server(apart, A, B).finding(G[A], ANN) == (PairFinding.APART, [B, C])
    apart.part([A], [B, C])
    assert isinstance(apart.cluster.answers[ticket], Committed)
    assert Server(apart, A).finding(G[A], ANN) == (PairFinding.APART, [B, C])


def test_nobody_is_below_what_was_never_there(apart):
    assert Server(apart, A).finding(G[A], H[B])[0] is PairFinding.NOT_BELOW


def test_what_an_update_may_have_changed_whose_outcome_was_missed_is_uncertain():
    scene = Scene()
    scene.done(A, JoinArc(G[A], H[A]))
    new = NodeId(f"new@{A}")
    operations = (LeaveArc(G[A], H[A]), JoinArc(G[A], BOB), CreateGroup(new))
    cut_off_before_the_commit(scene, C, A, JoinArc(G[C], H[C]), *operations)
    server = Server(scene, A)
    for group, member in ((G[A], H[A]), (G[A], BOB), (H[A], H[A]), (new, H[A])):
        assert server.finding(group, member) == (PairFinding.APART, [C])
    # Nobody has changed that, wherever.
    assert server.finding(H[A], NodeId(f"ben@{A}"))[0] is PairFinding.NOT_BELOW
    scene.meet([A], [B, C])
    assert Server(scene, A).finding(G[A], H[A])[0] is PairFinding.NOT_BELOW
    assert Server(scene, A).finding(G[A], BOB)[0] is PairFinding.BELOW


def test_a_member_is_not_denied_since_something_else_above_it_is_uncertain():
    """All that is below the group is known for sure, which settles a "no"; but this is none."""
    scene = Scene()
    scene.done(A, JoinArc(G[A], BOB), JoinArc(H[A], BOB))
    cut_off_before_the_commit(scene, C, A, JoinArc(G[C], H[A]))
    assert Server(scene, A).finding(G[A], BOB) == (PairFinding.APART, [C])
    assert Server(scene, A).finding(G[A], NodeId("eve@elsewhere.example"))[0] is PairFinding.SETTLED


PAT, EVE, NEW = NodeId(f"pat@{C}"), NodeId("eve@elsewhere.example"), NodeId(f"new@{A}")

MISSED = [
    # What A is ready for, a pair that it changes, and what A says of that while it hears C.
    (JoinArc(G[A], G[C]), G[A], PAT, PairFinding.SETTLED),
    (JoinArc(G[A], G[C]), G[A], EVE, PairFinding.SETTLED),
    (JoinArc(H[A], G[C]), G[A], EVE, PairFinding.SETTLED),
    (LeaveArc(G[A], H[A]), G[A], H[A], PairFinding.BELOW),
    (LeaveArc(G[A], H[A]), G[A], BOB, PairFinding.BELOW),
    (DeleteGroup(H[A], force=True), G[A], BOB, PairFinding.BELOW),
    (CreateGroup(NEW), NEW, BOB, PairFinding.NO_GROUP),
]


def ready_for(operation):
    """g@a -> h@a -> bob. C has decided an update with this operation; A, which is ready for it, has not heard so."""
    scene = Scene()
    scene.done(A, JoinArc(G[A], H[A]), JoinArc(H[A], BOB))
    scene.done(C, JoinArc(G[C], PAT, ChildKind.PROCESS), JoinArc(G[C], EVE))
    return scene, stop_before_the_commit(scene, C, A, JoinArc(G[C], H[C]), operation)


@pytest.mark.parametrize(("operation", "group", "member", "otherwise"), MISSED)
def test_what_a_coordinator_may_have_done_that_is_not_heard_any_more_is_uncertain(operation, group, member, otherwise):
    scene, ticket = ready_for(operation)
    assert Server(scene, A, C).finding(group, member) == (PairFinding.APART, [C])
    # It is the silence of the coordinator that tells, not that of anybody.
    assert Server(scene, A, B).finding(group, member)[0] is otherwise
    scene.part([A], [B, C])
    assert isinstance(scene.cluster.answers[ticket], Committed)
    # Of what is not below as far as is known here, C is asked too.
    assert Server(scene, A).finding(group, member)[0] in (PairFinding.APART, PairFinding.NOT_BELOW)


@pytest.mark.parametrize(("operation", "group", "member", "otherwise"), MISSED)
def test_while_all_are_heard_an_update_under_way_leaves_nothing_uncertain(operation, group, member, otherwise):
    scene, _ = ready_for(operation)
    assert Server(scene, A).finding(group, member) == (otherwise, [])


@pytest.mark.parametrize(("operation", "group", "member", "otherwise"), MISSED)
def test_while_a_new_view_is_agreed_on_what_an_update_may_have_changed_is_uncertain(
    operation, group, member, otherwise
):
    scene, _ = ready_for(operation)
    scene.part_until(lambda _: scene.core(A).view_change_in_progress, [A], [C])
    found, away = Server(scene, A).finding(group, member)
    assert found is PairFinding.APART
    assert C in away


def test_what_no_update_touches_is_as_certain_as_before_while_a_coordinator_is_not_heard():
    scene, _ = ready_for(CreateGroup(NEW))
    server = Server(scene, A, C)
    assert server.finding(G[A], BOB)[0] is PairFinding.BELOW
    assert server.finding(G[A], EVE)[0] is PairFinding.SETTLED
    assert server.finding(NodeId(f"other@{A}"), BOB)[0] is PairFinding.NO_GROUP


def test_a_group_that_a_coordinator_may_have_created_that_is_not_heard_any_more_is_not_denied():
    scene, _ = ready_for(CreateGroup(NEW))
    for unheard, reason in [((), Reason.GROUP_NOT_FOUND), ((B,), Reason.GROUP_NOT_FOUND), ((C,), Reason.UNAVAILABLE)]:
        with pytest.raises(RefusedError) as caught:
            Server(scene, A, *unheard).resolver.describe(NEW, pathname_limit=1, told={})
        assert caught.value.refusal.reason is reason
    assert caught.value.refusal.facts["unreachable"] == C


@pytest.mark.parametrize(("arc", "kind", "at"), [TO_GROUP_AS_PROCESS, TO_NOBODY, FROM_NOBODY])
def test_a_rejected_arc_proves_nothing_and_leaves_nothing_uncertain(arc, kind, at):
    scene = rejected_where(arc, kind, at=at)
    servers = [Server(scene, server) for server in (A, B, C)]
    pairs = [(group, member) for group in (*G.values(), *H.values()) for member in (arc[1], H[B], ANN, BOB)]
    found = [[server.finding(*pair) for pair in pairs] for server in servers]
    assert all(finding is not PairFinding.APART and not away for told in found for finding, away in told)
    scene.done(at, LeaveArc(*arc))
    assert [[server.finding(*pair) for pair in pairs] for server in servers] == found


@pytest.mark.parametrize(("arc", "kind", "at"), [TO_NOBODY, FROM_NOBODY])
def test_nobody_takes_for_a_group_what_rejected_arcs_alone_speak_of(arc, kind, at):
    server = Server(rejected_where(arc, kind, at=at), at)
    for member in (G[at], ANN):
        assert server.finding(NOBODY[C if at == A else A], member)[0] is PairFinding.NO_GROUP
