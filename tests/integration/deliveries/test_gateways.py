"""Gateways at real servers: each message once for all whom a server delivers to, through crashes."""

import json

import pytest

import shadowtree
from tests.integration.deliveries.groups_in_a_loop import (
    LAST,
    SUBNETS,
    TOP,
    build,
    command,
    ears,
    numbered,
    payloads,
    until_last,
)

EVE, JOE = "eve@debian.org", "joe@debian.org"
SERVED = (["ann@a.x", EVE], ["bea@b.x", "bob@b.x"], ["cyd@c.x"])
"""Members below the top that each server serves."""


@pytest.fixture
def servers(start_several):
    found = build(start_several([[subnet] for subnet in SUBNETS]))
    found.clients[0].join(TOP, EVE)
    return found


def test_each_server_hands_its_gateway_one_copy_for_all_its_members(servers):
    for number in range(3):
        servers.clients[number].open_mailbox("*")
    with servers.new_client(1).sender("nightly") as out:
        for payload in numbered(500):
            out.send(TOP, payload)
    settled = servers.clients[0].send(TOP, LAST, wait="settled")
    assert (settled.mailboxes, settled.servers) == (4 + 3, 3)
    for number, served in enumerate(SERVED):
        found = until_last(servers.clients[number], "*", subscription="mail")
        assert payloads(found) == [*numbered(500), LAST]
        assert {tuple(sorted(message.recipients)) for message in found} == {tuple(served)}
    assert payloads(until_last(servers.clients[1], "bob@b.x")) == [*numbered(500), LAST]


def test_a_stranger_neither_keeps_an_own_gateway_out_nor_closes_it(servers):
    client, stranger = servers.clients[0], servers.new_client(0)
    for number in range(16):
        stranger.open_mailbox(f"*@d{number}.example")
    with pytest.raises(shadowtree.LimitExceeded, match="16 gateways of other subnets"):
        stranger.open_mailbox("*@d16.example")
    for pattern in ("*@a.x", "*"):
        client.open_mailbox(pattern)
    client.send(TOP, LAST, wait="settled")
    status, _, why = command(servers, 0, "mailbox", "close", "*")
    assert (status, "--force" in str(why)) == (4, True)
    assert payloads(until_last(client, "*", subscription="mail")) == [LAST]
    assert command(servers, 0, "mailbox", "close", "*", "--force")[0] == 0


def test_a_gateway_goes_on_where_it_stopped_after_crashes_with_who_was_there_at_each_message(servers):
    client = servers.clients[0]
    client.open_mailbox("*@debian.org")
    client.send(TOP, b"for eve")
    client.join(TOP, JOE)
    client.send(TOP, b"for both", wait="settled")
    with servers.new_client(0).listen("*@debian.org", subscription="mail") as messages:
        first = next(messages)
        assert (first.payload, first.recipients) == (b"for eve", (EVE,))
        first.acknowledge()
    servers.kill(0)
    servers.start_again(0)
    client = servers.new_client(0)
    client.leave(TOP, EVE)
    client.send(TOP, b"for joe")
    listen = ("listen", "*@debian.org", "--subscription", "mail", "--count", "2")
    status, output, _ = command(servers, 0, *listen, "--no-acknowledge")
    assert (status, output.splitlines()) == (0, [f"{TOP}\t\tfor both\t{EVE}\t{JOE}", f"{TOP}\t\tfor joe\t{JOE}"])
    servers.kill(0)
    servers.start_again(0)
    status, output, _ = command(servers, 0, *listen, "--format", "json")
    found = [json.loads(line) for line in output.splitlines()]
    assert [(one["payload"], one["recipients"]) for one in found] == [("for both", [EVE, JOE]), ("for joe", [JOE])]


def test_a_gateway_of_another_servers_domain_is_asked_for_anywhere_and_listens_through_a_crash_of_it(servers):
    with ears(servers, ("*@b.x",)) as (ear,):
        servers.new_client(0).open_mailbox("*@b.x")
        servers.clients[0].send(TOP, b"before", wait="settled")
        ear.wait_for(b"before")
        servers.kill(1)
        servers.clients[0].send(TOP, b"meanwhile")
        servers.start_again(1)
        servers.clients[2].send(TOP, LAST)
        ear.wait_for(LAST)
        assert ear.payloads == [b"before", b"meanwhile", LAST]
        assert {tuple(sorted(message.recipients)) for message in ear.heard} == {("bea@b.x", "bob@b.x")}
    status, output, _ = command(servers, 2, "mailbox", "list", "--subnet", "b.x")
    assert (status, output.splitlines()[0].split("\t")[0]) == (0, "*@b.x")


def test_a_wrong_pattern_is_told_in_one_line(servers):
    for arguments, expected, says in (
        (("listen", "ann@*"), 2, "the pattern of a gateway is * for all, or *@SUBNET for those of one subnet"),
        (("listen", "a*@a.x"), 4, "the pattern of a gateway is * or *@SUBNET"),
        (("listen", "*", "--ephemeral"), 4, "it is not ephemeral"),
    ):
        status, output, errors = command(servers, 0, *arguments)
        assert (status, output, errors.count("\n")) == (expected, "", 1)
        assert says in errors
