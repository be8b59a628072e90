"""Servers that come back with an older copy of their database, or an empty one: the state that comes back.

Whole seeds in which disks fail are among those of `shadowtree simulate --faults`.
"""

from unittest.mock import patch

import pytest

from namegraph.events import ReadCommand, Restored, UpdateCommand
from namegraph.model.names import NodeId
from namegraph.model.operations import ChildKind, CreateGroup, DeleteGroup, JoinArc, LeaveArc
from namegraph.model.outcomes import Committed
from namegraph.model.refusals import Reason, RefusedError
from namegraph.model.rows import RequestId
from namegraph.state.incarnations import Incarnations
from namegraph.update.causal_reads import Wait
from namegraph.wire.update_messages import Commit
from namegraph.wire.view_messages import HintedOutcome
from resolver.membership import MembershipResolver
from simulation.cluster.disk import Disk
from simulation.oracle.violation import InvariantViolatedError
from simulation.run import run_seed
from tests.simulation.scene import RING, A, B, C, G, H, Scene


class SceneWithCopies(Scene):
    def copy(self, server):
        return self.cluster.copy_of_disk(server)

    def go_back(self, server, disk):
        """Crash a server, and start it on another disk."""
        self.cluster.crash(server, down_for=0.5, disk=disk)
        self.cluster.run()
        self.cluster.run()

    def ask_until_told(self, server, *operations, kind, to):
        """Ask for an update that ends without a server, which is cut off as soon as it is sent a message of a type."""
        self.commands[len(self.commands)] = UpdateCommand(len(self.commands), RequestId("cut"), operations)
        self.cluster.submit(server, self.commands[len(self.commands) - 1])
        before = len(self.cluster.sent)
        while not any(sent.receiver == to and isinstance(sent.message, kind) for sent in self.cluster.sent[before:]):
            self.cluster.take(self.network.next())
        self.part([other for other in (A, B, C) if other != to], [to])

    def sent(self, kind):
        return [sent for sent in self.cluster.sent if isinstance(sent.message, kind)]

    def incarnations(self):
        return [self.core(server).incarnations.own for server in (A, B, C)]


@pytest.fixture
def loop():
    """Return a loop through all three servers."""
    scene = SceneWithCopies()
    for above, below in ((A, B), (B, C), (C, A)):
        scene.done(above, JoinArc(G[above], G[below]))
    return scene


def test_what_others_know_comes_back_and_what_was_left_does_not(loop):
    old = loop.copy(A)
    loop.done(A, LeaveArc(G[A], G[B]))
    loop.done(C, LeaveArc(G[C], G[A]))
    loop.done(A, JoinArc(G[A], H[C]))
    loop.done(B, JoinArc(H[B], G[A]))
    loop.done(A, JoinArc(G[A], H[A]))
    loop.go_back(A, old)
    # The last one was known to its own server alone.
    loop.check((G[B], G[C]), (G[A], H[C]), (H[B], G[A]))
    assert loop.incarnations()[0] and not any(loop.incarnations()[1:])


def test_a_loop_forms_again(loop):
    loop.go_back(B, loop.copy(B))
    loop.check(*RING)
    assert loop.incarnations() == [0, 0, 0], "nothing was said since: the copy is as good as the disk"
    old = loop.copy(B)
    loop.done(B, CreateGroup(NodeId(f"n@{B}")), JoinArc(G[B], H[C]))
    loop.go_back(B, old)
    assert loop.loops(A) == {frozenset(G.values())}
    loop.check(*RING, (G[B], H[C]))


def test_with_an_empty_disk_groups_come_back_that_others_have_arcs_with(loop):
    loop.done(A, JoinArc(H[A], H[B]))
    loop.go_back(A, Disk(A))
    loop.check(*RING, (H[A], H[B]))
    assert loop.core(A).owner_of("b.example") == B


def test_a_group_comes_back_whose_arc_a_third_server_tells_of_before_the_home_of_its_child_is_there(loop):
    old, arc = loop.copy(C), (NodeId(f"n@{C}"), NodeId(f"m@{B}"))
    loop.done(C, CreateGroup(arc[0]))
    loop.ask_until_told(A, CreateGroup(NodeId(f"n@{A}")), JoinArc(*arc, ChildKind.PROCESS), kind=Commit, to=C)
    loop.part([A], [B])
    loop.go_back(C, old)
    loop.meet([A], [C])
    assert arc in loop.suspended(C)
    loop.meet([A, C], [B])
    loop.check(*RING, arc)


