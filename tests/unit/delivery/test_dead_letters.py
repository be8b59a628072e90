"""Messages that a removed server missed: listed, replayed to it when it is back, dropped."""

import pytest
from msgspec.structs import replace

from delivery.model.events import DeadLettersDropped, DeadLettersReplayed, DropDeadLetters, ReplayDeadLetters, Settled
from delivery.wire.posts import Confirm, Over, Remembered, decode, encode
from namegraph import Lane, PeerMessage, ServerId
from tests.unit.delivery.servers import Servers

A, B, C = map(ServerId, ("a.x", "b.x", "c.x"))
ANN, BOB, CY = "ann@a.x", "bob@b.x", "cy@c.x"
TOP = "top@a.x"


@pytest.fixture
def servers():
    """A group with a member at each of three servers. The last one is lost, two messages are sent, and it is
    removed.
    """
    found = Servers(A, B, C, is_configured=False)
    found.create(TOP)
    for process in (ANN, BOB, CY):
        found.join(TOP, process)
        found.listen(process)
    found.send(TOP, payload=b"0")
    found.lose(C)
    found.send(TOP, payload=b"1", request_id="first")
    found.send(TOP, "bob@b.x", payload=b"2")
    remove(found)
    return found


def remove(servers):
    for server in (A, B):
        servers.remove(server, C)
    assert not any(servers.servers[server].has_met(C) for server in (A, B))


def back_again(servers):
    """Bring the server and its member back."""
    servers.bring_back(C)
    servers.join(TOP, CY)
    assert servers.log_of(CY) == [b"0"]


def dead(servers):
    return servers.servers[A].delivery.dead_letters.after(0, 100)


def command(servers, kind, numbers=None):
    ticket = servers.ticket()
    servers.step(A, kind(ticket, numbers))
    servers.run()
    return servers.answers[ticket][-1]


def test_what_a_removed_server_did_not_get_is_a_dead_letter(servers):
    first, second = dead(servers)
    assert (first.first_id, first.messages, first.addressed, first.servers) == ("2@top@a.x#1", 1, TOP, (C,))
    assert (second.first_id, second.replayed_to) == ("1@top@a.x+2#1", ())
    assert first.number < second.number
    servers.restart(A)
    assert dead(servers) == [first, second]


def test_who_lacks_a_dead_letter_remembers_who_got_it_until_that_is_dropped(servers):
    def over(event):
        posts = [decode(letter.encoded) for letter in servers.step(A, event).messages if letter.receiver == C]
        return [post for post in posts if isinstance(post, Over)]

    back_again(servers)
    number = servers.servers[A].posts.handled_through(C) + 1
    asked = PeerMessage(C, number, encode(Remembered(1, 1, (1, 2))), Lane.POST)
    assert over(asked) == [Over(1, 1, 1)]
    late = Confirm(1, 1, 1, 0, (), is_remembered=True)
    assert over(PeerMessage(C, number + 1, encode(late), Lane.POST)) == [Over(1, 1, 1)]
    lacking = replace(late, first_serial=2, has_left_out=True)
    assert over(PeerMessage(C, number + 2, encode(lacking), Lane.POST)) == []
    assert over(DropDeadLetters(servers.ticket(), None)) == [Over(1, 1, 2)]


def test_what_it_had_got_is_none_and_neither_is_what_nobody_sent_it(servers):
    before = dead(servers)
    servers.send(TOP, payload=b"3")
    assert dead(servers) == before


def test_who_asks_again_for_a_message_is_told_who_does_not_get_it(servers):
    (accepted, settled) = servers.send(TOP, payload=b"1", request_id="first")
    assert isinstance(settled, Settled) and accepted.is_repeated
    assert settled.unreachable == (C,)
    command(servers, DropDeadLetters)
    assert servers.send(TOP, payload=b"1", request_id="first")[-1].unreachable == ()


def test_they_are_left_while_the_server_is_not_there(servers):
    assert command(servers, ReplayDeadLetters) == DeadLettersReplayed(servers._ticket, 0, 2)
    assert len(dead(servers)) == 2


def test_replayed_they_come_late_with_their_ids_to_those_alone_who_lack_them(servers):
    back_again(servers)
    servers.send(TOP, payload=b"3")
    answer = command(servers, ReplayDeadLetters)
    assert (answer.replayed, answer.left) == (2, 0)
    assert dead(servers) == []
    assert servers.log_of(CY) == [b"0", b"3", b"1", b"2"]
    assert servers.log_of(ANN) == [b"0", b"1", b"2", b"3"]
    assert servers.log_of(BOB) == [b"0", b"1", b"2", b"3"]
    assert [parcel.message_id(0) for parcel in servers.parcels_of(CY)[-2:]] == ["2@top@a.x#1", "1@top@a.x+2#1"]
    assert [parcel.round > 0 for parcel in servers.parcels_of(CY)] == [False, False, True, True]
    # The sequence goes on behind what came last of it.
    servers.send(TOP, payload=b"4")
    assert servers.log_of(CY)[-1] == b"4"


