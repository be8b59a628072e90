"""Messages that wait for a server, or for a reader, longer than they are kept: given up, and counted."""

import pytest

from delivery.log.log import SEGMENT_SECONDS
from delivery.model.events import Acknowledge, ReplayDeadLetters, Settled
from delivery.model.uptime import LONGEST_PAUSE_SECONDS
from delivery.model.words import Position
from delivery.origin.dead_letters import DeadReason, LossReason
from namegraph import NodeId, RemovePeer, RetirePeer, ServerId, Subnet, Tick
from tests.unit.delivery.servers import Servers

A, B = map(ServerId, ("a.x", "b.x"))
ANN, BOB, TOP = "ann@a.x", "bob@b.x", "top@a.x"
HOUR = 3_600.0


@pytest.fixture
def servers():
    """A group with a member at each of two servers, which keep everything for an hour."""
    found = Servers(A, B)
    found.create(TOP)
    for process in (ANN, BOB):
        found.join(TOP, process)
        found.listen(process)
    for server in (A, B):
        keep_for_an_hour(found, server)
    return found


def keep_for_an_hour(servers, server):
    core = servers.servers[server].delivery
    core.log.limit_seconds = core.giving_up.limit_seconds = HOUR


def pass_time(servers, seconds, *, at=(A, B)):
    """Let servers run so long."""
    ends = servers.now + seconds
    while servers.now < ends:
        servers.now = min(ends, servers.now + LONGEST_PAUSE_SECONDS)
        for server in at:
            servers.step(server, Tick())
    servers.run()


def undelivered(servers, server=A):
    return {
        found.reason: (found.messages, found.dead_letters)
        for found in servers.servers[server].delivery.dead_letters.undelivered()
        if found.messages
    }


def dead(servers):
    return servers.servers[A].delivery.dead_letters.after(0, 100)


def test_what_waits_too_long_for_a_server_settles_and_is_a_dead_letter(servers):
    servers.lose(B)
    answers = servers.send(TOP, payload=b"1")
    pass_time(servers, HOUR - 1, at=[A])
    assert (len(answers), undelivered(servers)) == (1, {})
    pass_time(servers, 2, at=[A])
    assert isinstance(answers[-1], Settled)
    assert (answers[-1].mailboxes, answers[-1].unreachable) == (1, (B,))
    assert undelivered(servers) == {DeadReason.EXPIRED: (1, 1)}
    (letter,) = dead(servers)
    assert (letter.first_id, letter.servers, letter.reason) == ("1@top@a.x#1", (B,), DeadReason.EXPIRED)
    core = servers.servers[A].delivery
    assert (core.origin.parcels.unsettled, core.origin.parcels.backlog_bytes, core.post.parcels) == ([], 0, {})


def test_a_server_that_is_back_gets_what_did_not_expire_and_the_rest_when_it_is_replayed(servers):
    servers.lose(B)
    servers.send(TOP, payload=b"1")
    pass_time(servers, HOUR - 1, at=[A])
    servers.send(TOP, payload=b"2")
    pass_time(servers, 2, at=[A])
    servers.bring_back(B)
    assert servers.log_of(BOB) == [b"2"]
    ticket = servers.ticket()
    servers.step(A, ReplayDeadLetters(ticket, None))
    servers.run()
    assert servers.answers[ticket][-1].replayed == 1
    assert servers.log_of(BOB) == [b"2", b"1"]
    assert [parcel.round > 0 for parcel in servers.parcels_of(BOB)] == [False, True]
    assert servers.log_of(ANN) == [b"1", b"2"]
    assert (dead(servers), undelivered(servers)) == ([], {})


def test_one_that_had_it_and_was_not_heard_ends_the_dead_letter(servers):
    servers.held.add((B, A))
    servers.send(TOP, payload=b"1")
    pass_time(servers, HOUR + 1, at=[A])
    assert len(dead(servers)) == 1
    servers.held.clear()
    servers.run()
    assert (dead(servers), servers.log_of(BOB)) == ([], [b"1"])


def test_age_goes_on_over_restarts_and_a_clock_that_leaps_makes_nothing_old(servers):
    servers.lose(B)
    servers.send(TOP, payload=b"1")
    pass_time(servers, HOUR / 2, at=[A])
    servers.now = -1_000.0  # The machine starts again, and with it the clock of steps.
    servers.start(A)
    keep_for_an_hour(servers, A)
    servers.step(A, Tick())
    pass_time(servers, HOUR / 2 - LONGEST_PAUSE_SECONDS, at=[A])
    assert undelivered(servers) == {}
    servers.now += 1_000 * HOUR
    servers.step(A, Tick())
    servers.now -= 2_000 * HOUR
    servers.step(A, Tick())
    assert undelivered(servers) == {}
    pass_time(servers, 1, at=[A])
    assert undelivered(servers) == {DeadReason.EXPIRED: (1, 1)}


