"""The course of messages from seeds: crashes between any two effects, a mail server that defers, refuses and forgets.

What holds at the end: everybody whom a list reached since the message was accepted got it, or bounced; nobody else did;
and nobody got it twice, unless the gateway was killed while just that transaction was under way.
"""

import random
from collections import Counter

import pytest

from mailing.rules.distribution import KEPT_FOR_S, Distribution
from mailing.rules.events import (
    Accepted,
    Answer,
    Approved,
    Dropped,
    Forget,
    Handed,
    HandOver,
    ListGone,
    NotResolved,
    Now,
    Rejected,
    Resolve,
    Resolved,
    Retried,
    Save,
    Spooled,
    Ticked,
)
from mailing.rules.spooled import FINAL_STATES, Destination, Standing, State

LISTS = ("a@l.example", "b@l.example", "c@l.example")
SEEDS = 400


class World:
    """A gateway with its spool, a name server and a mail server, all in memory."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.ticks, self.date = 100.0, 1_000_000
        self.messages, self.contents, self.chunks = {}, {}, {}
        self.members = {group: {f"p{n}@x.example" for n in range(40) if self.random.random() < 0.4} for group in LISTS}
        self.always = {group: set(people) for group, people in self.members.items()}
        self.ever = {group: set(people) for group, people in self.members.items()}
        self.copies, self.bounced, self.killed_under_way = Counter(), set(), Counter()
        self.accepted = {}
        self.answered = set()
        self.transactions = 0
        self.is_healed = False
        self.start()

    def start(self):
        spooled = {id_: self.spooled(id_) for id_ in self.messages}
        for id_, each in spooled.items():
            assert [chunk.number for chunk in each.chunks] == [*range(len(each.chunks))]
            assert each.message.state in FINAL_STATES or id_ in self.contents
        final = [each.message for each in spooled.values() if each.message.state in FINAL_STATES]
        self.core = Distribution([each for each in spooled.values() if each.message.state not in FINAL_STATES], final)
        self.pending, self.under_way = [], []

    def spooled(self, id_):
        chunks = [self.chunks[key] for key in sorted(self.chunks) if key[0] == id_]
        return Spooled(self.messages[id_], tuple(chunks))

    def crash(self):
        for message, chunk, taken in self.under_way:
            for at in taken:
                self.killed_under_way[message.id, chunk.people[at]] += 1
        self.start()

    def tell(self, event):
        for effect in self.core.step(event, Now(self.ticks, self.date)):
            if not self.is_healed and self.random.random() < 0.02:
                self.crash()
                return
            self.carry_out(effect)

    def carry_out(self, effect):
        match effect:
            case Save(message, chunks, content):
                self.messages[message.id] = message
                for chunk in chunks:
                    self.chunks[message.id, chunk.number] = chunk
                if content is not None:
                    self.contents[message.id] = content
                if message.state in FINAL_STATES:
                    del self.contents[message.id]
            case Answer(transaction):
                self.answered.add(transaction)
            case Resolve():
                self.pending.append(effect)
            case HandOver(message, chunk):
                assert message.id in self.contents
                assert self.chunks[message.id, chunk.number] == chunk, "it was not durable before it was handed over"
                assert message.destinations[chunk.destination].standing is not Standing.HELD
                self.under_way.append((message, chunk, set()))
            case Forget(id_):
                for rows in (self.messages, self.contents):
                    rows.pop(id_, None)
                self.chunks = {key: chunk for key, chunk in self.chunks.items() if key[0] != id_}

    def accept(self):
        """A transaction, repeated until it is answered, as a mail server does."""
        id_ = f"m{self.random.randrange(4)}"
        groups = self.random.sample(LISTS, self.random.randint(1, 2))
        places = tuple(
            Destination(group, group, True, Standing.HELD if self.random.random() < 0.1 else Standing.GOES)
            for group in groups
        )
        self.transactions += 1
        number = self.transactions
        while number not in self.answered:
            earlier = None
            if not self.core.holds(id_) and id_ in self.messages:
                earlier = self.spooled(id_)
            self.tell(Accepted(id_, "s@x.example", places, b"content", (), number, earlier=earlier))
        self.accepted.setdefault(id_, set()).update(groups)

    def resolve(self):
        asked = self.pending.pop(self.random.randrange(len(self.pending)))
        luck = 1.0 if self.is_healed else self.random.random()
        if luck < 0.2:
            self.tell(NotResolved(asked.id, "away"))
            return
        if luck < 0.23:
            self.tell(ListGone(asked.id, self.random.choice(list(asked.destinations))))
            return
        found = {}
        for at, place in asked.destinations.items():
            for person in self.members[place.group]:
                found.setdefault(person, at)
        missing = ""
        if luck < 0.4:
            found = {person: at for person, at in found.items() if self.random.random() < 0.5}
            missing = "out of reach"
        event = Resolved(asked.id, tuple(asked.destinations), tuple(found.items()), "r1", missing)
        self.tell(event)
        if self.random.random() < 0.1:
            self.tell(event)

    def hand_over(self):
        entry = self.random.choice(self.under_way)
        message, chunk, taken = entry
        refused, deferred = {}, {}
        for at in chunk.waiting:
            luck = self.random.random()
            if luck < 0.05:
                refused[at] = "550 no"
            elif luck < 0.2 and not self.is_healed:
                deferred[at] = "450 later"
            else:
                taken.add(at)
                self.copies[message.id, chunk.people[at]] += 1
        if not self.is_healed and self.random.random() < 0.05:
            self.crash()
            return
        before = self.under_way
        self.tell(Handed(message.id, chunk.number, refused, deferred))
        if self.under_way is before:
            self.under_way.remove(entry)
            return
        for at in taken:
            # Killed before it was written down.
            self.killed_under_way[message.id, chunk.people[at]] += 1

    def step(self):
        what = self.random.random()
        if what < 0.15:
            self.accept()
        elif what < 0.4 and self.pending:
            self.resolve()
        elif what < 0.75 and self.under_way:
            self.hand_over()
        elif what < 0.8:
            group = self.random.choice(LISTS)
            person = f"p{self.random.randrange(40)}@x.example"
            self.members[group] ^= {person}
            self.ever[group].add(person)
            self.always[group].discard(person)
        elif what < 0.83 and self.messages:
            kind = self.random.choice((Retried, Approved, Rejected, Dropped))
            self.tell(kind(self.random.choice(list(self.messages))))
        else:
            self.ticks += self.random.choice((1, 60, 4_000))
            self.date += 1
            self.tell(Ticked())

    def heal(self):
        self.is_healed = True
        for _ in range(2_000):
            if self.pending:
                self.resolve()
            elif self.under_way:
                self.hand_over()
            else:
                for spooled, state in self.core.unfinished():
                    if state is State.HELD:
                        self.tell(Approved(spooled.message.id))
                self.ticks += 4_000
                self.tell(Ticked())
                if not (self.pending or self.under_way or self.core.unfinished()):
                    return
        raise AssertionError(self.core.unfinished())


def check(world):
    for id_, groups in world.accepted.items():
        spooled = world.spooled(id_)
        message, chunks = spooled.message, spooled.chunks
        assert message.state in FINAL_STATES
        assert {each.group for each in message.destinations} >= groups
        people = [person for chunk in chunks for person in chunk.people]
        assert len(people) == len(set(people)), "somebody is in two chunks"
        assert message.people == len(people)
        assert message.done == sum(chunk.done for chunk in chunks)
        assert message.done + message.bounced == message.people
        going = [each.group for each in message.destinations if each.standing is Standing.GOES]
        for chunk in chunks:
            assert not chunk.waiting
            for at, person in enumerate(chunk.people):
                if at not in chunk.bounced:
                    assert world.copies[id_, person] >= 1, f"{person} was lost"
                assert person in world.ever[message.destinations[chunk.destination].group]
        for group in going:
            # Who joined or left meanwhile may have been in it at the instant that was asked for, or not.
            assert world.always[group] <= set(people), f"some of {group} were lost"
    for (id_, person), count in world.copies.items():
        assert count <= 1 + world.killed_under_way[id_, person], f"{person} got {id_} {count} times"


@pytest.mark.parametrize("begin", range(0, SEEDS, 100))
def test_nobody_is_lost_and_nobody_is_sent_to_twice(begin):
    repeats = 0
    for seed in range(begin, begin + 100):
        world = World(seed)
        for _ in range(150):
            world.step()
        world.heal()
        try:
            check(world)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        repeats += sum(count - 1 for count in world.copies.values())
    assert repeats, "no kill ever repeated a transaction: the simulation proves nothing"


def test_what_is_done_is_forgotten_after_some_days():
    world = World(1)
    world.is_healed = True
    world.accept()
    world.heal()
    assert world.messages
    world.date += KEPT_FOR_S + 10
    world.tell(Ticked())
    assert not (world.messages or world.contents or world.chunks)
