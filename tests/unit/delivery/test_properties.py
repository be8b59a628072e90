"""Each property finds the fault that is planted for it, and accuses no innocent server."""

import sys
from dataclasses import replace
from random import Random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from delivery.model.words import Filter, Kept, Position
from namegraph import NodeId, ServerId
from simulation.history.properties import check, p10_no_memory
from simulation.history.recorded import (
    Acknowledged,
    DatagramHanded,
    DatagramLetOut,
    DeadLettered,
    FoundApart,
    History,
    MailboxEnds,
    MessageAccepted,
    MessageHanded,
    Restarted,
    SettledAt,
    Sizes,
    StreamBegan,
    WentBack,
)
from tests.unit.delivery.right_run import right_run
from tests.unit.delivery.story import DESK, HOME, ORIGIN, PHONE, STAFF, Story, at, listening

STAFF_ALONE = frozenset({STAFF[0].name})


def test_nothing_is_wrong_with_a_message_that_comes_once():
    story = listening()
    story.send(1, 2)
    story.hand(1)
    story.hand(2)
    assert not story.broken()


def test_instants_never_fall():
    history = History()
    history.record(SettledAt(5, "1", 0))
    history.record(SettledAt(5, "2", 0))
    with pytest.raises(AssertionError, match="an instant falls"):
        history.record(SettledAt(4, "3", 0))


def test_a_violation_says_whom_it_is_about():
    story = listening()
    story.send(1)
    story.hand(1, payload=b"other")
    (violation,) = story.violations()
    assert str(violation) == "P1: handed with another payload than was accepted [1] [ann@b.example/desk@b]"


class TestIntegrity:
    def test_nobodys_message_is_found(self):
        story = listening()
        story.hand(1)
        assert story.broken() == [("P1", "1")]

    def test_a_message_handed_before_it_is_durable_is_found(self):
        story = listening()
        story.hand(1)
        story.send(1)
        assert story.broken() == [("P1", "1")]

    def test_a_changed_payload_is_found(self):
        story = listening()
        story.send(1)
        story.hand(1, payload=b"2")
        assert story.broken() == [("P1", "1")]

    def test_a_duplicate_at_another_position_is_found(self):
        story = listening()
        story.send(1)
        story.hand(1)
        story.hand(1, entry=2)
        assert story.broken() == [("P1", "1")]

    def test_a_position_that_is_given_twice_is_found_even_between_two_subscriptions(self):
        story = listening()
        story.begin(1, who=PHONE)
        story.send(1, 2)
        story.hand(1)
        story.hand(2)
        story.hand(1, who=PHONE)
        story.hand(2, who=PHONE, entry=1, stream=1)
        assert ("P1", "2") in story.broken()

    def test_one_id_for_two_messages_is_found(self):
        story = listening()
        story.send(1)
        story.hand(1)
        story.accept(1)
        assert story.broken() == [("P1", "1")]

    def test_a_foreign_process_that_two_servers_serve_is_found(self):
        story = listening()
        story.send(1)
        story.hand(1)
        story.log(1)
        # Late, or for another subscription.
        story.log(1)
        assert not story.broken()
        story.log(1, server=ORIGIN)
        assert story.broken() == [("P1", "1")]
        assert [violation.what for violation in story.violations()] == ["ann@b.example is served by a and by b"]

    @pytest.mark.parametrize(
        ("what", "is_before_settled"),
        [
            (FoundApart(0, "1"), False),
            (DeadLettered(0, "1", "expired"), False),
            (Restarted(0, ORIGIN), True),
            (Restarted(0, HOME), True),
            (WentBack(0, ORIGIN), False),
        ],
    )
    def test_twice_is_forgiven_where_once_is_not_promised(self, what, is_before_settled):
        story = listening()
        story.accept(1)
        if is_before_settled:
            story(what)
        story.settle(1)
        if not is_before_settled:
            story(what)
        story.hand(1)
        story.log(1)
        story.log(1, server=ServerId("c"))
        assert not story.broken()

    def test_twice_is_not_forgiven_where_a_server_starts_again_that_does_not_serve(self):
        story = listening()
        story.accept(1)
        story.restart(ServerId("d"))
        story.settle(1)
        story.hand(1)
        story.log(1)
        story.log(1, server=ServerId("c"))
        assert story.broken() == [("P1", "1")]

    @pytest.mark.parametrize("what", [FoundApart(0, "2"), Restarted(0, HOME), Restarted(0, ORIGIN)])
    def test_twice_is_forgiven_nowhere_else(self, what):
        """Another message was sent apart, or the origin, or a server that serves, started again later."""
        story = listening()
        story.send(1)
        story(what)
        story.hand(1)
        story.log(1)
        story.log(1, server=ServerId("c"))
        assert story.broken() == [("P1", "1")]

    def test_what_a_server_served_before_it_went_back_does_not_count(self):
        story = listening()
        story.send(1)
        story.log(1)
        story(WentBack(0, HOME))
        story.log(1, server=ORIGIN)
        assert not story.broken()

    def test_the_same_position_on_a_later_stream_is_right(self):
        story = listening()
        story.send(1)
        story.hand(1)
        story.end(1)
        story.begin(2)
        story.hand(1, stream=2)
        assert not story.broken()