def acknowledge(servers, process, position):
    subscribed = servers.listen(process)
    server = ServerId(process.partition("@")[2])
    servers.step(server, Acknowledge(subscribed.mailbox, "", subscribed.epoch, position))


def test_what_is_kept_too_long_for_a_reader_goes_and_counts_for_each_mailbox(servers):
    servers.join(TOP, "amy@a.x")
    servers.listen("amy@a.x")
    for payload in (b"1", b"2", b"3"):
        servers.send(TOP, payload=payload)
    last = servers.servers[A].delivery.log.last
    acknowledge(servers, ANN, Position(last, 0))
    pass_time(servers, HOUR + SEGMENT_SECONDS - 1)
    assert undelivered(servers) == {}
    pass_time(servers, 1)
    # Ann had read it all, and Amy nothing.
    assert undelivered(servers) == {LossReason.KEPT_TOO_LONG: (3, 0)}
    assert undelivered(servers, B) == {LossReason.KEPT_TOO_LONG: (3, 0)}
    assert servers.servers[A].delivery.log.cut == last
    servers.start(A)
    assert undelivered(servers) == {LossReason.KEPT_TOO_LONG: (3, 0)}


def test_a_log_that_is_too_large_loses_whole_segments_and_what_they_had_for_whom(servers):
    servers.send(TOP, payload=b"1")
    pass_time(servers, SEGMENT_SECONDS)
    servers.servers[A].delivery.log.limit_bytes = 1
    servers.send(TOP, payload=b"2")
    servers.run()
    assert undelivered(servers) == {LossReason.OVERRUN: (1, 0)}
    assert servers.log_of(ANN) == [b"2"]


def test_nothing_that_was_read_or_was_for_nobody_is_lost(servers):
    servers.step(A, Tick())
    servers.send(TOP, payload=b"1", excluding=[TOP])
    servers.send(TOP, payload=b"2")
    acknowledge(servers, ANN, servers.servers[A].delivery.log.end())
    acknowledge(servers, BOB, servers.servers[B].delivery.log.end())
    pass_time(servers, 3 * HOUR)
    assert undelivered(servers) == undelivered(servers, B) == {}


def test_what_waits_for_a_removed_server_is_given_up_in_slices_also_over_a_restart():
    servers = Servers(A, B, is_configured=False)
    servers.create(TOP)
    servers.join(TOP, BOB)
    servers.lose(B)
    waiting = [servers.send(TOP, payload=b"%d" % number) for number in range(5)]
    core = servers.servers[A].delivery
    core.giving_up.slice_parcels = 2
    servers.held = {(A, B), (B, A)}
    remove_without_running_on(servers)
    assert (len(dead(servers)), core.has_more, servers.servers[A].next_deadline) == (2, True, servers.now)
    servers.step(A, Tick())
    assert [len(answers) for answers in waiting] == [2, 2, 2, 2, 1]
    servers.start(A)
    core = servers.servers[A].delivery
    servers.step(A, Tick())
    servers.run()
    assert (len(dead(servers)), core.has_more, core.origin.parcels.unsettled) == (5, False, [])
    assert undelivered(servers) == {DeadReason.SERVER_REMOVED: (5, 5)}
    assert [letter for letter in core.post.kept(B) if b"parcel" in letter.encoded] == []


def remove_without_running_on(servers):
    for kind in (RetirePeer, RemovePeer):
        servers.step(A, kind(servers.ticket(), Subnet(B)))


def test_a_server_that_is_added_again_meanwhile_gets_the_rest():
    servers = Servers(A, B, is_configured=False)
    servers.create(TOP)
    servers.join(TOP, BOB)
    servers.listen(BOB)
    servers.lose(B)
    for number in range(4):
        servers.send(TOP, payload=b"%d" % number)
    servers.servers[A].delivery.giving_up.slice_parcels = 2
    remove_without_running_on(servers)
    servers.bring_back(B)
    servers.join(TOP, BOB)
    assert NodeId(BOB) in servers.servers[B].delivery.mailboxes.numbers
    assert [letter.first_id for letter in dead(servers)] == ["1@top@a.x#1", "2@top@a.x#1"]
    assert servers.servers[A].delivery.origin.parcels.unsettled == []


def test_what_waits_for_a_server_goes_once_the_log_is_too_large_and_is_a_dead_letter(servers):
    log = servers.servers[A].delivery.log
    log.limit_bytes = 3_000
    servers.held_posts = {(B, A)}
    answers = servers.send(TOP, payload=bytes(1_000))
    # Entries of one segment come within ten minutes.
    pass_time(servers, SEGMENT_SECONDS, at=[A])
    servers.send(TOP, payload=bytes(1_000))
    assert undelivered(servers) == {}
    servers.leave(TOP, BOB)
    for _ in range(5):
        assert isinstance(servers.send(TOP, payload=bytes(1_000))[-1], Settled)
    servers.step(A, Tick())
    assert isinstance(answers[-1], Settled)
    assert answers[-1].unreachable == (B,)
    assert undelivered(servers)[DeadReason.EXPIRED] == (1, 1)
