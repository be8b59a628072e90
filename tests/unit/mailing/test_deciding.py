"""Decisions of owners: tokens, time limits and outcomes, and the people who ask to join."""

from dataclasses import replace
from email import message_from_bytes, policy

import pytest

from mailing.rules.address_kinds import Word
from mailing.rules.commands import Command
from mailing.rules.deciding import DECISION_SECONDS, Decidable, Outcome, decision_token, outcome_of_decision
from mailing.rules.distribution import Distribution
from mailing.rules.events import (
    Admit,
    Admitted,
    Approved,
    Dropped,
    Handed,
    HandOver,
    NotAdmitted,
    NoteWritten,
    Now,
    Rejected,
    Retried,
    Save,
    Spooled,
    TellSafe,
    Ticked,
)
from mailing.rules.joining import REQUEST_SECONDS, request_of
from mailing.rules.letters import decision_of
from mailing.rules.queue import queued
from mailing.rules.spooled import Destination, MailMessage, MailState, Standing

ALL, NEWS, ANN = "all@ubc.example", "news@ubc.example", "ann@x.example"
SECRET = b"s" * 32
NOW = 1_000_000
COMMAND = Command(ALL, Word.JOIN, "", "all@lists.ubc.example", "all-join@lists.ubc.example")
OWNERS = "all-owner@lists.ubc.example"


def place(standing=Standing.HELD, group=ALL, asked=NOW):
    return Destination(group, "all@lists.ubc.example", True, standing, owners=OWNERS, asked=asked)


def message(*places):
    return MailMessage("1" * 32, ANN, NOW, places)


@pytest.mark.parametrize(
    ("places", "approves", "date", "outcome"),
    [
        ([place()], True, NOW, Outcome.APPROVED),
        ([place()], False, NOW + DECISION_SECONDS, Outcome.REJECTED),
        ([place()], True, NOW + DECISION_SECONDS + 1, Outcome.IS_TOO_LATE),
        ([place(asked=0)], True, NOW + DECISION_SECONDS + 1, Outcome.APPROVED),
        ([place(Standing.GOES)], False, NOW, Outcome.WAS_APPROVED),
        ([place(Standing.DROPPED)], True, NOW, Outcome.WAS_DROPPED),
        ([place(Standing.GOES, NEWS), place()], True, NOW, Outcome.APPROVED),
        ([place(group=NEWS)], True, NOW, Outcome.WAS_DROPPED),
        ([replace(place(), is_list=False)], True, NOW, Outcome.WAS_DROPPED),
    ],
)
def test_the_first_decision_holds_for_its_list_and_for_some_days(places, approves, date, outcome):
    assert outcome_of_decision(message(*places), ALL, approves=approves, date=date) is outcome


def test_a_token_is_of_one_message_one_list_and_one_gateway():
    tokens = {decision_token(SECRET, "1", ALL), decision_token(SECRET, "2", ALL), decision_token(SECRET, "1", NEWS)}
    assert len(tokens | {decision_token(b"t" * 32, "1", ALL)}) == 4


def test_what_was_decided_is_known_until_the_message_is_forgotten():
    held, id_ = message(place(), place(Standing.GOES, NEWS, asked=0)), "1" * 32
    decidable = Decidable(SECRET, [held])
    token = decision_token(SECRET, id_, ALL)
    assert decidable.find(token) == (id_, ALL)
    assert decidable.find(decision_token(SECRET, id_, NEWS)) is None
    decidable.follow(message(place(Standing.DROPPED)))
    assert decidable.find(token) == (id_, ALL)
    assert Decidable(SECRET, [message(place(Standing.DROPPED))]).find(token) == (id_, ALL)
    decidable.forget(id_)
    decidable.forget("2" * 32)
    assert decidable.find(token) is None


def test_an_owner_is_told_what_became_of_it():
    request = request_of(COMMAND, ANN, OWNERS, NOW)
    told = {(each, about.id): decision_of(COMMAND, about, each) for each in Outcome for about in (message(), request)}
    texts = {" ".join(letter.lines) for letter in told.values()}
    assert len(texts) == 2 * len(Outcome) - 1, "only that it is too late is the same for both"
    for (outcome, id_), letter in told.items():
        is_about = id_ in letter.lines[0] if id_ != request.id else ANN in letter.lines[0]
        assert is_about or outcome is Outcome.IS_TOO_LATE
        assert ("Nothing was done" in letter.lines[0]) is not outcome.is_decision