class TestAudience:
    def test_a_lost_message_is_found_at_rest(self):
        story = listening()
        story.send(1)
        assert not story.broken(is_at_rest=False)
        assert story.broken() == [("P2", "1")]

    def test_a_message_to_who_was_never_a_member_is_found(self):
        story = listening()
        story.leave()
        story.send(1)
        story.hand(1)
        assert story.broken() == [("P2", "1")]

    def test_a_message_to_who_joined_after_it_was_settled_is_found(self):
        """An audience that is off by one update."""
        story = listening()
        story.leave()
        story.send(1)
        story.join()
        story.hand(1)
        assert story.broken() == [("P2", "1")]

    def test_a_message_that_misses_who_left_after_it_was_settled_is_found(self):
        """An audience that is off by one update."""
        story = listening()
        story.send(1)
        story.leave()
        assert story.broken() == [("P2", "1")]

    @pytest.mark.parametrize("comes", [True, False])
    @pytest.mark.parametrize("change", [Story.join, Story.leave], ids=["join", "leave"])
    def test_who_joins_or_leaves_while_a_message_is_under_way_may_get_it_or_not(self, change, comes):
        story = listening()
        if change is Story.join:
            story.leave()
        story.accept(1)
        change(story)
        story.settle(1)
        if comes:
            story.hand(1)
        assert not story.broken()

    @pytest.mark.parametrize("comes", [True, False])
    def test_who_is_below_by_its_own_home_alone_may_get_a_message_or_not(self, comes):
        story = listening()
        story.leave()
        story.join(is_certain=False)
        story.send(1)
        if comes:
            story.hand(1)
        assert not story.broken()

    def test_who_is_below_by_all_homes_is_owed_what_is_accepted_from_then_on(self):
        story = listening()
        story.leave()
        story.join(is_certain=False)
        story.join()
        story.send(1)
        assert story.broken() == [("P2", "1")]

    def test_a_late_message_may_come_to_who_joined_afterwards(self):
        story = listening()
        story.leave()
        story.send(1)
        story.join()
        story.hand(1, is_late=True)
        assert not story.broken()

    def test_a_process_without_a_mailbox_is_owed_nothing_and_gets_nothing(self):
        story = Story()
        story.join()
        story.send(1)
        story.open()
        story.begin(1)
        assert not story.broken()
        story.hand(1)
        assert story.broken() == [("P2", "1")]

    def test_what_came_to_a_mailbox_that_is_closed_is_not_owed_to_the_next_one(self):
        story = listening()
        story.send(1)
        story.end(1)
        story.close()
        story.open()
        story.begin(2)
        assert not story.broken()
        story.hand(1, stream=2)
        assert story.broken() == [("P2", "1")]

    @pytest.mark.parametrize(("counted", "is_right"), [(0, False), (1, False), (2, True), (3, True)])
    def test_what_a_mailbox_that_is_closed_had_not_read_is_counted(self, counted, is_right):
        story = listening()
        story.send(1, 2)
        story.end(1)
        story.close(unread=2, counted=counted)
        assert story.broken(is_at_rest=False) == ([] if is_right else [("P7", None)])

    def test_a_process_whose_membership_nobody_recorded_is_no_member(self):
        story = Story()
        story.open()
        story.begin(1)
        story.send(1)
        story.hand(1)
        assert story.broken() == [("P2", "1")]

    def test_a_subscription_that_nobody_reads_or_that_begins_later_is_owed_nothing(self):
        story = listening()
        story.begin(1, who=PHONE)
        story.send(1)
        story.end(1, who=PHONE)
        story.hand(1)
        assert not story.broken()
        story.begin(2, sought=at(1), who=PHONE)
        assert not story.broken()

    def test_a_gap_that_is_told_excuses_what_may_lie_in_it_and_nothing_else(self):
        story = listening()
        story.send(1, 2, 3, 4)
        story.hand(1)
        story.gap(1, 2)
        story.hand(3)
        assert story.broken() == [("P2", "4")]

    def test_a_gap_that_was_told_before_excuses_nothing_that_is_sent_after_it(self):
        story = listening()
        story.gap(-1, 5)
        story.send(1)
        assert story.broken() == [("P2", "1")]

    @pytest.mark.parametrize("is_late", [False, True])
    def test_what_was_logged_late_may_lie_in_a_gap_behind_what_is_later_in_its_sequence(self, is_late):
        story = listening()
        story.accept(1)
        story.send(2)
        story.hand(2, entry=1)
        story.log(1, is_late=is_late)
        story.settle(1)
        assert story.broken() == [("P2", "1")]
        story.gap(1, 2)
        assert story.broken() == ([] if is_late else [("P2", "1")])

    def test_a_gap_excuses_nothing_that_is_logged_late_elsewhere_or_that_is_sent_after_it(self):
        story = listening()
        story.accept(1)
        story.log(1, server=ORIGIN, is_late=True)
        story.go_back(ORIGIN)
        story.gap(-1, 1)
        story.send(2, 3)
        story.hand(3, entry=2)
        story.log(2, is_late=True)
        assert ("P2", "2") in story.broken()

    def test_an_endpoint_that_skips_messages_is_not_owed_them(self):
        story = listening()
        story.send(1, 2)
        story.begin(2, sought=at(2))
        assert not story.broken()

    def test_a_dead_letter_is_owed_to_nobody(self):
        story = listening()
        story.accept(1)
        story.dead(1)
        assert not story.broken()

    @pytest.mark.parametrize(("goes_back", "broken"), [(True, []), (False, [("P1", "1")])])
    def test_a_dead_letter_comes_twice_where_its_origin_forgot_that_it_was_replayed(self, goes_back, broken):
        story = listening()
        story.accept(1)
        story.dead(1)
        story.hand(1, entry=1)
        if goes_back:
            story.go_back(ORIGIN)
        story.hand(1, entry=2)
        assert [each for each in story.broken() if each[0] == "P1"] == broken

    def test_of_a_foreign_process_one_mailbox_is_enough(self):
        story = listening()
        story.open(server=ORIGIN)
        story.join(server=ORIGIN)
        story.begin(1, who=DESK._replace(server=ORIGIN))
        story.send(1)
        assert len(story.broken()) == 2
        story.hand(1)
        assert not story.broken()

    def test_what_the_server_that_serves_a_foreign_process_has_logged_no_other_one_owes(self):
        story = listening()
        story.open(server=ORIGIN)
        story.join(server=ORIGIN)
        story.begin(1, who=DESK._replace(server=ORIGIN))
        story.send(1)
        story.log(1)
        # It is owed there.
        assert story.broken() == [("P2", "1")]
        story.hand(1)
        assert not story.broken()


