"""Shares from seeds: three gateways, crashes between any two effects, servers away, answers lost, repeated shares.

Invariants at the end: every person who was in a list all the time got the message, and no person who never was in it
did. No person got it twice, unless a gateway was killed while that transaction was under way. A native person is served
by the gateway of its server, if there is one. The people who are handed a message are the people reported to have it.
"""

import random
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from mailing.rules.distribution import Distribution
from mailing.rules.events import (
    Handed,
    HandOver,
    MessageTaken,
    NotResolved,
    Now,
    Resolve,
    Resolved,
    Retried,
    Save,
    SendShares,
    Shared,
    SharesNotSent,
    SharesSent,
    Spooled,
    TellSafe,
    Ticked,
)
from mailing.rules.queue import queued
from mailing.rules.spooled import FINAL_STATES, Destination, ListOrigin, MailState, OtherShare

SERVERS = ("a.example", "b.example", "c.example")
WITHOUT = "c.example"
"""Server without a gateway in some seeds."""
LISTS = {"a.example": ("all@a.example", "news@a.example"), "b.example": ("lab@b.example",)}
WAITS = "news@a.example"
"""List to which no message is delivered while a part of it is out of reach."""
NATIVE = [f"p{number}@{server}" for server in SERVERS for number in range(6)]
FOREIGN = [f"f{number}@nowhere.example" for number in range(4)]
BY_WAY_OF = 0.2
"""Share of memberships that lead through a group of some server, and are unknown while it is away."""
STEPS = 200


def home_of(person):
    """Return the server that owns a person. None if the person is foreign."""
    server = person.rpartition("@")[2]
    return server if server in SERVERS else None


@dataclass
class Entry:
    """A share in the log of a name server."""

    message: str
    groups: tuple
    people: tuple
    """Each with the group that reaches them first."""


@dataclass
class Sending:
    """A message of delivery, with the servers to which it is still to come."""

    message: str
    groups: tuple
    waiting: set
    told: set = field(default_factory=set)
    """People for whom it has come to a server."""


