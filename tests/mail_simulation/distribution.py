"""Messages from seeds: crashes between any two effects, a mail server that defers, refuses and forgets.

Invariants at the end:
- every person whom a list reached since the message was accepted got it, or bounced, and no other person did;
- no person got it twice, unless the gateway was killed while that transaction was under way;
- owners are told of every message that is held or dropped on its way;
- a letter reaches the one person it is for.

Owners decide by the tokens of notes that reached them, again and again. The first decision holds, for its list alone. A
person who asks to join is told the decision, and joins only if the owners accepted.
"""

import quopri
import random
import re
from collections import Counter

from mailing.rules.address_kinds import Word
from mailing.rules.commands import Command
from mailing.rules.deciding import Decidable, Outcome, decision_token, outcome_of_decision
from mailing.rules.distribution import Distribution
from mailing.rules.events import (
    Admit,
    Admitted,
    Approved,
    Dropped,
    Forget,
    Granted,
    Handed,
    HandOver,
    ListGone,
    MessageTaken,
    NotAdmitted,
    NoteWritten,
    NotResolved,
    Now,
    Rejected,
    Resolve,
    Resolved,
    Retried,
    Save,
    Spooled,
    TellSafe,
    Ticked,
)
from mailing.rules.joining import UNDECIDED, request_of
from mailing.rules.spooled import FINAL_STATES, Destination, MailMessage, MailState, Standing, Wish

