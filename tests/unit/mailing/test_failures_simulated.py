"""Two months of a list from seeds: people who are gone, people who are there, a member who forges reports, crashes.

Invariants: a person who is there is never suppressed, however many reports were forged. A person who is gone is
suppressed, is sent nothing after that, and only once a probe came back. The kept state is the decided state. Owners
have at most one digest a day, and each failure is in one.
"""

import random
from dataclasses import replace

import pytest

from mailing.rules.distribution import Distribution
from mailing.rules.events import (
    Bounced,
    Cleared,
    Forget,
    ForgetDigest,
    ForgetFailing,
    Handed,
    HandOver,
    Keep,
    MessageTaken,
    Now,
    Resolve,
    Resolved,
    Save,
    Spooled,
    Ticked,
)
from mailing.rules.failures import DAY_S, FAILURE_DAYS, Failing, Failures
from mailing.rules.spooled import FINAL_STATES, Destination, MailState

ALL, OWNERS = "all@ubc.example", "all-owner@lists.ubc.example"
PLACE = Destination(ALL, "all@lists.ubc.example", True, owners=OWNERS)
GONE, THERE = {"gone1@x.example", "gone2@y.example"}, {"ann@x.example", "bob@y.example", "eve@x.example"}
OWNER = "chair@x.example"
DAYS = 60


class CrashError(Exception):
    pass


class World:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.date = 20_000 * DAY_S + 5
        self.messages, self.chunks, self.contents, self.failing, self.digests = {}, {}, {}, {}, {}
        self.waiting, self.reports, self.probes = [], [], []
        self.sent_to, self.probes_back, self.suppressed_at = [], set(), {}
        self.told = {}
        self.start()

    def start(self):
        spooled = [self.spooled(id_) for id_ in self.messages]
        failures = Failures(self.failing.values(), self.digests.values())
        self.core = Distribution(
            [each for each in spooled if each.message.state not in FINAL_STATES],
            [each.message for each in spooled if each.message.state in FINAL_STATES],
            failures,
            secret=b"",
        )
        self.waiting = []

    def spooled(self, id_):
        chunks = [self.chunks[key] for key in sorted(self.chunks) if key[0] == id_]
        return Spooled(self.messages[id_], tuple(chunks))

    def tell(self, event):
        for effect in self.core.step(event, Now(float(self.date), self.date)):
            if self.random.random() < 0.01:
                self.start()
                raise CrashError
            self.carry_out(effect)

    def carry_out(self, effect):
        match effect:
            case Save(message, chunks, content):
                self.messages[message.id] = message
                if message.is_probe and message.state is MailState.DONE:
                    self.probes.append(Spooled(message, (replace(self.chunks[message.id, 0], waiting=()),)))
                self.chunks |= {(message.id, each.number): each for each in chunks}
                if content is not None:
                    self.contents[message.id] = content
            case Keep(Failing() as failing):
                self.failing[failing.person] = failing
                if failing.suppressed and failing.person not in self.suppressed_at:
                    assert failing.person in self.probes_back, "no probe came back"
                    self.suppressed_at[failing.person] = len(self.sent_to)
            case Keep(digest):
                self.digests[digest.group] = digest
            case ForgetFailing(person):
                del self.failing[person]
            case ForgetDigest(group):
                del self.digests[group]
            case Forget(id_):
                del self.messages[id_]
                self.chunks = {key: chunk for key, chunk in self.chunks.items() if key[0] != id_}
            case Resolve() | HandOver():
                self.waiting.append(effect)

    def settle(self):
        """Carry out all requests, and return reports, including some forged ones."""
        while self.waiting:
            match self.waiting.pop(self.random.randrange(len(self.waiting))):
                case Resolve(id_, destinations):
                    at, place = next(iter(destinations.items()))
                    people = sorted(GONE | THERE) if place.is_list else [OWNER]
                    self.tell(Resolved(id_, tuple(destinations), tuple((each, at) for each in people), "r"))
                case HandOver(message, chunk):
                    self.hand_over(message, chunk)
        for report in self.random.sample(self.reports, min(len(self.reports), 5)):
            self.tell(report())

    def hand_over(self, message, chunk):
        refused = {}
        for at in chunk.waiting:
            person = chunk.people[at]
            if message.destinations[0].is_list:
                self.sent_to.append(person)
            elif person == OWNER:
                self.note(message)
            if person in GONE and self.random.random() < 0.3:
                self.fails(message, person)
                refused[at] = "550 5.1.1 no"
            elif person in GONE or (not message.is_letter and self.random.random() < 0.8 and person != OWNER):
                # Eve forges the second kind: she has the token of the list's message, not that of a probe.
                self.reports.append(lambda at=at: self.report(message, chunk.number, at))
        self.tell(Handed(message.id, chunk.number, refused, unknown=frozenset(refused)))

    def report(self, message, number, at):
        spooled = self.spooled(message.id) if message.id in self.messages else None
        if spooled is not None:
            self.fails(message, spooled.chunks[number].people[at])
        return Bounced(message.id, number, at, "5.1.1", None if self.core.holds(message.id) else spooled)

    def fails(self, message, person):
        if message.is_probe:
            self.probes_back.add(person)

    def note(self, message):
        self.told[message.id] = self.contents[message.id]

    def day(self, number):
        id_ = f"m{number}"
        for event in (MessageTaken(id_, "eve@x.example", (PLACE,), b"content", (), number), Ticked(), Ticked()):
            try:
                self.tell(event)
                self.settle()
            except CrashError:
                continue
            self.date += 20
        assert {each.person: each for each in self.core.failures.suppressed()} == {
            person: each for person, each in self.failing.items() if each.suppressed
        }
        self.reports = self.reports[-30:]
        self.date = (self.date // DAY_S + 1) * DAY_S + 5


@pytest.mark.parametrize("seed", range(8))
def test_who_is_gone_is_suppressed_after_a_probe_and_nobody_else_is(seed):
    world = World(seed)
    for number in range(DAYS):
        world.day(number)
    assert world.suppressed_at.keys() == GONE
    for person, at in world.suppressed_at.items():
        assert person not in world.sent_to[at:]
        assert world.sent_to.count(person) >= FAILURE_DAYS
    for person in THERE:
        assert not world.core.failures.is_suppressed(person)
        assert world.sent_to.count(person) >= DAYS * 0.8
    assert all(b"not reach:" in note for note in world.told.values())
    assert len(world.told) <= DAYS
    assert any(b"Nothing more is sent to:\r\ngone" in note for note in world.told.values())
    assert len(world.failing) <= len(GONE | THERE)


def test_who_is_cleared_is_sent_to_again_and_an_old_probe_has_no_effect():
    world = World(0)
    for number in range(DAYS):
        world.day(number)
    assert {each.chunks[0].people[0] for each in world.probes} >= GONE
    for person in GONE:
        world.carry_out(world.core.step(Cleared(person), Now(0.0, world.date))[0])
    assert world.core.step(Cleared("gone1@x.example"), Now(0.0, world.date)) == []
    assert not world.core.failures.suppressed()
    for probe in world.probes:
        if probe.chunks[0].people[0] in GONE:
            world.core.step(Bounced(probe.message.id, 0, 0, "5.1.1", probe), Now(0.0, world.date))
    assert not world.core.failures.suppressed()
    world.sent_to.clear()
    world.day(DAYS)
    assert set(world.sent_to) >= GONE
