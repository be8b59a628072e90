"""Messages whose origin is away wait at the server that was asked, and come once, in the order they were sent in."""

import pytest

import shadowtree
from tests.integration.deliveries.groups_in_a_loop import (
    FLAT,
    LAST,
    MEMBERS,
    SUBNETS,
    build,
    command,
    numbered,
    payloads,
    until_last,
)
from tests.integration.nameserver.server_process import wait_until

ABSENT = f"nobody@{SUBNETS[0]}"


@pytest.fixture
def servers(start_several):
    return build(start_several([[subnet] for subnet in SUBNETS]))


def queued(client):
    return client.status().messages_queued


def wait_until_sent(client):
    wait_until(lambda: not queued(client), "what is queued to be sent")


def test_what_is_queued_comes_once_and_in_order_though_the_server_that_keeps_it_is_killed(servers):
    a, b, _ = servers.clients
    servers.kill(0)
    for payload in numbered(20):
        sent = b.send(FLAT, payload, queue=True)
        assert (sent.state, sent.id, sent.pending) == ("queued", "", (SUBNETS[0],))
    again = [b.send(FLAT, b"asked twice", request_id="twice", queue=True).state for _ in range(2)]
    assert again == ["queued", "queued"] and queued(b) == 21
    servers.kill(1)
    servers.start_again(1)
    assert queued(b) == 21
    servers.start_again(0)
    wait_until_sent(b)
    assert b.send(FLAT, b"asked twice", request_id="twice", queue=True).state == "accepted"
    b.send(FLAT, LAST, wait="settled", queue=True)
    for process in MEMBERS:
        assert payloads(until_last(a, process)) == [*numbered(20), b"asked twice", LAST]
    assert not list(b.dead_letters())


def test_what_the_origin_refuses_in_the_end_is_a_dead_letter_where_it_was_queued(servers):
    _, b, _ = servers.clients
    with servers.stopped(0):
        assert b.send(ABSENT, b"for nobody", queue=True).state == "queued"
        with pytest.raises(shadowtree.Unavailable):
            b.send(FLAT, b"not to be queued")
    wait_until_sent(b)
    (letter,) = b.dead_letters()
    assert (letter.reason, letter.group, letter.id, letter.messages) == ("refused", ABSENT, "", 1)
    assert letter.why.startswith("TARGET_NOT_FOUND: ")
    _, shown, _ = command(servers, 1, "dead-letters", "list")
    assert shown.startswith(f"{letter.number}\t-\t1\t{ABSENT}\trefused: TARGET_NOT_FOUND: ")
    b.create_group(ABSENT)
    assert b.replay([letter.number]).replayed == 1
    wait_until_sent(b)
    assert not list(b.dead_letters())
