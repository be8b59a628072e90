"""Servers that part and meet again: what each side goes on doing, and what all agree on in the end."""

import random
from unittest.mock import patch

import pytest

from namegraph.events import (
    AddPeer,
    ChildKind,
    Committed,
    CreateGroup,
    DeleteGroup,
    ImportCommand,
    JoinArc,
    LeaveArc,
    Member,
    PeerLeaving,
    PeerLost,
    ReadCommand,
    RemovePeer,
    RetirePeer,
    UpdateCommand,
)
from namegraph.graph import ArcState
from namegraph.message_parts import ArcId
from namegraph.messages import Commit, Done, HeldToo, Install, Open, Order, Propose
from namegraph.names import NodeId, ServerId, Subnet
from namegraph.records import NodeKind, RequestId
from namegraph.refusals import Reason, RefusedError
from namegraph.revisions import Wait
from namegraph.suspension import known_arc
from resolver.membership import MembershipResolver
from simulation import links
from simulation.checkers import check_all, check_quiet
from simulation.cluster import WORLD, Cluster
from simulation.links import Links
from simulation.networks import Channel, Errand, RandomNetwork
from simulation.serial import TrueGraph

A, B, C = (ServerId(f"{name}.example") for name in "abc")
G = {server: NodeId(f"g@{server}") for server in (A, B, C)}
H = {server: NodeId(f"h@{server}") for server in (A, B, C)}


class Scene:
    """Servers with two groups each, three if nothing else is said, that come to rest after each thing that happens."""

    def __init__(self, servers=(A, B, C), *, is_configured=True):
        chance = random.Random(1)
        self.network = RandomNetwork(chance, is_wild=False)
        self.cluster = Cluster(
            [Subnet(server) for server in servers], self.network, crashes=chance, is_configured=is_configured
        )
        self.commands = {}
        for server in servers:
            self.done(server, *(CreateGroup(NodeId(f"{name}@{server}")) for name in "gh"))
        self.links = Links(self.cluster, self.network, chance)
        self.cluster.connections = self.links

    def ask(self, server, *operations):
        ticket = len(self.commands)
        self.commands[ticket] = UpdateCommand(ticket, RequestId(f"r{ticket}"), operations)
        self.cluster.submit(server, self.commands[ticket])
        self.cluster.run()
        return self.cluster.answers[ticket]

    def done(self, server, *operations):
        answer = self.ask(server, *operations)
        assert isinstance(answer, Committed), answer
        return answer

    def refused(self, server, *operations):
        return self.ask(server, *operations).reason

    def part(self, some, others):
        self._each(self.links.cut, some, others)

    def meet(self, some, others):
        self._each(self.links.mend, some, others)

    def part_until(self, is_so, some, others):
        """Until a message was sent."""
        self._begin(self.links.cut, some, others)
        self.go_on_until(is_so)

    def go_on_until(self, is_so):
        """Until a message was sent."""
        while not any(is_so(sent) for sent in self.cluster.sent):
            self.cluster.take(self.network.next())

    def meet_until(self, is_so, some, others):
        self._begin(self.links.mend, some, others)
        while not is_so():
            self.cluster.take(self.network.next())

    def after_meeting(self, steps, some, others):
        """Let servers meet, and this much happen."""
        self._begin(self.links.mend, some, others)
        for _ in range(steps):
            arrival = self.network.next()
            if arrival is not None:
                self.cluster.take(arrival)

    def command(self, server, kind, *of):
        """Let an operator ask for something."""
        ticket = FIRST_READ + len(self.cluster.answers)
        self.cluster.submit(server, kind(ticket, *of))
        self.cluster.run()
        return self.cluster.answers.pop(ticket)

    def retire(self, server, gone):
        """Retire the server of a subnet for good; returns the refusal to remove it, if there is one."""
        subnet = Subnet(gone)
        while self.core(server).suspended_with_subnet(subnet):
            assert isinstance(self.command(server, RetirePeer, subnet), Committed)
        self.command(server, RetirePeer, subnet)
        removed = self.command(server, RemovePeer, subnet)
        return None if isinstance(removed, Committed) else removed

    def bring(self, server, *arcs):
        """Import arcs between groups."""
        names = list(dict.fromkeys(end for arc in arcs for end in arc))
        parents, children = ([names.index(arc[end]) for arc in arcs] for end in (0, 1))
        ticket = len(self.commands)
        command = ImportCommand(ticket, RequestId(f"r{ticket}"), names, parents, children, bytes([1] * len(arcs)), [])
        self.commands[ticket] = command
        self.cluster.submit(server, command)
        self.cluster.run()
        return self.cluster.answers[ticket]

    def _begin(self, change, some, others):
        channels = [c for one in some for other in others for c in (Channel(one, other), Channel(other, one))]
        self.cluster.send_errand(WORLD, Errand(lambda: change(channels)), delay=0.0)

    def _each(self, change, some, others):
        self._begin(change, some, others)
        self.cluster.run()
        # Letters under way may have brought more.
        self.cluster.run()

    def core(self, server):
        return self.cluster.servers[server]

    def members(self, server):
        return set(self.core(server).members)

    def states(self, server, node):
        """The states of the arcs that leave a group, as its home has them, by child."""
        graph = self.core(server).graph
        return {graph.ids[child]: graph.arc_state(arc) for child, arc in graph.arcs_from(graph.index[node])}

    def suspended(self, server):
        return {tuple(arc) for arc, _ in self.core(server).suspended_arcs()}

    def loops(self, server):
        graph = self.core(server).graph
        return {frozenset(graph.ids[node] for node in found.components) for found in graph.virtual_nodes.values()}

    def check(self, *arcs):
        """All is at rest, and these arcs are all there are."""
        check_quiet(self.cluster.servers, self.commands, self.cluster.answers)
        check_all(self.cluster.servers, TrueGraph(dict.fromkeys(arcs, 0)))
        assert not any(core.graph.suspended for core in self.cluster.servers.values())


