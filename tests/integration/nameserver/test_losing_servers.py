"""Name servers as processes that are killed, stopped and continued, and the losses that their peers notice."""

import os
import signal
import time
from contextlib import contextmanager

import pytest

import shadowtree
from tests.integration.nameserver.server_process import wait_until

PAUSE_SECONDS = 3
"""Seconds for which a process is stopped: far more than the longest silence of a running server."""

ENDED_SECONDS = 8
"""Within what time a call must end, whose part would be waited for 10 seconds, and whose caller has 30."""

PATIENT = {"acceptable_pause_seconds": 20}
IMPATIENT = {"acceptable_pause_seconds": 0.5}


def life(client):
    """Return the state of the only peer."""
    (peer,) = client.peers()
    return peer.life


def why(client):
    (peer,) = client.peers()
    return peer.why


@pytest.fixture
def pair(cluster):
    """Start two servers with settings of each; gives their processes and clients."""
    clients = []

    def start_pair(a_settings, b_settings):
        start_one = cluster("a.x", "b.x")
        processes = [start_one("a.x", **a_settings), start_one("b.x", **b_settings)]
        clients.extend(shadowtree.Client(process.address, timeout=30) for process in processes)
        for client in clients:
            wait_until(lambda client=client: life(client) == "up", "servers that are up")
        return processes, clients

    yield start_pair
    for client in clients:
        client.close()


@contextmanager
def stopped(process):
    os.kill(process.process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process.process.pid, signal.SIGCONT)


def times_met(client, seconds):
    """Return the states of the peer, as they change within a time."""
    seen = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        thought = life(client)
        if not seen or seen[-1] != thought:
            seen.append(thought)
        time.sleep(0.02)
    return seen


def test_a_killed_server_is_lost_because_nobody_answers_not_because_of_its_silence(pair):
    (_, b), (a_client, _) = pair(PATIENT, PATIENT)
    b.kill()
    wait_until(lambda: life(a_client) == "lost", "the loss of a killed server")
    assert "refused" in why(a_client)
    with pytest.raises(shadowtree.Unavailable):
        a_client.create_group("g@b.x")


def test_a_server_that_is_stopped_for_no_longer_than_accepted_is_not_lost(pair):
    (_, b), (a_client, _) = pair(PATIENT, PATIENT)
    a_client.create_group("top@a.x")
    a_client.create_group("low@b.x")
    with stopped(b):
        # No call reaches it for a moment in which it still counts as up.
        met = [life for life in times_met(a_client, PAUSE_SECONDS) if life != "one way"]
        assert list(dict.fromkeys(met)) == ["up", "suspected"]
    a_client.join("top@a.x", "low@b.x")
    assert times_met(a_client, 1) in (["up"], ["suspected", "up"])


def test_a_server_that_is_stopped_for_longer_is_lost_and_up_again_when_it_goes_on(pair):
    (_, b), (a_client, b_client) = pair(IMPATIENT, PATIENT)
    a_client.create_group("top@a.x")
    a_client.create_group("low@b.x")
    with stopped(b):
        wait_until(lambda: life(a_client) == "lost", "the loss of a stopped server")
        assert why(a_client).startswith("no heartbeat for")
        started = time.monotonic()
        with pytest.raises(shadowtree.Unavailable) as caught:
            a_client.join("top@a.x", "low@b.x")
        assert caught.value.facts["server"] == "b.x"
        assert time.monotonic() - started < PAUSE_SECONDS
    for client in (a_client, b_client):
        wait_until(lambda client=client: life(client) == "up", "servers that are up again")
    a_client.join("top@a.x", "low@b.x")


def test_calls_under_way_end_when_their_server_is_lost(pair):
    (_, b), (a_client, _) = pair(IMPATIENT, PATIENT)
    a_client.create_group("low@b.x")
    with stopped(b):
        started = time.monotonic()
        with pytest.raises(shadowtree.Unavailable) as asked:
            a_client.describe("low@b.x")
        assert asked.value.unreachable == ("b.x",)
        assert time.monotonic() - started < ENDED_SECONDS
    wait_until(lambda: life(a_client) == "up", "a server that is up again")
    # What passes calls on is connected anew, too: else the next one would never be sent.
    assert a_client.describe("low@b.x").home == "b.x"
    with stopped(b):
        with pytest.raises(shadowtree.OutcomeUnknown) as changed:
            a_client.create_group("new@b.x", request_id="once")
        assert changed.value.facts["server"] == "b.x"
    wait_until(lambda: life(a_client) == "up", "a server that is up again")
    a_client.create_group("new@b.x", request_id="once")


def test_a_server_that_was_stopped_itself_loses_nobody(pair):
    (a, _), (a_client, b_client) = pair(IMPATIENT, PATIENT)
    with stopped(a):
        wait_until(lambda: life(b_client) == "suspected", "the silence of a stopped server")
        time.sleep(PAUSE_SECONDS)
    # Had it lost the other one, it would have ended the session with a goodbye.
    assert "lost" not in times_met(a_client, 1)
    assert set(times_met(b_client, 1)) <= {"suspected", "up"}
    assert not [peer.faults for client in (a_client, b_client) for peer in client.peers() if peer.faults]


def sure(client, group, member, *, lost, **options):
    """Check a member until the answer is sure. An uncertain answer must name a server that is still there.

    A busy machine can hold up any server for seconds; its groups are out of reach then. The lost server is no reason.
    """
    while True:
        try:
            return client.check(group, member, **options)
        except shadowtree.Unavailable as error:
            unreachable = set(error.facts["unreachable"].split("\n"))
        assert unreachable - {lost}


def test_a_lost_server_makes_no_answer_uncertain_where_nothing_of_it_is_in_the_group(start_several):
    servers = start_several([["a.x"], ["b.x"], ["c.x"]])
    asked, other, _ = servers.clients
    asked.create_group("own@a.x")
    other.create_group("low@b.x")
    asked.join("own@a.x", "low@b.x")
    asked.join("own@a.x", "ann@a.x")
    asked.join("low@b.x", "bob@outside.example")
    servers.kill(2)
    asked_at_rest = 0
    while asked_at_rest < 20:
        # Asked without a pause, so that some questions come while the two agree on who is left.
        assert not sure(asked, "own@a.x", "nobody@outside.example", lost="c.x")
        asked_at_rest += len(asked.status().view) == len(other.status().view) == 2
    for client in (asked, other):
        found = sure(client, "own@a.x", "bob@outside.example", lost="c.x", explain=True)
        assert (found.is_member, found.pathname) == (True, ("own@a.x", "low@b.x", "bob@outside.example"))
        assert sure(client, "own@a.x", "bob@outside.example", lost="c.x")
        assert not sure(client, "own@a.x", "own@a.x", lost="c.x")
        assert not sure(client, "own@a.x", "nobody@outside.example", lost="c.x", explain=True)
    # Now each is below itself.
    other.join("low@b.x", "own@a.x")
    for client in (asked, other):
        assert sure(client, "own@a.x", "own@a.x", lost="c.x")
        assert sure(client, "low@b.x", "low@b.x", lost="c.x")
