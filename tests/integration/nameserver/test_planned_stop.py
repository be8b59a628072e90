"""A server that is told to end finishes updates under way, begins none, and tells its peers at once."""

import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

import shadowtree
from tests.integration.nameserver.server_process import wait_until

SUBNETS = ("a.x", "b.x", "c.x")
TOP, MIDDLE, LOW = "top@a.x", "middle@b.x", "low@c.x"
DRAIN_SECONDS = 3600
"""A server that used all of it would not end within the patience of a test."""


@pytest.fixture
def servers(start_several):
    """top at a, middle at b, low at c; no arcs."""
    servers = start_several([[subnet] for subnet in SUBNETS], drain_seconds=DRAIN_SECONDS)
    for group in (TOP, MIDDLE, LOW):
        servers.clients[0].create_group(group)
    return servers


@pytest.fixture
def pool():
    with ThreadPoolExecutor(4) as pool:
        yield pool


def life_of(client, address):
    return {peer.address: (peer.life, peer.state) for peer in client.peers().peers}[address]


def is_drained_of_updates(client):
    """True if the server refuses new updates because it ends."""
    try:
        client.create_group("more@a.x", request_id="never")
    except shadowtree.Unavailable as error:
        return "the server a.x is shutting down" in error.message
    return False


def sigterm(servers, number):
    servers.processes[number].process.send_signal(signal.SIGTERM)


def test_the_others_know_at_once_that_a_server_was_stopped(servers):
    a, b, _ = servers.clients
    assert servers.processes[2].terminate() == (0, "")
    for client in (a, b):
        wait_until(lambda client=client: life_of(client, servers.address(2))[0] == "stopped", "the word of c")
        assert life_of(client, servers.address(2))[1].startswith("stopped since 20")
        with pytest.raises(shadowtree.Unavailable, match=r"c\.x.* out of reach \(stopped: c\.x is shutting down\)"):
            client.join(TOP, LOW)
    servers.start_again(2)
    servers.wait_for_connections()
    assert life_of(a, servers.address(2))[0] == "up"
    a.join(TOP, LOW)


def test_an_update_that_waits_for_another_server_is_finished_before_its_coordinator_ends(servers, pool):
    a = servers.clients[0]
    with servers.stopped(2):
        joining = pool.submit(a.join, TOP, LOW)
        wait_until(lambda: any(peer.letters_waiting for peer in a.peers().peers), "an update that waits for c")
        sigterm(servers, 0)
        wait_until(lambda: is_drained_of_updates(a), "the refusal of new updates")
        assert not joining.done()
    change = joining.result()
    assert servers.processes[0].outcome() == (0, "")
    servers.start_again(0)
    servers.wait_for_connections()
    for client in servers.clients:
        assert [child.id for child in client.describe(TOP, at_least_revision=change.revision).children] == [LOW]


def test_an_update_that_outlasts_the_draining_is_of_unknown_outcome_and_done_once_when_repeated(start_several, pool):
    servers = start_several([[subnet] for subnet in SUBNETS], drain_seconds=0.5)
    a = servers.clients[0]
    for group in (TOP, LOW):
        a.create_group(group)
    with servers.stopped(2):
        joining = pool.submit(a.join, TOP, LOW, request_id="once", timeout=4)
        wait_until(lambda: any(peer.letters_waiting for peer in a.peers().peers), "an update that waits for c")
        assert servers.processes[0].terminate()[0] == 0
        with pytest.raises(shadowtree.OutcomeUnknown):
            joining.result()
    servers.start_again(0)
    servers.wait_for_connections()
    change = a.join(TOP, LOW, request_id="once")
    for client in servers.clients:
        assert client.join(TOP, LOW, request_id="once").revision == change.revision
        assert [child.id for child in client.describe(TOP).children] == [LOW]


def test_updates_of_others_that_need_a_server_which_drains_are_refused_at_once_and_reads_go_on(servers, pool):
    a, b, _ = servers.clients
    with servers.stopped(2):
        joining = pool.submit(a.join, TOP, LOW)
        wait_until(lambda: any(peer.letters_waiting for peer in a.peers().peers), "an update that waits for c")
        sigterm(servers, 0)
        wait_until(lambda: is_drained_of_updates(a), "the refusal of new updates")
        with pytest.raises(shadowtree.Unavailable, match=r"a\.x is out of reach \(it is being stopped\)"):
            b.join(MIDDLE, TOP)
        with pytest.raises(shadowtree.Unavailable, match=r"the server a\.x is shutting down"):
            b.join(TOP, MIDDLE)
        assert b.describe(TOP).group == TOP
        assert life_of(b, servers.address(0))[0] == "up"
    joining.result()
    assert servers.processes[0].outcome() == (0, "")


def test_a_server_does_not_wait_for_those_who_are_lost(servers, pool):
    b = servers.clients[1]
    with servers.stopped(2):
        joining = pool.submit(b.join, MIDDLE, LOW)
        wait_until(lambda: any(peer.letters_waiting for peer in b.peers().peers), "an update that waits for c")
        servers.kill(2)
        assert servers.processes[1].terminate()[0] == 0
        with pytest.raises((shadowtree.Unavailable, shadowtree.OutcomeUnknown)):
            joining.result()
    assert servers.processes[0].terminate()[0] == 0


def test_updates_under_load_are_each_done_or_refused_when_one_of_three_servers_is_stopped(servers, pool):
    """What was acknowledged is there when the server is back; what was refused as UNAVAILABLE is not."""
    acknowledged, refused, unknown = [], [], []

    def join_until_refused(number):
        client = servers.new_client(number)
        for count in range(100_000):
            member = f"m{number}-{count}@c.x"
            try:
                client.join(TOP, member, "process")
            except shadowtree.Unavailable:
                refused.append(member)
                return
            except shadowtree.OutcomeUnknown:
                unknown.append(member)
                return
            acknowledged.append(member)

    load = [pool.submit(join_until_refused, number) for number in (0, 1)]
    wait_until(lambda: len(acknowledged) > 20, "joins")
    assert servers.processes[2].terminate() == (0, "")
    for each in load:
        each.result()
    assert refused
    assert unknown == []
    servers.start_again(2)
    servers.wait_for_connections()
    wait_until(lambda: not any(client.status().in_doubt for client in servers.clients), "no update under way")
    for client in servers.clients:
        assert sorted(client.resolve(TOP).processes) == sorted(acknowledged)
