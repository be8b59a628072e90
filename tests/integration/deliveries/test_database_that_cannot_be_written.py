"""A server cannot write its database: senders are told, nothing is half done, and all goes on when it can again."""

import signal
import threading

import pytest

import shadowtree
from tests.integration.deliveries.groups_in_a_loop import (
    FLAT,
    LAST,
    MEMBERS,
    SUBNETS,
    assert_in_sequence,
    build,
    ears,
    numbered,
    payloads,
    until_last,
)
from tests.integration.nameserver.server_process import PATIENCE_SECONDS, wait_until

NOT_DONE = (shadowtree.OutcomeUnknown, shadowtree.Unavailable)


@pytest.fixture
def servers(start_several):
    return build(start_several([[subnet] for subnet in SUBNETS], acceptable_pause_seconds=1))


def wait_until_healed(servers):
    wait_until(
        lambda: all(
            not status.suspended and not status.database_failure and not status.parcels_unsettled
            for status in (client.status() for client in servers.clients)
        ),
        "a heal, and the confirmation of all messages",
    )


@pytest.mark.parametrize("asked", [0, 1])
def test_senders_are_told_when_the_home_cannot_write_and_a_message_is_accepted_once(servers, asked):
    client = servers.new_client(asked)
    with client, servers.full_disk(0):
        with pytest.raises(NOT_DONE, match=r"cannot be written|cannot write"):
            client.send(FLAT, b"once", request_id="once")
        # This one finds it failing: nothing at all is done.
        wait_until(lambda: servers.clients[0].status().database_failure, "the failure of a")
        with pytest.raises(NOT_DONE, match=r"cannot be written|cannot write"):
            client.send(FLAT, b"never", request_id="never")
        with pytest.raises(NOT_DONE):
            servers.clients[0].open_mailbox("new@a.x")
        with pytest.raises(NOT_DONE):
            servers.clients[0].listen("new@a.x")
    wait_until_healed(servers)
    client = servers.clients[asked]
    assert client.send(FLAT, b"once", request_id="once", wait="settled").state == "settled"
    client.send(FLAT, LAST, wait="settled")
    for process in MEMBERS:
        assert payloads(until_last(servers.clients[0], process)) == [b"once", LAST]


def test_a_sender_and_listeners_go_on_over_the_trouble_of_the_home(servers):
    count = 1_000
    begun, is_full = threading.Event(), threading.Event()

    def flow():
        with servers.new_client(1).sender("flow") as out:
            for number, payload in enumerate(numbered(count)):
                out.send(FLAT, payload)
                if number == 200:
                    begun.set()
                    assert is_full.wait(PATIENCE_SECONDS)

    sending = threading.Thread(target=flow)
    with ears(servers) as listening:
        sending.start()
        assert begun.wait(PATIENCE_SECONDS)
        with servers.full_disk(0):
            is_full.set()
            wait_until(lambda: servers.clients[0].status().database_failure, "the failure of a")
        sending.join(PATIENCE_SECONDS)
        assert not sending.is_alive()
        servers.clients[1].send(FLAT, LAST, timeout=PATIENCE_SECONDS)
        for ear in listening:
            ear.wait_for(LAST)
            assert ear.payloads == [*numbered(count), LAST]
            assert_in_sequence(ear.heard)


def test_a_destination_that_cannot_write_gets_all_later_and_holds_up_nobody(servers):
    a = servers.clients[0]
    with servers.full_disk(2):
        for payload in numbered(20):
            a.send(FLAT, payload)
        sent = a.send(FLAT, b"20", wait="settled", timeout=5)
        assert (sent.pending, sent.mailboxes) == (("c.x",), 3)
    wait_until_healed(servers)
    a.send(FLAT, LAST, wait="settled")
    for process in MEMBERS:
        heard = until_last(a, process)
        assert payloads(heard) == [*numbered(21), LAST]
        assert_in_sequence(heard)


def test_who_waits_for_a_settled_message_is_told_so_after_the_trouble(servers):
    """The home fails between that it accepts a message and that the last server confirms it."""
    told = []
    patient = shadowtree.Client(servers.address(0), timeout=PATIENCE_SECONDS)
    with patient:
        with servers.stopped(2):
            waiting = threading.Thread(target=lambda: told.append(patient.send(FLAT, LAST, wait="settled")))
            waiting.start()
            wait_until(lambda: len(servers.clients[0].status().parcels_pending) == 1, "the wait for c alone")
            with servers.full_disk(0):
                servers.processes[2].process.send_signal(signal.SIGCONT)
                wait_until(lambda: servers.clients[0].status().database_failure, "the failure of a")
        waiting.join(PATIENCE_SECONDS)
        assert not waiting.is_alive()
    (sent,) = told
    assert sent.state in ("settled", "accepted")
    assert sent.pending in ((), ("c.x",))
    wait_until_healed(servers)
    for process in MEMBERS:
        assert payloads(until_last(servers.clients[0], process)) == [LAST]


def test_what_is_acknowledged_meanwhile_is_kept_or_comes_again_and_nothing_is_lost(servers):
    a, _, c = servers.clients
    for payload in numbered(5):
        a.send(FLAT, payload, wait="settled")
    with c.listen("cyd@c.x") as messages:
        found = [next(messages) for _ in range(5)]
        with servers.full_disk(2):
            for message in found[:3]:
                message.acknowledge()
            wait_until(lambda: c.status().database_failure, "the failure of c")
        wait_until_healed(servers)
        found[3].acknowledge()
    a.send(FLAT, LAST)
    assert payloads(until_last(a, "cyd@c.x")) == [b"4", LAST]
