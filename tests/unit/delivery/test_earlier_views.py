"""A server that does not know yet that others went on without it is handed nothing by what it knew before."""

import pytest

from delivery.model.events import Accepted, Settled
from namegraph import NodeId, PeerLost, PeerMet, ServerId, Subnet
from tests.unit.delivery.servers import Servers

A, B = ServerId("a.x"), ServerId("b.x")
CLUB, ROOF, TEAM = NodeId("club@a.x"), NodeId("roof@b.x"), NodeId("team@b.x")
BOB, EVE = NodeId("bob@b.x"), NodeId("eve@b.x")
BOTH_WAYS = {(A, B), (B, A)}


@pytest.fixture
def servers():
    """club@a > team@b > bob@b; roof@b > eve@b. a has lost b, which does not know it, and left the team alone."""
    found = Servers(A, B)
    found.create(CLUB, ROOF, TEAM)
    for parent, child in ((CLUB, TEAM), (TEAM, BOB), (ROOF, EVE)):
        found.join(parent, child)
    found.listen(BOB)
    found.listen(EVE)
    found.held_letters |= BOTH_WAYS
    found.step(A, PeerLost(B, "it cannot write"))
    found.run()
    found.leave(CLUB, TEAM)
    found.copy_of_disk = found.disks[A].copy()
    found.send(CLUB, ROOF, payload=b"it")
    return found


def let_them_meet(servers):
    servers.held_letters.clear()
    servers.step(A, PeerMet(B, (Subnet(B),)))
    servers.run()


def test_who_was_left_meanwhile_gets_nothing_and_all_others_do_once_they_have_met(servers):
    assert servers.log_of(BOB) == servers.log_of(EVE) == []
    let_them_meet(servers)
    assert servers.log_of(BOB) == []
    assert servers.log_of(EVE) == [b"it"]


def test_so_it_is_when_that_server_starts_again_meanwhile(servers):
    servers.held |= BOTH_WAYS
    servers.restart(B)
    servers.held.clear()
    let_them_meet(servers)
    assert (servers.log_of(BOB), servers.log_of(EVE)) == ([], [b"it"])


def test_what_waits_is_forgotten_where_its_sender_has_started_again_on_a_copy_of_before_it_was_sent(servers):
    servers.disks[A] = servers.copy_of_disk
    servers.held |= BOTH_WAYS
    servers.restart(A)
    servers.held.clear()
    answers = servers.send(CLUB, ROOF, payload=b"that")
    let_them_meet(servers)
    assert (servers.log_of(BOB), servers.log_of(EVE)) == ([], [b"that"])
    assert [type(answer) for answer in answers] == [Accepted, Settled]
