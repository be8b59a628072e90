"""No coordinator keeps entries here for longer than so long, and none that third servers keep waiting is blamed."""

import pytest

from namegraph.core import ServerCore
from namegraph.events import CutCommand, PeerMessage, PeerMet, ReadCommand, Tick, UpdateCommand
from namegraph.model.names import NodeId, ServerId, Subnet
from namegraph.model.operations import ChildKind, CreateGroup, JoinArc
from namegraph.model.outcomes import Committed
from namegraph.model.peer_faults import PeerFault
from namegraph.model.priorities import Priority
from namegraph.model.refusals import Reason, Refusal
from namegraph.model.rows import RequestId
from namegraph.state.given_up import GivenUpServers
from namegraph.state.wait_limits import WaitLimits
from namegraph.update.order_queue import EntryPhase
from namegraph.wire.codec import decode_in_view, encode
from namegraph.wire.message_parts import FIRST_VIEW, Cohort, Cover, PendingEntry, Update, UpdateId
from namegraph.wire.update_messages import GIVEN_UP, Abort, Final, Holding, Order, Ready, Refuse, Vote
from namegraph.wire.view_messages import Accept, Propose, Reach

HERE, OTHER, THIRD = (ServerId(f"{name}.x") for name in "abc")
GROUP = NodeId(f"staff@{HERE}")
LIMITS = WaitLimits()
LOOK = LIMITS.look


class Scene:
    """One core, its clock, and the letters that it sent."""

    def __init__(self):
        self.now, self.tickets = 0.0, 0
        self.sent, self.replies = [], {}
        self.core = ServerCore(server=HERE, subnets=[Subnet(HERE)], peers={Subnet(OTHER): OTHER, Subnet(THIRD): THIRD})
        for other in (OTHER, THIRD):
            self.step(PeerMet(other, (Subnet(other),)))
        self.ask(CreateGroup(GROUP))

    def step(self, event):
        effects = self.core.step(event, self.now)
        self.sent += [(each.receiver, decode_in_view(each.encoded)[1]) for each in effects.messages]
        self.replies.update({reply.ticket: reply.outcome for reply in effects.replies})

    def tell(self, message, sender=OTHER, view=FIRST_VIEW):
        self.step(PeerMessage(sender, self.core.channels.handled_through(sender) + 1, encode(message, view)))

    def ask(self, *operations, deadline=None):
        self.tickets += 1
        self.step(UpdateCommand(self.tickets, RequestId(f"r{self.tickets}"), operations, deadline))
        return self.tickets

    def wait(self, seconds, *, is_deaf=False):
        """Let time pass, with the ticks that the core asks for."""
        end = self.now + seconds
        while (due := self.core.next_deadline) is not None and due <= end:
            self.now = due if due > self.now else self.now + 0.001
            self.step(Tick(is_deaf))
        self.now = end

    def said(self, kind, receiver=OTHER):
        return [message for to, message in self.sent if to == receiver and isinstance(message, kind)]

    @property
    def given_up(self):
        return self.core.given_up(self.now)

    @property
    def mistrusted(self):
        return self.core.mistrusted(self.now)


@pytest.fixture
def scene():
    return Scene()


def order(number, *operations, size=1, final=None, sender=OTHER, read=True):
    update_id = UpdateId(sender, number)
    update = Update(update_id, operations, size, (), read=NodeId(f"g@{sender}") if read and not operations else None)
    return Order(update, Priority(number, sender), Cover(frozenset({GROUP}), frozenset()), final)


def join(number=1, name="h"):
    return (number, JoinArc(GROUP, NodeId(f"{name}@{OTHER}")))


def phases(scene):
    return [entry.phase for entry in scene.core.entries.by_update.values()]


def make_ready(scene, number=1, **keywords):
    scene.tell(order(number, join(), **keywords))
    scene.tell(Final(UpdateId(OTHER, number), scene.said(Vote)[-1].priority))
    assert phases(scene) == [EntryPhase.READY]


