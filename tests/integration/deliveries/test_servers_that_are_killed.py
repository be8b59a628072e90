"""Servers are killed while messages flow: no accepted message is lost or repeated, and sequences are kept."""

import sqlite3
import threading

import pytest

import shadowtree
from tests.integration.deliveries.groups_in_a_loop import (
    FLAT,
    LAST,
    MEMBERS,
    SUBNETS,
    TOP,
    Ear,
    assert_in_sequence,
    build,
    command,
    ears,
    numbered,
    payloads,
    until_last,
)
from tests.integration.nameserver.server_process import PATIENCE_SECONDS, wait_until


@pytest.fixture
def servers(start_several):
    return build(start_several([[subnet] for subnet in SUBNETS]))


def kill_and_start_again(servers, number):
    servers.kill(number)
    servers.start_again(number)


def wait_until_settled(servers):
    wait_until(
        lambda: not any(client.status().parcels_unsettled for client in servers.clients),
        "the confirmation of all messages",
    )


def test_what_an_origin_accepted_before_it_was_killed_comes_once_to_everybody(servers):
    a, _, c = servers.clients
    with servers.stopped(1), servers.stopped(2):
        # Nothing of it has left for the others when the origin is killed.
        assert a.send(FLAT, b"accepted", request_id="once").state == "accepted"
        kill_and_start_again(servers, 0)
    servers.wait_for_connections()
    assert c.send(FLAT, b"accepted", request_id="once", wait="settled").id.startswith(f"1@{FLAT}#")
    wait_until_settled(servers)
    a.send(FLAT, LAST, wait="settled")
    for process in MEMBERS:
        assert payloads(until_last(a, process)) == [b"accepted", LAST]


def flow(client, count):
    """Send so many numbered messages, without waiting for each."""
    with client.sender("flow") as out:
        for payload in numbered(count):
            out.send(FLAT, payload)


@pytest.mark.parametrize("killed", range(len(SUBNETS)))
def test_a_server_is_killed_while_messages_flow(servers, killed):
    """The client asks b, the home is a, and c is a destination alone."""
    sending = threading.Thread(target=flow, args=(servers.new_client(1), 2_000))
    with ears(servers) as listening:
        sending.start()
        for ear in listening:
            wait_until(lambda ear=ear: len(ear.heard) > 20, "messages that flow")
        kill_and_start_again(servers, killed)
        sending.join(PATIENCE_SECONDS)
        assert not sending.is_alive()
        servers.wait_for_connections()
        servers.clients[1].send(FLAT, LAST)
        for ear in listening:
            ear.wait_for(LAST)
            assert ear.payloads == [*numbered(2_000), LAST]
            assert_in_sequence(ear.heard)
    wait_until_settled(servers)


def test_a_number_that_is_sent_again_after_a_restart_is_accepted_once(servers):
    a = servers.clients[0]
    with a.sender("billing") as out:
        for payload in numbered(10):
            out.send(FLAT, payload)
    kill_and_start_again(servers, 0)
    with servers.new_client(0).sender("billing") as out:
        begin = out.next_number(FLAT)
        assert begin == 11
        for payload in numbered(20)[begin - 1 :]:
            out.send(FLAT, payload)
    # As a program that numbers by itself may: the last one again, then one that is too early.
    stub = raw_sends(servers, 0)
    again, early = list(stub.Send(iter([numbered_request(20, b"19"), numbered_request(22, b"early")]))), None
    answers = [answer for response in again for answer in response.answers]
    assert (answers[0].is_repeated, answers[0].state) == (True, 1)
    early = answers[1].refused
    assert (early.reason, {fact.name: fact.value for fact in early.facts}["expected"]) == ("OUT_OF_SEQUENCE", "21")
    servers.wait_for_connections()
    a.send(FLAT, LAST)
    for process in MEMBERS:
        assert payloads(until_last(a, process)) == [*numbered(20), LAST]


def raw_sends(servers, number):
    from shadowtree.v1.delivery_pb2_grpc import DeliveryServiceStub

    return DeliveryServiceStub(servers.processes[number].channel())


def numbered_request(number, payload):
    from shadowtree.v1 import delivery_pb2 as wire

    target = wire.SendRequest.Target(name=FLAT)
    message = wire.SendRequest.Message(sender="billing", number=number, targets=[target], payload=payload)
    return wire.SendRequest(messages=[message])


def test_a_listener_resumes_behind_what_it_acknowledged(servers):
    a, _, c = servers.clients
    for payload in numbered(6):
        a.send(FLAT, payload, wait="settled")
    with c.listen("cyd@c.x") as messages:
        first = [next(messages) for _ in range(4)]
        first[2].acknowledge()
    kill_and_start_again(servers, 2)
    servers.wait_for_connections()
    with c.listen("cyd@c.x") as messages:
        assert payloads(next(messages) for _ in range(3)) == [b"3", b"4", b"5"]
    status, output, _ = command(servers, 0, "listen", "cyd@c.x", "--count", "3", "--no-acknowledge")
    assert (status, output) == (0, "".join(f"{FLAT}\t\t{number}\n" for number in (3, 4, 5)))
    a.send(FLAT, LAST)
    assert payloads(until_last(a, "cyd@c.x")) == [b"3", b"4", b"5", LAST]