@pytest.fixture
def loop():
    """A loop through all three servers."""
    scene = Scene()
    for above, below in ((A, B), (B, C), (C, A)):
        scene.done(above, JoinArc(G[above], G[below]))
    return scene


FIRST_READ = 1_000
"""Tickets of reads; those below are of updates."""

RING = [(G[A], G[B]), (G[B], G[C]), (G[C], G[A])]


def test_who_missed_what_was_suspended_hears_of_it_though_its_coordinator_had_no_part_in_it():
    """A lets B and C suspend what comes from D, B does not hear of it, and A is gone when D is back."""
    d = ServerId("d.example")
    scene = Scene((A, B, C, d))
    above = NodeId(f"g@{d}")
    scene.done(d, JoinArc(above, G[B]))
    scene.done(d, JoinArc(above, H[C]))
    scene.done(B, JoinArc(G[B], G[C]))
    scene.part_until(lambda sent: isinstance(sent.message, Commit) and sent.sender == A, [d], [A, B, C])
    scene.network.stop(Channel(A, B))
    scene.go_on_until(lambda sent: isinstance(sent.message, Done) and sent.receiver == A)
    scene.part([A], [B, C])
    scene.meet([d], [B, C])
    assert all(scene.members(server) == {B, C, d} for server in (B, C, d))
    assert scene.core(C).records.is_held(scene.core(C).graph.index[above])
    scene.meet([A], [B, C, d])
    scene.check((above, G[B]), (above, H[C]), (G[B], G[C]))


def test_nobody_agrees_on_anything_while_nobody_is_lost(loop):
    assert loop.cluster.counts().keys().isdisjoint({"Reach", "Propose", "Install", "Held"})
    assert loop.members(A) == set()


def test_a_loop_breaks_when_a_server_is_cut_off_and_forms_again(loop):
    loop.part([A, B], [C])
    assert loop.members(A) == loop.members(B) == {A, B}
    assert loop.members(C) == {C}
    assert all(not loop.loops(server) for server in (A, B, C))
    assert loop.states(B, G[B]) == {G[C]: ArcState.SUSPENDED}
    assert loop.states(A, G[A]) == {G[B]: ArcState.NORMAL}
    assert loop.suspended(A) == {(G[C], G[A])}
    assert loop.suspended(C) == {(G[B], G[C]), (G[C], G[A])}
    loop.meet([A, B], [C])
    assert loop.loops(A) == loop.loops(B) == loop.loops(C) == {frozenset(G.values())}
    loop.check(*RING)


def test_each_side_goes_on_with_what_it_reaches_and_refuses_what_it_does_not(loop):
    loop.part([A, B], [C])
    loop.done(A, JoinArc(G[A], H[B]))
    loop.done(C, JoinArc(G[C], H[C]))
    assert loop.refused(A, JoinArc(H[A], H[C])) is Reason.UNAVAILABLE
    assert loop.refused(C, JoinArc(G[C], H[A])) is Reason.UNAVAILABLE
    loop.meet([A, B], [C])
    loop.check(*RING, (G[A], H[B]), (G[C], H[C]))


def test_an_import_waits_until_servers_agree_on_who_is_there(loop):
    loop.part_until(lambda sent: sent.sender == A and isinstance(sent.message, Propose), [A, B], [C])
    outcome = loop.bring(A, (G[A], G[B]), (G[A], H[B]), (H[B], H[A]))
    assert isinstance(outcome, Committed)
    assert (outcome.counts.arcs, outcome.counts.already_there) == (2, 1)
    sent = [sent.message for sent in loop.cluster.sent]
    installed = next(place for place, message in enumerate(sent) if isinstance(message, Install))
    ordered = next(place for place, message in enumerate(sent) if isinstance(message, Order) and message.update.brought)
    assert installed < ordered
    assert loop.members(A) == loop.members(B) == {A, B}
    assert loop.bring(A, (G[A], H[C])).reason is Reason.UNAVAILABLE
    loop.meet([A, B], [C])
    loop.check(*RING, (G[A], H[B]), (H[B], H[A]))


def test_what_cannot_be_entered_is_said(loop):
    loop.part([A, B], [C])
    plan = MembershipResolver(loop.core(B)).resolve(G[B])
    assert [(away.server, away.groups) for away in plan.apart] == [(C, (G[C],))]
    assert MembershipResolver(loop.core(A)).apart_above(G[A]) == [C]
    # What is above it at another server is known there too.
    assert MembershipResolver(loop.core(B)).apart_above(G[B]) == [C]
    assert MembershipResolver(loop.core(B)).apart_above(H[B]) == []


def test_a_server_that_was_alone_knows_nothing_for_sure_until_it_is_healed_with_others(loop):
    loop.part([A], [B, C])
    resolver = MembershipResolver(loop.core(A))
    assert resolver.apart_above(G[A]) == [C]
    loop.meet_until(lambda: loop.core(A).is_frozen, [A], [B, C])
    while loop.core(A).is_frozen or not loop.core(A).is_healed:
        assert resolver.has_gaps
        assert resolver.apart_above(G[A]) == [B, C]
        loop.cluster.take(loop.network.next())
    assert resolver.apart_above(G[A]) == []
    loop.cluster.run()
    loop.check(*RING)


