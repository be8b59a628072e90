"""Ephemeral subscriptions: they have a number in audiences while they last, and leave nothing behind."""

import pytest
from pyroaring import BitMap

from delivery.mailboxes.mailboxes import ReaderPlaces
from delivery.model.events import Acknowledge, Start, StopListening, Subscribed
from delivery.model.words import Position
from namegraph import Reason, ServerId
from tests.unit.delivery.servers import Servers

A, B = map(ServerId, ("a.x", "b.x"))
ANN, BOB = "ann@a.x", "bob@b.x"


@pytest.fixture
def servers():
    """Staff, at the first server, contains Ann of the first and Bob of the second server. No process has a mailbox."""
    found = Servers("a.x", "b.x")
    found.create("staff@a.x")
    found.join("staff@a.x", ANN)
    found.join("staff@a.x", BOB)
    return found


def rows(servers, server=B):
    return {
        part: dict(each)
        for part, each in servers.servers[server].durable.maps.items()
        if part in ("mailbox", "cursor") and len(each)
    }


def audiences(servers, server=B):
    """Return the audiences of the entries of a log, in order."""
    core, log = servers.servers[server].delivery, servers.disks[server].log
    return [core.audiences.bitmap(log[position].audience) for position in sorted(log)]


def test_one_is_in_audiences_while_it_lasts_and_no_row_says_so(servers):
    assert servers.send("staff@a.x")[-1].mailboxes == 0
    begun = servers.listen(BOB, is_ephemeral=True)
    assert isinstance(begun, Subscribed)
    assert servers.send("staff@a.x")[-1].mailboxes == 1
    assert rows(servers) == {}
    servers.step(B, StopListening(begun.ticket))
    assert servers.send("staff@a.x")[-1].mailboxes == 0
    assert audiences(servers) == [BitMap([begun.mailbox])]


def test_all_of_one_process_have_one_number_and_it_is_not_given_again(servers):
    first, second = (servers.listen(BOB, is_ephemeral=True) for _ in range(2))
    assert first.mailbox == second.mailbox
    servers.step(B, StopListening(first.ticket))
    assert servers.send("staff@a.x")[-1].mailboxes == 1
    servers.step(B, StopListening(second.ticket))
    servers.step(B, StopListening(second.ticket))
    assert servers.listen(BOB, is_ephemeral=True).mailbox > first.mailbox
    assert servers.listen(BOB).mailbox > first.mailbox


def test_a_mailbox_beside_it_is_another_reader(servers):
    begun, mailbox = servers.listen(BOB, is_ephemeral=True), servers.listen(BOB)
    servers.send("staff@a.x")
    assert audiences(servers) == [BitMap([begun.mailbox, mailbox.mailbox])]
    servers.step(B, StopListening(begun.ticket))
    servers.send("staff@a.x")
    assert audiences(servers)[-1] == BitMap([mailbox.mailbox])


def test_it_begins_now_and_a_restart_ends_it(servers):
    servers.listen(BOB)
    servers.send("staff@a.x")
    begun = servers.listen(BOB, is_ephemeral=True)
    assert begun.cursor == Position.before(2)
    servers.restart(B)
    servers.send("staff@a.x")
    assert begun.mailbox not in audiences(servers)[-1]
    core = servers.servers[B].delivery
    servers.step(B, StopListening(begun.ticket))
    assert (len(core.listeners), core.listeners.numbers, core.listeners.needed_from()) == (0, {}, None)


def test_what_it_was_not_handed_yet_is_kept_while_it_listens_and_no_longer(servers):
    log = servers.servers[B].delivery.log
    log.cut_at_least = 1
    slow, fast = (servers.listen(BOB, is_ephemeral=True) for _ in range(2))
    for _ in range(4):
        servers.send("staff@a.x")
    servers.step(B, Acknowledge(fast.mailbox, "", fast.epoch, Position(4, 0)))
    assert log.cut == 0
    servers.step(B, Acknowledge(slow.mailbox, "", slow.epoch, Position(2, 0)))
    servers.step(B, Acknowledge(slow.mailbox, "", slow.epoch, Position(1, 0)))
    assert log.cut == 1
    servers.step(B, StopListening(slow.ticket))
    assert log.cut == 3
    servers.step(B, StopListening(fast.ticket))
    assert log.cut == 4


def test_an_acknowledgement_of_a_mailbox_moves_no_ephemeral_one_of_the_same_number(servers):
    """The epochs of mailboxes, and the tickets of ephemeral ones, are counted apart."""
    mailbox = servers.listen(BOB)
    begun = servers.listen(BOB, is_ephemeral=True)
    servers.send("staff@a.x")
    servers.step(B, Acknowledge(mailbox.mailbox, "", begun.epoch, Position(1, 0)))
    assert servers.servers[B].delivery.listeners.needed_from() == 1
    assert servers.servers[B].delivery.mailboxes.needed_from() == 1


@pytest.mark.parametrize(
    ("process", "wrong", "reason"),
    [
        (BOB, {"subscription": "desk"}, Reason.INVALID_REQUEST),
        (BOB, {"start": Position(0, 0)}, Reason.INVALID_REQUEST),
    ],
)
def test_what_makes_no_sense_is_refused_and_nothing_begins(servers, process, wrong, reason):
    assert servers.listen(process, is_ephemeral=True, **wrong).refusal.reason is reason
    assert len(servers.servers[A].delivery.listeners) == len(servers.servers[B].delivery.listeners) == 0


def test_from_the_start_means_from_now(servers):
    assert servers.listen(BOB, is_ephemeral=True, start=Start.START).cursor == Position.before(1)


def test_places_know_the_first_of_them():
    places = ReaderPlaces()
    assert places.smallest() is None
    for entry in (5, 3, 3, 9):
        places.add(entry)
    places.remove(3)
    assert places.smallest() == 3
    places.remove(3)
    places.remove(5)
    assert places.smallest() == 9