def test_what_is_heard_of_a_server_before_it_is_met_is_not_counted_as_its_own(loop):
    loop.done(B, JoinArc(H[B], H[A]))
    loop.part([A, B], [C])
    loop.go_back(A, Disk(A))
    assert loop.core(A).owner_of("c.example") is None
    loop.done(B, JoinArc(H[C], H[B], ChildKind.GROUP, offline=True))
    loop.meet([A, B], [C])
    loop.check(*RING, (H[C], H[B]), (H[B], H[A]))


def test_a_group_that_was_deleted_and_created_again_does_not_get_its_old_arcs_back(loop):
    old = loop.copy(A)
    loop.done(A, DeleteGroup(G[A], force=True))
    loop.done(A, CreateGroup(G[A]))
    loop.go_back(A, old)
    loop.check((G[B], G[C]))


def test_what_it_had_yet_to_tell_of_a_group_is_old_news_once_all_are_healed(loop):
    """The group was deleted by an update of which its home was not told, and is another one since."""
    loop.ask_until_told(A, CreateGroup(NodeId(f"n@{A}")), DeleteGroup(H[C]), kind=Commit, to=C)
    old = loop.copy(A)
    loop.meet([A, B], [C])
    assert loop.refused(C, DeleteGroup(H[C])) is Reason.GROUP_NOT_FOUND, "this was offered, and taken"
    loop.done(C, CreateGroup(H[C]), JoinArc(H[C], G[A]))
    offers = len(loop.sent(HintedOutcome))
    loop.go_back(A, old)
    assert len(loop.sent(HintedOutcome)) > offers
    loop.check(*RING, (H[C], G[A]))


@pytest.mark.parametrize(
    ("server", "operation"),
    [(A, LeaveArc(G[A], H[B])), (A, LeaveArc(G[A], H[B], if_needed=True)), (B, DeleteGroup(H[B], force=True))],
)
def test_nobody_is_told_that_there_is_nothing_to_leave_that_may_be_forgotten(loop, server, operation):
    old = loop.copy(A)
    loop.done(A, JoinArc(G[A], H[B]))
    loop.cluster.crash(A, down_for=0.5, disk=old)
    while loop.core(B).is_healed or A not in loop.members(B):
        loop.cluster.take(loop.network.next())
    # They are in one view, and have not compared yet what is suspended between them.
    assert (G[A], H[B]) in loop.suspended(B)
    ticket = len(loop.commands)
    loop.commands[ticket] = UpdateCommand(ticket, RequestId(f"r{ticket}"), (operation,))
    loop.cluster.submit(server, loop.commands[ticket])
    loop.cluster.run()
    assert loop.cluster.answers[ticket].reason is Reason.UNAVAILABLE
    loop.check(*RING, (G[A], H[B]))
    loop.done(server, operation)
    loop.check(*RING)


def test_all_but_one_go_back(loop):
    old = {server: loop.copy(server) for server in (A, B)}
    loop.done(A, LeaveArc(G[A], G[B]))
    loop.done(B, LeaveArc(G[B], G[C]))
    loop.done(C, JoinArc(H[C], H[A]))
    for server in (A, B):
        loop.cluster.crash(server, down_for=0.5, disk=old[server])
    loop.cluster.run()
    loop.cluster.run()
    # Of the first, both ends have gone back; of the second, one has not.
    loop.check((G[A], G[B]), (G[C], G[A]), (H[C], H[A]))


def test_a_copy_of_a_copy_is_found_out_too(loop):
    oldest = loop.copy(A)
    loop.done(A, JoinArc(G[A], H[B]))
    loop.go_back(A, oldest)
    first = loop.incarnations()[0]
    loop.done(A, LeaveArc(G[A], H[B]))
    loop.go_back(A, oldest)
    assert loop.incarnations()[0] not in (0, first)
    loop.check(*RING)


