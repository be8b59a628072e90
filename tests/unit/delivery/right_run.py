"""A run in which nothing goes wrong that may not: servers with one log each, lanes between them, endpoints that read.

It knows of each message whom it is owed to, and says so without asking what is tested with it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from random import Random

from delivery.model.words import Position, target_set
from namegraph import NodeId, ServerId
from simulation.history.recorded import (
    Acknowledged,
    GapTold,
    Happening,
    MailboxBegins,
    MailboxEnds,
    MembershipChanged,
    MessageAccepted,
    MessageHanded,
    Restarted,
    SettledAt,
    StreamBegan,
    StreamEnded,
    SubscriptionId,
    WentBack,
)

SERVERS = (ServerId("a"), ServerId("b"))
PROCESSES = {NodeId(f"{name}@{server}.example"): server for server in SERVERS for name in ("ann", "bob")}
GROUPS = {NodeId(f"{name}@{server}.example"): server for server in SERVERS for name in ("staff", "board")}
SENDERS = ("", "billing", "stock")


@dataclass
class Entry:
    message_id: str
    audience: frozenset[int]
    is_late: bool = False


@dataclass
class Reader:
    has_begun: bool = True
    """Since its server went back."""
    acknowledged: int = -1
    """The entry."""
    stream: int | None = None
    through: int = -1
    """The entry that the stream has read as far as."""


@dataclass
class RightRun:
    random: Random
    happenings: list[Happening] = field(default_factory=list)

    def __post_init__(self):
        self.at = 0
        self.numbers = defaultdict(int)
        self.logs: dict[ServerId, list[Entry]] = {server: [] for server in SERVERS}
        self.cut = dict.fromkeys(SERVERS, 0)
        self.lanes = {(origin, server): [] for origin in SERVERS for server in SERVERS}
        self.accepted: dict[str, MessageAccepted] = {}
        self.missing: dict[str, set[ServerId]] = {}
        """The servers that have not logged each message that is not settled."""
        self.mailboxes: dict[NodeId, int] = {}
        self.below: set[tuple[NodeId, NodeId]] = set()
        self.readers: dict[SubscriptionId, Reader] = {}
        self.owed: dict[str, set[SubscriptionId]] = {}
        """Subscriptions that each message is owed to, because nothing has changed for them since it was accepted."""
        for process, server in PROCESSES.items():
            for group in GROUPS:
                if self.random.random() < 0.7:
                    self.below.add((process, group))
                self.note(MembershipChanged, server, process, target_set([group]), (process, group) in self.below)
        for process in PROCESSES:
            self.open_or_close(process)

    def note(self, kind, *facts):
        self.at += 1
        self.happenings.append(kind(self.at, *facts))

    def number(self, key) -> int:
        self.numbers[key] += 1
        return self.numbers[key]

    def step(self):
        actions = [self.send] * 4 + [self.arrive] * 6 + [self.read] * 8 + [self.acknowledge, self.begin] * 2
        actions += [self.change_membership, self.open_or_close, self.end_stream]
        if self.random.random() < 0.2:
            actions += [self.restart, self.cut_log, self.seek, self.supplement, self.tick]
        if self.random.random() < 0.05:
            actions += [self.go_back]
        self.random.choice(actions)()

    def come_to_rest(self):
        while any(self.lanes.values()):
            self.arrive()
        for subscription, reader in self.readers.items():
            while reader.stream is not None and self.read_one(subscription):
                pass

    def tick(self):
        self.at += self.random.randrange(20)

    def send(self):
        group = self.random.choice(list(GROUPS))
        origin = GROUPS[group]
        sequence = f"{group}#{self.numbers['copy', origin]}"
        serial = self.number(sequence)
        sender = self.random.choice(SENDERS)
        number = self.number(("sender", sender, group)) if sender else 0
        message_id = f"{serial}@{sequence}"
        expires_at = self.at + self.random.randrange(2, 60) if self.random.random() < 0.2 else None
        payload = self.random.randbytes(2)
        self.note(
            MessageAccepted,
            message_id,
            origin,
            sequence,
            serial,
            target_set([group]),
            payload,
            sender,
            number,
            expires_at,
        )
        self.accepted[message_id] = self.happenings[-1]
        self.missing[message_id] = set(SERVERS)
        self.owed[message_id] = {
            subscription
            for subscription, reader in self.readers.items()
            if (subscription.process, group) in self.below and reader.has_begun and expires_at is None
        }
        for server in SERVERS:
            self.lanes[origin, server].append(message_id)

    def arrive(self):
        ready = [lane for lane, waiting in self.lanes.items() if waiting]
        if not ready:
            return
        origin, server = self.random.choice(ready)
        message_id = self.lanes[origin, server].pop(0)
        group = self.accepted[message_id].targets[0].name
        audience = [number for process, number in self.mailboxes.items() if self.is_at(server, process, group)]
        self.logs[server].append(Entry(message_id, frozenset(audience)))
        self.missing[message_id].discard(server)
        if not self.missing[message_id]:
            del self.missing[message_id]
            self.note(SettledAt, message_id, 0)

    def is_at(self, server, process, group) -> bool:
        return PROCESSES[process] == server and (process, group) in self.below

    def change_membership(self):
        process, group = self.random.choice(list(PROCESSES)), self.random.choice(list(GROUPS))
        self.below ^= {(process, group)}
        self.note(MembershipChanged, PROCESSES[process], process, target_set([group]), (process, group) in self.below)
        for message_id in self.missing:
            if self.accepted[message_id].targets[0].name == group:
                self.owed[message_id] = {each for each in self.owed[message_id] if each.process != process}

    def open_or_close(self, process: NodeId | None = None):
        process = process or self.random.choice(list(PROCESSES))
        server = PROCESSES[process]
        if process not in self.mailboxes:
            self.mailboxes[process] = self.number("mailbox")
            self.note(MailboxBegins, server, process, self.mailboxes[process])
        elif self.random.random() < 0.2:
            for subscription in [each for each in self.readers if each.process == process]:
                self.stop(subscription)
                del self.readers[subscription]
            self.note(MailboxEnds, server, process, self.mailboxes.pop(process))
            for subscriptions in self.owed.values():
                subscriptions -= {each for each in subscriptions if each.process == process}

    def some_subscription(self):
        return self.random.choice(list(self.readers)) if self.readers else None

    def begin(self):
        if not self.mailboxes:
            return
        process = self.random.choice(list(self.mailboxes))
        subscription = SubscriptionId(PROCESSES[process], process, self.random.choice(("desk", "phone")))
        reader, sought = self.readers.get(subscription), None
        if reader is None:
            reader = self.readers[subscription] = Reader()
            sought = self.random.choice((None, len(self.logs[subscription.server]) - 1))
        self.start(subscription, reader, sought)

    def start(self, subscription, reader, sought):
        reader.stream, reader.has_begun = self.number(subscription), True
        if sought is not None:
            if sought > reader.acknowledged:
                for subscriptions in self.owed.values():
                    subscriptions.discard(subscription)
            reader.acknowledged = sought
        reader.through = reader.acknowledged
        self.note(StreamBegan, subscription, reader.stream, None if sought is None else Position(sought, 0))

    def seek(self):
        subscription = self.some_subscription()
        if subscription and self.logs[subscription.server]:
            self.start(
                subscription,
                self.readers[subscription],
                self.random.randrange(len(self.logs[subscription.server])),
            )

    def stop(self, subscription):
        reader = self.readers[subscription]
        if reader.stream is not None:
            self.note(StreamEnded, subscription, reader.stream)
            reader.stream = None

    def end_stream(self):
        if subscription := self.some_subscription():
            self.stop(subscription)

    def read(self):
        subscription = self.some_subscription()
        if subscription and self.readers[subscription].stream is not None:
            self.read_one(subscription)

    def read_one(self, subscription) -> bool:
        """Hand over the next message or gap, if there is one."""
        reader, server = self.readers[subscription], subscription.server
        cut = self.cut[server]
        if reader.through < cut - 1:
            self.note(GapTold, subscription, reader.stream, Position(reader.through, 0), Position(cut - 1, 0))
            reader.through = cut - 1
            for subscriptions in self.owed.values():
                subscriptions.discard(subscription)
            return True
        for entry in self.logs[server][reader.through + 1 :]:
            reader.through += 1
            accepted = self.accepted[entry.message_id]
            is_expired = accepted.expires_at is not None and accepted.expires_at < self.at + 1
            if self.mailboxes[subscription.process] in entry.audience and not is_expired:
                position = Position(reader.through, 0)
                facts = position, entry.message_id, accepted.payload, entry.is_late
                self.note(MessageHanded, subscription, reader.stream, *facts)
                return True
        return False

    def acknowledge(self):
        subscription = self.some_subscription()
        if subscription and self.readers[subscription].stream is not None:
            reader = self.readers[subscription]
            if reader.through > reader.acknowledged:
                reader.acknowledged = reader.through
                self.note(Acknowledged, subscription, Position(reader.through, 0))

    def restart(self):
        server = self.random.choice(SERVERS)
        self.stop_all(server)
        self.note(Restarted, server)

    def stop_all(self, server):
        for subscription in self.readers:
            if subscription.server == server:
                self.stop(subscription)

    def cut_log(self):
        server = self.random.choice(SERVERS)
        self.cut[server] = self.random.randint(self.cut[server], len(self.logs[server]))

    def supplement(self):
        """Log a message once more, late, for a process that came below its targets."""
        server = self.random.choice(SERVERS)
        logged = self.logs[server]
        if logged and self.mailboxes:
            entry, (process, number) = self.random.choice(logged), self.random.choice(list(self.mailboxes.items()))
            reached = {number for each in logged if each.message_id == entry.message_id for number in each.audience}
            if PROCESSES[process] == server and number not in reached and entry.message_id not in self.missing:
                logged.append(Entry(entry.message_id, frozenset({number}), is_late=True))

    def go_back(self):
        """Let a server go back. It loses its log and its unsettled messages; other servers send it their unsettled
        messages.
        """
        server = self.random.choice(SERVERS)
        self.stop_all(server)
        self.note(WentBack, server)
        self.number(("copy", server))
        for group in (group for group, home in GROUPS.items() if home == server):
            for sender in SENDERS:
                self.numbers["sender", sender, group] = 0
        for each in SERVERS:
            self.lanes[server, each].clear()
        forgotten = [message_id for message_id in self.missing if self.accepted[message_id].origin == server]
        for message_id in forgotten:
            del self.missing[message_id]
            self.owed[message_id].clear()
        self.logs[server], self.cut[server] = [], 0
        for origin in SERVERS:
            self.lanes[origin, server] = [each for each in self.missing if self.accepted[each].origin == origin]
        for message_id in self.missing:
            self.missing[message_id].add(server)
        for subscription in [each for each in self.readers if each.server == server]:
            self.readers[subscription] = Reader(has_begun=False)
        for subscriptions in self.owed.values():
            subscriptions -= {each for each in subscriptions if each.server == server}


def right_run(seed: int, steps: int) -> RightRun:
    run = RightRun(Random(seed))
    for _ in range(steps):
        run.step()
    run.come_to_rest()
    return run
