"""Name servers as processes that find one another, lose one another, and are told of new ones while they run."""

import grpc
import pytest

from shadowtree.v1 import admin_pb2 as messages
from tests.integration.nameserver.server_process import wait_until


def peers(server):
    return server.admin.ListPeers(messages.ListPeersRequest(), wait_for_ready=True).peers


def states(server):
    return [peer.state for peer in peers(server)]


def wait_for_connections(*servers):
    for server in servers:
        wait_until(lambda server=server: set(states(server)) == {"connected"}, "a connection with every peer")


def test_three_servers_find_one_another_in_whatever_order_they_start(cluster):
    start_one = cluster("a.x", "b.x", "c.x")
    servers = [start_one(subnet) for subnet in ("c.x", "a.x", "b.x")]
    wait_for_connections(*servers)
    assert [(peer.server, list(peer.subnets)) for peer in peers(servers[0])] == [
        (peer.subnets[0], [peer.subnets[0]]) for peer in peers(servers[0])
    ]
    assert all(not peer.faults for server in servers for peer in peers(server))
    assert {peer.state for peer in servers[0].admin.GetStatus(messages.GetStatusRequest()).peers} == {"connected"}


def test_a_server_that_is_killed_is_missed_and_found_again_when_it_is_back(cluster):
    start_one = cluster("a.x", "b.x")
    a, b = start_one("a.x"), start_one("b.x")
    wait_for_connections(a, b)
    b.kill()
    wait_until(lambda: states(a)[0].startswith("silent since "), "the silence of a killed server")
    b = start_one("b.x")
    wait_for_connections(a, b)
    assert [list(peer.faults) for server in (a, b) for peer in peers(server)] == [[], []]


def test_a_server_that_ends_says_goodbye_and_ends_at_once(cluster):
    start_one = cluster("a.x", "b.x")
    a, b = start_one("a.x"), start_one("b.x")
    wait_for_connections(a, b)
    for server in (b, a):
        status, errors = server.terminate()
        assert status == 0
        assert errors == ""
        if server is b:
            wait_until(lambda: states(a)[0].startswith("stopped since "), "the word of a server that ended")


def test_a_peer_that_is_added_while_the_server_runs_is_met_and_remembered(cluster):
    start_one = cluster("a.x", "b.x")
    a, b = start_one("a.x", peers=()), start_one("b.x")
    wait_until(lambda: states(b)[0].startswith("refused: none of the subnets of b.x"), "a refusal")
    added = a.admin.AddPeer(messages.AddPeerRequest(subnet="B.x", address=b.address))
    assert [(list(peer.subnets), peer.address) for peer in added.peers] == [(["b.x"], b.address)]
    wait_for_connections(a, b)
    a.kill()
    a = start_one("a.x", peers=())
    wait_for_connections(a, b)
    assert not a.admin.RemovePeer(messages.RemovePeerRequest(subnet="b.x")).peers
    wait_until(lambda: states(b)[0].startswith("refused: "), "a refusal after the removal")
    a.kill()
    assert not peers(start_one("a.x", peers=()))


@pytest.mark.parametrize(
    ("subnet", "address", "why"),
    [
        ("a.x", "127.0.0.1:1", "one of this server's own subnets"),
        ("b.x", "127.0.0.1:1", "the configuration says that the server of b.x is at"),
        ("c.x", "nowhere", "is not HOST:PORT"),
        ("c.x", "127.0.0.1:0", "does not end in a port from 1 to 65535"),
        ("", "127.0.0.1:1", "no subnet was named"),
        ("c d", "127.0.0.1:1", "invalid name"),
    ],
)
def test_a_peer_that_makes_no_sense_is_refused(lonely, subnet, address, why):
    with pytest.raises(grpc.RpcError) as caught:
        lonely.admin.AddPeer(messages.AddPeerRequest(subnet=subnet, address=address))
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert why in caught.value.details()


@pytest.mark.parametrize(("subnet", "why"), [("b.x", "is in the configuration"), ("z.x", "there is no peer of")])
def test_a_peer_that_is_not_there_to_be_removed_is_refused(lonely, subnet, why):
    with pytest.raises(grpc.RpcError) as caught:
        lonely.admin.RemovePeer(messages.RemovePeerRequest(subnet=subnet))
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert why in caught.value.details()


@pytest.fixture
def lonely(cluster):
    """A server whose peer never answers."""
    return cluster("a.x", "b.x")("a.x")


def test_two_servers_that_claim_one_subnet_refuse_each_other_and_say_so(start, tmp_path):
    a = start(tmp_path / "a.db", subnets=["a.x", "same.x"], log_level="warning")
    b = start(tmp_path / "b.db", subnets=["b.x", "same.x"], peers=[f"a.x={a.address}"], log_level="warning")
    a.admin.AddPeer(messages.AddPeerRequest(subnet="b.x", address=b.address))
    for server in (a, b):
        wait_until(lambda server=server: "claims the subnet same.x" in states(server)[0], "the refusal of a claim")
        assert states(server)[0].startswith("refused: ")
    # The first may have said it before, of a caller that was no peer yet.
    assert a.terminate()[1].count("claims the subnet same.x") in (1, 2)
    assert b.terminate()[1].count("claims the subnet same.x") == 1