class TestSequence:
    def test_a_swapped_pair_is_found(self):
        story = listening()
        story.send(1, 2)
        story.hand(2, entry=1)
        story.hand(1, entry=2)
        assert story.broken() == [("P3", "1")]

    def test_a_message_that_comes_after_its_successor_must_be_marked_late(self):
        story = listening()
        story.send(1, 2, 3)
        story.hand(1)
        story.hand(3, entry=2)
        story.hand(2, entry=3, is_late=True)
        assert not story.broken()

    def test_a_gap_is_found_while_all_is_under_way(self):
        story = listening()
        for serial in (1, 2, 3):
            story.accept(serial)
        story.hand(1)
        story.hand(3)
        assert story.broken(is_at_rest=False) == [("P3", "2")]

    def test_a_gap_is_found_though_the_member_leaves_after_the_successor_came(self):
        story = listening()
        for serial in (1, 2, 3):
            story.accept(serial)
        story.hand(1)
        story.hand(3)
        story.leave()
        assert story.broken(is_at_rest=False) == [("P3", "2")]

    def test_who_was_away_for_one_state_may_lack_what_was_under_way(self):
        story = listening()
        for serial in (1, 2):
            story.accept(serial)
        story.leave()
        story.join()
        story.accept(3)
        story.hand(1)
        story.hand(3, entry=2)
        assert not story.broken(is_at_rest=False)

    def test_a_gap_that_is_told_may_be_left_out(self):
        story = listening()
        story.send(1, 2, 3)
        story.hand(1)
        story.gap(1, 2)
        story.hand(3)
        assert not story.broken()

    def test_an_expired_message_may_be_left_out_and_one_that_had_time_may_not(self):
        for deadline, broken in ((0, []), (1000, [("P3", "2")])):
            story = listening()
            story.send(1)
            story.accept(2, expires_at=story.now + deadline)
            story.send(3)
            story.hand(1)
            story.hand(3)
            assert story.broken(is_at_rest=False) == broken

    def test_serials_that_nobody_got_or_two_got_are_found(self):
        story = listening()
        story.send(1, 3)
        assert ("P3", None) in story.broken()

    def test_a_sender_whose_numbers_fall_is_found(self):
        story = listening()
        story.accept(1, sender="billing", number=2)
        story.accept(2, sender="billing", number=1)
        story.hand(1)
        story.hand(2)
        assert story.broken(is_at_rest=False) == [("P3", "2")]

    def test_a_sender_whose_message_is_accepted_twice_is_found(self):
        story = listening()
        story.accept(1, sender="billing", number=1)
        story.accept(2, sender="billing", number=1)
        story.hand(1)
        story.hand(2)
        assert story.broken(is_at_rest=False) == [("P3", "2")]

    def test_two_senders_number_on_their_own(self):
        story = listening()
        story.accept(1, sender="billing", number=2)
        story.accept(2, sender="stock", number=1)
        story.accept(3)
        for serial in (1, 2, 3):
            story.hand(serial)
        assert not story.broken(is_at_rest=False)


