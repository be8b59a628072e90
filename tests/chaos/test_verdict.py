"""The judge itself: it finds what is lost, invented or contradicted, and forgives what may be so."""

from math import inf

import pytest

import shadowtree
from namegraph.model.operations import CreateGroup, DeleteGroup, LeaveArc
from tests.chaos.history import History, Outcome, Read, Said, Update
from tests.chaos.verdict import Timeline, contradictions, rows, was_done
from tests.integration.nameserver.recorded_updates import joining

TOP, LOW, ANN = "top@a.x", "low@b.x", "ann@a.x"


def done(number, *operations, asked, told):
    return Update(f"r{number}", operations, asked, told, Outcome.ACKNOWLEDGED, f"{number}@a.x")


UPDATES = [
    done(1, CreateGroup(TOP), asked=1, told=2),
    done(2, CreateGroup(LOW), asked=1, told=2),
    done(3, joining(TOP, LOW, "group"), asked=3, told=4),
    done(4, joining(LOW, ANN, "process"), asked=5, told=6),
    done(5, LeaveArc(TOP, LOW), asked=9, told=10),
    done(6, DeleteGroup(LOW, True), asked=11, told=inf),
]
"""Updates, of which the last was done, but no client was told."""


def judge(kind, names, answer, *, asked, told):
    history = History(reads=[Read(kind, names, asked, told, answer, "a")])
    return contradictions(history, Timeline(UPDATES, ["a.x", "b.x"]))


@pytest.mark.parametrize(
    ("kind", "names", "right", "wrong"),
    [
        ("resolve", (TOP,), [ANN, LOW], [LOW]),
        ("resolve", (TOP,), [ANN, LOW], [ANN, "ben@a.x", LOW]),
        ("check", (TOP, ANN), True, False),
        ("check", (TOP, "ben@a.x"), False, True),
        ("memberships", (ANN,), [LOW, TOP], [LOW]),
        ("memberships", (TOP,), [], [LOW]),
        ("export", (), [(LOW, ANN), (TOP, LOW)], [(LOW, ANN), (TOP, "")]),
        ("export", (), [(LOW, ANN), (TOP, LOW)], [(LOW, ANN), (TOP, LOW), ("new@a.x", "")]),
    ],
)
def test_while_nothing_changes_only_the_true_answer_is_right(kind, names, right, wrong):
    assert not judge(kind, names, right, asked=6.5, told=8)
    (line,) = judge(kind, names, wrong, asked=6.5, told=8)
    assert line.startswith(kind)


@pytest.mark.parametrize("answer", [[], [LOW], [ANN, LOW]])
def test_while_updates_are_under_way_all_that_may_be_true_is_right(answer):
    assert not judge("resolve", (TOP,), answer, asked=2.5, told=5.5)


def test_what_was_acknowledged_before_the_question_must_be_in_the_answer():
    assert judge("resolve", (TOP,), [], asked=4, told=5.5)
    assert judge("resolve", (TOP,), [ANN, LOW], asked=4, told=4.5)


def test_what_was_removed_before_the_question_must_not_be_in_the_answer():
    assert not judge("resolve", (TOP,), [ANN, LOW], asked=9.5, told=12)
    assert judge("resolve", (TOP,), [ANN, LOW], asked=10.5, told=12)


def test_what_nobody_was_told_of_may_still_be_so_or_not():
    for answer in (True, False):
        assert not judge("check", (LOW, ANN), answer, asked=100, told=101)


def test_a_group_that_is_there_must_be_found():
    assert judge("check of no group", (TOP, ANN), True, asked=3, told=4)
    assert not judge("check of no group", (LOW, ANN), True, asked=12, told=13)
    assert not judge("check of no group", ("no@a.x", ANN), True, asked=12, told=13)


def refused(said, operation, *, asked, told, **facts):
    why = [Said("a", said, "", facts)]
    return History(updates=[Update("r", (operation,), asked, told, Outcome.REFUSED, why=why)])


