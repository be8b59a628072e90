"""Servers that part and meet again: the work of each side meanwhile, and the state on which all agree in the end."""

from unittest.mock import patch

import pytest

from namegraph.events import PeerLost, ReadCommand, UpdateCommand
from namegraph.graph.name_graph import ArcState
from namegraph.model.names import NodeId, ServerId
from namegraph.model.operations import ChildKind, CreateGroup, DeleteGroup, JoinArc, LeaveArc
from namegraph.model.outcomes import Committed
from namegraph.model.refusals import Reason
from namegraph.model.rows import NodeKind, RequestId
from namegraph.state.known_arcs import known_arc
from namegraph.wire.arc_sets import count_of
from namegraph.wire.codec import decode_outcome
from namegraph.wire.message_parts import ArcId, KnownArc
from namegraph.wire.update_messages import Commit, Done, Order, Ready
from namegraph.wire.view_messages import Install, Open, Propose
from resolver.census import Census
from resolver.membership import MembershipResolver
from simulation.cluster import connections
from simulation.cluster.networks import Channel
from tests.simulation.scene import RING, A, B, C, G, H, Scene, cut_off_before_the_commit


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
    assert loop.cluster.counts().keys().isdisjoint({"Reach", "Propose", "Install", "ArcDigest"})
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


def test_the_arcs_that_a_server_counts_are_those_of_its_groups_wherever_their_children_are(loop):
    censuses = {server: Census(loop.core(server)) for server in (A, B, C)}

    def arcs():
        return [census.counts().arcs for census in censuses.values()]

    assert arcs() == [1, 1, 1]
    loop.part([A, B], [C])
    assert loop.suspended(B) == {(G[B], G[C])}
    assert arcs() == [1, 1, 1]
    loop.done(A, JoinArc(G[A], H[B]))
    loop.done(B, LeaveArc(G[B], G[C]))
    assert arcs() == [2, 0, 1]
    loop.meet([A, B], [C])
    assert arcs() == [2, 0, 1]
    assert [census.counts().groups for census in censuses.values()] == [2, 2, 2]


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
    assert loop.core(A).uncertainty().above(G[A]) == [C]
    # What is above it at another server is known there too.
    assert loop.core(B).uncertainty().above(G[B]) == [C]
    assert loop.core(B).uncertainty().above(H[B]) == []


def test_a_server_that_was_alone_knows_nothing_for_sure_until_it_is_healed_with_others(loop):
    loop.part([A], [B, C])
    resolver = MembershipResolver(loop.core(A))
    assert resolver.uncertainty().above(G[A]) == [C]
    loop.meet_until(lambda: loop.core(A).view_change_in_progress, [A], [B, C])
    while loop.core(A).view_change_in_progress or not loop.core(A).is_healed:
        assert resolver.uncertainty()
        assert resolver.uncertainty().above(G[A]) == [B, C]
        loop.cluster.take(loop.network.next())
    assert resolver.uncertainty().above(G[A]) == []
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
    known = [known_arc(loop.core(server)._context, ArcId(*arc)) for server in (A, C)]
    assert known[0] == known[1]
    assert not any(loop.core(server)._context.unilateral_leaves for server in (A, C))
    loop.done(C, JoinArc(*arc))
    loop.check(*RING)


@pytest.mark.parametrize("child", [H[C], NodeId(f"person@{C}")])
def test_so_they_do_where_its_child_is_gone_by_then(child):
    scene = Scene()
    arc = G[A], child
    scene.part([A], [B, C])
    scene.done(C, JoinArc(*arc, offline=True))
    scene.done(C, LeaveArc(*arc))
    if child == H[C]:
        scene.done(C, DeleteGroup(child))
    scene.meet([A], [B, C])
    assert known_arc(scene.core(A)._context, ArcId(*arc)) == known_arc(scene.core(C)._context, ArcId(*arc))
    scene.check()
    if child == H[C]:
        scene.done(C, CreateGroup(child))
    assert isinstance(cut_off_before_the_commit(scene, A, C, JoinArc(*arc)), Committed)
    scene.meet([A, B], [C])
    scene.check(arc)


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
    is_unconfirmed = scene.core(C)._context.is_unconfirmed(*arc)
    # Once it has joined the arc, its home is to be asked.
    assert isinstance(scene.ask(C, LeaveArc(*arc)), Committed) is is_unconfirmed
    scene.check(*(() if is_unconfirmed else (arc,)))


@pytest.mark.parametrize("is_shared", [False, True], ids=["of its parent's home", "of another server"])
@pytest.mark.parametrize("asked", ["leave", "join", "import"])
@pytest.mark.parametrize(("above", "below"), [(A, C), (C, A)], ids=["names in order", "names in reverse"])
def test_what_is_done_with_an_arc_while_a_view_heals_is_not_undone(above, below, asked, is_shared):
    """The child's end has changed the arc more often, and what was compared is about to be settled."""
    arc, others, done_while_settling = (G[above], G[below]), [B, below], 0
    join = JoinArc(*arc, ChildKind.GROUP, offline=True)
    for steps in range(0, 60, 2):
        scene = Scene()
        scene.done(above, JoinArc(*arc))
        scene.part([above], others)
        for operation in (LeaveArc(*arc), join) if asked == "leave" else (LeaveArc(*arc), join, LeaveArc(*arc)):
            scene.done(below, operation)
        if asked != "leave":
            scene.done(above, LeaveArc(*arc))
        scene.meet_in_one_view([above], others)
        scene.take(steps)
        is_settling = bool(scene.core(above)._views.healing._under_way)
        at, others_arcs = (B, [(G[B], H[B])]) if is_shared else (above, [])
        if asked == "import":
            answer = scene.bring(at, *others_arcs, arc)
        else:
            change = LeaveArc(*arc) if asked == "leave" else JoinArc(*arc)
            answer = scene.ask(at, *(JoinArc(*other) for other in others_arcs), change)
        is_done = isinstance(answer, Committed)
        done_while_settling += is_settling and is_done
        scene.check(*(others_arcs if is_done else []), *([arc] if is_done is (asked != "leave") else []))
    assert done_while_settling