@pytest.mark.parametrize(
    ("at", "arc"), [(B, (G[B], G[C])), (A, (G[C], G[A]))], ids=["its parent's home", "its child's home"]
)
def test_an_arc_that_was_left_at_one_end_is_not_joined_again(loop, at, arc):
    loop.part([A, B], [C])
    loop.done(at, LeaveArc(*arc))
    assert arc not in loop.suspended(at)
    loop.meet([A, B], [C])
    loop.check(*(one for one in RING if one != arc))


def test_an_arc_is_left_at_its_childs_end_with_others_by_that_end_alone(loop):
    loop.part([A], [B, C])
    more = JoinArc(H[C], H[B]), LeaveArc(G[A], G[B])
    away = loop.ask(C, *more)
    assert away.message == f"the server {A} is out of reach (no connection); nothing was done"
    loop.done(B, JoinArc(H[B], G[C]), LeaveArc(G[A], G[B]))
    assert loop.suspended(B) == set()
    # Whether it is there in truth nobody else knows.
    again = loop.ask(B, JoinArc(H[B], H[C]), LeaveArc(G[A], G[B]))
    assert again.message == f"operation 2 of 2: the server {A} is out of reach (no connection); nothing was done"
    loop.meet([A], [B, C])
    loop.check(*RING[1:], (H[B], G[C]))


def test_an_arc_that_was_changed_at_both_ends_is_what_its_newest_version_says(loop):
    arc = G[C], G[A]
    loop.part([A], [B, C])
    loop.done(A, LeaveArc(*arc))
    loop.done(C, LeaveArc(*arc))
    loop.meet([A], [B, C])
    loop.check(*RING[:2])
    loop.done(C, JoinArc(*arc))
    loop.part([A], [B, C])
    loop.done(A, LeaveArc(*arc))
    loop.done(C, LeaveArc(*arc))
    loop.done(C, JoinArc(*arc, ChildKind.GROUP, offline=True))
    loop.meet([A], [B, C])
    loop.check(*RING)


@pytest.mark.parametrize("often", [A, C], ids=["the child's end", "the parent's end"])
def test_both_ends_know_the_same_of_an_arc_that_one_of_them_left_more_often(loop, often):
    """Else it would be joined anew at a version that is not above all that were given."""
    arc = G[C], G[A]
    loop.part([A], [B, C])
    loop.done(A, LeaveArc(*arc))
    loop.done(C, LeaveArc(*arc))
    loop.done(often, JoinArc(*arc, ChildKind.GROUP, offline=True))
    loop.done(often, LeaveArc(*arc))
    loop.meet([A], [B, C])
    known = [known_arc(loop.core(server)._site, ArcId(*arc)) for server in (A, C)]
    assert known[0] == known[1]
    assert not any(loop.core(server)._site.left_apart for server in (A, C))
    loop.done(C, JoinArc(*arc))
    loop.check(*RING)


@pytest.mark.parametrize("steps", range(0, 120, 8))
def test_an_arc_that_was_left_at_its_childs_end_is_not_told_to_be_there_before_that_is_heard_of(loop, steps):
    loop.part([A], [B, C])
    loop.done(B, LeaveArc(G[A], G[B]))
    loop.after_meeting(steps, [A], [B, C])
    answer = loop.ask(A, JoinArc(G[A], G[B], if_needed=True))
    loop.cluster.run()
    loop.check(*(RING if isinstance(answer, Committed) else RING[1:]))
    assert isinstance(answer, Committed) or answer.reason is Reason.UNAVAILABLE


def test_an_arc_to_a_process_is_left_where_its_parent_is_alone(loop):
    arc = G[A], NodeId(f"ann@{C}")
    loop.done(A, JoinArc(*arc))
    loop.part([A], [B, C])
    assert loop.refused(C, LeaveArc(*arc)) is Reason.UNAVAILABLE
    assert loop.refused(C, LeaveArc(G[C], G[A]), LeaveArc(*arc)) is Reason.UNAVAILABLE
    assert loop.refused(B, CreateGroup(NodeId(f"new@{B}")), LeaveArc(*arc)) is Reason.UNAVAILABLE
    # So what this one tells is so, whoever is away.
    assert MembershipResolver(loop.core(A)).resolve(G[A]).apart[1].processes == (arc[1],)
    loop.done(A, LeaveArc(*arc))
    loop.meet([A], [B, C])
    loop.check(*RING)


@pytest.mark.parametrize("is_known", [False, True], ids=["to one end", "to both ends"])
@pytest.mark.parametrize("steps", range(0, 100, 7))
def test_an_arc_that_is_being_joined_by_its_parents_home_is_not_told_to_be_left_meanwhile(steps, is_known):
    scene = Scene()
    arc = G[A], G[C]
    if is_known:
        scene.done(A, JoinArc(*arc))
    scene.part([A], [B, C])
    if is_known:
        scene.done(C, LeaveArc(*arc))
    scene.done(C, JoinArc(*arc, offline=True))
    scene.after_meeting(steps, [A], [B, C])
    answer = scene.ask(C, LeaveArc(*arc))
    scene.check(*(() if isinstance(answer, Committed) else (arc,)))


