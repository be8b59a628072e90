"""Kinds of listeners at real servers: with a kept position, and for the time of a stream."""

import json
import threading

import pytest

import shadowtree
from tests.integration.deliveries.groups_in_a_loop import (
    LAST,
    MIDDLE,
    SUBNETS,
    TOP,
    build,
    command,
    payloads,
    until_last,
)
from tests.integration.nameserver.server_process import wait_until


@pytest.fixture
def servers(start_several):
    return build(start_several([[subnet] for subnet in SUBNETS]))


def add_member(servers, process):
    servers.clients[0].join(TOP, process)


def sent_to(servers):
    return servers.clients[0].send(TOP, b"to all", wait="settled").mailboxes


@pytest.mark.parametrize("asked", [1, 2])
def test_an_ephemeral_listener_gets_what_comes_meanwhile_wherever_it_is_asked_for(servers, asked):
    add_member(servers, "eve@c.x")
    assert sent_to(servers) == 4
    with servers.new_client(asked).listen("eve@c.x", ephemeral=True) as messages:
        assert sent_to(servers) == 5
        assert next(messages).payload == b"to all"
        assert "eve@c.x" not in {mailbox.process for mailbox in servers.clients[2].mailboxes()}
    wait_until(lambda: sent_to(servers) == 4, "the end of the listener")


def test_messages_that_were_acknowledged_the_last_first_do_not_come_again_from_a_real_server(servers):
    names, ann = servers.clients[2], "ann@c.x"
    add_member(servers, ann)
    names.open_mailbox(ann)
    for number in range(3):
        names.send(TOP, b"%d" % number, wait="settled")
    with names.listen(ann) as messages:
        for message in reversed([next(messages) for _ in range(3)]):
            message.acknowledge()
    names.send(TOP, b"3", wait="settled")
    with names.listen(ann) as messages:
        assert next(messages).payload == b"3"


def test_an_ephemeral_listener_ends_with_its_server_and_nothing_is_left_of_it(servers):
    add_member(servers, "eve@c.x")
    with servers.new_client(2).listen("eve@c.x", ephemeral=True) as messages:
        assert sent_to(servers) == 5
        assert next(messages).payload == b"to all"
        servers.kill(2)
        with pytest.raises(shadowtree.Unavailable):
            next(messages)
    servers.start_again(2)
    wait_until(lambda: sent_to(servers) == 4, "the end of the listener")
    with servers.new_client(2).listen("eve@c.x", ephemeral=True) as messages:
        servers.clients[0].send(TOP, b"later")
        assert next(messages).payload == b"later"


def test_the_command_listens_for_a_while_and_keeps_nothing(servers):
    add_member(servers, "eve@c.x")
    done = []
    listening = threading.Thread(
        target=lambda: done.append(command(servers, 2, "listen", "eve@c.x", "--ephemeral", "--count", "1"))
    )
    listening.start()
    # It says nothing when it begins, so one message after the other goes until it has got one.
    wait_until(lambda: done or not servers.clients[0].send(TOP, b"again"), "a message for the command")
    listening.join()
    assert done == [(0, f"{TOP}\t\tagain\n", "")]
    assert "eve@c.x" not in {mailbox.process for mailbox in servers.clients[2].mailboxes()}


def test_the_command_prints_what_was_asked_for_alone(servers):
    with servers.new_client(1).sender("nightly") as out:
        for target in (TOP, "ann@a.x", TOP):
            out.send(target, target.encode())
    servers.clients[0].send(TOP, b"nobody's", wait="settled")
    listen = ("listen", "ann@a.x", "--no-acknowledge", "--format", "json")
    status, output, _ = command(servers, 2, *listen, "--group", "ann@a.x", "--count", "1")
    assert (status, json.loads(output)["payload"]) == (0, "ann@a.x")
    status, output, _ = command(servers, 2, *listen, "--group", TOP, "--sender", "nightly", "--count", "2")
    assert [json.loads(line)["payload"] for line in output.splitlines()] == [TOP, TOP]
    status, output, errors = command(servers, 2, *listen, "--group", "no name")
    assert (status, output, errors.count("\n")) == (2, "", 1)


def test_the_archive_of_a_group_is_read_from_its_beginning_by_who_is_new_also_after_a_crash(servers):
    assert command(servers, 0, "mailbox", "open", MIDDLE)[0] == 0
    with servers.new_client(2).sender("nightly") as out:
        for number in range(300):
            out.send(MIDDLE if number % 3 else TOP, b"%d" % number)
    servers.clients[0].send(MIDDLE, LAST, wait="settled")
    expected = [b"%d" % number for number in range(300) if number % 3] + [LAST]
    assert payloads(until_last(servers.clients[0], MIDDLE)) == expected
    servers.kill(1)
    servers.start_again(1)
    status, output, _ = command(servers, 2, "listen", MIDDLE, "--subscription", "new", "--count", str(len(expected)))
    assert (status, [line.split("\t")[2].encode() for line in output.splitlines()]) == (0, expected)