@pytest.mark.parametrize(("above", "below"), [(A, C), (C, A)], ids=["names in order", "names in reverse"])
def test_a_leave_that_waited_for_a_view_in_which_both_ends_are_is_not_undone(above, below):
    """The child's end had joined the arc by itself, and knows it at a newer version than the home of its parent."""
    arc, others, both_left = (G[above], G[below]), [B, below], 0
    for steps in range(8, 28, 2):
        scene = Scene()
        scene.done(below, JoinArc(G[below], G[B]))
        scene.done(above, JoinArc(*arc))
        scene.part([above], others)
        tickets = range(len(scene.commands), len(scene.commands) + 3)
        asked = LeaveArc(*arc), JoinArc(*arc, ChildKind.GROUP, offline=True), LeaveArc(*arc)
        for ticket, operation in zip(tickets, asked, strict=True):
            scene.commands[ticket] = UpdateCommand(ticket, RequestId(f"r{ticket}"), (operation,))
            scene.cluster.submit(below, scene.commands[ticket])
        for _ in range(steps):
            scene.cluster.take(scene.network.next())
        before = len(scene.cluster.sent)
        scene.meet([above], others)
        commits = [sent.message for sent in scene.cluster.sent[before:] if isinstance(sent.message, Commit)]
        both_left += any(count_of(decode_outcome(commit.outcome).arcs) == 2 for commit in commits)
        assert isinstance(scene.cluster.answers[tickets[-1]], Committed)
        scene.check((G[below], G[B]))
    assert both_left


def test_a_group_that_was_deleted_and_created_again_does_not_get_its_arcs_back(loop):
    loop.part([A, B], [C])
    assert loop.refused(C, DeleteGroup(G[C])) is Reason.GROUP_IN_USE
    loop.done(C, DeleteGroup(G[C], force=True))
    loop.done(C, CreateGroup(G[C]))
    # The home of the parent knows that it cannot know.
    assert [loop.core(server).uncertainty().of_own_arcs() for server in (A, B)] == [[], [C]]
    loop.meet([A, B], [C])
    loop.check((G[A], G[B]))


def test_nor_does_it_get_one_that_its_home_hears_of_while_it_is_ready_to_delete_the_group():
    scene = Scene()
    scene.part([B], [A, C])
    ticket = scene.begin(C, DeleteGroup(G[C]), DeleteGroup(G[A], force=True))
    scene.go_on_until(lambda sent: isinstance(sent.message, Ready) and sent.sender == A)
    # As another server's offer of a missed outcome has it.
    joined = KnownArc(ArcId(G[A], G[B]), True, NodeKind.GROUP, 0, version=1, writer=1)
    scene.core(A)._participant.take_over(joined)
    scene.cluster.run()
    assert isinstance(scene.cluster.answers[ticket], Committed)
    assert scene.suspended(A) == set()
    scene.done(A, CreateGroup(G[A]))
    scene.meet([A, C], [B])
    scene.check()


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


def test_a_server_that_is_back_before_it_is_missed_resumes_without_any_of_this(loop):
    with patch.object(connections, "NOTICED_AFTER", (1e9,)), patch.object(connections, "LOST_AFTER", (1e9,)):
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


@pytest.mark.parametrize(
    ("seed", "steps"), [(5, 2), (6, 8), (8, 4), (10, 6), (15, 6), (18, 5), (26, 3), (36, 7), (42, 7)]
)
def test_whoever_leads_a_view_that_a_member_has_left_before_it_began_there_learns_of_it(seed, steps):
    """C accepts a view of B, and goes on to one of A, which does not reach B."""
    scene = Scene(seed=seed)
    scene.part([A], [B, C])
    scene.part([B], [C])
    scene.after_meeting(steps, [B], [C])
    scene.meet([A], [C])
    assert scene.members(C) == {A, C}
    assert scene.members(B) == {B}
    assert isinstance(scene.command(B, ReadCommand, G[B]), Committed)


def test_what_is_said_of_a_view_late_does_not_take_a_server_from_a_newer_one():
    """That A was in a view without C, and B in it too, C hears when it has been in a view of B since."""
    scene = Scene()
    scene.done(B, JoinArc(G[B], G[C]))
    scene.network.stop(Channel(A, C))
    scene.part([B], [C])
    scene.part([A], [C])
    scene.meet([B], [C])
    scene.part([A], [B])
    assert scene.members(B) == scene.members(C) == {B, C}
    scene.meet([A], [C])
    assert scene.members(C) == {A, C}
    assert scene.members(B) == {B}
    assert isinstance(scene.command(B, ReadCommand, G[B]), Committed)


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
