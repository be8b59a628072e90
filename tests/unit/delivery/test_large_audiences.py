"""A large audience is computed over several steps. Meanwhile its message waits, and later messages behind it."""

import pytest

from delivery.model.events import Accepted, CloseParcels
from namegraph import PeerMessage, ServerId, Tick
from tests.unit.delivery.servers import Servers

A, B = map(ServerId, ("a.x", "b.x"))
STAFF, LAB = "staff@a.x", "lab@b.x"
PEOPLE = {A: [f"p{number}@a.x" for number in range(9)], B: [f"q{number}@b.x" for number in range(9)]}


@pytest.fixture
def servers():
    """Staff, at the first server, are nine people and the lab: nine of the second one. A step looks at one of them."""
    found = Servers("a.x", "b.x")
    found.create(STAFF, LAB)
    for person in (*PEOPLE[A], LAB):
        found.join(STAFF, person)
    for person in PEOPLE[B]:
        found.join(LAB, person)
    for server in (A, B):
        found.servers[server].delivery.writer.items_of_a_step = 1
    return found


def until_at_rest(servers, server=A):
    """Let a server do what its steps have left; returns what each of them wrote."""
    written = []
    while servers.servers[server].delivery.has_more:
        written.append(servers.step(server, Tick()).records)
    return written


def rows_of_recipients(records):
    return sum(row.part == "recipient" for row in records.protocol)


def test_those_whom_a_gateway_serves_get_their_numbers_one_in_a_step(servers):
    servers.listen("*", at=A)
    sent = servers.new_send(STAFF)
    servers.step(A, sent)
    servers.step(A, CloseParcels())
    assert sent.ticket not in servers.answers
    written = until_at_rest(servers)
    assert [rows_of_recipients(records) for records in written if rows_of_recipients(records)] == [1] * 9
    assert [bool(records.log) for records in written] == [False] * (len(written) - 1) + [True]
    assert isinstance(servers.answers[sent.ticket][0], Accepted)


def test_messages_that_come_meanwhile_are_in_the_same_parcel_and_in_order(servers):
    servers.listen("*", at=A)
    servers.open(PEOPLE[A][0])
    servers.step(A, servers.new_send(STAFF, payload=b"1"))
    servers.step(A, CloseParcels())
    servers.step(A, servers.new_send(STAFF, payload=b"2"))
    until_at_rest(servers)
    servers.run()
    assert servers.log_of(PEOPLE[A][0]) == [b"1", b"2"]
    assert len(servers.disks[A].log) == 1


def test_a_post_waits_until_it_is_found_whom_it_reaches_and_those_behind_it_wait_too(servers):
    servers.listen("*", at=B)
    servers.open(PEOPLE[B][0])
    for payload in (b"1", b"2"):
        servers.send(STAFF, payload=payload, run=False)
        until_at_rest(servers)
    posts = [letter for _, _, letter in servers.under_way]
    servers.under_way.clear()
    for post in posts:
        servers.step(B, PeerMessage(A, post.number, post.encoded, post.lane))
    assert servers.servers[B].delivery.arrivals.waiting(A) == len(posts) == 2
    until_at_rest(servers, B)
    servers.run()
    assert servers.log_of(PEOPLE[B][0]) == [b"1", b"2"]


def test_a_message_to_a_group_that_changes_all_the_while_is_sent(servers):
    servers.listen("*", at=A)
    sent = servers.new_send(STAFF)
    servers.step(A, sent)
    servers.step(A, CloseParcels())
    for number in range(1_000):
        if sent.ticket in servers.answers:
            break
        (servers.leave if number % 2 else servers.join)(STAFF, "guest@a.x")
    assert isinstance(servers.answers[sent.ticket][0], Accepted)
    assert number < 500
