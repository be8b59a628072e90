"""The state of a peer: every state against every event, and the time of its loss."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nameserver.detector.liveness import RESTART_SECONDS, Life, Liveness
from nameserver.detector.phi import DetectorLimits

LIMITS = DetectorLimits(heartbeat_seconds=0.5, acceptable_pause_seconds=4.0, threshold=8.0)
SUSPECTED, UP, LOST, STOPPED = Life.SUSPECTED, Life.UP, Life.LOST, Life.STOPPED
RESTARTING = Life.RESTARTING


def watch_in(life):
    """Return a watch in a state at time 0."""
    watch = Liveness(LIMITS, 0.0)
    if life is not SUSPECTED:
        watch.opened(0.0)
    if life is LOST:
        watch.lose("gone")
    if life is STOPPED:
        watch.stop("told to end")
    if life is RESTARTING:
        watch.restarts(0.0, 5.0, "told to end")
    assert watch.life is life
    return watch


EVENTS = {
    "opened": lambda watch: watch.opened(0.0),
    "heard": lambda watch: watch.heard(0.0),
    "parted": lambda watch: watch.parted("cut"),
    "refused": lambda watch: watch.refused(0.0, "Connection refused"),
    "unanswered": lambda watch: watch.unanswered(),
    "lose": lambda watch: watch.lose("it does not hear this server"),
    "stop": lambda watch: watch.stop("told to end"),
    "look": lambda watch: watch.look(0.0),
    "cannot write": lambda watch: watch.says_of_writing("it cannot write"),
    "can write": lambda watch: watch.says_of_writing(""),
    "leaves": lambda watch: watch.leaves(),
    "restarts": lambda watch: watch.restarts(0.0, 5.0, "told to end"),
}

MEANING = {
    ("opened", SUSPECTED): UP,
    ("opened", UP): UP,
    ("opened", LOST): UP,
    ("opened", STOPPED): UP,
    ("opened", RESTARTING): UP,
    ("heard", SUSPECTED): SUSPECTED,
    ("heard", UP): UP,
    ("heard", LOST): LOST,
    ("heard", STOPPED): STOPPED,
    ("heard", RESTARTING): RESTARTING,
    ("parted", SUSPECTED): SUSPECTED,
    ("parted", UP): SUSPECTED,
    ("parted", LOST): LOST,
    ("parted", STOPPED): STOPPED,
    ("parted", RESTARTING): RESTARTING,
    ("refused", SUSPECTED): SUSPECTED,
    ("refused", UP): UP,
    ("refused", LOST): LOST,
    ("refused", STOPPED): STOPPED,
    ("refused", RESTARTING): RESTARTING,
    ("unanswered", SUSPECTED): SUSPECTED,
    ("unanswered", UP): UP,
    ("unanswered", LOST): LOST,
    ("unanswered", STOPPED): STOPPED,
    ("unanswered", RESTARTING): RESTARTING,
    ("lose", SUSPECTED): LOST,
    ("lose", UP): LOST,
    ("lose", LOST): LOST,
    ("lose", STOPPED): LOST,
    ("lose", RESTARTING): LOST,
    ("stop", SUSPECTED): STOPPED,
    ("stop", UP): STOPPED,
    ("stop", LOST): STOPPED,
    ("stop", STOPPED): STOPPED,
    ("stop", RESTARTING): STOPPED,
    ("look", SUSPECTED): SUSPECTED,
    ("look", UP): UP,
    ("look", LOST): LOST,
    ("look", STOPPED): STOPPED,
    ("look", RESTARTING): RESTARTING,
    ("cannot write", SUSPECTED): LOST,
    ("cannot write", UP): LOST,
    ("cannot write", LOST): LOST,
    ("cannot write", STOPPED): LOST,
    ("cannot write", RESTARTING): LOST,
    ("can write", SUSPECTED): SUSPECTED,
    ("can write", UP): UP,
    ("can write", LOST): LOST,
    ("can write", STOPPED): STOPPED,
    ("can write", RESTARTING): RESTARTING,
    ("leaves", SUSPECTED): SUSPECTED,
    ("leaves", UP): UP,
    ("leaves", LOST): LOST,
    ("leaves", STOPPED): STOPPED,
    ("leaves", RESTARTING): RESTARTING,
    ("restarts", SUSPECTED): RESTARTING,
    ("restarts", UP): RESTARTING,
    ("restarts", LOST): RESTARTING,
    ("restarts", STOPPED): RESTARTING,
    ("restarts", RESTARTING): RESTARTING,
}


@pytest.mark.parametrize(("event", "life"), MEANING)
def test_what_an_event_means_in_a_state(event, life):
    watch = watch_in(life)
    EVENTS[event](watch)
    assert watch.life is MEANING[event, life]
    assert (watch.why == "") == (watch.life is UP)


def test_the_table_is_complete():
    assert set(MEANING) == {(event, life) for event in EVENTS for life in (SUSPECTED, UP, LOST, STOPPED, RESTARTING)}


def lost_after(watch, *, since=0.0, step=0.125):
    """Return the time at which a peer is lost. The loss must be reported once."""
    times = [since + step * number for number in range(int(30 / step)) if watch.look(since + step * number)]
    assert len(times) <= 1
    return times[0] if times else None


def beating(until, *, interval=0.5):
    watch = Liveness(LIMITS, 0.0)
    watch.opened(0.0)
    for number in range(int(until / interval) + 1):
        watch.heard(number * interval)
        assert not watch.look(number * interval)
        assert watch.life is UP
    return watch


def test_a_server_that_falls_silent_is_suspected_and_then_lost():
    watch = beating(60.0)
    assert not watch.look(61.5)
    assert watch.life is SUSPECTED
    assert watch.why == "no heartbeat for 1.5 s"
    assert 65 < lost_after(watch, since=61.5) < 65.5


def test_another_way_is_looked_for_in_the_second_half_of_the_pause():
    watch = beating(60.0)
    assert not watch.is_worth_a_tunnel(62.0)
    assert watch.is_worth_a_tunnel(63.5)
    watch.parted("looking for another way")
    assert not watch.is_worth_a_tunnel(63.5)


def test_a_server_that_pauses_for_no_longer_than_accepted_is_up_again():
    watch = beating(60.0)
    assert not watch.look(64.0)
    watch.heard(64.0)
    assert not watch.look(64.0)
    assert watch.life is UP
    assert watch.why == ""


def test_a_server_that_nobody_answers_for_is_lost_sooner():
    watch = beating(60.0)
    watch.parted("the connection was closed")
    for number in range(5):
        watch.refused(60.1 + number / 10, "Connection refused")
    assert lost_after(watch, since=60.125) == pytest.approx(60.1 + RESTART_SECONDS, abs=0.125)
    assert watch.why == "Connection refused"


def test_a_server_that_is_started_again_in_time_was_not_lost():
    watch = beating(60.0)
    watch.parted("the connection was closed")
    watch.refused(60.1, "Connection refused")
    assert not watch.look(60.1 + RESTART_SECONDS - 0.1)
    watch.opened(62.0)
    assert not watch.look(62.2)
    assert watch.life is UP


def test_a_server_that_listens_but_does_not_answer_yet_gets_the_pause():
    watch = beating(60.0)
    watch.parted("the connection was closed")
    watch.refused(60.1, "Connection refused")
    watch.unanswered()
    assert 64.5 < lost_after(watch, since=60.125) < 65.5
    assert watch.why.startswith("no heartbeat for 5.")
    assert watch.why.endswith(": Connection refused")


def test_a_refusal_while_a_session_is_open_means_nothing():
    watch = beating(60.0)
    watch.refused(10.0, "Connection refused")
    assert not watch.look(60.0)
    assert watch.life is UP


def test_a_server_that_is_not_reached_after_a_start_is_lost():
    watch = Liveness(LIMITS, 0.0)
    assert not watch.was_heard
    assert 4.5 < lost_after(watch) < 6
    assert watch.why.startswith("no heartbeat for 5.")


def test_a_lost_server_that_comes_back_is_judged_anew():
    watch = watch_in(LOST)
    watch.opened(100.0)
    assert not watch.look(104.0)
    assert watch.was_heard
    assert 104 < lost_after(watch, since=104.0) < 106


def test_a_server_that_cannot_write_is_lost_until_it_can_though_it_is_heard():
    watch = beating(60.0)
    assert watch.says_of_writing("the disk is full")
    assert not watch.says_of_writing("the disk is full")
    for now in range(61, 100):
        watch.heard(now)
        assert not watch.look(now)
        assert (watch.life, watch.why) == (LOST, "the disk is full")
    assert watch.says_of_writing("")
    assert not watch.look(100.0)
    assert (watch.life, watch.why) == (UP, "")


def test_a_server_that_cannot_write_and_falls_silent_is_lost_once_more_since_its_session_is_over():
    watch = beating(60.0)
    watch.says_of_writing("the disk is full")
    assert 64 < lost_after(watch, since=60.0) < 66
    assert watch.why.startswith("no heartbeat for")
    assert watch.life is LOST


def test_a_new_session_with_a_server_that_cannot_write_does_not_mean_that_it_is_met():
    watch = beating(60.0)
    watch.says_of_writing("the disk is full")
    watch.parted("the connection was closed")
    assert (watch.life, watch.why) == (LOST, "the disk is full")
    assert not watch.opened(61.0)
    assert (watch.life, watch.why) == (LOST, "the disk is full")
    assert watch.says_of_writing("")
    assert watch.life is UP


@given(st.lists(st.floats(0, 4.0), min_size=1, max_size=200), st.floats(0.05, 0.3))
def test_no_pause_that_is_accepted_is_ever_a_loss(gaps, tick):
    watch = Liveness(LIMITS, 0.0)
    watch.opened(0.0)
    now = 0.0
    for gap in gaps:
        heard_at = now + gap
        while now < heard_at:
            assert not watch.look(now)
            now += tick
        assert not watch.look(heard_at)
        watch.heard(heard_at)
        now = heard_at


@given(
    st.lists(
        st.tuples(st.sampled_from(["opened", "heard", "parted", "refused", "unanswered", "pass"]), st.floats(0, 10)),
        max_size=60,
    )
)
def test_a_loss_is_told_once_and_not_again_before_a_session_is_opened(steps):
    watch, now, told = Liveness(LIMITS, 0.0), 0.0, False
    for step, seconds in steps:
        now += seconds
        match step:
            case "opened":
                watch.opened(now)
                told = False
            case "heard":
                watch.heard(now)
            case "parted":
                watch.parted("cut")
            case "refused":
                watch.refused(now, "refused")
            case "unanswered":
                watch.unanswered()
        was_lost = watch.look(now)
        assert not (told and was_lost)
        told |= was_lost
        assert (watch.life is LOST) == told


def test_a_server_that_restarts_is_waited_for_as_long_as_it_asked_and_then_stopped():
    watch = beating(60.0)
    watch.leaves()
    assert watch.is_coming_back
    watch.restarts(60.0, 5.0, "told to end")
    watch.refused(60.5, "Connection refused")
    assert not watch.look(64.9)
    assert (watch.is_coming_back, watch.is_gone) == (True, False)
    assert watch.look(65.0)
    assert (watch.life, watch.why) == (STOPPED, "told to end, and is not back")
    assert not watch.look(66.0)


def test_a_server_that_is_back_in_time_was_not_lost():
    watch = beating(60.0)
    watch.restarts(60.0, 5.0, "told to end")
    assert watch.opened(63.0)
    assert not watch.look(63.1)
    assert (watch.life, watch.is_coming_back) == (UP, False)


def test_a_server_that_says_it_will_come_back_and_breaks_down_instead_is_lost_like_others():
    watch = beating(60.0)
    watch.leaves()
    watch.parted("cut")
    watch.refused(60.1, "Connection refused")
    assert not watch.is_coming_back
    assert 62 <= lost_after(watch, since=60.1) < 62.5


def test_after_its_start_a_server_loses_nobody_for_as_long_as_others_may_count_on_it():
    """They hold it for one of their view until its grace is over, and have answered so."""
    patient = DetectorLimits(0.5, 4.0, 8.0, restart_grace_seconds=20.0)
    watch = Liveness(patient, 0.0)
    watch.refused(0.1, "Connection refused")
    assert 20 <= lost_after(watch) < 20.5
