"""The judge of messages finds what is lost, twice, out of sequence or invented in what clients wrote down."""

from dataclasses import replace

import pytest

import shadowtree
from namegraph.model.operations import LeaveArc
from tests.chaos.history import Outcome, Update
from tests.chaos.message_history import MessageHistory, Sending, faults
from tests.integration.nameserver.recorded_updates import joining

GROUP, ANN, BOB = "staff@a.x", "ann@b.x", "bob@b.x"
OWED = {(ANN, (GROUP,))}


def done(operation, *, asked, told):
    return Update("r", (operation,), asked / 1e9, told / 1e9, Outcome.ACKNOWLEDGED, "1@a.x")


def updates(**bob):
    """Ann is below the group all the time, bob from one instant to another."""
    found = [done(joining(GROUP, ANN, "process"), asked=0, told=0)]
    if bob:
        found.append(done(joining(GROUP, BOB, "process"), asked=bob["since"], told=bob["since"]))
        found.append(done(LeaveArc(GROUP, BOB), asked=bob["until"], told=bob["until"]))
    return found


class Run:
    """A run with two listeners and three accepted messages of one sender. A test chooses what a new listener is
    handed.
    """

    def __init__(self):
        self.messages = MessageHistory()
        for process in (ANN, BOB):
            self.messages.note_mailbox(process, shadowtree.Mailbox(process, "b.x", True, ()))
            self.messages.note_ended(self.listen(process=process))
        for number in (1, 2, 3):
            sending = Sending(b"%d" % number, (GROUP,), (), "sender", number, asked=self.now())
            self.messages.note_sending(sending)
            self.messages.note_accepted(sending)

    def now(self):
        return self.messages.happenings[-1].at

    def listen(self, *numbers, process=ANN, acknowledged=(), at=None):
        """Add a stream that is handed these messages, each at the position of its number by default."""
        stream = self.messages.note_began(process, "")
        for place, number in enumerate(numbers):
            self.hand(stream, number, position=(at or numbers)[place])
            if number in acknowledged:
                self.messages.note_acknowledged(stream, self.message(number, position=number))
        return stream

    def hand(self, stream, number, *, position, **changes):
        self.messages.note_handed(stream, self.message(number, position=position, **changes))

    def message(self, number, *, position, **changes):
        made = shadowtree.Message(GROUP, b"%d" % number, "sender", f"{position}.0@b.x#1", id=f"{number}@{GROUP}#1")
        return replace(made, **changes)

    def faults(self, **bob):
        return faults(self.messages, updates(**bob), owed=OWED)


@pytest.fixture
def run():
    return Run()


def test_a_right_run_has_no_faults(run):
    run.listen(1, 2, 3)
    assert run.faults() == []


def test_a_loss_is_found(run):
    run.listen(1, 3)
    assert any("handed to nobody: 2" in line for line in run.faults())


def test_a_loss_to_one_of_two_is_found(run):
    run.listen(1, 3)
    run.listen(1, 2, 3, process=BOB)
    assert any("never handed" in line and f"2@{GROUP}#1" in line for line in run.faults(since=0, until=2**62))


def test_a_last_message_that_never_came_is_found(run):
    run.listen(1, 2)
    run.listen(1, 2, 3, process=BOB)
    assert any("never handed" in line for line in run.faults(since=0, until=2**62))


def test_a_message_at_two_positions_is_found(run):
    run.listen(1, 2, 3, 2, at=(1, 2, 3, 4))
    assert any("handed at 4.0 and at 2.0" in line for line in run.faults())


def test_a_message_that_comes_again_on_one_stream_is_found(run):
    run.listen(1, 2, 2, 3)
    assert any("of the same stream" in line for line in run.faults())


def test_a_message_that_was_accepted_twice_is_found(run):
    stream = run.listen(1, 2, 3)
    run.hand(stream, 2, position=4, id=f"4@{GROUP}#1")
    assert any("accepted 2 times" in line for line in run.faults())


def test_a_message_under_another_id_than_its_sender_was_told_is_found(run):
    run.messages.sendings[b"2"].id = f"9@{GROUP}#1"
    run.listen(1, 2, 3)
    assert any(f"accepted as 9@{GROUP}#1" in line for line in run.faults())


def test_a_wrong_order_is_found(run):
    run.listen(1, 3, 2, at=(1, 2, 3))
    assert any("comes later in their sequence" in line for line in run.faults())


def test_an_invented_message_is_found(run):
    stream = run.listen(1, 2, 3)
    run.hand(stream, 4, position=4)
    assert any("nobody's message" in line for line in run.faults())


def test_a_message_to_who_was_not_a_member_is_found(run):
    run.listen(1, 2, 3)
    run.listen(2, process=BOB)
    assert any("never below its targets" in line for line in run.faults())
    assert run.faults(since=0, until=2**62) == []


def test_who_comes_and_goes_is_owed_nothing_but_the_order(run):
    run.listen(1, 2, 3)
    run.listen(1, 3, process=BOB)
    assert run.faults(since=0, until=2**62) == []
    run.listen(1, 3, 2, process=BOB, at=(1, 3, 4))
    assert any("comes later in their sequence" in line for line in run.faults(since=0, until=2**62))


def test_what_was_not_acknowledged_comes_again(run):
    first = run.listen(1, 2, acknowledged=(1,))
    run.messages.note_ended(first)
    run.listen(2, 3)
    assert run.faults() == []


def test_an_endpoint_begins_behind_what_the_one_before_acknowledged_until_it_was_handed_something(run):
    first = run.listen(1)
    second = run.listen()
    run.hand(first, 2, position=2)
    run.messages.note_acknowledged(first, run.message(2, position=2))
    run.messages.note_ended(first)
    run.hand(second, 3, position=3)
    assert run.faults() == []


def test_what_nobody_acknowledged_must_not_be_left_out(run):
    first = run.listen(1, acknowledged=(1,))
    second = run.listen()
    run.hand(first, 2, position=2)
    run.messages.note_ended(first)
    run.hand(second, 3, position=3)
    assert any("leaves out what its subscription was handed" in line for line in run.faults())


def test_what_was_acknowledged_may_come_again_where_nobody_saw_it_durable(run):
    first = run.listen(1, 2, acknowledged=(1, 2))
    run.messages.note_ended(first)
    run.listen(2, 3)
    assert run.faults() == []


def test_what_was_seen_to_be_acknowledged_does_not_come_again(run):
    first = run.listen(1, 2, acknowledged=(2,))
    run.messages.note_ended(first)
    read = shadowtree.Subscription("", "2.0@b.x#1", False)
    run.messages.note_looked(ANN, shadowtree.Mailbox(ANN, "b.x", False, (read,)))
    run.listen(2, 3)
    assert any("though acknowledged" in line for line in run.faults())


def test_a_stream_that_leaves_out_what_was_not_acknowledged_is_found(run):
    first = run.listen(1, 2, acknowledged=(1,))
    run.messages.note_ended(first)
    run.listen(3)
    assert any("leaves out" in line for line in run.faults())


def test_a_gap_is_found(run):
    stream = run.listen(1, 2)
    run.hand(stream, 3, position=3, gap=1)
    assert any("was told a gap" in line for line in run.faults())
