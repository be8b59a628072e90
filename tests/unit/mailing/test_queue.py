"""Reports on a message, and on a person whom it may have reached."""

from dataclasses import replace

import pytest

from mailing.rules.events import Spooled
from mailing.rules.in_progress import InProgress
from mailing.rules.queue import ListMembership, reached, why_left_out
from mailing.rules.spooled import Chunk, Destination, MailMessage, MailState, Standing

LIST = Destination("all@ubc.example", "all@lists.ubc.example", is_list=True)
OWNERS = Destination("all@ubc.example", "all-owner@lists.ubc.example", is_list=False)
MESSAGE = MailMessage("m", "s@x.example", 1, (LIST, OWNERS), revision="r2", state=MailState.DONE)
CHUNKS = (
    Chunk("m", 0, 0, ("Ann@x.example", "bob@x.example"), (), {1: "5.1.1"}, revision="r1"),
    Chunk("m", 1, 1, ("cat@x.example", "dan@x.example"), (1,), why="450 later"),
)


def told(person, message=MESSAGE):
    found, at = reached(Spooled(message, CHUNKS), person, host="lists.ubc.example")
    return found.address, found.reached, found.list, found.gateway, found.revision, found.bounces, found.why, at


@pytest.mark.parametrize(
    ("person", "expected"),
    [
        ("ann@X.example", ("Ann@x.example", True, "all@ubc.example", "lists.ubc.example", "r1", 0, "", 0)),
        ("bob@x.example", ("bob@x.example", False, "all@ubc.example", "lists.ubc.example", "r1", 1, "5.1.1", 0)),
        ("cat@x.example", ("cat@x.example", True, None, "lists.ubc.example", "", 0, "", 1)),
        ("dan@x.example", ("dan@x.example", False, None, "lists.ubc.example", "", 0, "450 later", 1)),
        ("eve@x.example", ("eve@x.example", False, None, None, "", 0, "", None)),
    ],
)
def test_the_ledger_says_who_was_reached_and_by_what(person, expected):
    assert told(person) == expected


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (
            replace(MESSAGE, destinations=(replace(LIST, standing=Standing.HELD, why="no"), OWNERS)),
            "all@ubc.example: no",
        ),
        (replace(MESSAGE, missing="out of reach: lab@sfu.example"), "not everybody was found: out of reach: "),
        (replace(MESSAGE, state=MailState.RESOLVING, revision=""), "who is in its lists is not known yet"),
    ],
)
def test_of_somebody_whom_nobody_found_it_is_told_what_may_be_why(message, why):
    assert told("eve@x.example", message)[-2].startswith(why)


@pytest.mark.parametrize(
    ("memberships", "why"),
    [
        ([ListMembership("a@l.example", False)], "in none of its lists: a@l.example"),
        (
            [ListMembership("a@l.example", True, ["a+muted@l.example"]), ListMembership("b@l.example", False)],
            "in a@l.example, and excepted by a+muted@l.example",
        ),
        (
            [ListMembership("a@l.example", True, ["c@l.example"]), ListMembership("b@l.example", True)],
            "in b@l.example; the membership has changed since, or no mail can be sent there",
        ),
    ],
)
def test_memberships_of_the_moment_say_why_somebody_was_left_out(memberships, why):
    assert why_left_out(memberships) == why


def test_messages_of_one_second_are_listed_in_the_order_in_which_they_came_and_older_ones_before():
    in_progress = InProgress([])
    for id_, accepted in (("z", 5), ("a", 5), ("m", 5), ("q", 4)):
        in_progress.open(Spooled(replace(MESSAGE, id=id_, accepted=accepted, state=MailState.WAITING), ()))
    assert [spooled.message.id for spooled, _ in in_progress.unfinished()] == ["q", "z", "a", "m"]