LISTS = ("a@l.example", "b@l.example", "c@l.example")
OWNERS = {"owner@x.example"}
WAITS = "c@l.example"
"""List to which no message is delivered while a part of it is out of reach."""
PEOPLE_LIMIT = 15
STEPS = 150
SECRET = b"s" * 32
ADDRESS = re.compile(r"(\w)-(approve|reject)\+([a-z2-7]{16})@l\.example")


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
        self.to_tell = set()
        """Messages and groups that a rule held or dropped, and that no owner has decided since."""
        self.notes, self.addresses = {}, {}
        self.letters, self.granted = {}, set()
        self.requests, self.joined, self.refused = {}, set(), set()
        self.decided = {}
        """Decisions of owners by mail: the outcome, and the people whom the list had reached by then."""
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
        unfinished = [each for each in spooled.values() if each.message.state not in FINAL_STATES]
        self.core = Distribution(unfinished, final, secret=SECRET)
        self.decidable = Decidable(SECRET, self.messages.values())
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
                self.decidable.follow(message)
                for each in message.destinations:
                    if each.is_to_note:
                        self.to_tell.add((message.id, each.group))
                for chunk in chunks:
                    self.chunks[message.id, chunk.number] = chunk
                self.check_sizes(message)
                if content is not None:
                    self.contents[message.id] = content
                if content and message.id in self.requests:
                    self.check_told(message, content)
                elif content not in (None, b"content", b"letter", b""):
                    self.notes[message.id] = content
                    self.addresses[message.id] = ADDRESS.findall(quopri.decodestring(content).decode())
                if message.state in FINAL_STATES:
                    self.contents.pop(message.id, None)
            case TellSafe(transaction):
                self.answered.add(transaction)
            case Resolve() | Admit():
                self.pending.append(effect)
            case HandOver(message, chunk):
                assert message.id in self.contents
                assert self.chunks[message.id, chunk.number] == chunk, "it was not durable before it was handed over"
                place = message.destinations[chunk.destination]
                # What was found to be for too many may have gone to some by then.
                assert place.standing is not Standing.HELD or place.people_limit is None
                self.under_way.append((message, chunk, set()))
            case Forget(id_):
                self.decidable.forget(id_)
                for rows in (self.messages, self.contents):
                    rows.pop(id_, None)
                self.chunks = {key: chunk for key, chunk in self.chunks.items() if key[0] != id_}

    def check_sizes(self, message):
        chunks = self.spooled(message.id).chunks
        for at, place in enumerate(message.destinations):
            if place.people_limit is not None and place.standing is Standing.GOES:
                count = sum(len(chunk.people) for chunk in chunks if chunk.destination == at)
                assert count <= place.people_limit, "a large message went without an owner's word"

    def check_told(self, request, content):
        """Require that a note says what is true."""
        (place,), person = request.destinations, self.requests[request.id][0]
        text = " ".join(quopri.decodestring(content).decode().split())
        says = "is a member of" if place.standing is Standing.GOES else "did not accept"
        says = {"taken": "does not allow", UNDECIDED: "Nobody decided"}.get(place.why, says)
        assert f"{says} {person}" in text or f"{person} {says}" in text or says in text
        assert (place.standing is Standing.GOES) == ((person, place.group) in self.joined)

    def decide(self, kind, id_, groups=LISTS):
        """Note a decision. The person who decides needs no further note."""
        for place in self.messages[id_].destinations:
            if place.is_to_note and place.group in groups:
                self.to_tell.discard((id_, place.group))
        if kind is not None:
            self.tell(kind(id_))

    def accept(self):
        """Make a transaction, repeated until it is answered, as a mail server does."""
        id_ = f"m{self.random.randrange(4)}"
        groups = self.random.sample(LISTS, self.random.randint(1, 2))
        places = tuple(self.destination(group) for group in groups)
        self.transactions += 1
        number = self.transactions
        while number not in self.answered:
            earlier = None
            if id_ in self.messages:
                self.decide(None, id_, [each.group for each in places if each.standing is Standing.GOES])
            if not self.core.holds(id_) and id_ in self.messages:
                earlier = self.spooled(id_)
            self.tell(MessageTaken(id_, "s@x.example", places, b"content", (), number, earlier=earlier))
        self.accepted.setdefault(id_, set()).update(groups)

    def write(self):
        """Write a letter, repeated to the gateway until it is safe. Its request is carried out once."""
        id_, person = f"letter{self.random.randrange(4)}", f"w{self.random.randrange(4)}@x.example"
        person = self.letters.setdefault(id_, person)
        place = Destination("a@l.example", "a-request@l.example", False)
        message = MailMessage(id_, "", self.date, (place,), is_letter=True, wish=Wish(True, "a@l.example", person))
        self.transactions += 1
        number = self.transactions
        while number not in self.answered:
            self.tell(NoteWritten(message, person, b"letter", number))
        if self.random.random() < 0.3:
            while self.messages[id_].wish is not None:
                self.tell(Granted(id_, None if self.core.holds(id_) else self.spooled(id_)))
            self.granted.add(id_)

    def ask_to_join(self):
        """Ask to join, repeated until the request is safe."""
        person, group = f"r{self.random.randrange(6)}@x.example", self.random.choice(LISTS)
        owners = "owners@l.example" if self.random.random() < 0.8 else ""
        request = request_of(Command(group, Word.JOIN, "", group, ""), person, owners, self.date)
        if request.id in self.requests:
            return
        self.requests[request.id] = person, group
        self.transactions += 1
        number = self.transactions
        while number not in self.answered:
            self.tell(NoteWritten(request, person, b"", number))

    def decide_by_mail(self):
        """Let an owner write to an address of a note that has reached her, until that is durable."""
        read = [note for note in self.notes if any(self.copies[note, owner] for owner in OWNERS)]
        addresses = [address for note in read for address in self.addresses[note]]
        if not addresses:
            return
        name, word, token = self.random.choice(addresses)
        found = self.decidable.find(token)
        if found is None:
            # It was told before a crash, noted by nobody, and decided otherwise before it was told again.
            assert not any(self.is_undecided(message, token) for message in self.messages.values())
            return
        id_, group = found
        assert group == f"{name}@l.example", "an owner decided about another list"
        while self.decide_once(id_, group, approves=word == "approve"):
            pass
        assert not self.decide_once(id_, group, approves=word != "approve"), "another decision held as well"

    def is_undecided(self, message, token):
        return any(
            decision_token(SECRET, message.id, each.group) == token and (each.standing is Standing.HELD or each.asked)
            for each in message.destinations
        )

    def decide_once(self, id_, group, *, approves):
        """Returns whether it is to be tried again."""
        message = self.messages[id_]
        outcome = outcome_of_decision(message, group, approves=approves, date=self.date)
        if not outcome.is_decision:
            before = self.decided.get((id_, group))
            if before is not None and not message.is_dropped:
                assert outcome in (Outcome.WAS_APPROVED, Outcome.WAS_DROPPED)
                assert before[0] is not Outcome.REJECTED or outcome is Outcome.WAS_DROPPED
            return False
        assert (id_, group) not in self.decided, "it was decided before"
        self.to_tell.discard((id_, group))
        self.tell((Approved if approves else Rejected)(id_, group))
        (place,) = [each for each in self.messages[id_].destinations if each.group == group]
        if place.standing is Standing.HELD:
            return True
        self.decided[id_, group] = outcome, self.reached(id_, group)
        return False

    def reached(self, id_, group):
        spooled = self.spooled(id_)
        groups = [each.group for each in spooled.message.destinations]
        return {each for chunk in spooled.chunks if groups[chunk.destination] == group for each in chunk.people}

    def destination(self, group):
        luck = self.random.random()
        standing = Standing.HELD if luck < 0.1 else Standing.DROPPED if luck < 0.15 else Standing.GOES
        return Destination(
            group,
            group,
            True,
            standing,
            "no" if standing is not Standing.GOES else "",
            people_limit=PEOPLE_LIMIT if standing is not Standing.GOES or self.random.random() < 0.5 else None,
            waits_for_all=group == WAITS,
            owners="owners@l.example",
            is_to_note=standing is not Standing.GOES,
        )

    def resolve(self):
        asked = self.pending.pop(self.random.randrange(len(self.pending)))
        luck = 1.0 if self.is_healed else self.random.random()
        if isinstance(asked, Admit):
            self.admit(asked.request, luck)
            return
        if luck < 0.2:
            self.tell(NotResolved(asked.id, "away"))
            return
        if luck < 0.23:
            self.tell(ListGone(asked.id, self.random.choice(list(asked.destinations))))
            return
        found = {}
        for at, place in asked.destinations.items():
            for person in sorted(self.members[place.group] if place.is_list else OWNERS):
                found.setdefault(person, at)
        missing = ""
        if luck < 0.4:
            found = {person: at for person, at in found.items() if self.random.random() < 0.5}
            missing = "out of reach"
        event = Resolved(asked.id, tuple(asked.destinations), tuple(found.items()), "r1", missing)
        before = len(self.under_way)
        self.tell(event)
        for message, chunk, _ in self.under_way[before:] if missing else ():
            assert not message.destinations[chunk.destination].waits_for_all, "a part was out of reach"
        if self.random.random() < 0.1:
            self.tell(event)

    def admit(self, request, luck):
        """Admit a person, unless the name server is away, or has another use for that name."""
        (place,) = self.messages[request.id].destinations
        assert place.standing is Standing.GOES or self.messages[request.id].is_dropped, "she joins before it is durable"
        if luck < 0.3:
            self.tell(NotAdmitted(request.id, "away"))
        elif luck < 0.4 and self.requests[request.id] not in self.joined:
            # Whoever has joined before a crash is a member, and has that name.
            self.tell(NotAdmitted(request.id, "taken", is_lasting=True))
        else:
            self.joined.add(self.requests[request.id])
            self.tell(Admitted(request.id))

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
        if what < 0.02:
            self.write()
        elif what < 0.04:
            self.ask_to_join()
        elif what < 0.08:
            self.decide_by_mail()
        elif what < 0.17:
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
        elif what < 0.83 and self.accepted:
            about = {*self.accepted, *self.requests}
            id_ = self.random.choice([each for each in self.messages if each in about])
            kind = self.random.choice((Retried, Approved, Rejected, Dropped))
            if kind is Retried:
                self.tell(Retried(id_))
            else:
                self.decide(kind, id_)
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
                self.ticks += 4_000
                self.tell(Ticked())
                for spooled, state in self.core.unfinished():
                    if state is MailState.HELD:
                        self.decide(Approved, spooled.message.id)
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
        assert not message.is_to_note
        for group in going:
            # Who joined or left meanwhile may have been in it at the instant that was asked for, or not.
            assert world.always[group] <= set(people), f"some of {group} were lost"
    for id_, person in world.letters.items():
        message, (chunk,) = world.messages[id_], world.spooled(id_).chunks
        assert (message.state, message.people, chunk.people, chunk.waiting) == (MailState.DONE, 1, (person,), ())
        assert chunk.bounced or world.copies[id_, person] >= 1, "a letter was lost"
        assert (message.wish is None) == (id_ in world.granted), "a token counts twice, or not at all"
    for id_, (person, group) in world.requests.items():
        message, chunks = world.messages[id_], world.spooled(id_).chunks
        (place,) = message.destinations
        if message.is_dropped:
            continue
        assert [chunk.people for chunk in chunks] == [(person,)]
        assert chunks[0].bounced or world.copies[id_, person] >= 1, "nobody told her what was decided"
        assert ((person, group) in world.joined) == (place.standing is Standing.GOES)
    for (id_, group), (outcome, people) in world.decided.items():
        if outcome is Outcome.REJECTED and id_ not in world.requests:
            assert world.reached(id_, group) == people, "what was rejected went on"
    for id_, group in world.to_tell:
        notes = [note for note, text in world.notes.items() if id_.encode() in text and group.encode() in text]
        assert notes, f"nobody was told of {id_}"
        for note in notes:
            if world.messages[note].destinations[0].why == "the list was deleted":
                continue
            (chunk,) = world.spooled(note).chunks
            assert set(chunk.people) == OWNERS
            assert chunk.bounced or all(world.copies[note, owner] for owner in OWNERS), "a note was lost"
    for (id_, person), count in world.copies.items():
        assert count <= 1 + world.killed_under_way[id_, person], f"{person} got {id_} {count} times"


def run(seed):
    """Run one seed. Return the numbers of copies, of repeated copies, and of owners' decisions by mail.

    Raises `AssertionError`.
    """
    world = World(seed)
    for _ in range(STEPS):
        world.step()
    world.heal()
    check(world)
    decided = Counter(
        f"{'requests' if id_ in world.requests else 'messages'} {outcome} by mail"
        for (id_, _), (outcome, _) in world.decided.items()
    )
    return decided + Counter(copies=world.copies.total(), again=sum(count - 1 for count in world.copies.values()))