class TestAgreement:
    def test_a_message_that_never_settles_is_found_at_rest(self):
        story = listening()
        story.accept(1)
        story.hand(1)
        assert not story.broken(is_at_rest=False)
        assert story.broken() == [("P7", "1")]


class TestResume:
    def test_positions_that_do_not_rise_are_found(self):
        story = listening()
        story.send(1)
        story.hand(1)
        story.hand(1)
        assert story.broken() == [("P8", "1")]

    def test_an_acknowledged_message_that_comes_again_is_found(self):
        story = listening()
        story.send(1)
        story.hand(1)
        story.acknowledge(1)
        story.begin(2)
        assert not story.broken()
        story.hand(1, stream=2)
        assert story.broken() == [("P8", "1")]

    def test_an_entry_that_is_skipped_after_a_resume_is_found(self):
        story = listening()
        story.send(1, 2, 3)
        for serial in (1, 2, 3):
            story.hand(serial)
        story.acknowledge(1)
        story.end(1)
        story.begin(2)
        story.hand(3, stream=2)
        assert story.broken(is_at_rest=False) == [("P8", "2")]

    def test_an_entry_that_an_earlier_stream_skipped_is_found(self):
        story = listening()
        story.send(1, 2, 3)
        story.hand(1)
        story.hand(3)
        story.begin(2)
        for serial in (1, 2, 3):
            story.hand(serial, stream=2)
        assert story.broken() == [("P8", "2")]

    def test_what_is_not_handed_again_is_found_at_rest(self):
        story = listening()
        story.send(1, 2)
        story.hand(1)
        story.hand(2)
        story.begin(2)
        story.hand(1, stream=2)
        assert not story.broken(is_at_rest=False)
        assert story.broken() == [("P8", "2")]

    def test_what_has_expired_meanwhile_is_not_handed_again(self):
        story = listening()
        story.accept(1, expires_at=story.now + 20)
        story.hand(1)
        story.settle(1)
        story.begin(2)
        story.send(2)
        story.hand(2, stream=2)
        assert not story.broken()

    def test_a_gap_must_begin_where_the_stream_stands(self):
        story = listening()
        story.send(1, 2)
        story.hand(1)
        story.hand(2)
        story.gap(1, 5)
        assert story.broken() == [("P8", None)]

    def test_a_gap_that_is_told_too_far_on_leaves_something_out(self):
        story = listening()
        story.send(1, 2)
        story.hand(1)
        story.hand(2)
        story.end(1)
        story.begin(2)
        story.gap(1, 5, stream=2)
        assert story.broken(is_at_rest=False) == [("P8", "1")]

    def test_an_endpoint_that_goes_back_is_handed_again_what_it_acknowledged_and_all_of_it(self):
        story = listening()
        story.send(1, 2)
        story.hand(1)
        story.hand(2)
        story.acknowledge(2)
        story.begin(2, sought=at(0))
        story.hand(1, stream=2)
        assert story.broken() == [("P8", "2")]
        story.hand(2, stream=2)
        assert not story.broken()

    def test_a_subscription_that_begins_now_begins_where_its_first_acknowledgement_says(self):
        story = Story()
        story.open()
        story.join()
        story.send(1)
        story.acknowledge(1)
        story.send(2)
        story.begin(1)
        assert story.broken() == [("P2", "2")]
        story.hand(2)
        assert not story.broken()
        story.begin(2)
        story.hand(1, stream=2)
        story.hand(2, stream=2)
        assert story.broken() == [("P8", "1")]

    def test_a_stream_that_has_not_begun_is_found(self):
        story = listening()
        story.send(1)
        story.hand(1)
        story.hand(1, stream=7)
        assert story.broken() == [("P8", "1")]