def test_one_that_is_chosen_is_replayed_and_the_others_stay(servers):
    back_again(servers)
    first, second = dead(servers)
    assert command(servers, ReplayDeadLetters, (second.number, 10**6)).replayed == 1
    assert servers.log_of(CY) == [b"0", b"2"]
    assert dead(servers) == [first]


def test_one_that_is_under_way_is_not_posted_twice(servers):
    back_again(servers)
    servers.held.add((A, C))
    assert command(servers, ReplayDeadLetters).replayed == 2
    assert [letter.replayed_to for letter in dead(servers)] == [(C,), (C,)]
    assert command(servers, ReplayDeadLetters) == DeadLettersReplayed(servers._ticket, 0, 0)
    servers.held.clear()
    servers.run()
    assert servers.log_of(CY) == [b"0", b"1", b"2"]
    assert dead(servers) == []


def test_one_that_was_under_way_when_the_server_was_removed_again_is_dead_again(servers):
    back_again(servers)
    servers.held.add((A, C))
    command(servers, ReplayDeadLetters)
    servers.lose(C)
    remove(servers)
    assert [(letter.servers, letter.replayed_to) for letter in dead(servers)] == [((C,), ())] * 2
    back_again(servers)
    assert command(servers, ReplayDeadLetters).replayed == 2
    assert servers.log_of(CY) == [b"0", b"1", b"2"]


def test_one_that_was_asked_for_when_the_server_was_removed_again_is_dead_again(servers):
    back_again(servers)
    servers.held.add((C, A))
    command(servers, ReplayDeadLetters)
    assert C not in servers.servers[A].delivery.post.receivers()
    servers.lose(C)
    remove(servers)
    assert [(letter.servers, letter.replayed_to) for letter in dead(servers)] == [((C,), ())] * 2
    back_again(servers)
    assert command(servers, ReplayDeadLetters).replayed == 2
    assert servers.log_of(CY) == [b"0", b"1", b"2"]
    assert dead(servers) == []


def test_a_server_that_had_them_and_was_not_heard_ends_them_when_it_is_back():
    servers = Servers(A, B, C, is_configured=False)
    servers.create(TOP)
    servers.join(TOP, CY)
    servers.listen(CY)
    servers.held.add((C, A))
    servers.send(TOP, payload=b"1")
    assert servers.log_of(CY) == [b"1"]
    servers.lose(C)
    remove(servers)
    assert len(dead(servers)) == 1
    servers.bring_back(C)
    assert dead(servers) == []
    assert command(servers, ReplayDeadLetters).replayed == 0
    assert servers.log_of(CY) == [b"1"]


def test_dropped_they_are_gone(servers):
    first, second = dead(servers)
    assert command(servers, DropDeadLetters, (first.number, 10**6)) == DeadLettersDropped(servers._ticket, 1)
    assert dead(servers) == [second]
    assert command(servers, DropDeadLetters).dropped == 1
    core = servers.servers[A].delivery
    assert (dead(servers), core.dead_letters.size) == ([], 0)
    servers.restart(A)
    assert dead(servers) == []


def test_beyond_the_limit_the_oldest_go_and_are_counted(servers):
    letters = servers.servers[A].delivery.dead_letters
    letters.limit_bytes = letters.size + 1
    servers.bring_back(C)
    servers.join(TOP, CY)
    servers.lose(C)
    servers.send(TOP, payload=b"3")
    second = dead(servers)[1]
    remove(servers)
    assert dead(servers)[0] == second
    assert letters.messages_lost == 1
    servers.restart(A)
    assert servers.servers[A].delivery.dead_letters.messages_lost == 1


def test_what_is_under_way_at_once_is_bounded(servers):
    back_again(servers)
    servers.servers[A].delivery.dead_letters.replay_limit_bytes = 1
    assert command(servers, ReplayDeadLetters) == DeadLettersReplayed(servers._ticket, 1, 1)
    assert command(servers, ReplayDeadLetters) == DeadLettersReplayed(servers._ticket, 1, 0)
    assert servers.log_of(CY) == [b"0", b"1", b"2"]