def test_a_group_that_was_deleted_and_created_again_does_not_get_its_arcs_back(loop):
    loop.part([A, B], [C])
    assert loop.refused(C, DeleteGroup(G[C])) is Reason.GROUP_IN_USE
    loop.done(C, DeleteGroup(G[C], force=True))
    loop.done(C, CreateGroup(G[C]))
    # The home of the parent knows that it cannot know.
    assert [MembershipResolver(loop.core(server)).apart_below() for server in (A, B)] == [[], [C]]
    loop.meet([A, B], [C])
    loop.check((G[A], G[B]))


def test_a_group_is_deleted_before_its_server_hears_that_it_was_left():
    scene = Scene()
    scene.done(B, JoinArc(G[B], G[C]))
    scene.part([B], [A, C])
    scene.done(B, LeaveArc(G[B], G[C]))
    before = len(scene.cluster.sent)
    scene.meet_until(lambda: any(isinstance(sent.message, Open) for sent in scene.cluster.sent[before:]), [B], [A, C])
    # So its parent's home says only after the deletion what is suspended there.
    scene.network.stop(Channel(A, B))
    scene.done(C, DeleteGroup(G[C], force=True))
    scene.network.go_on(Channel(A, B))
    scene.cluster.run()
    scene.check()


def test_a_member_joins_when_its_server_is_back():
    scene = Scene()
    scene.part([A, B], [C])
    scene.done(A, JoinArc(G[A], G[C], ChildKind.GROUP, offline=True))
    scene.done(A, JoinArc(G[A], NodeId(f"ann@{C}"), ChildKind.PROCESS, offline=True))
    assert scene.suspended(A) == {(G[A], G[C]), (G[A], f"ann@{C}")}
    assert scene.refused(A, JoinArc(H[A], G[C], offline=True)) is Reason.INVALID_REQUEST
    scene.meet([A, B], [C])
    scene.check((G[A], G[C]), (G[A], f"ann@{C}"))


def test_a_member_that_cannot_join_stays_visible_as_rejected():
    scene = Scene()
    scene.part([A, B], [C])
    scene.done(A, JoinArc(G[A], NodeId(f"nobody@{C}"), ChildKind.GROUP, offline=True))
    scene.meet([A, B], [C])
    ((arc, why),) = scene.core(A).suspended_arcs()
    assert tuple(arc) == (G[A], f"nobody@{C}")
    assert why.startswith("rejected: ")
    scene.done(A, LeaveArc(*arc))
    scene.check()


def test_a_group_joins_when_the_server_of_its_parent_is_back():
    scene = Scene()
    scene.done(C, JoinArc(G[C], H[B]))
    scene.done(A, JoinArc(H[A], G[A]))
    scene.part([A], [B, C])
    arcs = [(G[A], G[C]), (G[A], NodeId(f"ann@{C}")), (H[A], H[B])]
    scene.done(C, JoinArc(*arcs[0], offline=True))
    scene.done(C, JoinArc(*arcs[1], ChildKind.PROCESS, offline=True))
    scene.done(B, JoinArc(*arcs[2], offline=True))
    assert scene.refused(C, JoinArc(*arcs[0], offline=True)) is Reason.ALREADY_MEMBER
    assert scene.suspended(C) == {*arcs[:2]}
    assert [why for _, why in scene.core(C).suspended_arcs()] == [f"the server {A} is out of reach"] * 2
    # What is below it at another server may have more above it.
    for server, node in ((C, G[C]), (B, H[B]), (C, arcs[1][1])):
        assert MembershipResolver(scene.core(server)).apart_above(node) == [A]
    scene.meet([A], [B, C])
    scene.check((G[C], H[B]), (H[A], G[A]), *arcs)


def test_what_waits_for_the_server_of_its_parent_can_be_left_and_deleted():
    scene = Scene()
    scene.part([A], [B, C])
    assert scene.refused(C, JoinArc(G[A], G[C])) is Reason.UNAVAILABLE
    assert scene.refused(B, JoinArc(G[A], G[C], ChildKind.GROUP, offline=True)) is Reason.UNAVAILABLE
    assert (
        scene.refused(C, JoinArc(G[A], NodeId(f"nobody@{C}"), ChildKind.GROUP, offline=True)) is Reason.GROUP_NOT_FOUND
    )
    scene.done(C, JoinArc(G[A], G[C], offline=True))
    scene.done(C, LeaveArc(G[A], G[C]))
    scene.done(C, JoinArc(G[A], H[C], offline=True))
    scene.done(C, DeleteGroup(H[C], force=True))
    scene.meet([A], [B, C])
    scene.check()


def test_an_arc_that_waits_at_both_its_ends_is_joined_once():
    scene = Scene()
    scene.done(C, JoinArc(G[C], G[A]))
    scene.part([A], [B, C])
    scene.done(C, JoinArc(G[A], G[C], offline=True))
    scene.done(A, JoinArc(G[A], G[C], ChildKind.GROUP, offline=True))
    scene.meet([A], [B, C])
    assert scene.loops(A) == scene.loops(C) == {frozenset([G[A], G[C]])}
    scene.check((G[C], G[A]), (G[A], G[C]))


NOBODY = {server: NodeId(f"nobody@{server}") for server in (A, C)}


def rejected_where(arc, kind, *, at):
    """An arc that was to wait for the other end, and could not be joined. H[A] is above G[A], and H[B] below G[C]."""
    scene = Scene()
    scene.done(A, JoinArc(H[A], G[A]))
    scene.done(C, JoinArc(G[C], H[B]))
    scene.part([A], [B, C])
    scene.arc, scene.at = arc, at
    scene.done(at, JoinArc(*arc, kind, offline=True))
    scene.meet([A], [B, C])
    return scene