class TestSizes:
    def test_a_row_that_stays_is_found(self):
        before, after = Sizes(0, HOME, {"log": 1, "parcel": 0}), Sizes(9, HOME, {"log": 3, "parcel": 0})
        (violation,) = p10_no_memory(before, after, kinds=["log", "parcel"])
        assert violation.property == "P10" and "had 1 rows of log, and has 3" in violation.what
        assert not p10_no_memory(before, after, kinds=["parcel"])

    def test_a_queue_beyond_its_limit_is_found_and_told_again_only_where_it_grows(self):
        story = Story()
        for length in (3, 5, 5, 4, 6):
            story.sizes(backlog=length)
        assert [violation.property for violation in story.violations(backlog=4)] == ["P11", "P11"]
        assert not story.violations(backlog=6)


class TestDurable:
    def test_a_message_that_its_origin_forgets_in_a_restart_is_found(self):
        story = listening()
        story.accept(1)
        story.restart(ORIGIN)
        assert {"P12", "P7"} <= {name for name, _ in story.broken()}

    def test_a_message_that_a_mailbox_loses_in_a_restart_is_found(self):
        story = listening()
        story.send(1)
        story.restart(HOME)
        assert story.broken() == [("P2", "1"), ("P12", "1")]

    def test_a_loss_without_a_restart_is_no_matter_of_durability(self):
        story = listening()
        story.restart(HOME)
        story.restart(ORIGIN)
        story.send(1)
        assert story.broken() == [("P2", "1")]


class TestTimely:
    def test_a_message_that_comes_after_its_deadline_is_found(self):
        story = listening()
        story.accept(1, expires_at=story.now + 10)
        story.hand(1)
        assert not story.broken(is_at_rest=False)
        story.hand(1, stream=2)
        story.happenings.insert(4, StreamBegan(0, DESK, 2))
        story.happenings[:] = [replace(each, at=10 * place) for place, each in enumerate(story.happenings)]
        assert ("P13", "1") in story.broken()


class TestOlderCopies:
    """Forgiveness for a server that went back, and its limits."""

    def test_an_origin_owes_nothing_of_what_was_not_settled(self):
        story = listening()
        story.accept(1)
        story.go_back(ORIGIN)
        assert not story.broken()

    def test_an_origin_owes_what_was_settled_and_what_it_accepts_afterwards(self):
        story = listening()
        story.send(1)
        story.go_back(ORIGIN)
        story.accept(2)
        assert sorted(story.broken()) == [("P2", "1"), ("P2", "2"), ("P7", "2")]

    def test_the_log_of_a_receiver_begins_anew(self):
        story = listening()
        story.send(1, 2)
        story.hand(1)
        story.hand(2)
        story.acknowledge(2)
        story.end(1)
        story.go_back(HOME)
        story.begin(2)
        story.send(3)
        story.hand(2, entry=1, stream=2)
        story.hand(3, entry=2, stream=2)
        assert not story.broken()

    def test_a_receiver_owes_what_is_accepted_afterwards(self):
        story = listening()
        story.end(1)
        story.go_back(HOME)
        story.begin(2)
        story.send(1)
        assert story.broken() == [("P2", "1")]

    def test_what_a_receiver_hands_on_again_is_in_order_and_unchanged(self):
        story = listening()
        story.send(1, 2)
        story.go_back(HOME)
        story.begin(2)
        story.hand(2, entry=1, stream=2, payload=b"other")
        story.hand(1, entry=2, stream=2)
        assert story.broken() == [("P1", "2"), ("P3", "1")]


SEEDS = st.integers(0, 2**32)
STEPS = st.integers(0, 250)


@given(seed=SEEDS, steps=STEPS)
def test_nothing_is_wrong_with_a_right_run(seed, steps):
    run = right_run(seed, steps)
    assert not check(History.gathered(run.happenings), is_at_rest=True)
    under_way = run.happenings[: Random(seed).randrange(len(run.happenings))]
    assert not check(History.gathered(under_way), is_at_rest=False)


def hand_overs(run):
    return [(place, each) for place, each in enumerate(run.happenings) if isinstance(each, MessageHanded)]


def with_changed(run, place, **facts):
    return [replace(each, **facts) if n == place else each for n, each in enumerate(run.happenings)]


def change_payload(run, random):
    place, handed = random.choice(hand_overs(run))
    return with_changed(run, place, payload=handed.payload + b"!")


def invent_message(run, random):
    place, _ = random.choice(hand_overs(run))
    return with_changed(run, place, message_id="0@nobody#0")


