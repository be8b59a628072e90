"""A server that was removed for good: nothing waits for it, and callers that wait for a message are told the truth."""

import pytest

from delivery.model.events import Settled
from namegraph import Lane, Reason, RemovePeer, ServerId, Subnet, at_once
from tests.unit.delivery.servers import Servers

A, B, C = map(ServerId, ("a.x", "b.x", "c.x"))
ANN, BOB, CY, CYD = "ann@a.x", "bob@b.x", "cy@c.x", "cyd@c.x"
TOP, LOW, GONE = "top@a.x", "low@b.x", "gone@c.x"


@pytest.fixture
def servers():
    """One group has members at three servers. One of these servers is also below another server's group."""
    found = Servers(A, B, C, is_configured=False)
    found.create(TOP, LOW, GONE)
    for parent, child in ((TOP, LOW), (TOP, ANN), (TOP, CY), (LOW, BOB), (LOW, GONE), (GONE, CYD)):
        found.join(parent, child)
    for process in (ANN, BOB, CY, CYD):
        found.listen(process)
    return found


def remove_everywhere(servers, *, order=(A, B)):
    for server in (*order, *order):
        if servers.servers[server].has_met(C):
            servers.remove(server, C)
    assert not any(servers.servers[server].has_met(C) for server in order)


def rest(servers):
    """Require that no work is left at the servers that are up."""
    for server in (A, B):
        core = servers.servers[server].delivery
        assert (core.origin.parcels.unsettled, at_once(core.origin.messages.pending()), core.post.parcels) == (
            [],
            {},
            {},
        )
        assert core.origin.parcels.backlog_bytes == 0


def settled(answers):
    assert isinstance(answers[-1], Settled), answers
    return answers[-1]


def test_what_waits_for_a_removed_server_settles_and_says_that_it_did_not_get_it(servers):
    servers.lose(C)
    waiting = [servers.send(TOP, payload=payload) for payload in (b"1", b"2", b"3")]
    assert at_once(servers.servers[A].delivery.origin.messages.pending()) == {C: 3}
    assert [len(answers) for answers in waiting] == [1, 1, 1]
    remove_everywhere(servers)
    for answers in waiting:
        answer = settled(answers)
        assert (answer.mailboxes, answer.servers, answer.unreachable) == (2, 2, (C,))
    rest(servers)
    assert servers.log_of(ANN) == servers.log_of(BOB) == [b"1", b"2", b"3"]
    # Nobody has it below any more.
    after = settled(servers.send(TOP, payload=b"4"))
    assert (after.mailboxes, after.unreachable) == (2, ())
    rest(servers)


def test_a_server_that_had_a_message_before_it_was_lost_is_not_said_to_lack_it(servers):
    servers.held.add((B, A))
    answers = servers.send(TOP)
    assert at_once(servers.servers[A].delivery.origin.messages.pending()) == {B: 1}
    servers.lose(C)
    servers.held.discard((B, A))
    servers.run()
    # It is posted once more, for those who may be behind C.
    assert at_once(servers.servers[A].delivery.origin.messages.pending()) == {C: 1}
    assert len(answers) == 1
    remove_everywhere(servers, order=(B, A))
    assert settled(answers).unreachable == ()
    rest(servers)


def test_one_that_others_still_have_is_told_and_nothing_is_posted_without_end():
    servers = Servers(A, B, C, is_configured=False)
    servers.create(TOP, LOW, GONE)
    for parent, child in ((TOP, LOW), (LOW, BOB), (LOW, GONE), (GONE, ANN)):
        servers.join(parent, child)
    for process in (ANN, BOB):
        servers.listen(process)
    servers.lose(C)
    answers = servers.send(TOP, payload=b"1")
    servers.remove(A, C)
    assert [servers.servers[server].has_met(C) for server in (A, B)] == [False, True]
    assert settled(answers).unreachable == (C,)
    again = settled(servers.send(TOP, payload=b"2"))
    assert (again.mailboxes, again.unreachable) == (1, (C,))
    assert servers.log_of(BOB) == [b"1", b"2"]
    rest(servers)


def test_what_is_kept_of_a_removed_server_survives_a_restart_as_nothing(servers):
    servers.lose(C)
    servers.send(TOP, payload=b"1")
    remove_everywhere(servers)
    servers.restart(A)
    servers.run()
    rest(servers)
    assert settled(servers.send(TOP, payload=b"2")).mailboxes == 2


def test_a_server_that_waits_for_its_own_post_to_be_taken_is_forgotten_with_it(servers):
    servers.join(GONE, BOB)
    servers.held |= {(C, A), (C, B)}
    servers.send(GONE, payload=b"from the dead")
    servers.lose(C)
    remove_everywhere(servers)
    assert servers.servers[B].delivery.arrivals.waiting(C) == 0
    assert servers.log_of(BOB) == []


def test_a_removal_that_is_refused_gives_up_nothing(servers):
    servers.lose(C)
    answers = servers.send(TOP)
    # It is a member of a group here: that is ended first.
    ticket = servers.ticket()
    servers.step(A, RemovePeer(ticket, Subnet(C)))
    servers.run()
    assert servers.answers[ticket][-1].reason is Reason.NAME_IN_USE
    assert at_once(servers.servers[A].delivery.origin.messages.pending()) == {C: 1}
    assert len(answers) == 1


def test_the_numbers_of_a_lane_go_on_for_a_server_that_is_back_after_all(servers):
    servers.lose(C)
    for payload in (b"1", b"2"):
        servers.send(TOP, payload=payload)
    before = servers.lane(A, Lane.POST).sent_through(C)
    remove_everywhere(servers)
    kept = list(servers.lane(A, Lane.POST).kept(C))
    assert [letter.number for letter in kept] == list(range(kept[0].number, before + 1))
    assert not any(payload in letter.encoded for letter in kept for payload in (b"1", b"2"))