NODES = [*G.values(), *H.values(), *NOBODY.values()]


def told_of(scene, server):
    """All that a server tells which suspended arcs may have a part in."""
    resolver = MembershipResolver(scene.core(server))
    groups = [G[server], H[server]]
    return (
        {group: (plan.processes, plan.groups, plan.apart) for group in groups if (plan := resolver.resolve(group))},
        {node: (resolver.memberships(node), resolver.apart_above(node)) for node in NODES},
        {(group, node) for group in groups for node in NODES if resolver.check(group, node)},
        {(group, node) for group in groups for node in NODES if resolver.explain(group, node)},
        set(resolver.export(subnet=None)),
        resolver.apart_below(),
    )


def read(scene, group):
    """What an ordered read tells."""
    ticket = FIRST_READ + len(scene.cluster.answers)
    scene.cluster.submit(scene.core(A).home_of(group), ReadCommand(ticket, group))
    scene.cluster.run()
    answer = scene.cluster.answers[ticket]
    return answer.members, answer.unreachable


TO_GROUP_AS_PROCESS = ((G[A], G[C]), ChildKind.PROCESS, A)
TO_NOBODY = ((G[A], NOBODY[C]), ChildKind.GROUP, A)
FROM_NOBODY = ((NOBODY[A], G[C]), ChildKind.AUTO, C)


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
        assert kept.apart_above(G[C]) == [A]
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


def test_what_was_joined_to_wait_in_the_present_view_is_not_taken_for_rejected(loop):
    loop.part([A, B], [C])
    loop.meet([A, B], [C])
    # It stops, and nobody has counted it as lost.
    loop.cluster.submit(A, PeerLeaving(C, "it stops"))
    loop.done(A, JoinArc(H[A], NodeId(f"ann@{C}"), ChildKind.PROCESS, offline=True))
    assert MembershipResolver(loop.core(A)).check(H[A], NodeId(f"ann@{C}"))


@pytest.fixture
def rejected():
    """A group that was joined to one that was never there."""
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
    with patch.object(links, "NOTICED_AFTER", (1e9,)), patch.object(links, "LOST_AFTER", (1e9,)):
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
        lambda: any(isinstance(one.message, HeldToo) and one.message.arcs for one in scene.cluster.sent), [A], [B, C]
    )
    scene.done(C, CreateGroup(NOBODY[C]))
    scene.cluster.run()
    scene.check((G[A], NOBODY[C]))


def test_a_rejected_group_is_tried_again_when_servers_meet_again(rejected):
    rejected.part([A], [B, C])
    rejected.done(A, CreateGroup(rejected.arc[0]))
    rejected.meet([A], [B, C])
    rejected.check(rejected.arc)


def test_a_rejected_group_can_be_deleted(rejected):
    assert rejected.refused(C, DeleteGroup(G[C])) is Reason.GROUP_IN_USE
    rejected.done(C, DeleteGroup(G[C], force=True))
    rejected.check()


def test_a_server_that_is_back_before_it_is_missed_resumes_without_any_of_this(loop):
    with patch.object(links, "NOTICED_AFTER", (1e9,)), patch.object(links, "LOST_AFTER", (1e9,)):
        loop.cluster.crash(C, down_for=0.0)
        loop.cluster.run()
    assert not [happened for happened in loop.cluster.sent if type(happened.message).__name__ == "Install"]
    loop.check(*RING)


def test_all_three_apart_and_together_again(loop):
    loop.part([A], [B])
    loop.part([A, B], [C])
    assert [loop.members(server) for server in (A, B, C)] == [{A}, {B}, {C}]
    loop.done(B, LeaveArc(G[B], G[C]))
    loop.meet([A, B], [C])
    loop.meet([A], [B])
    loop.check((G[A], G[B]), (G[C], G[A]))


def test_of_servers_that_do_not_all_reach_one_another_some_agree(loop):
    loop.part([B], [C])
    assert loop.members(A) == loop.members(B) == {A, B}
    assert loop.members(C) == {C}
    loop.meet([B], [C])
    assert loop.members(C) == {A, B, C}
    loop.check(*RING)


def test_whoever_is_left_for_a_leader_that_it_does_not_reach_learns_of_it(loop):
    loop.part([A], [B, C])
    assert loop.members(B) == loop.members(C) == {B, C}
    loop.meet([A], [C])
    assert loop.members(A) == loop.members(C) == {A, C}
    assert loop.members(B) == {B}
    assert loop.refused(B, LeaveArc(G[B], H[C])) is Reason.UNAVAILABLE
    loop.part([A], [C])
    assert [loop.members(server) for server in (A, B, C)] == [{A}, {B, C}, {B, C}]
    loop.meet([A], [B, C])
    loop.check(*RING)


def test_a_view_survives_a_restart_of_everybody(loop):
    loop.part([A, B], [C])
    loop.meet([A, B], [C])
    view = loop.core(A).view
    loop.cluster.connections = None
    loop.cluster.restart_all()
    loop.cluster.run()
    assert [loop.core(server).view for server in (A, B, C)] == [view] * 3 != ["", "", ""]
    loop.check(*RING)


def test_what_is_lost_is_an_event_of_each_server(loop):
    loop.part([A, B], [C])
    lost = [happened for happened in loop.cluster.history if getattr(happened, "event", None).__class__ is PeerLost]
    assert {(happened.server, happened.event.peer) for happened in lost} >= {(A, C), (C, A)}


