"""A server that posts messages and takes no confirmation: the lane to it is bounded, and others go on."""

import pytest

from delivery.model.agenda import Agenda
from delivery.model.events import Settled
from delivery.origin.backlogs import STUCK_SECONDS
from delivery.volatile.memory_lanes import MemoryLanes
from delivery.wire.post_lanes import ANSWER_BYTES
from namegraph import ServerId
from tests.unit.delivery.servers import Servers

A, B, C = map(ServerId, ("a.x", "b.x", "c.x"))
FROM_C, FROM_B, HOME = "from@c.x", "from@b.x", "home@a.x"
LIMIT = 20 * ANSWER_BYTES
ROOM = 1_000
"""Bytes of the last answer, which goes beyond the limit."""


@pytest.fixture
def servers():
    """Groups at all three servers, with the same process of the first."""
    found = Servers(A, B, C)
    found.create(FROM_C, FROM_B, HOME)
    for group in (FROM_C, FROM_B, HOME):
        found.join(group, "ann@a.x")
    found.listen("ann@a.x")
    found.servers[A].delivery.arrivals.answers_limit_bytes = LIMIT
    return found


def payloads(number):
    return [b"%d" % each for each in range(number)]


def post_all(servers, number):
    """Have the third server post messages, and send no receipt."""
    servers.receipts_of.discard(C)
    for payload in payloads(number):
        servers.send(FROM_C, payload=payload)


@pytest.mark.parametrize("number", [50, 500])
def test_the_lane_to_a_server_that_takes_no_answer_is_bounded_and_others_go_on(servers, number):
    post_all(servers, number)
    core = servers.servers[A].delivery
    assert LIMIT <= core.post.answers_bytes(C) <= LIMIT + ROOM
    assert len(list(core.post.kept(C))) <= 20
    assert core.arrivals.waiting(C) > number - 25
    for group in (FROM_B, HOME):
        assert isinstance(servers.send(group, payload=b"on")[-1], Settled)


def test_a_server_that_takes_answers_again_has_all_its_messages_taken_in_order(servers):
    post_all(servers, 100)
    servers.receipts_of.add(C)
    core = servers.servers[A].delivery
    for _ in range(10):
        servers.lane_handled(C, A)
    assert servers.log_of("ann@a.x") == payloads(100)
    assert core.post.answers_bytes(C) == 0
    assert core.unconfirmed(C) is None
    assert isinstance(servers.send(FROM_C)[-1], Settled)


def test_a_server_that_takes_no_answer_is_stuck_after_a_minute(servers):
    post_all(servers, 10)
    assert servers.servers[A].delivery.unconfirmed(C) is None
    servers.now = 100.0
    post_all(servers, 50)
    unconfirmed = servers.servers[A].delivery.unconfirmed(C)
    assert (unconfirmed.since, unconfirmed.size) == (100.0, servers.servers[A].delivery.post.answers_bytes(C))
    assert unconfirmed.is_stuck(100.0 + STUCK_SECONDS)
    assert servers.servers[A].delivery.unconfirmed(B) is None


def test_answers_that_were_not_taken_count_after_a_restart(servers):
    post_all(servers, 50)
    before = servers.servers[A].delivery.post.answers_bytes(C)
    servers.start(A)
    assert servers.servers[A].delivery.post.answers_bytes(C) == before


def test_answers_in_memory_count_until_they_are_sent():
    class Reach:
        def is_settled_with(self, _server):
            return True

    lanes = MemoryLanes({}, Agenda())
    for _ in range(3):
        lanes.send_answer(C, b"yes")
    lanes.send_inline(C, b"a parcel")
    assert lanes.answers_bytes(C) == 3 * (ANSWER_BYTES + 3)
    lanes._out[C].is_asking = False
    assert list(lanes.leaving(Reach(), 0.0))
    assert lanes.answers_bytes(C) == 0
