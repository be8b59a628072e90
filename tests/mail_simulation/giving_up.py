"""Servers that stay away for days, from seeds: reports of messages that were given up, and crashes between effects.

Invariants: an author whom the mail server confirms gets a report of each message that was given up for a server. The
report names just these servers, and no other person gets one. A person may say before that a server is no longer waited
for. The owners' note of the day names the servers. A message whose servers came back in time has no report, and no
report ever names a person.
"""

import random
import re
from collections import Counter, defaultdict
from email import message_from_bytes, policy

from mailing.rules.distribution import Distribution
from mailing.rules.events import (
    Dropped,
    ForgetDigest,
    Handed,
    HandOver,
    Keep,
    MessageTaken,
    NotResolved,
    Now,
    Resolve,
    Resolved,
    Save,
    SendShares,
    SharesSent,
    Spooled,
    TellSafe,
    Ticked,
)
from mailing.rules.failures import DAY_S, Failures
from mailing.rules.retries import TRIED_FOR_S
from mailing.rules.spooled import FINAL_STATES, Destination, OtherShare

LIST, OWN, OTHERS = "all@a.example", "a.example", ("b.example", "c.example")
OWNER = "chair@x.example"
HOURS = 3_600
STEPS = 40
"""Number of steps of six hours each. Messages are tried for five days."""