def test_when_a_server_never_comes_back_the_others_go_on_without_it(loop):
    loop.cluster.crash(A, down_for=10_000_000.0)
    while loop.network.now < 1_000_000.0 and (arrival := loop.network.next()) is not None:
        loop.cluster.take(arrival)
        if loop.members(B) == loop.members(C) == {B, C} and loop.core(B).is_healed and loop.core(C).is_healed:
            break
    tickets = []
    for server, operation in (
        (B, JoinArc(H[B], H[C])),
        (C, JoinArc(H[C], G[B])),
        (C, LeaveArc(G[C], G[A])),  # suspended: left by the one end that is there
        (B, JoinArc(G[B], H[A])),  # needs the server that is away
    ):
        ticket = tickets[-1] + 1 if tickets else len(loop.commands)
        tickets.append(ticket)
        loop.commands[ticket] = UpdateCommand(ticket, RequestId(f"r{ticket}"), (operation,))
        loop.cluster.submit(server, loop.commands[ticket])
        while ticket not in loop.cluster.answers:
            loop.cluster.take(loop.network.next())
    answers = [loop.cluster.answers[ticket] for ticket in tickets]
    assert [isinstance(answer, Committed) for answer in answers] == [True, True, True, False]
    assert answers[-1].reason is Reason.UNAVAILABLE
    assert loop.suspended(B) == {(G[A], G[B])} and not loop.suspended(C)
    # And whatever it was that kept it away: it is back at last, and hears of all.
    loop.cluster.run()
    loop.cluster.run()
    loop.check((G[A], G[B]), (G[B], G[C]), (H[B], H[C]), (H[C], G[B]))


def stop_before_the_commit(scene, coordinator, ready, *operations):
    """Let an update be decided, and stop before one server hears of that; returns its ticket."""
    cluster, ticket, before = scene.cluster, len(scene.commands), len(scene.cluster.sent)
    scene.commands[ticket] = UpdateCommand(ticket, RequestId(f"r{ticket}"), operations)
    cluster.submit(coordinator, scene.commands[ticket])
    while not any(isinstance(sent.message, Commit) and sent.receiver == ready for sent in cluster.sent[before:]):
        cluster.take(scene.network.next())
    return ticket


def cut_off_before_the_commit(scene, coordinator, cut_off, *operations):
    """Let an update be decided, and one server be cut off before it hears of that; returns what the caller was told."""
    ticket = stop_before_the_commit(scene, coordinator, cut_off, *operations)
    scene.part([cut_off], [server for server in (A, B, C) if server != cut_off])
    return scene.cluster.answers[ticket]


def test_who_is_cut_off_before_it_hears_of_an_outcome_says_what_it_may_have_missed():
    scene = Scene()
    assert isinstance(cut_off_before_the_commit(scene, B, A, JoinArc(G[B], H[A])), Committed)
    resolver = MembershipResolver(scene.core(A))
    assert resolver.apart_above(H[A]) == [B]
    assert resolver.apart_above(G[A]) == []
    scene.cluster.restart_all()
    assert scene.core(A).in_doubt_with == [B]
    scene.meet([A], [B, C])
    assert scene.core(A).in_doubt_with == []
    assert MembershipResolver(scene.core(A)).apart_above(H[A]) == []
    scene.check((G[B], H[A]))


def is_refused(core, revision):
    """Whether a server says at once that it cannot know whether it reflects an update."""
    try:
        core.waits_for(revision)
    except RefusedError as error:
        return error.refusal.reason is Reason.UNAVAILABLE
    return False


def test_a_read_that_asks_for_an_update_which_a_server_missed_is_refused_there_until_the_two_are_settling_it():
    scene = Scene()
    before = scene.done(B, JoinArc(G[B], G[A])).revision
    missed = cut_off_before_the_commit(scene, B, A, JoinArc(G[B], H[A])).revision
    core = scene.core(A)
    # Its counter tells nothing: it has seen the priority of the update, and higher ones.
    assert core.waits_for(core.revision) is core.waits_for(before) is Wait.REFLECTED
    with pytest.raises(RefusedError, match=r"may lack .* out of reach") as caught:
        core.waits_for(missed)
    assert caught.value.refusal.reason is Reason.UNAVAILABLE
    assert caught.value.refusal.facts == {"revision": missed, "unreachable": B, "server": A}
    assert scene.core(B).waits_for(missed) is Wait.REFLECTED
    scene.meet_until(lambda: not is_refused(core, missed), [A], [B, C])
    assert core.waits_for(missed) is Wait.NOT_YET
    scene.cluster.run()
    assert core.waits_for(missed) is Wait.REFLECTED
    scene.check((G[B], G[A]), (G[B], H[A]))


def test_after_a_restart_it_is_waited_for_until_it_is_known_who_is_out_of_reach():
    scene = Scene()
    missed = cut_off_before_the_commit(scene, B, A, JoinArc(G[B], H[A])).revision
    scene.cluster.restart_all()
    assert scene.core(A).waits_for(missed) is Wait.NOT_YET
    scene.meet([A], [B, C])
    assert scene.core(A).waits_for(missed) is Wait.REFLECTED


def test_a_group_that_may_have_new_members_is_not_resolved_in_full():
    scene = Scene()
    scene.done(A, JoinArc(H[A], G[A]))
    told = cut_off_before_the_commit(scene, C, A, JoinArc(G[C], H[B]), JoinArc(G[A], H[B]))
    assert isinstance(told, Committed)
    core = scene.core(A)
    assert MembershipResolver(core).apart_below() == [C]
    for group in (G[A], H[A]):
        assert core.doubted_below(core.graph.index[group]) == [C]
        ticket = FIRST_READ + len(scene.cluster.answers)
        scene.cluster.submit(A, ReadCommand(ticket, group))
        scene.cluster.run()
        assert scene.cluster.answers.pop(ticket).unreachable == (group,)
    scene.meet([A], [B, C])
    assert not core.in_doubt_with
    scene.check((H[A], G[A]), (G[C], H[B]), (G[A], H[B]))