class Gateway:
    """A gateway with its spool, and the messages that its name server keeps for it."""

    def __init__(self, world, server):
        self.world, self.server = world, server
        self.messages, self.contents, self.chunks = {}, {}, {}
        self.log, self.at = [], 0
        self.answered, self.transactions = set(), 0
        self.start()

    def start(self):
        every = {id_: self.spooled(id_) for id_ in self.messages}
        unfinished = [each for each in every.values() if each.message.state not in FINAL_STATES]
        final = [each.message for each in every.values() if each.message.state in FINAL_STATES]
        self.core = Distribution(unfinished, final, secret=b"")
        self.asked, self.posts, self.under_way = [], [], []

    def spooled(self, id_):
        chunks = [self.chunks[key] for key in sorted(self.chunks) if key[0] == id_]
        return Spooled(self.messages[id_], tuple(chunks))

    def earlier(self, id_):
        return self.spooled(id_) if id_ in self.messages and not self.core.holds(id_) else None

    def crash(self):
        for message, chunk, taken in self.under_way:
            for at in taken:
                self.world.killed_under_way[message.id, chunk.people[at]] += 1
        self.start()

    def tell(self, event):
        """Returns whether the gateway lives to carry all of it out."""
        for effect in self.core.step(event, self.world.now()):
            if self.world.luck() < 0.02:
                self.crash()
                return False
            match effect:
                case Save(message, chunks, content):
                    self.messages[message.id] = message
                    self.chunks |= {(message.id, chunk.number): chunk for chunk in chunks}
                    if content is not None:
                        self.contents[message.id] = content
                    if message.state in FINAL_STATES:
                        self.contents.pop(message.id, None)
                case TellSafe(transaction):
                    self.answered.add(transaction)
                case Resolve():
                    self.asked.append(effect)
                case SendShares(message):
                    assert message.id in self.contents
                    assert self.messages[message.id].post is not None, "it was not durable before it was sent"
                    self.posts.append(effect)
                case HandOver(message, chunk):
                    assert message.id in self.contents
                    assert self.chunks[message.id, chunk.number] == chunk
                    self.under_way.append((message, chunk, set()))
        return True

    def until_answered(self, event_of):
        """Repeat an event until it is answered, as mail servers do, and name servers with what is not acknowledged."""
        self.transactions += 1
        number = self.transactions
        while number not in self.answered:
            self.tell(event_of(number))

    def accept(self, id_, groups):
        places = tuple(
            Destination(group, group, True, goes_by_shares=True, waits_for_all=group == WAITS) for group in groups
        )
        self.until_answered(
            lambda number: MessageTaken(id_, "s@x.example", places, b"content", (), number, earlier=self.earlier(id_))
        )

    def resolve(self):
        asked, world = self.asked.pop(), self.world
        if world.luck() < 0.1:
            self.tell(NotResolved(asked.id, "away"))
            return
        away = [server for server in SERVERS if server in world.away]
        counts, people, unsure = Counter(), [], []
        groups = {at: each.group for at, each in asked.destinations.items()}
        for person, at in world.reached(groups, away=world.away).items():
            servers = [server for server in world.servers_of(person) if server not in away]
            if servers and not any(server in world.gateways for server in servers):
                (unsure if away and not home_of(person) else people).append((person, at))
            elif servers:
                counts[servers[0], at] += 1
        shares = [OtherShare(*key, count) for key, count in counts.items()]
        self.tell(
            Resolved(
                asked.id,
                tuple(asked.destinations),
                tuple(people),
                "r1",
                "out of reach" if away else "",
                shares=tuple(each for each in shares if each.server != self.server),
                unsure=tuple(unsure),
                own=tuple(each for each in shares if each.server == self.server),
            )
        )

    def post(self):
        effect, world = self.posts.pop(), self.world
        groups = tuple(each.group for each in effect.destinations.values())
        sending = world.send(effect.message.id, groups)
        if world.luck() < 0.2:
            self.tell(SharesNotSent(effect.message.id, "the answer was lost"))
            return
        waiting = tuple(sorted(sending.waiting & world.away))
        self.tell(SharesSent(effect.message.id, tuple(effect.destinations), sending.waiting <= world.away, waiting))

    def take(self):
        """Take the next share. It is acknowledged once it is durable, and comes again if the acknowledgement is
        lost.
        """
        entry = self.log[self.at]
        own = set(LISTS.get(self.server, ()))
        origin = None if own & set(entry.groups) else ListOrigin("lists.elsewhere.example", "trace")
        places = tuple(Destination(group, group, True, origin=origin) for group in entry.groups)
        people = tuple((person, entry.groups.index(group)) for person, group in entry.people)
        self.until_answered(
            lambda number: Shared(
                entry.message,
                "s@x.example",
                places,
                people,
                b"content",
                (),
                origin is None,
                number,
                earlier=self.earlier(entry.message),
                is_proven=origin is None,
            )
        )
        if self.world.luck() > 0.1:
            self.at += 1

    def hand_over(self):
        entry = self.world.random.choice(self.under_way)
        message, chunk, taken = entry
        refused, deferred = {}, {}
        for at in chunk.waiting:
            luck = self.world.luck()
            if luck < 0.2:
                deferred[at] = "450 later"
            else:
                taken.add(at)
                self.world.copies[message.id, chunk.people[at]].append(self.server)
        before = self.under_way
        if self.world.luck() < 0.05:
            self.crash()
            return
        if self.tell(Handed(message.id, chunk.number, refused, deferred)) or self.under_way is before:
            self.under_way.remove(entry)
            return
        for at in taken:
            self.world.killed_under_way[message.id, chunk.people[at]] += 1

    def is_idle(self):
        return not (self.asked or self.posts or self.under_way or self.core.unfinished() or self.at < len(self.log))


