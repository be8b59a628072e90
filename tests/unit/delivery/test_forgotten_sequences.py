"""Sequences that are idle are forgotten, here and at servers below, and nothing comes twice or is lost for it."""

import pytest

from delivery.model import uptime
from delivery.model.events import Accepted, DeliveryRefused, Settled
from delivery.model.words import target_set
from delivery.origin import sequence_table
from delivery.wire.posts import read_message_id
from namegraph import NodeId, Reason, ServerId, Tick, only
from tests.unit.delivery.servers import Servers

A, B = map(ServerId, ("a.x", "b.x"))
STAFF, ANN, BOB = "staff@a.x", "ann@a.x", "bob@b.x"


@pytest.fixture
def servers():
    """Staff are Ann and the lab of another server, which is Bob; both have mailboxes."""
    found = Servers("a.x", "b.x")
    found.create(STAFF, "lab@b.x")
    found.join(STAFF, ANN)
    found.join(STAFF, "lab@b.x")
    found.join("lab@b.x", BOB)
    for process in (ANN, BOB):
        found.listen(process)
    return found


def rows(servers, part, server=A):
    return servers.servers[server].durable.maps[part]


def limit(servers, *, plain=10_000, others=10_000):
    servers.servers[A].delivery.origin.sequences.limits = {True: plain, False: others}


def accepted(answers):
    return next(each.message_id for each in answers if isinstance(each, Accepted))


def test_a_client_that_makes_sets_of_targets_leaves_a_bounded_state_at_every_server(servers):
    limit(servers, others=10)
    for number in range(100):
        assert isinstance(servers.send(STAFF, excluding=[f"x{number}@nobody.example"])[-1], Settled)
    core = servers.servers[A].delivery
    assert len(rows(servers, "sequence")) == len(core.origin.parcels.states) == 10
    assert len(rows(servers, "heard", B)) == 10
    assert len(servers.servers[B].delivery.arrivals.foreign._taken) == 10
    assert len(servers.log_of(BOB)) == len(servers.log_of(ANN)) == 100
    # The rows are gone from the database, too.
    servers.restart(A)
    assert len(rows(servers, "sequence")) == 10


def let_pass(servers, seconds):
    for _ in range(int(seconds)):
        servers.now += 1.0
        servers.step(A, Tick())
    servers.run()


def test_a_sequence_goes_when_nothing_was_sent_for_a_week(servers, monkeypatch):
    assert sequence_table.SEQUENCE_SECONDS == 7 * 86_400
    monkeypatch.setattr(sequence_table, "SEQUENCE_SECONDS", 20)
    monkeypatch.setattr(uptime, "WRITTEN_EVERY_SECONDS", 1.0)
    servers.send(STAFF)
    let_pass(servers, 10)
    # Days in which the server does not run do not count, and those before a restart do.
    servers.restart(A)
    servers.send(ANN)
    let_pass(servers, 9)
    assert len(rows(servers, "sequence")) == 2
    let_pass(servers, 2)
    assert [row.targets for row in rows(servers, "sequence").values()] == [only(NodeId(ANN))]
    assert not rows(servers, "heard", B)


def test_what_is_not_settled_is_not_forgotten(servers, monkeypatch):
    limit(servers, plain=0, others=0)
    servers.held = {(A, B)}
    monkeypatch.setattr(sequence_table, "SEQUENCE_SECONDS", 1)
    servers.send(STAFF, payload=b"one")
    let_pass(servers, 3)
    assert len(rows(servers, "sequence")) == 1
    servers.held = set()
    servers.run()
    servers.step(A, Tick())
    assert not rows(servers, "sequence")
    assert servers.log_of(BOB) == [b"one"]


@pytest.mark.parametrize("restarts", [(), (A,), (B,), (A, B)])
def test_a_set_of_targets_that_is_used_again_begins_a_sequence_with_ids_that_nothing_had(servers, restarts):
    limit(servers, plain=0)
    names = []
    for number in range(4):
        names.append(accepted(servers.send(STAFF, payload=b"%d" % number)))
        if number == 1:
            for server in restarts:
                servers.restart(server)
            limit(servers, plain=0)
    assert len(set(names)) == 4
    places = [(found.start, found.serial) for found in map(read_message_id, names)]
    assert places == sorted(places)
    assert servers.log_of(BOB) == servers.log_of(ANN) == [b"0", b"1", b"2", b"3"]
    assert not servers.servers[A].delivery.post.faults
    assert not servers.servers[B].delivery.post.faults


def test_a_message_that_is_sent_again_is_known_though_its_sequence_is_forgotten(servers):
    limit(servers, plain=0)
    first = servers.send(STAFF, sender="nightly", number=1)
    by_request = servers.send(STAFF, request_id="r")
    assert not rows(servers, "sequence")
    again = servers.send(STAFF, sender="nightly", number=1)
    assert (accepted(again), again[0].is_repeated, type(again[-1])) == (accepted(first), True, Settled)
    assert accepted(servers.send(STAFF, request_id="r")) == accepted(by_request)
    assert len(servers.log_of(BOB)) == 2


def test_sets_of_targets_for_a_server_that_is_away_are_bounded_and_others_go_on(servers, monkeypatch):
    monkeypatch.setattr(sequence_table, "BUSY_SEQUENCES_LIMIT", 5)
    monkeypatch.setattr(sequence_table, "CROWD_LIMIT", 3)
    servers.held = {(A, B)}
    for number in range(5):
        servers.send(STAFF, excluding=[f"x{number}@nobody.example"])
    refused = servers.send(STAFF, excluding=["y@nobody.example"])[-1]
    assert isinstance(refused, DeliveryRefused)
    assert refused.refusal.reason is Reason.BACKLOG_FULL
    known = servers.servers[A].delivery.origin
    assert known.is_crowded(target_set([NodeId(STAFF)], [NodeId("y@nobody.example")]))
    assert not known.is_crowded(target_set([NodeId(STAFF)], [NodeId("x1@nobody.example")]))
    assert not known.is_crowded(only(NodeId(STAFF)))
    assert isinstance(servers.send(STAFF, excluding=["x1@nobody.example"])[0], Accepted)
    servers.held = set()
    servers.run()
    assert isinstance(servers.send(STAFF, excluding=["y@nobody.example"])[-1], Settled)
