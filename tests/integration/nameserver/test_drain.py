"""`Drain` ends a server as SIGTERM does, and answers when nothing is under way any more."""

import json

import pytest

import shadowtree
from tests.integration.nameserver.server_process import wait_until
from tests.integration.nameserver.warm_process import run_command

TOP, LOW = "top@a.x", "low@b.x"


def life_of_the_peer(client):
    (peer,) = client.peers().peers
    return peer.life


def drain_by_command(address, *options):
    return run_command("drain", "--server", address, *options)


def test_a_server_that_is_drained_ends_and_its_peers_wait_for_it(start_several):
    servers = start_several([["a.x"], ["b.x"]], restart_grace_seconds=30)
    a, b = servers.clients
    a.create_group(TOP)
    a.create_group(LOW)
    assert b.drain()
    assert servers.processes[1].outcome() == (0, "")
    assert life_of_the_peer(a) == "restarting"
    servers.start_again(1)
    a.join(TOP, LOW)
    assert life_of_the_peer(a) == "up"


def test_a_server_that_is_drained_for_good_is_missed_at_once(start_several):
    servers = start_several([["a.x"], ["b.x"]], restart_grace_seconds=30)
    done = drain_by_command(servers.address(1), "--gone", "--format", "json")
    assert (done.returncode, json.loads(done.stdout)) == (0, {"is_finished": True})
    assert servers.processes[1].outcome() == (0, "")
    wait_until(lambda: life_of_the_peer(servers.clients[0]) == "stopped", "the word of a server that ended")


def test_an_update_that_cannot_be_finished_in_time_is_told(start_several):
    servers = start_several([["a.x"], ["b.x"]], drain_seconds=1)
    a, _ = servers.clients
    a.create_group(TOP)
    a.create_group(LOW)
    with servers.stopped(1):
        with pytest.raises(shadowtree.DeadlineExceeded):
            a.join(TOP, LOW, timeout=1)
        done = drain_by_command(servers.address(0))
        assert (done.returncode, done.stdout) == (3, "is_finished\tfalse\n")


@pytest.mark.parametrize("seconds", [-1, 61, float("nan")])
def test_a_grace_that_is_none_is_refused_and_ends_nothing(start_several, seconds):
    servers = start_several([["a.x"]])
    (a,) = servers.clients
    with pytest.raises(shadowtree.InvalidRequest, match="is not between 0 and 60 seconds; nothing was done"):
        a.drain(restart_grace=seconds)
    a.create_group(TOP)