@pytest.mark.parametrize(
    ("said", "operation", "facts", "wrong", "right"),
    [
        ("AlreadyMember", joining(LOW, ANN, "process"), {}, (3, 4), (4, 5.5)),
        ("NotAMember", LeaveArc(LOW, ANN), {}, (7, 8), (5, 8)),
        ("GroupExists", CreateGroup(TOP), {}, (0, 0.5), (0, 1.5)),
        ("GroupNotFound", joining(TOP, LOW, "group"), {"group": LOW}, (3, 4), (1.5, 4)),
    ],
)
def test_a_refusal_must_have_been_true_at_some_time_in_the_call(said, operation, facts, wrong, right):
    timeline = Timeline(UPDATES, ["a.x", "b.x"])
    assert contradictions(refused(said, operation, asked=wrong[0], told=wrong[1], **facts), timeline)
    assert not contradictions(refused(said, operation, asked=right[0], told=right[1], **facts), timeline)


def test_updates_that_cannot_all_have_been_done_are_found():
    with pytest.raises(AssertionError, match="ALREADY_MEMBER"):
        Timeline([*UPDATES[:3], done(4, joining(TOP, LOW, "group"), asked=5, told=6)], ["a.x", "b.x"])
    with pytest.raises(AssertionError, match="one revision"):
        Timeline([*UPDATES[:3], done(3, joining(LOW, TOP, "group"), asked=5, told=6)], ["a.x", "b.x"])


def test_of_two_updates_that_ended_an_arc_at_its_two_ends_the_second_did_not_know():
    deleted = done(4, DeleteGroup(LOW, True), asked=5, told=6)
    left = done(5, LeaveArc(TOP, LOW), asked=5, told=7)
    assert not Timeline([*UPDATES[:3], deleted, left], ["a.x", "b.x"]).model.arcs
    made_anew = [done(6, CreateGroup(LOW), asked=8, told=9), done(7, joining(TOP, LOW, "group"), asked=10, told=11)]
    left_again = [done(number, LeaveArc(TOP, LOW), asked=12, told=13) for number in (8, 9)]
    with pytest.raises(AssertionError, match="NOT_A_MEMBER"):
        Timeline([*UPDATES[:3], deleted, left, *made_anew, *left_again], ["a.x", "b.x"])


def test_a_graph_has_a_row_for_each_arc_and_for_each_group_without_members():
    assert rows(Timeline(UPDATES[:3], ["a.x", "b.x"]).model) == {(TOP, LOW, "group"), (LOW, "", "group")}


def test_an_update_was_done_before_where_its_coordinator_had_counted_so_far():
    assert was_done(UPDATES[3], counters={"a.x": 4, "b.x": 2})
    assert not was_done(UPDATES[3], counters={"a.x": 3, "b.x": 9})


class Telling:
    """A client whose server says one thing after another."""

    address = "a"

    def __init__(self, *answers):
        self._answers = list(answers)

    def leave(self, parent, child, *, request_id, timeout):
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return shadowtree.Change(answer)


UNKNOWN, AWAY = shadowtree.OutcomeUnknown("?"), shadowtree.Unavailable("away")
LATE, NO_MEMBER = shadowtree.DeadlineExceeded("late"), shadowtree.NotAMember("no")


@pytest.mark.parametrize(
    ("answers", "outcome"),
    [
        (["7@a.x"], Outcome.ACKNOWLEDGED),
        ([AWAY], Outcome.REFUSED),
        ([LATE], Outcome.REFUSED),
        ([NO_MEMBER], Outcome.REFUSED),
        ([UNKNOWN], Outcome.UNKNOWN),
        ([UNKNOWN, AWAY], Outcome.UNKNOWN),
        ([UNKNOWN, LATE, UNKNOWN], Outcome.UNKNOWN),
        ([UNKNOWN, NO_MEMBER], Outcome.REFUSED),
        ([UNKNOWN, UNKNOWN, "7@a.x"], Outcome.ACKNOWLEDGED),
    ],
)
def test_an_outcome_that_may_be_is_unknown_until_something_definite_is_told(answers, outcome):
    update, client = Update("r", (LeaveArc(TOP, LOW),), asked=1.0), Telling(*answers)
    for _ in answers:
        update.ask(client, lambda: 3.0, 1)
    assert (update.outcome, update.told) == (outcome, inf if outcome is Outcome.UNKNOWN else 3.0)
    assert update.revision == ("7@a.x" if outcome is Outcome.ACKNOWLEDGED else "")