class Gateway:
    """Decisions about one request, and the durable state."""

    def __init__(self, owners=OWNERS):
        self.request = request_of(COMMAND, ANN, owners, NOW)
        self.core = Distribution((), (), secret=SECRET)
        self.message, self.chunks, self.content = None, {}, None
        self.ticks = 0.0

    def tell(self, event, date=NOW):
        """Return the effects of an event."""
        effects = self.core.step(event, Now(self.ticks, date))
        for effect in effects:
            if isinstance(effect, Save) and effect.message.id == self.request.id:
                self.message, self.content = effect.message, effect.content or self.content
                self.chunks |= {chunk.number: chunk for chunk in effect.chunks}
        return effects

    def begin(self):
        effects = self.tell(NoteWritten(self.request, ANN, b"", 3))
        assert effects == [Save(self.request, (), b""), TellSafe(3)]
        return self

    def begin_again(self):
        self.core = Distribution([Spooled(self.message, tuple(self.chunks.values()))], (), secret=SECRET)

    @property
    def id(self):
        return self.request.id

    @property
    def text(self):
        return " ".join(message_from_bytes(self.content, policy=policy.default).get_content().split())

    def hand_over(self):
        self.tell(Handed(self.id, 0))
        assert self.message.state is MailState.DONE


def test_who_is_accepted_joins_and_then_is_told_so():
    gate = Gateway("").begin()
    assert gate.tell(Approved(gate.id, NEWS)) == []
    saved, admit = gate.tell(Approved(gate.id, ALL))
    assert isinstance(saved, Save) and admit == Admit(gate.message)
    assert gate.tell(Rejected(gate.id, ALL)) == [], "it was decided"
    assert gate.tell(NotAdmitted(gate.id, "away")) and gate.tell(Ticked()) == []
    shown = queued(Spooled(gate.message, ()), MailState.WAITING, host="x")
    assert (shown.author, shown.lists, shown.shares[0].why) == (ANN, (ALL,), "away")
    assert gate.tell(Retried(gate.id)) == [Admit(gate.message)]
    assert gate.tell(NotAdmitted(gate.id, "away"))
    gate.ticks += 3_600
    assert gate.tell(Ticked()) == [Admit(gate.message)]
    gate.begin_again()
    assert gate.tell(Ticked()) == [Admit(gate.message)]
    _, handed = gate.tell(Admitted(gate.id))
    assert handed == HandOver(gate.message, gate.chunks[0]) and gate.chunks[0].people == (ANN,)
    assert f"{ANN} is a member of all@lists.ubc.example." in gate.text
    assert gate.tell(Admitted(gate.id)) == []
    gate.hand_over()


@pytest.mark.parametrize(
    ("events", "says", "why"),
    [
        ([Rejected], "did not accept ann@x.example. Its owners are all-owner@", "rejected"),
        ([Approved, lambda id_: NotAdmitted(id_, "the name is taken", True)], "does not allow", "the name is taken"),
    ],
)
def test_who_is_not_accepted_is_told_so_and_does_not_join(events, says, why):
    gate = Gateway().begin()
    for event in events:
        effects = gate.tell(event(gate.id))
    assert isinstance(effects[-1], HandOver)
    assert says in gate.text
    assert gate.message.destinations[0].why == why
    gate.tell(Ticked())
    gate.hand_over()


def test_a_request_about_which_nobody_decides_ends():
    gate = Gateway("").begin()
    shown = queued(Spooled(gate.message, ()), MailState.HELD, host="x")
    assert (shown.author, shown.shares[0].why) == (ANN, "ann@x.example asks to join")
    assert gate.core.requests(ALL) == [gate.message] and gate.core.requests(NEWS) == []
    assert gate.tell(Ticked(), NOW + REQUEST_SECONDS) == []
    gate.begin_again()
    assert isinstance(gate.tell(Ticked(), NOW + REQUEST_SECONDS + 1)[-1], HandOver)
    assert "Nobody decided" in gate.text
    assert gate.core.requests(ALL) == []
    gate.hand_over()


def test_a_request_that_is_dropped_ends_and_nobody_is_told():
    gate = Gateway("").begin()
    gate.tell(Dropped(gate.id))
    assert (gate.message.state, gate.chunks) == (MailState.DROPPED, {})
    gate = Gateway("").begin()
    gate.tell(Approved(gate.id))
    gate.tell(Dropped(gate.id))
    gate.tell(Admitted(gate.id))
    assert (gate.message.state, gate.chunks) == (MailState.DROPPED, {})


def test_whoever_asks_again_on_the_same_day_has_asked_before():
    same = request_of(COMMAND, "Ann@x.example", OWNERS, NOW)
    assert same.id == request_of(COMMAND, ANN, "", NOW + 10).id
    assert same.id != request_of(COMMAND, ANN, OWNERS, NOW + 86_400).id
    assert same.id != request_of(replace(COMMAND, group=NEWS), ANN, OWNERS, NOW).id