def test_letters_that_were_written_before_the_others_were_met_do_not_hide_it(loop):
    old = loop.copy(A)
    loop.done(A, JoinArc(G[A], H[B]))
    had_sent = loop.core(A).channels.sent_through(B)
    loop.cluster.crash(A, down_for=1000.0, disk=old)
    core, disk = loop.core(A), loop.cluster._disks[A]
    for number in range(had_sent + 1):
        update = UpdateCommand(1000 + number, RequestId(f"unmet {number}"), (JoinArc(H[A], G[B]),))
        disk.write(core.step(update, loop.cluster.now).records)
    assert core.channels.sent_through(B) > had_sent >= core.channels.left_through(B)
    loop.cluster.run()
    loop.cluster.run()
    assert loop.incarnations()[0]
    loop.check(*RING, (G[A], H[B]))


def test_until_it_is_healed_with_all_nothing_that_it_may_have_forgotten_is_denied(loop):
    loop.done(B, JoinArc(H[B], H[C]))
    loop.done(A, JoinArc(H[A], H[B]))
    told = []

    def ask():
        core = loop.core(A)
        resolver = MembershipResolver(core)
        if core.incarnations.own:
            try:
                resolver.resolve(G[A])
            except RefusedError as error:
                told.append(error.refusal.reason)
            else:
                told.append("incomplete" if resolver.uncertainty() else "complete")

    loop.cluster.crash(C, down_for=5_000.0)
    loop.cluster.crash(A, down_for=0.5, disk=Disk(A))
    loop.cluster.run(after_step=ask)
    assert list(dict.fromkeys(told)) == [Reason.UNAVAILABLE, "incomplete", "complete"]
    loop.check(*RING, (H[B], H[C]), (H[A], H[B]))


@pytest.mark.parametrize("kind", [ChildKind.AUTO, ChildKind.PROCESS])
def test_a_group_that_it_has_forgotten_is_not_taken_for_a_process(loop, kind):
    told, new = [], NodeId(f"person@{A}")

    def ask():
        # At each of the first steps after it has noticed, until it is healed.
        if loop.core(A).incarnations.own and not loop.core(A).is_healed and len(told) < 40:
            for member in (G[A], new):
                ticket = len(loop.commands)
                told.append(ticket)
                operations = (JoinArc(H[B], member, kind=kind), JoinArc(H[C], member, kind=kind))
                loop.commands[ticket] = UpdateCommand(ticket, RequestId(f"r{ticket}"), operations)
                loop.cluster.submit(B, loop.commands[ticket])

    loop.cluster.crash(A, down_for=0.5, disk=Disk(A))
    loop.cluster.run(after_step=ask)
    answers = [loop.cluster.answers[ticket] for ticket in told]
    assert Reason.UNAVAILABLE in {answer.reason for answer in answers if not isinstance(answer, Committed)}
    arcs = loop.core(B).graph.arcs_from(loop.core(B).graph.index[H[B]])
    joined = {(H[server], loop.core(B).graph.ids[child]) for child, _ in arcs for server in (B, C)}
    assert not (kind is ChildKind.PROCESS and (H[B], G[A]) in joined)
    loop.check(*RING, *joined)


def test_that_a_server_has_not_caught_up_is_durable(loop):
    old = loop.copy(A)
    loop.done(A, JoinArc(G[A], H[B]))
    loop.cluster.crash(C, down_for=5_000.0)
    loop.cluster.crash(A, down_for=0.5, disk=old)
    seen = []

    def restart_once_healed_with_one():
        core = loop.core(A)
        is_behind = core.members == (A, B) and core.uncertainty().behind
        if not seen and core.incarnations.own and is_behind and not core.in_doubt:
            seen.append(core)
            loop.cluster.crash(A, down_for=0.5)
        elif seen and core is not seen[0] and C in loop.cluster.down:
            assert core.uncertainty().behind

    loop.cluster.run(after_step=restart_once_healed_with_one)
    assert seen
    assert not loop.core(A).uncertainty().behind
    loop.cluster.restart_all()
    assert not loop.core(A).uncertainty().behind
    loop.cluster.run()
    assert not loop.core(A).uncertainty().behind


def test_an_ordered_read_says_that_something_may_be_missing_that_was_forgotten(loop):
    old = loop.copy(A)
    loop.done(A, JoinArc(H[A], H[C]))
    loop.done(A, JoinArc(G[A], H[B]))
    loop.cluster.crash(C, down_for=5_000.0)
    loop.cluster.crash(A, down_for=0.5, disk=old)
    asked = []

    def ask_once_healed_with_one():
        core = loop.core(A)
        is_healed_with_b = core.members == (A, B) and core._context.is_healed
        if not asked and core.incarnations.own and is_healed_with_b and core.uncertainty().behind:
            asked.append(ReadCommand(500, H[A]))
            loop.cluster.submit(A, asked[0])

    loop.cluster.run(after_step=ask_once_healed_with_one)
    answer = loop.cluster.answers[500]
    assert H[C] not in [member.node for member in answer.members]
    assert answer.unreachable == (H[A],)


