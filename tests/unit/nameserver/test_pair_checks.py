"""What one server says of a pair where arcs are suspended: a "yes" nobody else could have made a "no" of, or that it is
uncertain, and who knows."""

import pytest

from namegraph.events import CreateGroup, DeleteGroup, JoinArc, LeaveArc
from namegraph.names import NodeId
from nameserver.gaps import Gaps
from nameserver.pair_checks import PairChecks, PairFinding
from resolver.membership import MembershipResolver
from tests.simulation.test_views import A, B, C, G, H, Scene, cut_off_before_the_commit

ANN = NodeId(f"ann@{C}")
BOB = NodeId("bob@elsewhere.example")


class FakeDirectory:
    def __init__(self, *unheard):
        self._unheard = list(unheard)

    def unheard(self):
        return self._unheard


class Server:
    """What one server of a scene tells."""

    def __init__(self, scene, server, *unheard):
        self.resolver = MembershipResolver(scene.core(server))
        gaps = Gaps(resolver=self.resolver, directory=FakeDirectory(*unheard))
        self._checks = PairChecks(core=scene.core(server), resolver=self.resolver, gaps=gaps)

    def finding(self, group, member):
        (found,) = self._checks.findings([group], [member], settles=True)
        return PairFinding(found), self._checks.apart_of([member])


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
