"""Messages kept in memory over real servers: accepted without a disk, in one order, and a restart is told as a gap."""

import json

import pytest

from tests.integration.deliveries.groups_in_a_loop import (
    LAST,
    SUBNETS,
    TOP,
    assert_in_sequence,
    build,
    command,
    ears,
    numbered,
    payloads,
    until_last,
)
from tests.integration.nameserver.server_process import wait_until


@pytest.fixture
def servers(start_several):
    found = build(start_several([[subnet] for subnet in SUBNETS]))
    assert found.clients[2].set_delivery(TOP, kept="memory").kept == "memory"
    return found


def test_everybody_gets_each_once_in_one_order_beside_what_is_durable(servers):
    a, b, _ = servers.clients
    with ears(servers) as listening:
        with b.sender("flow") as out:
            for payload in numbered(300):
                out.send(TOP, payload)
        sent = a.send(TOP, LAST, wait="settled")
        assert (sent.state, sent.kept, sent.servers, sent.mailboxes) == ("settled", "memory", 3, 4)
        assert a.send("middle@b.x", b"durable").kept == "durable"
        for ear in listening:
            wait_until(lambda ear=ear: ear.wrong or {LAST, b"durable"} <= set(ear.payloads), f"all at {ear.process}")
            assert ear.wrong is None
            in_memory = [message for message in ear.heard if message.kept == "memory"]
            assert payloads(in_memory) == [*numbered(300), LAST]
            assert_in_sequence(in_memory)
            assert not any(message.gap for message in ear.heard)


def test_a_listener_that_comes_back_goes_on_behind_what_it_acknowledged(servers):
    a, b, _ = servers.clients
    for payload in (*numbered(3), LAST):
        a.send(TOP, payload, wait="settled")
    assert payloads(until_last(b, "bob@b.x")) == [*numbered(3), LAST]
    a.send(TOP, b"more")
    a.send(TOP, LAST, wait="settled")
    found = until_last(b, "bob@b.x")
    assert payloads(found) == [b"more", LAST]
    # Who keeps the position goes on behind it, of either kind.
    again = until_last(b, "bob@b.x", subscription="other", from_=found[0].position)
    assert payloads(again)[-1:] == [LAST]
    a.send(TOP, LAST, wait="settled")
    assert payloads(until_last(b, "bob@b.x", subscription="other", from_=again[-1].position)) == [LAST]


def test_who_listened_before_a_server_started_again_is_told_a_gap_and_all_goes_on(servers):
    with ears(servers) as listening:
        servers.clients[0].send(TOP, b"before", wait="settled")
        for ear in listening:
            ear.wait_for(b"before")
        servers.kill(1)
        servers.start_again(1)
        servers.wait_for_connections()
        servers.clients[0].send(TOP, b"after", wait="settled")
        for ear in listening:
            ear.wait_for(b"after")
            gap = next(message.gap for message in ear.heard if message.payload == b"after")
            assert gap == (1 if ear.process.endswith("@b.x") else 0)
            assert ear.payloads == [b"before", b"after"]


def test_a_sender_goes_on_where_the_home_has_started_again(servers):
    b = servers.clients[1]
    with b.sender("flow") as out:
        for payload in numbered(5):
            out.send(TOP, payload)
        out.flush()
        servers.kill(0)
        servers.start_again(0)
        servers.wait_for_connections()
        out.send(TOP, LAST)
    assert payloads(until_last(b, "bob@b.x"))[-1] == LAST


def test_the_command_line_sets_and_tells_it(servers):
    assert command(servers, 1, "group", "deliver", TOP)[1] == "quality\tfifo\nsenders\tanyone\nkept\tmemory\n"
    done = command(servers, 1, "group", "deliver", TOP, "--kept", "durable", "--format", "json")
    assert json.loads(done[1])["kept"] == "durable"
    assert servers.clients[0].send(TOP, b"hello").kept == "durable"
