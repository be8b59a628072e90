"""When others are told that this server cannot write its database, and when that it can again."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from nameserver.detector.write_health import STEADY_SECONDS, Writing

PATIENCE = 5.0
FULL = "the disk is full"


def looks(writing, failure, begins, ends, step=0.125):
    """Look again and again; returns what was said at each look."""
    said = []
    for number in range(int((ends - begins) / step)):
        writing.look(failure, begins + step * number)
        said.append(writing.cannot_write)
    return said


def test_nothing_is_said_while_all_is_written():
    assert set(looks(Writing(PATIENCE), None, 0, 60)) == {""}


def test_a_failure_is_said_once_it_has_lasted_too_long():
    writing = Writing(PATIENCE)
    looks(writing, None, 0, 100)
    assert set(looks(writing, FULL, 100, 100 + PATIENCE)) == {""}
    writing.look(FULL, 100.1 + PATIENCE)
    assert writing.cannot_write == "it cannot write: the disk is full"


def test_a_short_failure_is_not_said():
    writing = Writing(PATIENCE)
    assert set(looks(writing, FULL, 0, PATIENCE - 1)) == {""}
    assert set(looks(writing, None, PATIENCE - 1, 60)) == {""}
    assert set(looks(writing, FULL, 60, 60 + PATIENCE)) == {""}


def test_the_reason_is_the_newest():
    writing = Writing(PATIENCE)
    looks(writing, FULL, 0, 20)
    writing.look("the disk is gone", 20.0)
    assert writing.cannot_write == "it cannot write: the disk is gone"


def test_it_is_over_once_no_write_has_failed_for_a_while():
    writing = Writing(PATIENCE)
    looks(writing, FULL, 0, 20)
    assert all(looks(writing, None, 20, 19.8 + STEADY_SECONDS))
    writing.look(None, 20 + STEADY_SECONDS)
    assert writing.cannot_write == ""


def test_a_disk_that_takes_something_now_and_then_is_said_to_fail_and_not_to_have_recovered():
    writing = Writing(PATIENCE)
    said = []
    for number in range(20):
        said += looks(writing, FULL, 4 * number, 4 * number + 3)
        said += looks(writing, None, 4 * number + 3, 4 * number + 4)
    told = [bool(each) for each in said]
    assert told == sorted(told)
    assert told[-1]


@given(st.lists(st.tuples(st.booleans(), st.floats(0.1, 10)), max_size=50))
def test_what_is_said_changes_only_after_a_time(spells):
    writing, now, changes = Writing(PATIENCE), 0.0, []
    for is_failing, seconds in spells:
        ends = now + seconds
        while now < ends:
            before = writing.cannot_write
            writing.look(FULL if is_failing else None, now)
            if writing.cannot_write != before:
                changes.append(now)
            now += 0.125
    assert all(later - earlier >= STEADY_SECONDS - 0.125 for earlier, later in pairwise(changes))
