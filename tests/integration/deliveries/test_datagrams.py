"""Datagrams over real servers: to listeners over servers and loops, at most once, and lost without a listener."""

import json

import pytest

from tests.integration.deliveries.groups_in_a_loop import (
    LAST,
    MEMBERS,
    SUBNETS,
    TOP,
    build,
    command,
    ears,
    numbered,
)
from tests.integration.nameserver.server_process import wait_until


@pytest.fixture
def servers(start_several):
    return build(start_several([[subnet] for subnet in SUBNETS]))


def datagrams(ear):
    return [message.payload for message in list(ear.heard) if message.quality == "datagram"]


def test_who_listens_gets_each_at_most_once_beside_what_is_kept_and_others_get_nothing(servers):
    with ears(servers) as listening:
        # One alone reaches everybody: servers are found by it.
        servers.clients[2].send(TOP, b"first", quality="datagram")
        for ear in listening:
            wait_until(lambda ear=ear: ear.wrong or datagrams(ear) == [b"first"], f"the first at {ear.process}")
        for payload in numbered(50):
            sent = servers.clients[1].send(TOP, payload, quality="datagram")
            assert (sent.state, sent.servers, sent.unreachable) == ("accepted", 2, ())
            servers.clients[1].send(TOP, b"kept " + payload)
        servers.clients[0].send(TOP, LAST, wait="settled")
        for ear in listening:
            wait_until(lambda ear=ear: ear.wrong or len(datagrams(ear)) == 51, f"all datagrams at {ear.process}")
            assert ear.wrong is None
            assert sorted(datagrams(ear)) == sorted([b"first", *numbered(50)])
            assert all(not message.position for message in ear.heard if message.quality == "datagram")
            wait_until(lambda ear=ear: LAST in ear.payloads, f"the last at {ear.process}")
            kept = [message.payload for message in ear.heard if message.quality == "fifo"]
            assert kept == [*(b"kept " + payload for payload in numbered(50)), LAST]
    statuses = [client.status() for client in servers.clients]
    assert sum(status.datagrams_handed for status in statuses) == 51 * len(MEMBERS)
    assert sum(status.datagrams_dropped for status in statuses) == 0
    assert {status.parcels_unsettled for status in statuses} == {0}
    # Who comes only now gets nothing of it.
    servers.clients[0].send(TOP, b"later")
    with ears(servers, ["ann@a.x"]) as (ear,):
        ear.wait_for(b"later")
        assert ear.payloads == [b"later"]


def test_a_server_that_is_away_gets_nothing_and_the_sender_is_told_so(servers):
    client = servers.clients[0]
    client.send(TOP, b"first", wait="settled")
    servers.kill(1)

    def is_known_to_be_away():
        return "b.x" in client.send(TOP, b"tick", quality="datagram").unreachable

    wait_until(is_known_to_be_away, "the word that b.x is away")
    servers.start_again(1)
    with ears(servers, ["bob@b.x"]) as (ear,):
        client.send(TOP, LAST, wait="settled")
        ear.wait_for(LAST)
        assert datagrams(ear) == []


def test_the_command_line_sends_datagrams_and_says_of_those_it_prints_that_they_are(servers):
    with ears(servers, ["bob@b.x"]) as (ear,):
        status, output, errors = command(servers, 2, "send", TOP, "--quality", "datagram", standard_input=b"tick")
        assert (status, output.split("\t")[1], errors) == (0, "accepted", "")
        wait_until(lambda: datagrams(ear) == [b"tick"], "the datagram")
    status, output, _ = command(servers, 0, "status", "--format", "json")
    assert (status, json.loads(output)["datagrams_sent"] > 0) == (0, True)
    refused = command(servers, 0, "send", TOP, "--quality", "datagram", "--wait", "settled")
    assert refused[0] == 2 and "never settled" in refused[2]
    refused = command(servers, 0, "send", "nobody@b.x", "--quality", "datagram", standard_input=b"")
    assert refused[0] == 4 and "there is no group or member nobody@b.x" in refused[2]
