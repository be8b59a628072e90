"""A server that is told to end lets go of listeners and senders at once, and all of them go on when it is back."""

import threading

import pytest

import shadowtree
from tests.integration.deliveries.groups_in_a_loop import (
    LAST,
    LOW,
    MEMBERS,
    SUBNETS,
    TOP,
    Ear,
    assert_in_sequence,
    build,
    ears,
    numbered,
    payloads,
    until_last,
)
from tests.integration.nameserver.server_process import PATIENCE_SECONDS, wait_until

DRAIN_SECONDS = 3600
"""A server that used all of it would not end within the patience of a test."""


@pytest.fixture
def servers(start_several):
    """Servers that wait for a restarting peer, as by default, so that no server is lost."""
    shares = [[subnet] for subnet in SUBNETS]
    return build(start_several(shares, drain_seconds=DRAIN_SECONDS, restart_grace_seconds=30))


def end_and_start_again(servers, number):
    """Restart a server as an operator does."""
    assert servers.processes[number].terminate() == (0, "")
    servers.start_again(number)
    servers.wait_for_connections()


@pytest.mark.parametrize("ended", range(len(SUBNETS)))
def test_listeners_are_let_go_at_once_and_resume_at_the_server_that_is_back(servers, ended):
    a = servers.clients[0]
    # The listener of somebody else's process goes through the server that ends, too.
    through = Ear(servers.new_client(ended), "cyd@c.x" if ended != 2 else "ann@a.x", subscription="through")
    try:
        with ears(servers) as listening:
            for payload in numbered(5):
                a.send(TOP, payload, wait="settled")
            everybody = [*listening, through]
            for ear in everybody:
                ear.wait_for(b"4")
            end_and_start_again(servers, ended)
            for payload in numbered(5, begin=5):
                a.send(TOP, payload)
            for ear in everybody:
                ear.wait_for(b"9")
                assert ear.payloads == numbered(10)
    finally:
        through.close()


@pytest.mark.parametrize("ended", [0, 1])
def test_a_sender_goes_on_over_the_end_of_its_server_and_of_the_home(servers, ended):
    """The client asks b; messages go to a."""
    client = servers.new_client(1)
    accepted = threading.Semaphore(0)
    ending = threading.Thread(target=lambda: (accepted.acquire(), end_and_start_again(servers, ended)))
    ending.start()
    with client.sender("nightly") as out:
        for number, payload in enumerate(numbered(400)):
            out.send(TOP, payload)
            if number == 200:
                out.flush()
                accepted.release()
        # An open stream on which nothing is said any more does not hold up the end either.
        out.flush()
        ending.join(PATIENCE_SECONDS)
        assert not ending.is_alive()
        out.send(TOP, LAST)
    for process in MEMBERS:
        heard = until_last(servers.clients[0], process)
        assert payloads(heard) == [*numbered(400), LAST]
        assert_in_sequence(heard)


def test_who_waits_until_a_message_is_settled_is_told_how_far_it_is(servers):
    """The home ends while a server below is silent."""
    told = []
    with servers.stopped(2):
        client = servers.new_client(0)
        waiting = threading.Thread(target=lambda: told.append(client.send(TOP, LAST, wait="settled")))
        waiting.start()
        wait_until(lambda: unsettled(servers.clients[0]), "a message that waits for c")
        servers.processes[0].process.terminate()
        waiting.join(PATIENCE_SECONDS)
        (sent,) = told
        assert sent.state == "accepted"
        assert sent.id.startswith(f"1@{TOP}#")
    assert servers.processes[0].outcome() == (0, "")
    servers.start_again(0)
    for process in MEMBERS:
        assert payloads(until_last(servers.clients[0], process)) == [LAST]


def unsettled(client):
    """Messages on their way from this server to others."""
    return client.status().parcels_unsettled


def test_a_message_for_a_server_that_ends_is_refused_whole(servers):
    """Nothing of it is done, and who would listen is told, too."""
    with servers.stopped(2):
        client = servers.new_client(0)
        joining = threading.Thread(target=lambda: client.join(TOP, LOW, request_id="again"))
        joining.start()
        wait_until(lambda: any(peer.letters_waiting for peer in servers.clients[0].peers()), "an update that waits")
        servers.processes[0].process.terminate()
        wait_until(lambda: refuses(servers.clients[0]), "the refusal of what is new")
        with pytest.raises(shadowtree.Unavailable, match=r"a\.x is shutting down"):
            servers.clients[0].send(TOP, b"too late", timeout=1)
        with pytest.raises(shadowtree.Unavailable, match=r"a\.x is shutting down"):
            servers.clients[0].listen("ann@a.x")
        with pytest.raises(shadowtree.Unavailable, match=r"a\.x is shutting down"):
            servers.clients[0].open_mailbox("new@a.x")
    joining.join(PATIENCE_SECONDS)
    assert servers.processes[0].outcome() == (0, "")
    servers.start_again(0)
    servers.wait_for_connections()
    servers.clients[1].send(TOP, LAST)
    for process in MEMBERS:
        assert payloads(until_last(servers.clients[0], process)) == [LAST]


def refuses(client):
    try:
        client.create_group("more@a.x", request_id="never")
    except shadowtree.Unavailable as error:
        return "shutting down" in error.message
    return False
