"""A command that ends a message's waiting for a server."""

from dataclasses import replace

import pytest

from mailing.rules.distribution import Distribution
from mailing.rules.events import (
    Dropped,
    MessageTaken,
    NotResolved,
    Now,
    Resolve,
    Resolved,
    Save,
    SendShares,
    SharesSent,
    Ticked,
)
from mailing.rules.queue import queued
from mailing.rules.spooled import Destination, MailState, OtherShare

ANN = "ann@x.example"
PLACE = Destination("all@ubc.example", "all@lists.ubc.example", True)
NOW = Now(0.0, 1)


class Course:
    """A message to one list."""

    def __init__(self, place):
        self.core, self.letters = Distribution((), (), secret=b""), []
        self.tell(MessageTaken("m", ANN, (place,), b"content", (), 1, answerable=ANN))

    def tell(self, event):
        effects = self.core.step(event, NOW)
        self.letters += [each.message for each in effects if isinstance(each, Save) and each.message.is_letter]
        return effects

    def waits_for(self):
        return self.core.spooled("m").message.waits_for

    def told(self):
        """Return the statements of `mail queue` about other servers' shares."""
        found = queued(self.core.spooled("m"), MailState.WAITING, host="here")
        return {each.server: (each.state, each.why) for each in found.shares[1:]}


@pytest.mark.parametrize(
    "answer",
    [
        Resolved("m", (0,), (), "r", "out of reach", away=("b.example", "sfu.example")),
        NotResolved("m", "away", ("b.example", "sfu.example")),
    ],
)
def test_organisations_are_asked_again_until_all_that_are_away_are_dropped(answer):
    course = Course(PLACE)
    course.tell(answer)
    assert course.waits_for() == ("b.example", "sfu.example")
    assert Resolve("m", {0: PLACE}) in course.tell(Dropped("m", "sfu.example"))
    course.tell(answer)
    assert course.waits_for() == ("b.example",)
    course.tell(Ticked())
    assert course.letters == []
    course.tell(Dropped("m", "b.example"))
    course.tell(answer)
    course.tell(Ticked())
    assert len(course.letters) == 1
    assert not course.core.holds("m")


def test_who_comes_back_meanwhile_is_reached():
    course = Course(PLACE)
    course.tell(Resolved("m", (0,), (), "r", "out of reach", away=("sfu.example",)))
    course.tell(Dropped("m", "sfu.example"))
    course.tell(Resolved("m", (0,), (("bob@sfu.example", 0),), "r"))
    course.tell(Ticked())
    assert course.letters == []
    assert course.core.spooled("m").chunks[0].people == ("bob@sfu.example",)


def test_a_share_is_dropped_and_the_others_are_waited_for():
    course = Course(replace(PLACE, goes_by_shares=True))
    others = (OtherShare("a.example", 0, 2), OtherShare("sfu.example", 0, 5))
    assert isinstance(course.tell(Resolved("m", (0,), (), "r", shares=others))[-1], SendShares)
    course.tell(SharesSent("m", (0,), False, ("a.example", "sfu.example")))
    assert course.waits_for() == ("a.example", "sfu.example")
    assert isinstance(course.tell(Dropped("m", "sfu.example"))[-1], SendShares)
    course.tell(SharesSent("m", (0,), False, ("a.example", "sfu.example")))
    told = course.told()
    assert told["a.example"][0] is MailState.WAITING
    assert told["sfu.example"] == (MailState.DROPPED, "waited for no longer")
    course.tell(Dropped("m", "a.example"))
    course.tell(SharesSent("m", (0,), False, ("a.example", "sfu.example")))
    assert course.waits_for() == ()
    course.tell(Ticked())
    assert len(course.letters) == 1
    assert not course.core.holds("m")
