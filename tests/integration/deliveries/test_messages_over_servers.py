"""A message is handed once to every member below its targets, over any loops and servers."""

import json

import pytest

from tests.integration.deliveries.groups_in_a_loop import (
    LAST,
    LOW,
    MEMBERS,
    MIDDLE,
    SIDE,
    SUBNETS,
    TOP,
    assert_in_sequence,
    build,
    command,
    ears,
    numbered,
    payloads,
    server_of,
    until_last,
)
from tests.integration.nameserver.server_process import wait_until


@pytest.fixture
def servers(start_several):
    return build(start_several([[subnet] for subnet in SUBNETS]))


@pytest.mark.parametrize("asked", range(len(SUBNETS)))
def test_everybody_below_gets_a_message_once_whichever_server_is_asked(servers, asked):
    client = servers.clients[asked]
    sent = client.send(TOP, b"to all", wait="settled")
    assert (sent.state, sent.mailboxes, sent.servers, sent.pending, sent.unreachable) == ("settled", 4, 3, (), ())
    # The side is reached in two ways, and leads nowhere.
    sent = client.send(SIDE, b"to one", wait="settled")
    assert (sent.mailboxes, sent.servers) == (1, 1)
    client.send(MIDDLE, LAST, wait="settled")
    for process in MEMBERS:
        heard = until_last(servers.clients[asked], process)
        own = [b"to one"] if MEMBERS[process] == SIDE else []
        assert sorted(payloads(heard)) == sorted([b"to all", *own, LAST])


def test_listeners_that_are_there_get_what_comes_and_so_do_two_of_one_process(servers):
    with ears(servers) as listening, ears(servers, ["ann@a.x"], subscription="desk") as second:
        for number, payload in enumerate(numbered(30)):
            servers.clients[number % 3].send((TOP, MIDDLE, LOW)[number % 3], payload)
        servers.clients[0].send(TOP, LAST, wait="settled")
        for ear in (*listening, *second):
            wait_for_all(ear, {*numbered(30), LAST})
            assert len(ear.heard) == 31
            assert_in_sequence(ear.heard)
            assert {message.gap for message in ear.heard} == {0}


def test_whoever_opens_the_first_mailbox_of_a_server_gets_a_run_of_all_that_follows(servers):
    client, theirs, group = servers.clients[0], servers.clients[2], "rare@a.x"
    client.create_group(group)
    for process in ("ann@a.x", "dee@c.x"):
        client.join(group, process)
    for payload in numbered(3):
        sent = client.send(group, payload, wait="settled")
        assert (sent.mailboxes, sent.servers) == (1, 1)
    after = numbered(200, begin=100)
    with client.sender("steady") as out:
        for payload in numbered(97, begin=3):
            out.send(group, payload)
        theirs.open_mailbox("dee@c.x")
        for payload in after:
            out.send(group, payload)
    assert client.send(group, LAST, wait="settled").servers == 2
    heard = until_last(theirs, "dee@c.x")
    assert_in_sequence(heard)
    assert payloads(heard)[-len(after) - 1 :] == [*after, LAST]
    assert payloads(until_last(client, "ann@a.x")) == [*numbered(300), LAST]


def wait_for_all(ear, wanted):
    wait_until(lambda: ear.wrong or wanted <= set(ear.payloads), f"all messages at {ear.process}")
    assert ear.wrong is None


def test_several_targets_reach_each_once_less_the_exceptions(servers):
    client = servers.clients[1]
    sent = client.send([SIDE, "ann@a.x", "cyd@c.x"], b"three", wait="settled")
    assert (sent.mailboxes, sent.servers) == (3, 3)
    sent = client.send([TOP, SIDE], b"not the side", excluding=[SIDE], wait="settled")
    assert sent.mailboxes == 3
    # All of the loop are below low; but who is named is reached through his own name.
    sent = client.send(TOP, b"nobody", excluding=[LOW], wait="settled")
    assert (sent.mailboxes, sent.servers) == (0, 0)
    client.send(TOP, LAST)
    expected = {
        "ann@a.x": [b"three", b"not the side"],
        "bob@b.x": [b"not the side"],
        "cyd@c.x": [b"three", b"not the side"],
        "bea@b.x": [b"three"],
    }
    for process, payloads_before in expected.items():
        assert sorted(payloads(until_last(client, process))) == sorted([*payloads_before, LAST])


def test_the_command_line_sends_settled_messages_and_lists_what_came(servers):
    status, output, errors = command(servers, 2, "send", TOP, "--wait", "settled", standard_input=b"hello\n")
    assert (status, output.split("\t")[1:], errors) == (0, ["settled", "4", "3\n"], "")
    status, output, _ = command(
        servers, 0, "send", TOP, SIDE, "--excluding", MIDDLE, "--wait", "settled", "--format", "json"
    )
    assert (status, json.loads(output)["mailboxes"]) == (0, 0)
    status, output, errors = command(servers, 0, "listen", "bea@b.x", "--count", "1")
    assert (status, output, errors) == (0, f"{TOP}\t\thello\n", "")


def test_pipelined_lines_come_in_order_to_everybody(servers):
    lines = b"".join(b"%d\n" % number for number in range(3_000))
    status, output, errors = command(servers, 1, "send", TOP, "--lines", standard_input=lines)
    assert (status, output, errors) == (0, "3000\n", "")
    servers.clients[1].send(TOP, LAST)
    for process in MEMBERS:
        heard = until_last(servers.clients[server_of(process)], process)
        assert payloads(heard) == [*numbered(3_000), LAST]
        assert_in_sequence(heard)


def test_one_sender_to_groups_of_several_servers_keeps_the_order_of_each(servers):
    with servers.clients[2].sender("mixed") as out:
        for number, payload in enumerate(numbered(600)):
            out.send((TOP, MIDDLE, LOW)[number % 3], payload)
    for group in (TOP, MIDDLE, LOW):
        servers.clients[2].send(group, b"end", wait="settled")
    servers.clients[2].send(TOP, LAST, wait="settled")
    for process in MEMBERS:
        heard = [message for message in until_last(servers.clients[0], process) if message.payload.isdigit()]
        assert sorted(map(int, payloads(heard))) == list(range(600))
        assert_in_sequence(heard)
        for group in (TOP, MIDDLE, LOW):
            of_group = [int(message.payload) for message in heard if message.group == group]
            assert of_group == sorted(of_group)
