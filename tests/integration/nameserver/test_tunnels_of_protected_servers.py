"""Servers with certificates reach each other through a third one, which records all bytes and sees no name."""

import pytest

from tests.fakes.byte_recorder import ByteRecorder
from tests.fakes.tcp_proxy import NetworkInThread, Passage
from tests.federation import Federation
from tests.integration.nameserver.server_process import wait_until

A, B, C = "a.example", "b.example", "c.example"
GROUP, SECRET = f"staff@{B}", f"somebody-with-a-name@{A}"


@pytest.fixture
def parted(tmp_path):
    """Three servers, of which two have met and then lost the link between them."""
    with NetworkInThread() as network, Federation(tmp_path, A, B, C) as federation:
        for name in (A, B, C):
            peers = federation.peers_of(name)
            for other in peers.keys() - {C}:
                if name != C:
                    peers[other]["address"] = network.way(name, other, federation.address(other))
            federation.start(name, peers=peers, announced_address="none")
        wait_until(federation.are_connected, "sessions over mutual TLS")
        network.part(A, B, Passage.CUT)
        yield federation


def via(federation, name, other):
    return next(peer.via for peer in federation.clients[name].peers().peers if other in peer.subnets)


def test_a_server_between_that_records_everything_sees_no_name_of_what_servers_say(parted, monkeypatch):
    recorder = ByteRecorder(monkeypatch)
    wait_until(lambda: via(parted, A, B) == via(parted, B, A) == C, "a session through the third server")
    a, b = parted.clients[A], parted.clients[B]
    b.create_group(GROUP)
    a.join(GROUP, SECRET)
    assert a.resolve(GROUP).processes == b.resolve(GROUP).processes == (SECRET,)
    assert len(recorder.seen) > 10_000
    for name in (GROUP, "staff", SECRET, "somebody-with-a-name", "NameService"):
        assert name.encode() not in recorder.seen