def test_a_group_that_may_have_been_created_is_not_denied():
    scene = Scene()
    new = NodeId(f"new@{A}")
    cut_off_before_the_commit(scene, B, A, JoinArc(G[B], H[B]), CreateGroup(new))
    assert scene.refused(A, JoinArc(new, H[A])) is Reason.UNAVAILABLE
    scene.meet([A], [B, C])
    scene.done(A, JoinArc(new, H[A]))
    scene.check((G[B], H[B]), (new, H[A]))


def test_that_a_group_was_deleted_while_apart_survives_a_crash_right_after():
    scene = Scene()
    told = cut_off_before_the_commit(scene, B, A, JoinArc(G[B], H[A]))
    assert isinstance(told, Committed)
    scene.done(A, DeleteGroup(H[A]))
    scene.cluster.restart_all()
    scene.done(A, CreateGroup(H[A]))
    scene.meet([A], [B, C])
    scene.check()


def test_nobody_is_told_that_there_is_nothing_to_do_where_an_update_in_doubt_may_have_done_the_opposite():
    scene = Scene()
    scene.done(C, JoinArc(H[C], H[A]), JoinArc(G[A], H[A]))
    cut_off_before_the_commit(scene, B, A, JoinArc(G[B], H[B]), JoinArc(G[A], H[B]), LeaveArc(G[A], H[A]))
    # It may be that H[A] has left, and that H[B] is there.
    assert scene.refused(A, JoinArc(G[A], H[A])) is Reason.UNAVAILABLE
    assert scene.refused(A, JoinArc(G[A], H[A], if_needed=True)) is Reason.UNAVAILABLE
    assert scene.refused(A, LeaveArc(G[A], G[B])) is Reason.UNAVAILABLE
    assert scene.refused(A, LeaveArc(H[A], G[A])) is Reason.UNAVAILABLE
    new = NodeId(f"new@{A}")
    scene.done(A, CreateGroup(new), JoinArc(new, G[A]))
    scene.meet([A], [B, C])
    assert scene.refused(A, LeaveArc(G[A], H[A])) is Reason.NOT_A_MEMBER
    scene.check((H[C], H[A]), (G[B], H[B]), (G[A], H[B]), (new, G[A]))


def test_a_group_that_may_have_been_created_is_not_taken_for_a_process():
    scene = Scene()
    new, person = NodeId(f"new@{A}"), NodeId(f"person@{A}")
    cut_off_before_the_commit(scene, B, A, JoinArc(G[B], H[B]), CreateGroup(new))
    for kind in (ChildKind.AUTO, ChildKind.PROCESS):
        assert scene.refused(A, JoinArc(H[A], new, kind=kind)) is Reason.UNAVAILABLE
    scene.done(A, JoinArc(H[A], person))
    scene.meet([A], [B, C])
    scene.done(A, JoinArc(H[A], new))
    scene.check((G[B], H[B]), (H[A], person), (H[A], new))


@pytest.mark.parametrize("more", [[], ["joined again"], ["joined to another"]], ids=" ".join)
@pytest.mark.parametrize("parents", [[B], [A, B], [B, C]], ids=" ".join)
def test_a_process_that_became_a_group_by_an_update_that_its_home_missed_becomes_one(parents, more):
    scene = Scene()
    new = NodeId(f"new@{A}")
    for server in parents:
        scene.done(server, JoinArc(G[server], new))
    joined = [(G[B] if more == ["joined again"] else H[B], new)] if more else []
    leaves = [LeaveArc(G[server], new) for server in sorted(parents, key=lambda server: server != B)]
    told = cut_off_before_the_commit(scene, B, A, *leaves, CreateGroup(new), *(JoinArc(*arc) for arc in joined))
    assert isinstance(told, Committed)
    # One of those that have missed it may be away still.
    scene.part([C], [A, B])
    scene.meet([A], [B])
    scene.meet([C], [A, B])
    scene.check(*joined)
    scene.done(A, JoinArc(new, H[A]))
    scene.check(*joined, (new, H[A]))


def test_a_group_is_deleted_by_an_update_that_its_home_missed_with_arcs_that_others_have_joined_since():
    scene = Scene()
    scene.done(B, JoinArc(G[B], H[A]))
    told = cut_off_before_the_commit(scene, B, A, LeaveArc(G[B], H[A]), DeleteGroup(H[A]))
    assert isinstance(told, Committed)
    scene.done(A, JoinArc(H[A], G[A]), JoinArc(G[A], H[A]))
    scene.meet([A], [B, C])
    scene.check()


KIM, ANN, GUEST = NodeId(f"kim@{A}"), NodeId(f"ann@{C}"), NodeId("guest@nowhere")

KEPT = [(G[A], G[B]), (H[B], KIM), (G[B], H[A]), (H[A], GUEST)]
"""Of the arcs of `with_one_gone`, those that have no end at the server which is gone."""

ENDED = [(G[B], G[C]), (G[C], G[A]), (H[C], KIM), (H[A], ANN), (H[A], H[C])]