def hand_twice_at_once(run, random):
    place, handed = random.choice(hand_overs(run))
    return [*run.happenings[: place + 1], handed, *run.happenings[place + 1 :]]


def hand_at_another_position(run, random):
    place, handed = random.choice(hand_overs(run))
    again = replace(handed, position=Position(handed.position.entry + 10_000, 0))
    return [*run.happenings[: place + 1], again, *run.happenings[place + 1 :]]


def lose_a_message(run, random):
    """Lose a message for a subscription that is owed it and reads to the end."""
    lost = [
        (message_id, subscription)
        for message_id, subscriptions in run.owed.items()
        for subscription in subscriptions
        if subscription in run.readers and run.readers[subscription].stream is not None
    ]
    assume(lost)
    message_id, subscription = random.choice(sorted(lost))
    return [
        each
        for each in run.happenings
        if not (isinstance(each, MessageHanded) and (each.message_id, each.subscription) == (message_id, subscription))
    ]


def swap_two_messages(run, random):
    """Swap two messages of one sequence and one log, for all readers of the log."""
    copies = {}
    pairs = []
    previous = {}
    for each in run.happenings:
        if isinstance(each, WentBack):
            copies[each.server] = copies.get(each.server, 0) + 1
        if isinstance(each, MessageHanded) and not each.is_late:
            accepted = run.accepted[each.message_id]
            key = (each.subscription, each.stream, accepted.sequence)
            if key in previous:
                pairs.append((each.subscription, previous[key], each.message_id))
            previous[key] = each.message_id
    assume(pairs and not copies)
    subscription, one, other = random.choice(pairs)
    swapped = {one: other, other: one}
    return [
        replace(each, message_id=swapped[each.message_id], payload=run.accepted[swapped[each.message_id]].payload)
        if isinstance(each, MessageHanded) and each.subscription == subscription and each.message_id in swapped
        else each
        for each in run.happenings
    ]


def hand_to_a_stranger(run, random):
    """Hand out a message at a position of its own to a process that is never below its targets while it is
    under way.
    """
    settled = {each.message_id: each.at for each in run.happenings if isinstance(each, SettledAt)}
    strangers = [
        (place, each, message_id)
        for place, each in enumerate(run.happenings)
        if isinstance(each, StreamBegan)
        for message_id, accepted in run.accepted.items()
        if accepted.at < each.at and message_id in settled and is_stranger(run, each, accepted, settled[message_id])
    ]
    assume(strangers)
    place, began, message_id = random.choice(strangers)
    payload = run.accepted[message_id].payload
    handed = MessageHanded(began.at, began.subscription, began.stream, Position(10_000, 0), message_id, payload)
    return [*run.happenings[: place + 1], handed, *run.happenings[place + 1 :]]


def is_stranger(run, began, accepted, settled_at):
    if any(isinstance(each, WentBack) for each in run.happenings):
        return False
    states = [
        (each.at, each.is_below)
        for each in run.happenings
        if getattr(each, "targets", None) == accepted.targets
        and getattr(each, "process", None) == began.subscription.process
        and each.at <= settled_at
    ]
    before = [is_below for instant, is_below in states if instant < accepted.at]
    meanwhile = [is_below for instant, is_below in states if instant > accepted.at]
    return not any([before[-1], *meanwhile])


def never_settle(run, random):
    settled = [each for each in run.happenings if isinstance(each, SettledAt)]
    assume(settled)
    gone = random.choice(settled)
    is_forgotten = any(
        isinstance(each, WentBack) and each.server == run.accepted[gone.message_id].origin and each.at > gone.at
        for each in run.happenings
    )
    assume(not is_forgotten)
    return [each for each in run.happenings if each is not gone]


def hand_again_what_is_acknowledged(run, random):
    again = []
    acknowledged = {}
    handed = {}
    for place, each in enumerate(run.happenings):
        match each:
            case WentBack() | MailboxEnds():
                acknowledged.clear()
            case MessageHanded():
                handed[each.subscription, each.position] = each
            case Acknowledged() if (each.subscription, each.through) in handed:
                acknowledged[each.subscription] = handed[each.subscription, each.through]
            case StreamBegan(sought=None) if each.subscription in acknowledged:
                again.append((place, replace(acknowledged[each.subscription], at=each.at, stream=each.stream)))
            case StreamBegan():
                acknowledged.pop(each.subscription, None)
    assume(again)
    place, handed_again = random.choice(again)
    return [*run.happenings[: place + 1], handed_again, *run.happenings[place + 1 :]]