def test_an_entry_without_a_word_of_its_coordinator_is_given_up_after_ten_seconds(scene):
    scene.tell(order(1))
    waiting = scene.ask(JoinArc(GROUP, NodeId(f"ann@{HERE}"), ChildKind.PROCESS))
    scene.wait(10 - LOOK)
    assert waiting not in scene.replies
    scene.wait(3 * LOOK)
    assert isinstance(scene.replies[waiting], Committed)
    assert scene.said(Refuse)[-1].number == GIVEN_UP
    assert not scene.core.entries.by_update
    assert not scene.given_up, "a third server may be to blame"
    assert not scene.core.channels.faults


def test_a_late_final_priority_finds_no_entry(scene):
    scene.tell(order(1))
    vote = scene.said(Vote)[-1].priority
    scene.wait(11)
    scene.tell(Final(UpdateId(OTHER, 1), vote))
    assert not scene.core.entries.by_update
    assert not scene.said(Ready)


def test_words_of_the_coordinator_do_not_keep_an_entry_for_longer_than_its_life(scene):
    scene.tell(order(1))
    waited = 0
    while scene.core.entries.by_update and waited < 100:
        scene.wait(5)
        waited += 5
        if scene.core.entries.by_update:
            more = Cover(frozenset({NodeId(f"n{waited}@{HERE}")}), frozenset())
            scene.tell(Order(Update(UpdateId(OTHER, 1), (), 1, (), None), Priority(1, OTHER), more, None))
    assert waited == 35


def test_a_coordinator_that_does_not_decide_is_mistrusted_after_thirty_seconds(scene):
    make_ready(scene)
    scene.wait(30 - LOOK)
    assert not scene.mistrusted
    scene.wait(3 * LOOK)
    assert scene.mistrusted[OTHER].why == "does not decide: its update 1 is undecided"
    assert not scene.given_up
    assert scene.core.channels.faults == {(OTHER, PeerFault.TOO_SLOW): 1}
    assert scene.core.view_change_in_progress, "a view of the same servers is agreed on, which ends the update"
    assert scene.said(Propose, THIRD)
    assert scene.said(Propose, OTHER)
    assert scene.said(Reach, THIRD)[-1].servers == (HERE, THIRD, OTHER), "others should lead"


def test_a_mistrusted_coordinator_is_refused_what_its_clients_ask_for(scene):
    make_ready(scene)
    scene.wait(31)
    install(scene)
    assert not scene.core.entries.by_update, "the view ends the update"
    update = order(2, join()).update._replace(is_of_client=True)
    asked = Order(update, Priority(2, OTHER), Cover(frozenset({GROUP}), frozenset()), None)
    scene.tell(asked, view=scene.core._context.view)
    (refused,) = [each for each in scene.said(Refuse) if each.update_id.number == 2]
    assert "takes part in no update for" in refused.refusal.message
    assert not scene.core.entries.by_update
    scene.wait(120)
    scene.tell(asked, view=scene.core._context.view)
    assert scene.core.entries.by_update


def test_a_member_that_does_not_agree_on_the_view_is_given_up(scene):
    make_ready(scene)
    scene.wait(31)
    view = scene.said(Propose, THIRD)[-1].view
    scene.tell(accept(scene, view), THIRD)
    scene.wait(6)
    assert scene.given_up[OTHER].why == "does not agree on a view"
    assert scene.said(Propose, THIRD)[-1].view > view


def install(scene):
    """Let the others accept the view that the core proposes, and let it open."""
    view = scene.said(Propose, THIRD)[-1].view
    for other in (OTHER, THIRD):
        scene.tell(accept(scene, view), other)
    assert scene.core.members == (HERE, OTHER, THIRD)


def accept(scene, view):
    del scene
    return Accept(view, Cohort(FIRST_VIEW, ServerId("")), (HERE, OTHER, THIRD), 60, (), ())


def test_an_update_that_is_decided_in_time_blames_nobody(scene):
    make_ready(scene)
    scene.wait(25)
    scene.tell(Abort(UpdateId(OTHER, 1)))
    scene.wait(100)
    assert not scene.mistrusted
    assert not scene.given_up
    assert scene.core.next_deadline is None, "nothing waits"


