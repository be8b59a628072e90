"""Each kind of uncertainty with each kind of read: the read names the servers that may know better, or stays
certain.
"""

import asyncio
from types import SimpleNamespace

import pytest

from namegraph.committed_state import CommittedState
from namegraph.events import ReadCommand
from namegraph.model.names import NodeId
from namegraph.model.operations import CreateGroup, JoinArc, LeaveArc
from namegraph.model.priorities import revision_of
from namegraph.model.refusals import Reason, RefusedError
from namegraph.model.target_sets import only
from namegraph.update.causal_reads import Wait
from nameserver.calls import stable_listing
from nameserver.reads.exports import ExportCalls
from nameserver.reads.group_lists import GroupListCalls
from nameserver.reads.local_check import LocalChecks, PairFinding
from nameserver.reads.memberships import MembershipCalls
from nameserver.routing.ownership import OwnerKind
from resolver.membership import MembershipResolver
from resolver.parts import InDoubt, PartRequest, Parts
from shadowtree.v1 import name_service_pb2 as messages
from tests.callers import unjudged
from tests.simulation.scene import FIRST_READ, A, B, C, G, H, stop_before_the_commit
from tests.simulation.test_old_copies import SceneWithCopies

BOB, NEW, PAT = NodeId("bob@elsewhere.example"), NodeId(f"new@{A}"), NodeId(f"pat@{A}")
OTHER, NEVER = NodeId(f"other@{A}"), NodeId(f"never@{A}")
WAITS = "waits"
"""Answer that comes only after the uncertainty has ended, or is of another kind."""


class Told:
    """Answers of server A: for each read, the letters of the named servers. Empty if the answer is certain."""

    def __init__(self, scene, *unheard):
        self.scene, self.core = scene, scene.core(A)
        self.resolver = MembershipResolver(self.core, unheard=lambda: unheard)
        self.checks = LocalChecks(core=self.core, resolver=self.resolver)
        self.routing = SimpleNamespace(is_alone=True, owner_kind=lambda _: OwnerKind.OURS, require_owned=lambda _: None)

    def check(self, group, member):
        (found,) = self.checks.findings([group], [member], settles=True)
        if found != PairFinding.APART:
            return ""
        away = self.checks.away([group], [member], [found])
        assert away, "somebody must be named, or the answer would be taken for a no"
        return letters(away)

    async def memberships(self, member):
        calls = MembershipCalls(
            core=self.core, resolver=self.resolver, routing=self.routing, forwarder=None, judging=unjudged()
        )
        chunks = await calls.list_memberships(messages.ListMembershipsRequest(member=member), None)
        return letters(
            name for chunk in map(messages.ListMembershipsChunk.FromString, chunks) for name in chunk.unreachable
        )

    async def export(self):
        calls = ExportCalls(
            core=self.core, resolver=self.resolver, routing=self.routing, forwarder=None, judging=unjudged()
        )
        chunks = await calls.export(messages.ExportRequest(), None)
        return letters(name for chunk in map(messages.ExportChunk.FromString, chunks) for name in chunk.unreachable)

    async def list_groups(self):
        calls = GroupListCalls(
            core=self.core, resolver=self.resolver, routing=self.routing, forwarder=None, judging=unjudged()
        )
        return letters((await calls.list_groups(messages.ListGroupsRequest(), None)).unreachable)

    def describe(self, group):
        with pytest.raises(RefusedError) as caught:
            self.resolver.describe(group, pathname_limit=1, told={})
        return "" if caught.value.refusal.reason is Reason.GROUP_NOT_FOUND else "?"

    def resolve(self, group):
        part = Parts(self.core, self.resolver.plans, start="").answer(PartRequest(A, only(group)))
        return WAITS if isinstance(part, InDoubt) else "" if part.is_healed and not part.apart else "?"

    def read_in_order(self, group):
        ticket = FIRST_READ + len(self.scene.cluster.answers)
        self.scene.cluster.submit(A, ReadCommand(ticket, group))
        self.scene.cluster.run()
        return "?" if self.scene.cluster.answers.pop(ticket).unreachable else ""

    def reflects(self, revision):
        try:
            return "" if self.core.waits_for(revision) is Wait.REFLECTED else WAITS
        except RefusedError as error:
            return letters([error.refusal.facts["unreachable"]])


def letters(servers):
    return "".join(sorted(server[0] for server in servers))


def quiet():
    """g@a -> h@a -> bob at A. All uncertainty comes from changes to this scene."""
    scene = SceneWithCopies()
    scene.done(A, JoinArc(G[A], H[A]), JoinArc(H[A], BOB))
    scene.done(A, CreateGroup(OTHER), JoinArc(OTHER, PAT))
    scene.revision = scene.done(C, JoinArc(H[C], H[A])).revision
    scene.done(C, LeaveArc(H[C], H[A]))
    return scene


def ready():
    """A is ready for an update that C has decided, and has not heard of the decision."""
    scene = quiet()
    stop_before_the_commit(scene, C, A, JoinArc(G[C], H[C]), LeaveArc(G[A], H[A]), CreateGroup(NEW))
    (entry,) = scene.core(A).entries.by_update.values()
    scene.revision = revision_of(entry.final, coordinator=C)
    return scene


def next_view(scene=None):
    scene = scene or quiet()
    scene.part_until(lambda _: scene.core(A).view_change_in_progress, [A], [C])
    return scene


def next_view_when_ready():
    return next_view(ready())


def in_doubt():
    scene = ready()
    scene.part([A], [B, C])
    return scene


