"""Peers that confirm no message, or confirm more than can be: they are told, and harm messages to themselves alone."""

import pytest

from delivery.origin.servers_below import UNKNOWN_LIMIT
from shadowtree.errors import BacklogFull
from tests.integration.deliveries.changed_server import GHOSTS, LIMIT_BYTES, SILENT, SMALL
from tests.integration.nameserver.server_process import wait_until

ALL, NEAR = "all@a.x", "near@a.x"


def send_on(client):
    for _ in range(100):
        client.send(ALL, bytes(20_000), timeout=1)


def test_a_peer_that_confirms_nothing_is_stuck_and_messages_to_others_go_on(start_several):
    changed = [{"BACKLOGS": SMALL}, {}, {"BACKLOGS": SILENT}]
    servers = start_several([["a.x"], ["b.x"], ["c.x"]], environments=changed)
    client = servers.clients[0]
    for group, members in ((ALL, ("ann@a.x", "bob@b.x", "cy@c.x")), (NEAR, ("ann@a.x", "bob@b.x"))):
        client.create_group(group)
        for member in members:
            client.join(group, member)
            client.open_mailbox(member)
    with pytest.raises(BacklogFull, match=r"the server c\.x has not confirmed") as refused:
        send_on(client)
    assert refused.value.facts["server"] == "c.x"
    assert client.send(NEAR, b"on", wait="settled").state == "settled"

    def stuck():
        (peer,) = [peer for peer in client.peers() if peer.server == "c.x"]
        return peer if peer.stuck_seconds is not None else None

    wait_until(stuck, "a peer that is told as stuck")
    assert stuck().state.startswith("connected, but stuck since 2")
    assert LIMIT_BYTES <= stuck().backlog_bytes < LIMIT_BYTES + 50_000
    assert [peer.stuck_seconds for peer in client.peers() if peer.server == "b.x"] == [None]


def test_a_peer_that_names_very_many_servers_further_below_is_at_fault_and_messages_settle(start_several):
    servers = start_several([["a.x"], ["b.x"]], environments=[{}, {"BACKLOGS": GHOSTS}])
    client = servers.clients[0]
    client.create_group(NEAR)
    client.join(NEAR, "bob@b.x")
    client.open_mailbox("bob@b.x")
    sent = client.send(NEAR, b"on", wait="settled")
    assert (sent.state, sent.mailboxes, len(sent.unreachable)) == ("settled", 1, UNKNOWN_LIMIT)
    (peer,) = client.peers()
    assert [fault.kind for fault in peer.faults] == ["names too many servers below a group"]