def test_ready_and_the_wait_before_it_leave_time_for_a_view(scene):
    scene.tell(order(1, join()))
    scene.wait(9.5)
    scene.tell(Final(UpdateId(OTHER, 1), scene.said(Vote)[-1].priority))
    scene.wait(24.4)
    assert not scene.mistrusted
    scene.wait(1.1)
    assert OTHER in scene.mistrusted
    assert scene.now == 35.0


def test_an_extension_does_not_begin_the_wait_anew(scene):
    make_ready(scene)
    for turn in range(5):
        scene.wait(6)
        more = Cover(frozenset({NodeId(f"n{turn}@{HERE}")}), frozenset())
        place = scene.core.entries.by_update[UpdateId(OTHER, 1)].final
        scene.tell(Order(Update(UpdateId(OTHER, 1), (), 1, (), None), Priority(1, OTHER), more, place))
    scene.wait(1)
    assert OTHER in scene.mistrusted


def test_an_import_may_take_longer_by_its_number_of_operations(scene):
    make_ready(scene, size=100_000)
    scene.wait(30 + 100_000 / 5_000 - 1)
    assert not scene.mistrusted
    scene.wait(2)
    assert OTHER in scene.mistrusted


def test_no_number_of_operations_counts_for_more_than_ten_minutes(scene):
    make_ready(scene, size=2**24)
    scene.wait(30 + 600 - 1)
    assert not scene.mistrusted
    scene.wait(2)
    assert OTHER in scene.mistrusted


def test_servers_that_may_not_be_slow_have_no_longer_for_large_updates(scene):
    scene.core.let_be_slow(lambda server: server != OTHER)
    make_ready(scene, size=100_000)
    scene.wait(31)
    assert OTHER in scene.mistrusted


def test_an_update_that_was_refused_here_and_does_not_end_is_forgotten(scene):
    scene.tell(order(1, (1, JoinArc(NodeId(f"gone@{HERE}"), NodeId(f"h@{OTHER}")))))
    scene.tell(Final(UpdateId(OTHER, 1), scene.said(Vote)[-1].priority))
    assert phases(scene) == [EntryPhase.REFUSED]
    scene.wait(11)
    assert not scene.core.entries.by_update
    assert not scene.given_up


def test_an_entry_that_was_handed_on_lives_for_thirty_five_seconds(scene):
    scene.tell(order(1, join()))
    scene.tell(Final(UpdateId(OTHER, 1), scene.said(Vote)[-1].priority))
    scene.core.entries.install(PendingEntry(UpdateId(THIRD, 7), Priority(1, THIRD), None), [GROUP])
    scene.tell(Abort(UpdateId(OTHER, 1)))
    scene.wait(33)
    assert phases(scene) == [EntryPhase.HANDED_ON]
    scene.wait(2)
    assert not scene.core.entries.by_update
    assert scene.said(Refuse, THIRD)[-1].number == GIVEN_UP
    assert not scene.given_up


def test_an_own_pause_counts_for_a_second_at_most(scene):
    make_ready(scene)
    scene.wait(20)
    scene.now += 60
    scene.step(Tick())
    scene.wait(8.5)
    assert not scene.mistrusted
    scene.wait(2)
    assert OTHER in scene.mistrusted


def test_time_in_which_letters_wait_outside_does_not_count(scene):
    make_ready(scene)
    scene.wait(100, is_deaf=True)
    assert not scene.mistrusted
    scene.wait(31)
    assert OTHER in scene.mistrusted


def test_each_failure_soon_after_the_last_takes_twice_as_long():
    given_up, now, kept_away = GivenUpServers(), 0.0, []
    for _ in range(8):
        given_up.give_up(OTHER, "does not decide", now, LIMITS)
        assert given_up.at(OTHER, now).why == "does not decide"
        kept_away.append(given_up.at(OTHER, now).until - now)
        now += kept_away[-1]
        assert given_up.at(OTHER, now) is None
    assert kept_away == [60, 120, 240, 480, 960, 1920, 3600, 3600]
    given_up.give_up(OTHER, "does not decide", now + 3601, LIMITS)
    assert given_up.at(OTHER, now + 3601).until == now + 3601 + 60, "an hour without a failure is enough"