class World:
    """Name servers, as gateways see them: lists with people, and messages that come to each server once."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.ticks = 100.0
        self.is_healed = False
        self.killed_under_way, self.copies = Counter(), defaultdict(list)
        self.away = set()
        self.sendings, self.served = {}, {}
        self.gateways = {server for server in SERVERS if server != WITHOUT or seed % 3}
        every = [group for groups in LISTS.values() for group in groups]
        self.members = {
            group: {person for person in (*NATIVE, *FOREIGN) if self.random.random() < 0.5} for group in every
        }
        self.places = {person: sorted(self.random.sample(SERVERS, self.random.randint(1, 2))) for person in FOREIGN}
        """Servers whose groups each foreign person is in."""
        self.ways = {
            (group, person): self.random.choice(SERVERS)
            for group in every
            for person in (*NATIVE, *FOREIGN)
            if self.random.random() < BY_WAY_OF
        }
        """Memberships by the server whose group they lead through. A membership without an entry is direct."""
        self.always = {group: set(people) for group, people in self.members.items()}
        self.ever = {group: set(people) for group, people in self.members.items()}
        self.accepted = defaultdict(set)
        self.by_server = {server: Gateway(self, server) for server in self.gateways}

    def now(self):
        return Now(self.ticks, 1_000_000)

    def luck(self):
        return 1.0 if self.is_healed else self.random.random()

    def servers_of(self, person):
        return [home_of(person)] if home_of(person) else self.places[person]

    def reached(self, groups, *, away, is_direct=True):
        """Return the people of groups, each with the key of the first.

        `away`: servers whose groups are unknown.
        `is_direct`: True if direct members count.
        """
        found = {}
        for at, group in groups.items():
            for person in sorted(self.members[group]):
                way = self.ways.get((group, person))
                if way not in away and (is_direct or way is not None):
                    found.setdefault(person, at)
        return found

    def send(self, message, groups):
        """Deliver a message once by its id, to each server when it is up, for the members by then."""
        if (message, groups) not in self.sendings or self.luck() < 0.03:
            self.sendings[message, groups] = Sending(message, groups, set(SERVERS))
        sending = self.sendings[message, groups]
        self.spread(sending)
        return sending

    def spread(self, sending):
        """Bring it to servers that are back, and once more to those where these reach further people."""
        back = sending.waiting - self.away
        sending.waiting -= back
        people = defaultdict(list)
        every = {group: group for group in sending.groups}
        now_reached = self.reached(every, away=sending.waiting)
        newly_reached = self.reached(every, away=set(SERVERS) - back, is_direct=False)
        for person, group in (newly_reached | now_reached).items() if back else ():
            with_gateway = [each for each in self.servers_of(person) if each in self.gateways]
            if not with_gateway:
                continue
            server = self.served.setdefault(person, self.random.choice(with_gateway))
            is_found_late = server not in sending.waiting and person in newly_reached and person not in sending.told
            if server in back or is_found_late:
                people[server].append((person, group))
                sending.told.add(person)
        for server, found in sorted(people.items()):
            self.by_server[server].log.append(Entry(sending.message, sending.groups, tuple(found)))

    def step(self):
        what, gateway = self.random.random(), self.by_server[self.random.choice(sorted(self.by_server))]
        if what < 0.08:
            taker = self.random.choice(sorted(LISTS))
            id_ = f"m{self.random.randrange(3)} of {taker}"
            groups = self.random.sample(LISTS[taker], self.random.randint(1, len(LISTS[taker])))
            self.by_server[taker].accept(id_, groups)
            self.accepted[id_].update(groups)
        elif what < 0.2 and gateway.asked:
            gateway.resolve()
        elif what < 0.35 and gateway.posts:
            gateway.post()
        elif what < 0.5 and gateway.at < len(gateway.log):
            gateway.take()
        elif what < 0.7 and gateway.under_way:
            gateway.hand_over()
        elif what < 0.75:
            group, person = self.random.choice(sorted(self.members)), self.random.choice([*NATIVE, *FOREIGN])
            self.members[group] ^= {person}
            self.ever[group].add(person)
            self.always[group].discard(person)
        elif what < 0.8:
            self.away ^= {self.random.choice(SERVERS)}
        elif what < 0.82 and gateway.messages:
            gateway.tell(Retried(self.random.choice(sorted(gateway.messages))))
        else:
            self.pass_time(self.random.choice((1, 60, 4_000)))

    def pass_time(self, seconds):
        self.ticks += seconds
        for sending in self.sendings.values():
            self.spread(sending)
        for gateway in self.by_server.values():
            gateway.tell(Ticked())

    def heal(self):
        self.is_healed, self.away = True, set()
        for _ in range(500):
            for gateway in self.by_server.values():
                while gateway.asked:
                    gateway.resolve()
                while gateway.posts:
                    gateway.post()
                while gateway.at < len(gateway.log):
                    gateway.take()
                while gateway.under_way:
                    gateway.hand_over()
            if all(gateway.is_idle() for gateway in self.by_server.values()):
                return
            self.pass_time(4_000)
        raise AssertionError([gateway.core.unfinished() for gateway in self.by_server.values()])


def check(world):
    for id_, groups in world.accepted.items():
        taker = world.by_server[id_.rpartition(" ")[2]]
        got = {person for (message, person) in world.copies if message == id_}
        for group in groups:
            assert world.always[group] <= got, f"some of {group} were lost"
        for person in got:
            assert any(person in world.ever[group] for group in groups), f"{person} was never in it"
            by = set(world.copies[id_, person])
            if home_of(person) in world.gateways:
                assert by == {home_of(person)}, f"{person} was served by {by}"
            assert len(by) == 1, f"{person} was served by {by}"
            repeats = len(world.copies[id_, person]) - 1
            assert repeats <= world.killed_under_way[id_, person], f"{person} got it {repeats + 1} times"
        told = queued(taker.spooled(id_), taker.messages[id_].state, host="lists.example")
        assert told.state is MailState.DONE
        assert {share.state for share in told.shares} == {MailState.DONE}
        in_ledgers = Counter(
            person
            for gateway in world.by_server.values()
            for (message, _), chunk in gateway.chunks.items()
            if message == id_
            for person in chunk.people
        )
        assert in_ledgers == Counter(got), "somebody is in two chunks, or got what no ledger has"
    assert {message for message, _ in world.copies} <= set(world.accepted)


def run(seed):
    """Run one seed. Return the copies by the gateway that handed them over, and the repeated copies.

    Raises `AssertionError`.
    """
    world = World(seed)
    for _ in range(STEPS):
        world.step()
    world.heal()
    check(world)
    found = Counter(server for servers in world.copies.values() for server in servers)
    found["again"] = sum(len(servers) - 1 for servers in world.copies.values())
    return found