class World:
    """A gateway, name servers of which some are away, and a mail server that takes everything."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.date = self.begun = 10_000 * DAY_S
        self.messages, self.chunks, self.contents, self.digests = {}, {}, {}, {}
        self.away, self.back_at = set(), {}
        self.accepted, self.answered, self.shares = {}, set(), defaultdict(set)
        self.reports, self.notes, self.crashes, self.dropped = defaultdict(dict), {}, 0, set()
        self.given_up = defaultdict(list)
        """Servers for which each message was given up, as recorded. A server that came back later was named."""
        self.start()

    def start(self):
        spooled = [self.spooled(id_) for id_ in self.messages]
        self.core = Distribution(
            [each for each in spooled if each.message.state not in FINAL_STATES],
            [each.message for each in spooled if each.message.state in FINAL_STATES],
            Failures((), self.digests.values()),
            secret=b"",
        )
        self.waiting = []

    def spooled(self, id_):
        return Spooled(self.messages[id_], tuple(self.chunks[key] for key in sorted(self.chunks) if key[0] == id_))

    def tell(self, event):
        for effect in self.core.step(event, Now(float(self.date), self.date)):
            if self.random.random() < 0.02:
                self.crashes += 1
                self.start()
                return
            self.carry_out(effect)

    def carry_out(self, effect):
        match effect:
            case Save(message, chunks, content):
                self.messages[message.id] = message
                if message.given_up:
                    self.given_up[message.id].append({*message.given_up})
                self.chunks |= {(message.id, chunk.number): chunk for chunk in chunks}
                if content is not None:
                    self.contents[message.id] = content
            case TellSafe(transaction):
                self.answered.add(transaction)
            case Keep(digest):
                self.digests[digest.group] = digest
            case ForgetDigest(group):
                del self.digests[group]
            case Resolve() | HandOver() | SendShares():
                self.waiting.append(effect)

    def accept(self):
        number = len(self.accepted)
        id_, is_confirmed, by_shares = f"m{number}", self.random.random() < 0.7, self.random.random() < 0.5
        place = Destination(LIST, LIST, True, goes_by_shares=by_shares, owners="all-owner@a.example")
        self.accepted[id_] = f"author{number}@y.example" if is_confirmed else ""
        self.shares[id_] = set(OTHERS)
        while number not in self.answered:
            author = self.accepted[id_]
            self.tell(
                MessageTaken(id_, "s@y.example", (place,), b"content", (), number, subject=id_, answerable=author)
            )

    def drop(self):
        """Say of a message that it waits for some server no longer."""
        waiting = [spooled.message for spooled, _ in self.core.unfinished() if spooled.message.waits_for]
        if waiting:
            message = self.random.choice(waiting)
            self.dropped.add(message.id)
            self.tell(Dropped(message.id, self.random.choice(message.waits_for)))

    def settle(self):
        while self.waiting:
            effect = self.waiting.pop(self.random.randrange(len(self.waiting)))
            match effect:
                case Resolve():
                    self.resolve(effect)
                case SendShares(message, destinations):
                    self.shares[message.id] &= self.away
                    away = tuple(sorted(self.shares[message.id]))
                    self.tell(SharesSent(message.id, tuple(destinations), True, away))
                case HandOver(message, chunk):
                    self.hand_over(message, chunk)

    def resolve(self, effect):
        ((at, place),) = effect.destinations.items()
        if not place.is_list:
            self.tell(Resolved(effect.id, (at,), ((OWNER, at),), "r"))
            return
        if self.random.random() < 0.1 or OWN in self.away:
            self.tell(NotResolved(effect.id, "the own name server is away"))
            return
        away = tuple(sorted(self.away))
        people = tuple((f"p@{server}", at) for server in OTHERS if server not in self.away)
        shares = tuple(OtherShare(server, at, 1) for server in OTHERS if server not in self.away)
        missing = f"out of reach: {','.join(away)}" if away else ""
        found = Resolved(effect.id, (at,), ((f"p@{OWN}", at), *people), "r", missing, away=away)
        if place.goes_by_shares:
            found = Resolved(effect.id, (at,), ((f"p@{OWN}", at),), "r", missing, away=away, shares=shares)
        self.tell(found)

    def hand_over(self, message, chunk):
        content = self.contents[message.id]
        if message.is_letter:
            (person,) = chunk.people
            report = message_from_bytes(content, policy=policy.default)
            about = re.search(r"m\d+$", report["Subject"])[0]
            is_given_up = self.date > self.messages[about].accepted + TRIED_FOR_S
            assert is_given_up or about in self.dropped, "told before it was given up"
            self.reports[about, person][message.id] = report
        elif content != b"content":
            assert chunk.people == (OWNER,)
            self.notes[message.id] = message_from_bytes(content, policy=policy.default).get_content()
        self.tell(Handed(message.id, chunk.number))

    def step(self):
        self.date += 6 * HOURS
        for server in (OWN, *OTHERS):
            if self.back_at.get(server, 0) <= self.date:
                self.away.discard(server)
                if self.random.random() < (0.02 if server != OWN else 0.005):
                    self.away.add(server)
                    self.back_at[server] = self.date + self.random.choice((1, 7, 14)) * DAY_S
        if self.random.random() < 0.15:
            self.accept()
        if self.random.random() < 0.1:
            self.drop()
        self.tell(Ticked())
        self.settle()

    def run(self):
        for _ in range(STEPS):
            self.step()
        self.away, self.back_at = set(), dict.fromkeys((OWN, *OTHERS), self.date + 99 * DAY_S)
        while self.core.unfinished() or self.digests:
            self.date += 6 * HOURS
            self.tell(Ticked())
            self.settle()
        return self


def check(world, told):
    named_to_owners = {each for note in world.notes.values() for each in re.findall(r"^  ([abc]\.example)", note, re.M)}
    for id_, author in world.accepted.items():
        message = world.messages[id_]
        expected = set(message.missing.partition("out of reach: ")[2].split(",")) - {""}
        expected |= set(message.post.lost) if message.post is not None else set()
        expected |= {OWN} if message.missing.startswith("the own") else set()
        told[f"{'given up' if expected else 'whole'}, {'certain' if author else 'uncertain'} author"] += 1
        assert expected <= named_to_owners, f"{id_}: owners were not told"
        reports = world.reports.pop((id_, author), {})
        if not (author and expected):
            assert not reports or world.crashes, f"{id_}: told without need"
            continue
        assert len(reports) == 1 or world.crashes, f"{id_}: {len(reports)} reports"
        texts = [report.as_string() for report in reports.values()]
        named = [set(re.findall(r"^  ([abc]\.example)", text, re.M)) for text in texts]
        assert any(expected <= each for each in named), f"{id_}: {expected} given up, {named} told"
        assert all(each in world.given_up[id_] for each in named), f"{id_}: {named} told, not given up"
        assert not any(re.search(r"p@|chair@", text) for text in texts), "somebody was named"
    assert not world.reports, "somebody else was written to"


def run(seed):
    """Returns how often messages were given up or not, and how often they were dropped for a server."""
    world, told = World(seed).run(), Counter()
    check(world, told)
    return told + Counter({"dropped for a server": len(world.dropped)})
