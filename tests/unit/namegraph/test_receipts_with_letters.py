"""A receipt that comes with a letter: one step does what two steps would do."""

from dataclasses import replace

import pytest

from namegraph import JoinArc, NodeId, PeerFault, PeerMessage, PeerReceived, ServerId
from tests.unit.delivery.servers import Servers

A, B = map(ServerId, ("a.x", "b.x"))


def servers_of_two():
    servers = Servers(A, B)
    servers.create("parent@a.x", "child@b.x")
    return servers


def played(servers, *, together):
    """Carry out a join over both servers; returns rows and letters of all steps, two steps joined where one is."""
    ticket, found = servers.ticket(), []

    def step(server, *events):
        effects = [servers.step(server, event) for event in events]
        rows = [row for each in effects for row in each.records.protocol]
        letters = [letter for each in effects for letter in each.messages]
        found.append((server, sorted(rows), letters, [reply for each in effects for reply in each.replies]))

    step(A, servers.update_command(ticket, JoinArc(NodeId("parent@a.x"), NodeId("child@b.x"))))
    while servers.under_way:
        sender, receiver, letter = servers.under_way.popleft()
        message = PeerMessage(sender, letter.number, letter.encoded, letter.lane)
        through = servers.servers[sender].channels.handled_through(receiver)
        if together:
            step(receiver, replace(message, received=through))
        else:
            step(receiver, PeerReceived(sender, through), message)
    return found


def test_one_step_does_what_two_would_do():
    one, two = (played(servers_of_two(), together=together) for together in (True, False))
    assert one == two
    assert len(one) > 4, "a join over two servers takes several letters"


def test_a_receipt_of_what_was_not_sent_is_counted_and_the_letter_is_taken():
    servers = servers_of_two()
    core, letter = servers.servers[A], servers.servers[B].channels.sent_through(A) + 1
    servers.step(A, PeerMessage(B, letter, b"no message", received=core.channels.sent_through(B) + 1))
    assert core.channels.faults[B, PeerFault.UNEARNED_RECEIPT] == 1
    assert core.channels.handled_through(B) == letter


@pytest.mark.parametrize("received", [0, 1])
def test_a_letter_that_comes_again_forgets_what_it_says_was_received(received):
    servers = servers_of_two()
    core = servers.servers[A]
    before = core.channels.forgotten_through(B)
    servers.receipts_of.clear()
    servers.join("parent@a.x", "child@b.x")
    sent = core.channels.sent_through(B)
    assert core.channels.forgotten_through(B) == before < sent
    servers.step(A, PeerMessage(B, 1, b"again", received=received and sent))
    assert core.channels.forgotten_through(B) == (sent if received else before)
