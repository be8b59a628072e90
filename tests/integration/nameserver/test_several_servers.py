"""Five name servers as processes, changed by several clients at once: acknowledged updates hold everywhere."""

import random
from functools import partial
from itertools import count

import pytest

import shadowtree
from tests.integration.nameserver.answers_of_all import check_all_answers
from tests.integration.nameserver.recorded_updates import Record, RecordingClient, all_at_once
from tests.integration.nameserver.server_process import wait_until
from tests.integration.nameserver.several_servers import answered

SUBNETS = ("a.x", "b.x", "c.x", "d.x", "e.x")
LASTING = [f"g{number}@{subnet}" for subnet in SUBNETS for number in range(3)]
PASSING = [f"passing{number}@{subnet}" for subnet in SUBNETS for number in range(2)]
"""Groups that are created and deleted, with all their arcs, again and again."""

FIXED = [
    ("above@a.x", "left@b.x"),
    ("above@a.x", "right@c.x"),
    ("left@b.x", "below@d.x"),
    ("right@c.x", "below@d.x"),
    ("below@d.x", "ring0@a.x"),
    ("ring0@a.x", "ring1@c.x"),
    ("ring1@c.x", "ring2@e.x"),
    ("ring2@e.x", "ring0@a.x"),
    ("ring2@e.x", LASTING[0]),
]
"""Two ways into a loop, above a group that changes: no update of a client touches them, all move what is around."""

PEOPLE = ["ann@a.x", "bob@c.x", *(f"p{number}@elsewhere.example" for number in range(4))]
UPDATES_OF_A_CLIENT = 20

FEWEST_KILLS = 2
"""More follow where none of them met an update under way."""


class Life:
    """One client's share of the updates, drawn by chance, all through one server."""

    def __init__(self, names, others, seed):
        self._names = names
        self._others = others
        self._chance = random.Random(seed)
        self._guests = (f"guest{number}-of-{seed}@elsewhere.example" for number in count())
        self.done = 0

    def live(self):
        chance = self._chance
        kinds = [self._join_group, self._join_person, self._leave, self._batch, self._pass, self._seen_everywhere]
        for _ in range(UPDATES_OF_A_CLIENT):
            chance.choices(kinds, weights=(8, 4, 6, 4, 3, 2))[0]()
            self.done += 1

    def _join_group(self):
        parent, child = self._chance.sample(LASTING + PASSING, 2)
        self._names.join(parent, child, "group")

    def _join_person(self):
        self._names.join(self._chance.choice(LASTING), self._chance.choice(PEOPLE), "process")

    def _leave(self):
        group = self._chance.choice(LASTING)
        description = answered(lambda: self._names.client.describe(group))
        children = [child.id for child in description.children if not child.id.startswith("guest")]
        if children:
            self._names.leave(group, self._chance.choice(children))

    def _batch(self):
        """Make an atomic batch: a new guest joins groups of several servers, and two of these join one another."""
        guest = next(self._guests)
        groups = self._chance.sample(LASTING, 3)
        joins = [shadowtree.Join(group, guest, "process") for group in groups]
        self._names.apply([*joins, shadowtree.Join(groups[0], groups[1], "group")])

    def _pass(self):
        group = self._chance.choice(PASSING)
        if self._chance.random() < 0.5:
            self._names.delete(group)
        else:
            self._names.create(group)

    def _seen_everywhere(self):
        """Require that any server shows an acknowledged write to a reader who names its revision."""
        guest, group = next(self._guests), self._chance.choice(LASTING)
        for write, is_member in (
            (lambda: self._names.join(group, guest, "process"), True),
            (lambda: self._names.leave(group, guest), False),
        ):
            revision = write()
            assert revision is not None
            for client in self._others:
                ask = partial(client.check, group, guest, at_least_revision=revision)
                assert answered(ask).is_member is is_member, (client.address, revision)


@pytest.fixture
def servers(start_several):
    return start_several([[subnet] for subnet in SUBNETS])


@pytest.fixture
def record(servers):
    """The acknowledged updates. The lasting groups and the fixed arcs exist, made through all servers."""
    record = Record()
    names = [RecordingClient(client, record, f"first{number}") for number, client in enumerate(servers.clients)]
    for number, group in enumerate(LASTING):
        assert names[number % len(names)].create(group)
    for number, group in enumerate(sorted({name for arc in FIXED for name in arc} - {*LASTING})):
        assert names[number % len(names)].create(group)
    for number, (parent, child) in enumerate(FIXED):
        assert names[number % len(names)].join(parent, child, "group")
    return record


def lives_of(servers, record, when):
    return [
        Life(RecordingClient(client, record, f"{when}{number}"), servers.clients, f"{when}{number}")
        for number, client in enumerate(servers.clients)
    ]


def check_graph(record):
    """Require that the acknowledged updates were possible. Return their result."""
    model = record.model(SUBNETS)
    assert model.loops
    assert model.blocked
    return model


def check_everything(servers, record):
    model = check_graph(record)
    check_all_answers(servers.clients, model, revision=record.newest)
    for client in servers.clients:
        assert client.status().in_doubt == ()
        assert all(not peer.faults for peer in client.peers())


def test_updates_at_once_come_out_as_if_one_after_the_other_though_servers_are_killed_in_between(servers, record):
    """First none is killed, and each update is answered when it is asked for the first time."""
    all_at_once([life.live for life in lives_of(servers, record, "before")])
    assert not record.unanswered
    check_graph(record)
    lives = lives_of(servers, record, "after")

    def kill_one_after_another():
        for kills, (victim, part) in enumerate(((1, 0.1), (3, 0.25), (0, 0.4), (2, 0.55), (4, 0.7))):
            if kills >= FEWEST_KILLS and record.unanswered:
                return
            wait_until(lambda part=part: min(life.done for life in lives) >= part * UPDATES_OF_A_CLIENT, "progress")
            servers.kill(victim)
            servers.start_again(victim)

    all_at_once([*(life.live for life in lives), kill_one_after_another])
    servers.wait_for_connections()
    check_everything(servers, record)
