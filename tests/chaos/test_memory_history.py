"""The judge of messages in memory finds what is invented, twice or out of sequence, and forgives what is missing."""

import pytest

from tests.chaos.memory_history import Handed, QuickHistory

GROUP, ANN, BOB = "quick@a.x", "ann@b.x", "bob@b.x"


def handed(number, payload=None, **more):
    return Handed(f"{number}@{GROUP}#1", GROUP, payload or b"%d" % number, **more)


@pytest.fixture
def history():
    found = QuickHistory()
    for number in (1, 2, 3):
        found.note_sending(b"%d" % number, GROUP)
    return found


def test_what_is_lost_or_comes_as_two_messages_is_no_fault(history):
    history.handed[ANN] += [handed(1), handed(3)]
    history.handed[BOB] += [handed(2), handed(1, late=True), Handed(f"1@{GROUP}#2", GROUP, b"2")]
    assert history.faults() == []


@pytest.mark.parametrize(
    ("found", "says"),
    [
        ([handed(1), handed(4)], "was handed what nobody sent"),
        ([handed(1), handed(1)], "was handed 1@quick@a.x#1 twice"),
        ([handed(2), handed(1)], "was handed 1@quick@a.x#1 after number 2"),
        ([Handed("1@quick@c.x#1", "quick@c.x", b"1")], "nobody sent to quick@c.x"),
    ],
)
def test_what_must_not_be_is_found(history, found, says):
    history.handed[ANN] += found
    assert [says in line for line in history.faults()] == [True]


def test_one_id_is_one_message_for_all(history):
    history.handed[ANN].append(handed(1))
    history.handed[BOB].append(handed(1, b"2"))
    (line,) = history.faults()
    assert line == f"1@{GROUP}#1 is 1, and for {BOB} 2"