@pytest.fixture
def with_one_gone():
    """C is gone, which had arcs of all kinds with the others."""
    scene = Scene(is_configured=False)
    for arc in KEPT + ENDED:
        home = ServerId(arc[0].partition("@")[2])
        scene.done(home, JoinArc(*arc))
    scene.part([A, B], [C])
    return scene


def check_without(scene, gone):
    """All is at rest at the others, and known for sure."""
    others = {server: core for server, core in scene.cluster.servers.items() if server != gone}
    check_quiet(others, scene.commands, scene.cluster.answers)
    check_all(others, TrueGraph(dict.fromkeys(KEPT, 0)), {node for at in (G, H) for node in (at[A], at[B])})
    for core in others.values():
        resolver = MembershipResolver(core)
        assert core.suspended_arcs() == []
        assert not resolver.has_gaps or resolver.apart_below() == []
        for member in (KIM, G[A], G[B], H[A], H[B]):
            assert resolver.apart_above(member) == []
        assert core.servers_met == [server for server in others if server != core.server]


@pytest.mark.parametrize("order", [(A, B), (B, A)])
def test_a_server_that_is_gone_for_good_is_retired_at_each_of_the_others(with_one_gone, order):
    scene = with_one_gone
    assert scene.refused(A, LeaveArc(H[C], KIM)) is Reason.UNAVAILABLE
    refusal = scene.command(A, RemovePeer, Subnet(C))
    assert refusal.reason is Reason.NAME_IN_USE
    assert f"`shadowtree peers remove {C} --force`" in refusal.message
    first, second = (scene.retire(server, C) for server in order)
    assert second is None
    if first is not None:
        # What the other one had not ended yet was known here.
        assert f"what the server {order[1]} owns" in first.message
        assert scene.retire(order[0], C) is None
    check_without(scene, C)
    # Names of its domain are nobody's: a person of it is welcome again.
    scene.done(A, JoinArc(H[A], ANN))
    scene.done(A, LeaveArc(H[A], ANN))
    check_without(scene, C)


@pytest.mark.parametrize("order", [(A, B), (B, A)])
def test_a_server_that_was_retired_and_comes_back_gets_nothing_back(with_one_gone, order):
    scene = with_one_gone
    for server in (*order, *order):
        if C in scene.core(server).servers_met:
            scene.retire(server, C)
    for server in order:
        assert isinstance(scene.command(server, AddPeer, Subnet(C), f"{C}:7400"), Committed)
    scene.meet([A, B], [C])
    assert scene.members(A) == scene.members(B) == scene.members(C) == {A, B, C}
    scene.check(*KEPT)
    scene.done(C, JoinArc(G[C], G[A]))
    scene.check(*KEPT, (G[C], G[A]))


def test_only_a_server_that_is_out_of_reach_is_retired():
    scene = Scene(is_configured=False)
    scene.done(C, JoinArc(G[C], KIM))
    refusal = scene.command(A, RetirePeer, Subnet(C))
    assert refusal.reason is Reason.INVALID_REQUEST
    assert "is in one view with this one" in refusal.message
    assert scene.command(A, RetirePeer, Subnet(A)).reason is Reason.INVALID_REQUEST
    assert scene.command(A, RetirePeer, Subnet("nobody.example")).reason is Reason.INVALID_REQUEST
    scene.check((G[C], KIM))


def test_a_server_that_is_back_before_it_was_retired_keeps_what_it_has(with_one_gone):
    scene = with_one_gone
    ticket = FIRST_READ
    scene.meet_until(lambda: scene.core(A).is_frozen, [A, B], [C])
    scene.cluster.submit(A, RetirePeer(ticket, Subnet(C)))
    scene.cluster.run()
    assert scene.cluster.answers.pop(ticket).reason in (Reason.UNAVAILABLE, Reason.INVALID_REQUEST)
    scene.check(*KEPT, *ENDED)


def test_what_was_to_be_ended_stays_where_the_server_comes_back_meanwhile(with_one_gone):
    scene = with_one_gone
    ticket = FIRST_READ
    scene.cluster.submit(A, RetirePeer(ticket, Subnet(C)))
    scene.cluster.take(scene.network.next())
    assert not scene.core(A).is_idle()
    scene.meet([A, B], [C])
    answer = scene.cluster.answers.pop(ticket)
    ended = [arc for arc in ENDED if A in (ServerId(end.partition("@")[2]) for end in arc)]
    left = [arc for arc in ENDED if arc not in ended]
    scene.check(*KEPT, *(left if isinstance(answer, Committed) else ENDED))


def test_what_is_refused_while_in_doubt_is_tried_again_when_it_is_repeated():
    scene = Scene()
    cut_off_before_the_commit(scene, B, A, JoinArc(G[B], H[B]), JoinArc(G[A], H[B]))
    reasons = []
    for _ in range(2):
        ticket = FIRST_READ + len(reasons)
        scene.cluster.submit(A, UpdateCommand(ticket, RequestId("again"), (LeaveArc(H[A], G[A]),)))
        scene.cluster.run()
        reasons.append(scene.cluster.answers.pop(ticket).reason)
        scene.meet([A], [B, C])
    assert reasons == [Reason.UNAVAILABLE, Reason.NOT_A_MEMBER]


def test_a_process_of_a_server_that_is_away_is_not_taken_for_a_group():
    scene = Scene()
    person = NodeId(f"person@{A}")
    scene.done(B, JoinArc(G[B], person))
    scene.part([A], [B, C])
    assert scene.refused(B, JoinArc(person, H[B], offline=True)) is Reason.GROUP_NOT_FOUND
    scene.meet([A], [B, C])
    scene.check((G[B], person))