def test_a_restart_takes_everybody_back_and_begins_all_waits_anew(scene):
    make_ready(scene)
    scene.wait(29)
    watched = scene.core._entry_timeouts
    watched.forget_all()
    scene.wait(29)
    assert not scene.mistrusted


# -- the coordinator


def vote(scene, number, priority=50, sender=OTHER):
    scene.tell(Vote(UpdateId(HERE, number), Priority(priority, sender), ()), sender)


def running(scene):
    return scene.core._coordinator.under_way()


def test_a_coordinator_begins_again_when_a_participant_gave_its_entry_up(scene):
    asked = scene.ask(JoinArc(GROUP, NodeId(f"h@{OTHER}")))
    (first,) = running(scene)
    scene.tell(Refuse(first, GIVEN_UP, _refusal()))
    (second,) = running(scene)
    assert second != first
    assert scene.said(Abort) == [Abort(first)]
    assert asked not in scene.replies
    assert not scene.core.channels.faults


def test_a_holder_may_give_up_too_and_a_stranger_to_the_update_may_not(scene):
    scene.ask(JoinArc(GROUP, NodeId(f"h@{OTHER}")))
    (first,) = running(scene)
    scene.tell(Refuse(first, GIVEN_UP, _refusal()), THIRD)
    assert running(scene) == [first]
    assert scene.core.channels.faults == {(THIRD, PeerFault.UNASKED): 1}
    scene.tell(Holding(first), THIRD)
    scene.tell(Refuse(first, GIVEN_UP, _refusal()), THIRD)
    assert running(scene) != [first]


def test_a_coordinator_ends_an_attempt_before_anybody_may_blame_it(scene):
    asked = scene.ask(JoinArc(GROUP, NodeId(f"h@{OTHER}")))
    (first,) = running(scene)
    scene.wait(19.5)
    assert running(scene) == [first]
    scene.wait(1.5)
    assert running(scene) != [first], "it has begun again"
    assert scene.said(Abort) == [Abort(first)]
    assert LIMITS.attempt + 5 <= LIMITS.after_ready
    assert asked not in scene.replies


def test_the_deadline_of_a_caller_ends_the_attempts(scene):
    asked = scene.ask(JoinArc(GROUP, NodeId(f"h@{OTHER}")), deadline=50.0)
    scene.wait(51)
    assert scene.replies[asked].reason is Reason.DEADLINE_EXCEEDED
    assert not running(scene)
    assert len(scene.said(Abort)) == 3


def test_what_takes_long_to_begin_is_refused_and_not_begun_again(scene):
    many = [JoinArc(GROUP, NodeId(f"p{number}@{OTHER}"), ChildKind.PROCESS) for number in range(101)]
    asked = scene.ask(*many)
    scene.wait(21)
    refusal = scene.replies[asked]
    assert refusal.reason is Reason.UNAVAILABLE
    assert "gave the update up: not all servers voted in time (missing: b.x); nothing was done" in refusal.message


@pytest.mark.parametrize("command", [ReadCommand, CutCommand])
def test_reads_in_order_and_cuts_begin_again_too(scene, command):
    scene.tell(order(9, join()))
    scene.tell(Final(UpdateId(OTHER, 9), scene.said(Vote)[-1].priority))
    scene.step(command(77, GROUP if command is ReadCommand else "cut", None))
    (first,) = running(scene)
    scene.wait(21)
    assert running(scene) not in ([], [first])


def test_a_pause_of_the_coordinator_counts_for_its_attempts(scene):
    scene.ask(JoinArc(GROUP, NodeId(f"h@{OTHER}")))
    (first,) = running(scene)
    scene.wait(1)
    scene.now += 25
    scene.step(Tick())
    assert running(scene) != [first]


def _refusal():
    return Refusal(Reason.UNAVAILABLE, "heard no more of it")


def test_the_limits_hold_one_another():
    assert LIMITS.entry + 2 * LIMITS.look + LIMITS.accept == 40
    assert LIMITS.before_ready + LIMITS.after_ready == 40
    assert LIMITS.accept < LIMITS.install
    assert LIMITS.answer < LIMITS.settle < LIMITS.open
    assert LIMITS.in_units(100).allowance(10_000) == 100 * LIMITS.allowance(10_000)