def skip_after_a_resume(run, random):
    """Skip, on a later stream that goes on further, a message without deadline that an earlier stream was handed."""
    overs = hand_overs(run)
    seen = set()
    skipped = []
    last = {(each.subscription, each.stream): each.position for _, each in overs}
    for place, each in overs:
        key = (each.subscription, each.position, each.message_id)
        is_inner = last[each.subscription, each.stream] > each.position
        if key in seen and is_inner and run.accepted[each.message_id].expires_at is None:
            skipped.append(place)
        seen.add(key)
    assume(skipped and not any(isinstance(each, WentBack) for each in run.happenings))
    gone = random.choice(skipped)
    return [each for place, each in enumerate(run.happenings) if place != gone]


def hand_after_the_deadline(run, random):
    _, handed = random.choice(hand_overs(run))
    return [
        replace(each, expires_at=handed.at - 1)
        if isinstance(each, MessageAccepted) and each.message_id == handed.message_id
        else each
        for each in run.happenings
    ]


def accept_afterwards(run, random):
    _, handed = random.choice(hand_overs(run))
    accepted = run.accepted[handed.message_id]
    return [each for each in run.happenings if each is not accepted] + [replace(accepted, at=run.at)]


FAULTS = {
    change_payload: "P1",
    invent_message: "P1",
    hand_at_another_position: "P1",
    accept_afterwards: "P1",
    lose_a_message: "P2",
    hand_to_a_stranger: "P2",
    swap_two_messages: "P3",
    never_settle: "P7",
    hand_twice_at_once: "P8",
    hand_again_what_is_acknowledged: "P8",
    skip_after_a_resume: "P8",
    hand_after_the_deadline: "P13",
}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
@given(seed=SEEDS, steps=st.integers(150, 400))
def test_a_fault_that_is_planted_in_a_right_run_is_found(fault, seed, steps):
    run = right_run(seed, steps)
    assume(hand_overs(run))
    wrong = History.gathered(fault(run, Random(seed)))
    assert FAULTS[fault] in {violation.property for violation in check(wrong, is_at_rest=True)}


def calls_to_check(steps):
    """Return the number of function calls to judge runs of a length, all together."""
    history = History.gathered(right_run(1, steps).happenings)
    calls = 0

    def count(frame, event, argument):
        nonlocal calls
        calls += event in {"call", "c_call"}

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        check(history, is_at_rest=True)
    finally:
        sys.setprofile(before)
    return calls / len(history)


def test_a_history_ten_times_as_long_costs_little_more_a_happening():
    assert calls_to_check(20_000) < 1.5 * calls_to_check(2_000)


class TestDatagrams:
    """Ann is sent one, and gets it."""

    def story(self, **facts):
        story = listening()
        story(DatagramLetOut(0, "tick", STAFF, b"tick", **facts))
        return story

    def hand(self, story, message_id="tick", payload=b"tick", who=DESK):
        story(DatagramHanded(0, who, message_id, payload))

    def test_nothing_is_wrong_with_one_that_comes_once_or_not_at_all(self):
        story = self.story()
        assert not story.broken()
        self.hand(story)
        self.hand(story, who=PHONE)
        assert not story.broken()

    def test_one_that_comes_twice_is_found_also_over_two_streams(self):
        story = self.story()
        self.hand(story)
        story.end(1)
        story.begin(2)
        self.hand(story)
        assert story.broken() == [("P1", "tick")]

    def test_nobodys_and_a_changed_one_are_found(self):
        story = self.story()
        self.hand(story, "tock")
        self.hand(story, payload=b"tock")
        assert sorted(story.broken()) == [("P1", "tick"), ("P1", "tock")]

    def test_one_handed_to_who_is_not_below_is_found(self):
        story = listening()
        story.leave()
        story(DatagramLetOut(0, "tick", STAFF, b"tick"))
        self.hand(story)
        assert story.broken() == [("P2", "tick")]

    def test_who_joins_or_leaves_meanwhile_may_get_it(self):
        story = self.story()
        story.leave()
        self.hand(story)
        assert not story.broken()

    def test_one_handed_after_its_deadline_is_found(self):
        story = self.story(expires_at=40)
        self.hand(story)
        assert not story.broken()
        self.hand(story, who=PHONE)
        assert story.broken() == [("P13", "tick")]


