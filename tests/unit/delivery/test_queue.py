"""Messages wait at the server that was asked while their origin is away."""

import pytest

from delivery.model.events import (
    DeadLettersReplayed,
    DeliveryRefused,
    DropDeadLetters,
    Queued,
    QueuedEnded,
    QueueMessage,
    ReplayDeadLetters,
)
from delivery.origin.backlog_expiry import BACKLOG_SECONDS_LIMIT
from delivery.origin.dead_letters import QUEUED_FROM, DeadReason
from namegraph import NodeId, Reason, Refusal, ServerId, Subnet, Tick
from tests.unit.delivery.servers import Servers

A, B = ServerId("a.x"), ServerId("b.x")
GROUP = NodeId("g@b.x")
HOME = Subnet("b.x")
REFUSAL = Refusal(Reason.TARGET_NOT_FOUND, "there is no group g@b.x", {})


@pytest.fixture
def servers():
    found = Servers(A, B, is_configured=False)
    found.lose(B)
    return found


def core(servers):
    return servers.servers[A].delivery


def queue(servers, payload=b"hello", *, addressed=GROUP, sender="", number=0, request_id=None, **more):
    ticket = servers.ticket()
    own = f"request {ticket}" if request_id is None and not number else request_id or ""
    event = QueueMessage(ticket, NodeId(addressed), payload, sender, number, own, **more)
    servers.step(A, event)
    return servers.answers[ticket][-1]


def due(servers):
    """Return the messages to pass on, in order, without outcomes."""
    found = []
    while (one := core(servers).queue.due(HOME, at=core(servers).running.seconds)) is not None:
        found.append(one.encoded)
        core(servers).queue.end(one.number)
    return found


def dead(servers):
    return core(servers).dead_letters.after(0, 100)


def refuse_oldest(servers):
    one = core(servers).queue.due(HOME, at=0.0)
    servers.step(A, QueuedEnded(one.number, REFUSAL))


@pytest.mark.parametrize("is_restarted", [False, True])
def test_what_is_queued_waits_in_the_order_in_which_it_came_over_a_restart(servers, is_restarted):
    assert isinstance(queue(servers, b"1"), Queued)
    queue(servers, b"2", sender="ann", number=1)
    queue(servers, b"3", addressed="h@b.x")
    if is_restarted:
        servers.start(A)
    assert core(servers).queue.waits_for(GROUP) and core(servers).queue.subnets() == [HOME]
    assert due(servers) == [b"1", b"2", b"3"]


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize("own", [{"request_id": "once"}, {"sender": "ann", "number": 1}])
def test_what_is_sent_again_is_queued_once(servers, own, is_restarted):
    assert not queue(servers, **own).is_repeated
    if is_restarted:
        servers.start(A)
    assert queue(servers, **own).is_repeated
    assert due(servers) == [b"hello"]


def test_what_its_origin_has_accepted_leaves_no_row_but_the_last_number(servers):
    queue(servers)
    one = core(servers).queue.due(HOME, at=0.0)
    servers.step(A, QueuedEnded(one.number))
    servers.step(A, QueuedEnded(one.number))
    servers.start(A)
    found = core(servers).queue
    assert (len(found), found.size, found.subnets(), dead(servers)) == (0, 0, [], [])
    queue(servers)
    assert found.due(HOME, at=0.0).number == one.number + 1


def test_what_its_origin_refuses_is_a_dead_letter_that_says_why_and_the_rest_goes_on(servers):
    queue(servers, b"1", queued_at_ms=77)
    queue(servers, b"2")
    refuse_oldest(servers)
    servers.start(A)
    (letter,) = dead(servers)
    assert (letter.addressed, letter.messages, letter.first_id, letter.sent_at_ms) == (GROUP, 1, "", 77)
    assert (letter.reason, letter.why) == (DeadReason.REFUSED, "TARGET_NOT_FOUND: there is no group g@b.x")
    assert letter.number > QUEUED_FROM
    assert due(servers) == [b"2"]


def test_such_a_dead_letter_is_queued_again_or_dropped(servers):
    queue(servers, b"1")
    queue(servers, b"2")
    refuse_oldest(servers)
    refuse_oldest(servers)
    first, second = (letter.number for letter in dead(servers))
    servers.step(A, DropDeadLetters(servers.ticket(), (second,)))
    ticket = servers.ticket()
    servers.step(A, ReplayDeadLetters(ticket, (first, second)))
    assert servers.answers[ticket] == [DeadLettersReplayed(ticket, replayed=1, left=0)]
    assert dead(servers) == [] and core(servers).dead_letters.size == 0
    assert due(servers) == [b"1"]


def test_it_is_left_where_there_is_no_room_to_queue_it(servers):
    queue(servers, b"1")
    refuse_oldest(servers)
    core(servers).queue.messages_limit = 1
    queue(servers, b"2")
    ticket = servers.ticket()
    servers.step(A, ReplayDeadLetters(ticket, None))
    assert servers.answers[ticket] == [DeadLettersReplayed(ticket, replayed=0, left=1)]
    assert len(dead(servers)) == 1


def test_a_full_queue_refuses_more(servers):
    core(servers).queue.messages_limit = 1
    queue(servers)
    refused = queue(servers)
    assert isinstance(refused, DeliveryRefused) and refused.refusal.reason is Reason.BACKLOG_FULL
    assert len(core(servers).queue) == 1


def test_nothing_is_queued_for_a_home_that_was_never_met(servers):
    refused = queue(servers, addressed="g@c.x")
    assert isinstance(refused, DeliveryRefused) and refused.refusal.reason is Reason.UNAVAILABLE


@pytest.mark.parametrize("is_restarted", [False, True])
def test_what_waits_for_a_server_that_is_removed_is_dead(servers, is_restarted):
    core(servers).giving_up.slice_parcels = 1
    for _ in range(3):
        queue(servers)
    servers.remove(A, B)
    if is_restarted:
        servers.start(A)
        servers.step(A, Tick())
    servers.run()
    assert [letter.reason for letter in dead(servers)] == [DeadReason.SERVER_REMOVED] * 3
    assert len(core(servers).queue) == 0 and not core(servers).has_more


def wait(servers, seconds):
    core(servers).running.seconds += seconds
    servers.step(A, Tick())
    servers.run()


def test_what_has_waited_too_long_or_beyond_its_deadline_is_dead(servers):
    queue(servers, b"1", deadline_ms=5_000)
    queue(servers, b"2")
    assert core(servers).queue.due(HOME, at=core(servers).running.seconds + 2).deadline_ms == 3_000
    wait(servers, 6)
    assert [letter.reason for letter in dead(servers)] == [DeadReason.EXPIRED]
    wait(servers, BACKLOG_SECONDS_LIMIT)
    assert [letter.reason for letter in dead(servers)] == [DeadReason.EXPIRED] * 2
    assert due(servers) == []