def test_a_listener_that_was_handed_more_than_it_acknowledged_is_not_handed_it_twice(servers):
    """The stream breaks, the listener stays: what it holds does not come again, what follows does."""
    a, _, c = servers.clients
    ear = Ear(servers.new_client(0), "cyd@c.x", subscription="through a")
    try:
        with c.listen("cyd@c.x") as messages:
            for payload in numbered(4):
                a.send(FLAT, payload, wait="settled")
            assert payloads(next(messages) for _ in range(4)) == numbered(4)
            for killed in (2, 0):
                kill_and_start_again(servers, killed)
                servers.wait_for_connections()
            for payload in numbered(4, begin=4):
                servers.clients[1].send(FLAT, payload)
            found = [next(messages) for _ in range(4)]
            assert payloads(found) == numbered(4, begin=4)
            found[-1].acknowledge()
        ear.wait_for(b"7")
        assert ear.payloads == numbered(8)
    finally:
        ear.close()
    servers.clients[1].send(FLAT, LAST)
    assert payloads(until_last(c, "cyd@c.x")) == [LAST]


class Books:
    """The recipe of docs/messages.md: the position is stored with what was done, in one transaction."""

    def __init__(self, path):
        self._books = sqlite3.connect(path, check_same_thread=False)
        self._books.execute("CREATE TABLE IF NOT EXISTS entry (text)")
        self._books.execute("CREATE TABLE IF NOT EXISTS place (position)")

    def handled_through(self):
        row = self._books.execute("SELECT position FROM place").fetchone()
        return "start" if row is None else row[0]

    def run(self, client, process, *, count=None):
        """Handle `count` messages, or all through the last one, without acknowledging."""
        with client.listen(process, subscription="books", from_=self.handled_through()) as messages:
            for handled, message in enumerate(messages, start=1):
                with self._books:
                    self._books.execute("INSERT INTO entry VALUES (?)", (message.payload.decode(),))
                    self._books.execute("DELETE FROM place")
                    self._books.execute("INSERT INTO place VALUES (?)", (message.position,))
                if handled == count or message.payload == LAST:
                    return

    def entries(self):
        return [text.encode() for (text,) in self._books.execute("SELECT text FROM entry ORDER BY rowid")]


@pytest.mark.parametrize("asked", [0, 2])
def test_a_stored_position_makes_processing_exactly_once(servers, tmp_path, asked):
    """Over programs that end in the midst, servers that are killed, and messages that flow meanwhile."""
    client, path = servers.new_client(asked), tmp_path / "books.db"
    sending = threading.Thread(target=flow, args=(servers.new_client(1), 300))
    sending.start()
    Books(path).run(client, "cyd@c.x", count=7)
    kill_and_start_again(servers, 2)
    servers.wait_for_connections()
    Books(path).run(client, "cyd@c.x", count=60)
    sending.join(PATIENCE_SECONDS)
    assert not sending.is_alive()
    running = threading.Thread(target=lambda: Books(path).run(client, "cyd@c.x"))
    running.start()
    wait_until(lambda: len(Books(path).entries()) > 70, "entries of the third run")
    kill_and_start_again(servers, 2)
    servers.wait_for_connections()
    servers.clients[0].send(FLAT, LAST)
    running.join(PATIENCE_SECONDS)
    assert not running.is_alive()
    assert Books(path).entries() == [*numbered(300), LAST]


def test_members_who_are_reached_through_a_server_that_is_away_get_what_was_sent_meanwhile(servers):
    a, _, c = servers.clients
    # The way to c is known, and leads through b.
    assert a.send(TOP, b"0", wait="settled").mailboxes == 4
    servers.kill(1)
    wait_until(lambda: a.status().view == c.status().view == ("a.x", "c.x"), "the loss of b")
    sent = a.send(TOP, b"1", wait="settled")
    assert (sent.state, sent.mailboxes, sent.pending) == ("settled", 1, ("b.x",))
    servers.start_again(1)
    servers.wait_for_connections()
    wait_until_settled(servers)
    assert a.send(TOP, LAST, wait="settled").mailboxes == 4
    for process in MEMBERS:
        heard = until_last(a, process)
        assert payloads(heard) == [b"0", b"1", LAST]
        assert_in_sequence(heard)


def test_a_client_whose_only_server_stays_away_is_told(servers):
    servers.kill(2)
    for attempt in (
        lambda client: client.send(FLAT, b"x"),
        lambda client: client.listen("cyd@c.x"),
    ):
        client = shadowtree.Client(servers.address(2), timeout=1)
        with client, pytest.raises((shadowtree.Unavailable, shadowtree.OutcomeUnknown), match="cannot reach"):
            attempt(client)