class TestFilters:
    """Ann's first stream ended; her second one wants nothing of the staff, or of one sender alone."""

    OTHERS = Filter(groups=frozenset({NodeId("others@a.example")}))
    ONE = Filter(senders=frozenset({"one"}))

    @staticmethod
    def listening(wanted):
        story = Story()
        story.open()
        story.join()
        story.begin(1, wanted=wanted)
        return story

    @pytest.mark.parametrize("wanted", [OTHERS, ONE])
    def test_what_is_not_wanted_is_not_owed(self, wanted):
        story = self.listening(wanted)
        story.send(1)
        assert not story.broken()

    @pytest.mark.parametrize("wanted", [OTHERS, ONE])
    def test_what_is_handed_and_not_wanted_is_found(self, wanted):
        story = self.listening(wanted)
        story.send(1)
        story.hand(1)
        assert story.broken() == [("P8", "1")]

    def test_what_is_wanted_and_lost_is_found(self):
        story = self.listening(Filter(STAFF_ALONE, frozenset({"one"})))
        story.accept(1, sender="one", number=1)
        story.settle(1)
        assert story.broken() == [("P2", "1")]

    def test_a_serial_that_is_wanted_and_left_out_is_found(self):
        story = self.listening(self.ONE)
        for serial, sender in ((1, "one"), (2, "other"), (3, "one"), (4, "one")):
            story.accept(serial, sender=sender, number=serial)
            story.settle(serial)
        story.hand(1)
        story.hand(4)
        assert ("P3", "3") in story.broken() and ("P3", "2") not in story.broken()

    def test_a_stream_passes_over_what_it_does_not_want_and_another_one_had(self):
        story = listening()
        story.send(1, 2)
        story.hand(1)
        story.end(1)
        story.begin(2, wanted=Filter(senders=frozenset({"nobody"})))
        assert not story.broken()
        story.end(2)
        story.begin(3, wanted=Filter(STAFF_ALONE))
        story.hand(2, stream=3)
        assert ("P8", "1") in story.broken()


IN_MEMORY = DESK._replace(kept=Kept.MEMORY)


def in_memory():
    """A `listening` story for messages that are kept in memory."""
    story = Story()
    story.open()
    story.join()
    story.begin(1, who=IN_MEMORY)
    return story


def accepted_and_settled(story, *serials):
    for serial in serials:
        story.accept(serial, kept=Kept.MEMORY)
        story.settle(serial)


class TestWhatIsKeptInMemory:
    def test_nothing_is_wrong_where_it_comes_once(self):
        story = in_memory()
        accepted_and_settled(story, 1, 2)
        story.hand(1, who=IN_MEMORY)
        story.hand(2, who=IN_MEMORY)
        assert not story.broken()

    def test_it_is_lost_to_nobody_where_no_server_started_again(self):
        story = in_memory()
        accepted_and_settled(story, 1, 2)
        story.hand(2, who=IN_MEMORY)
        assert ("P2", "1") in story.broken()

    @pytest.mark.parametrize("server", [HOME, ORIGIN])
    def test_what_a_restart_may_lose_is_forgiven(self, server):
        story = in_memory()
        story.accept(1, kept=Kept.MEMORY)
        story.restart(server)
        story.settle(1)
        assert not story.broken()

    @pytest.mark.parametrize("server", [HOME, ORIGIN])
    def test_what_was_sent_after_a_restart_is_not(self, server):
        story = in_memory()
        story.restart(server)
        accepted_and_settled(story, 1)
        assert story.broken() == [("P2", "1")]

    def test_a_restart_of_an_origin_loses_nothing_that_was_settled(self):
        story = in_memory()
        accepted_and_settled(story, 1)
        story.restart(ORIGIN)
        assert ("P2", "1") in story.broken()

    def test_it_is_settled_unless_its_origin_started_again(self):
        story = in_memory()
        story.accept(1, kept=Kept.MEMORY)
        story.hand(1, who=IN_MEMORY)
        assert story.broken() == [("P7", "1")]
        story.restart(ORIGIN)
        assert not story.broken()

    def test_a_restart_excuses_nothing_that_comes_twice(self):
        story = in_memory()
        accepted_and_settled(story, 1)
        story.hand(1, who=IN_MEMORY)
        story.restart(HOME)
        story.hand(1, entry=9, who=IN_MEMORY)
        assert ("P1", "1") in story.broken()

    def test_nor_what_comes_out_of_order(self):
        story = in_memory()
        accepted_and_settled(story, 1, 2)
        story.restart(HOME)
        story.hand(2, entry=1, who=IN_MEMORY)
        story.hand(1, entry=2, who=IN_MEMORY)
        assert ("P3", "1") in story.broken()

    def test_who_is_told_that_it_is_durable_is_owed_that(self):
        story = in_memory()
        story.begin(2)
        story.send(1)
        story.hand(1, who=IN_MEMORY)
        assert {("P1", "1"), ("P2", "1")} <= set(story.broken())

    def test_a_restart_excuses_nothing_that_is_durable(self):
        story = listening()
        story.accept(1)
        story.restart(HOME)
        story.settle(1)
        assert ("P12", "1") in story.broken()