def test_a_revision_that_was_lost_is_not_taken_for_one_that_is_there(loop):
    old = loop.copy(A)
    lost = loop.done(A, JoinArc(G[A], H[B])).revision
    loop.go_back(A, old)
    with pytest.raises(RefusedError, match=r"was lost when the server a\.example went back"):
        loop.core(A).waits_for(lost)
    newer = loop.done(A, JoinArc(G[A], H[C])).revision
    assert loop.core(A).waits_for(newer) is Wait.REFLECTED


def test_a_read_that_asks_for_what_a_server_may_have_forgotten_is_refused_there_until_both_have_healed(loop):
    old = loop.copy(A)
    forgotten = loop.done(C, JoinArc(G[C], H[A])).revision
    assert loop.core(A).waits_for(forgotten) is Wait.REFLECTED
    loop.part([A, B], [C])
    loop.go_back(A, old)
    with pytest.raises(RefusedError, match=r"may lack .* out of reach") as caught:
        loop.core(A).waits_for(forgotten)
    assert caught.value.refusal.reason is Reason.UNAVAILABLE
    loop.meet([A, B], [C])
    assert loop.core(A).waits_for(forgotten) is Wait.REFLECTED


def test_a_lost_request_is_carried_out_again(loop):
    old = loop.copy(A)
    again = UpdateCommand(1000, RequestId("again"), (JoinArc(G[A], H[B]),))
    loop.cluster.submit(A, again)
    loop.cluster.run()
    loop.done(B, LeaveArc(G[B], G[C]))
    loop.go_back(A, old)
    loop.cluster.submit(A, UpdateCommand(1001, RequestId("again"), (JoinArc(G[A], H[B], if_needed=True),)))
    loop.cluster.run()
    assert isinstance(loop.cluster.answers[1001], Committed)
    loop.check((G[A], G[B]), (G[C], G[A]), (G[A], H[B]))


def test_a_fresh_incarnation_is_durable(loop):
    old = loop.copy(A)
    loop.done(A, JoinArc(G[A], H[B]))
    loop.go_back(A, old)
    before = loop.incarnations()
    loop.cluster.restart_all()
    loop.cluster.run()
    assert loop.incarnations() == before
    loop.check(*RING, (G[A], H[B]))


@pytest.mark.parametrize(
    ("seed", "kwargs"),
    [
        (10145, {}),  # a child's home blocks, late, an arc that its parent's home has never heard of
        (5071, {"servers": 5, "updates": 60}),  # arcs with two servers speak of the same lost group
        (460, {}),
        (702173, {"servers": 5, "updates": 60}),  # a deleted group comes back, and a process of its name is a member
        (304621, {"servers": 5, "updates": 60}),  # a record of an arc comes to its home, which has gone back before it
        (11152, {}),  # a group is deleted, and its home hears of it only later: with arcs that were left by it
    ],
)
def test_seeds_that_failed_once(seed, kwargs):
    run_seed(seed, faults=True, **kwargs)


def test_without_a_leap_an_update_that_was_lost_is_taken_for_one_that_is_there(loop):
    def begin(self, incarnation, *, counter):
        self.own = incarnation
        return counter

    old = loop.copy(A)
    lost = loop.done(A, JoinArc(G[A], H[A])).revision
    with patch.object(Incarnations, "begin", begin):
        loop.go_back(A, old)
    loop.done(A, JoinArc(G[A], H[C]))
    assert loop.core(A).waits_for(lost) is Wait.REFLECTED
    loop.check(*RING, (G[A], H[C]))


def test_only_a_server_on_an_older_disk_is_taken_for_one(loop):
    links = loop.links
    for server in (A, B, C):
        loop.cluster.crash(server, down_for=0.5)
        loop.cluster.run()
    assert loop.incarnations() == [0, 0, 0]
    loop.cluster.servers[A].step(Restored(2**33), loop.cluster.now)
    with pytest.raises(InvariantViolatedError, match="taken for one that has gone back"):
        links._go_back(A)