def healing():
    scene = quiet()
    scene.part([A], [B, C])
    scene.meet_until(lambda: not scene.core(A).view_change_in_progress and not scene.core(A).is_healed, [A], [B, C])
    return scene


def suspended():
    scene = quiet()
    scene.done(A, JoinArc(G[A], G[C]))
    scene.done(C, JoinArc(G[C], H[A]))
    scene.part([A, B], [C])
    return scene


def went_back():
    scene = quiet()
    old = scene.copy(A)
    scene.done(A, CreateGroup(NEW), JoinArc(G[A], G[C]))
    scene.part([A, B], [C])
    scene.go_back(A, old)
    return scene


def went_back_and_cut_off():
    """A has forgotten state that C knows, and has missed an update of B since."""
    scene = went_back()
    stop_before_the_commit(scene, B, A, JoinArc(G[B], H[B]), LeaveArc(G[A], H[A]), CreateGroup(NEW))
    (entry,) = scene.core(A).entries.by_update.values()
    scene.revision = revision_of(entry.final, coordinator=B)
    scene.part([A], [B])
    return scene


READS = {
    "a yes by touched arcs": lambda told: told.check(G[A], BOB),
    "a no about what is touched": lambda told: told.check(OTHER, H[A]),
    "another yes": lambda told: told.check(OTHER, PAT),
    "another no": lambda told: told.check(G[A], PAT),
    "no group, but one may be made": lambda told: told.check(NEW, PAT),
    "no group": lambda told: told.check(NEVER, PAT),
    "memberships": lambda told: told.memberships(BOB),
    "other memberships": lambda told: told.memberships(PAT),
    "export": lambda told: told.export(),
    "list of groups": lambda told: told.list_groups(),
    "description of one that may be made": lambda told: told.describe(NEW),
    "description of another": lambda told: told.describe(NEVER),
    "resolution": lambda told: told.resolve(G[A]),
    "another resolution": lambda told: told.resolve(OTHER),
    "at least a revision": lambda told: told.reflects(told.scene.revision),
    "ordered read": lambda told: told.read_in_order(G[A]),
    "another ordered read": lambda told: told.read_in_order(OTHER),
}

KINDS = [
    # What is told of each of these, in their order.
    ("nothing", quiet, (), ("", "", "", "", "", "", "", "", "", "", "", "", "", "", "", "", "")),
    ("not heard", quiet, [B], ("", "b", "", "b", "", "", "b", "b", "b", "", "", "", "", "", "", "", "")),
    ("awaited", ready, (), ("", "", "", "", "", "", "", "", "", "", "", "", WAITS, "", WAITS)),
    ("orphaned", ready, [C], ("c", "c", "", "c", "c", "", "c", "c", "c", "c", "?", "", WAITS, "", WAITS)),
    ("a view begins", next_view, (), ("", "bc", "", "bc", "", "", "bc", "bc", "bc", "", "", "", "", "", "")),
    (
        "orphaned, as a view begins",
        next_view_when_ready,
        (),
        ("bc", "bc", "", "bc", "bc", "", "bc", "bc", "bc", "c", "?", "", WAITS, "", WAITS),
    ),
    ("in doubt", in_doubt, (), ("c", "c", "", "", "c", "", "c", "", "c", "c", "?", "", "?", "", "c", "?", "")),
    ("not healed", healing, (), ("", "bc", "", "bc", "", "", "bc", "bc", "bc", "", "", "", "?", "?", "")),
    ("suspended", suspended, (), ("", "c", "", "", "", "", "c", "", "c", "", "", "", "?", "", "", "?", "")),
    (
        "an older copy",
        went_back,
        (),
        ("", "c", "", "c", "c", "c", "c", "c", "c", "c", "?", "?", "?", "?", "c", "?", "?"),
    ),
    (
        "an older copy, and in doubt",
        went_back_and_cut_off,
        (),
        ("bc", "bc", "", "c", "bc", "c", "bc", "c", "bc", "bc", "?", "?", "?", "?", "b", "?", "?"),
    ),
]


@pytest.mark.parametrize(("make", "unheard", "expected"), [kind[1:] for kind in KINDS], ids=[kind[0] for kind in KINDS])
async def test_each_read_names_whoever_may_know_better(make, unheard, expected):
    scene, found = make(), {}
    # The last ones are answered only where nothing is under way.
    for name, _ in zip(READS, expected, strict=False):
        told = READS[name](Told(scene, *unheard))
        found[name] = told if isinstance(told, str) else await told
    assert found == dict(zip(READS, expected, strict=False))


def test_nothing_is_uncertain_and_nobody_looks_twice_where_all_is_well():
    told = Told(quiet())
    assert not told.resolver.uncertainty()
    assert not told.checks.may_miss_something


async def test_an_export_that_was_begun_while_a_server_was_away_names_it_though_it_came_back_meanwhile(monkeypatch):
    """The export is of the state in which it was begun, which lacks the changes of that server."""
    monkeypatch.setattr(stable_listing, "ROWS_OF_A_CHUNK", 1)
    scene = suspended()
    seen = CommittedState(scene.core(A))
    told = Told(scene)
    resolver = MembershipResolver(seen)
    calls = ExportCalls(core=seen, resolver=resolver, routing=told.routing, forwarder=None, judging=unjudged())
    answer = asyncio.ensure_future(calls.export(messages.ExportRequest(), None))
    await asyncio.sleep(0)
    assert not answer.done()
    scene.meet([A, B], [C])
    assert not resolver.uncertainty().of_own_arcs()
    chunks = map(messages.ExportChunk.FromString, await answer)
    assert letters(name for chunk in chunks for name in chunk.unreachable) == "c"
    assert await told.export() == ""
