"""A server is away: senders are told for whom it waits, and its members get all in sequence when it is back."""

import json

import pytest

from tests.integration.deliveries.groups_in_a_loop import (
    FLAT,
    LAST,
    MEMBERS,
    SUBNETS,
    assert_in_sequence,
    build,
    command,
    numbered,
    payloads,
    until_last,
)
from tests.integration.nameserver.server_process import wait_until


@pytest.fixture
def servers(start_several):
    return build(start_several([[subnet] for subnet in SUBNETS]))


def test_settled_says_for_whom_it_waits_and_is_so_later(servers):
    a = servers.clients[0]
    servers.kill(2)
    status, output, errors = command(
        servers, 1, "send", FLAT, "--wait", "settled", "--request-id", "once", standard_input=b"0"
    )
    assert (status, output.split("\t")[1:]) == (3, ["settled", "3", "2\n"])
    assert errors == "shadowtree: not everybody has it yet: these servers get it when they are back: c.x\n"
    status, output, _ = command(servers, 0, "send", FLAT, "--wait", "settled", "--format", "json", standard_input=b"1")
    assert status == 3
    assert json.loads(output)["pending"] == ["c.x"]
    # Nobody waits, and all that is sent meanwhile comes too.
    with servers.new_client(1).sender("meanwhile") as out:
        for payload in numbered(500, begin=2):
            out.send(FLAT, payload)
    wait_until(lambda: len(a.status().parcels_pending) == 1, "the confirmation of b")
    found = a.status()
    assert [pending.server for pending in found.parcels_pending] == ["c.x"]
    assert found.parcels_unsettled >= found.parcels_pending[0].parcels >= 3
    status, output, _ = command(servers, 0, "status")
    assert (status, f"parcels_unsettled\t{found.parcels_unsettled}\n" in output) == (0, True)
    assert f"parcels_pending\tc.x\t{found.parcels_pending[0].parcels}\n" in output
    servers.start_again(2)
    wait_until(lambda: not a.status().parcels_unsettled, "the confirmation of c")
    assert a.status().parcels_pending == ()
    sent = servers.clients[1].send(FLAT, b"0", wait="settled", request_id="once")
    assert (sent.state, sent.pending, sent.unreachable) == ("settled", (), ())
    assert servers.clients[1].send(FLAT, LAST, wait="settled").mailboxes == 4
    for process in MEMBERS:
        heard = until_last(a, process)
        assert payloads(heard) == [*numbered(502), LAST]
        assert_in_sequence(heard)


def test_a_server_that_is_silent_and_not_lost_yet_is_waited_for(servers):
    a = servers.clients[0]
    with servers.stopped(2):
        sent = a.send(FLAT, b"0", wait="settled", timeout=2)
        assert sent.pending == ("c.x",)
        assert (sent.mailboxes, sent.servers) == (3, 2)
    assert a.send(FLAT, LAST, wait="settled").pending == ()
    assert payloads(until_last(a, "cyd@c.x")) == [b"0", LAST]


def test_status_tells_of_the_log_and_it_is_cut_where_all_have_read_it(servers):
    a, _, c = servers.clients
    assert (c.status().mailboxes, c.status().log_entries, c.status().log_bytes) == (1, 0, 0)
    for payload in numbered(150):
        a.send(FLAT, payload)
    a.send(FLAT, LAST, wait="settled")
    kept = c.status()
    assert kept.log_entries > 100
    assert kept.log_bytes > 150
    until_last(c, "cyd@c.x")
    # It is cut a hundred entries at a time.
    wait_until(lambda: c.status().log_entries < 100, "the cut of the log")
    for process in MEMBERS:
        a.close_mailbox(process)
    assert [client.status().mailboxes for client in servers.clients] == [0, 0, 0]


def test_what_is_not_settled_is_kept_though_all_here_have_read_it(servers):
    a = servers.clients[0]
    servers.kill(2)
    for payload in numbered(150):
        a.send(FLAT, payload)
    a.send(FLAT, LAST)
    for process in MEMBERS:
        if not process.endswith("c.x"):
            until_last(a, process)
    assert a.status().log_entries > 100
    servers.kill(0)
    servers.start_again(0)
    servers.start_again(2)
    servers.wait_for_connections()
    assert payloads(until_last(a, "cyd@c.x")) == [*numbered(150), LAST]
    wait_until(lambda: not a.status().parcels_unsettled, "the confirmation of c")
    a.send(FLAT, b"one more", wait="settled")
    wait_until(lambda: a.status().log_entries < 100, "the cut of the log")
