"""A message comes to who is below all the time, though the way there moves while the message is under way."""

import pytest

from delivery.arrival.recent_downstream import RecentDownstream
from delivery.model.events import Settled
from delivery.wire.posts import Stub, decode
from namegraph import Lane, PeerMessage, ServerId
from tests.unit.delivery.servers import Servers

A, B, C, D = map(ServerId, ("a.x", "b.x", "c.x", "d.x"))
TOP, HALL, INN, KEY = "g@a.x", "h@b.x", "i@c.x", "k@d.x"
MAX = "max@d.x"


@pytest.fixture
def servers():
    """g@a > h@b > i@c > k@d > max@d"""
    found = Servers(A, B, C, D)
    found.create(TOP, HALL, INN, KEY)
    for parent, child in ((TOP, HALL), (HALL, INN), (INN, KEY), (KEY, MAX)):
        found.join(parent, child)
    found.listen(MAX)
    return found


def send_while_it_comes_to_all_but(servers, server, payload):
    """Returns the answers so far; they grow."""
    servers.held_posts.add((A, server))
    return servers.send(TOP, payload=payload)


def let_it_come(servers):
    servers.held_posts.clear()
    servers.run()


def move_the_way(servers):
    """Move the way from c to b, which has confirmed the message."""
    servers.join(HALL, KEY)
    servers.leave(HALL, INN)


def test_the_way_moves_to_a_server_that_has_confirmed(servers):
    answers = send_while_it_comes_to_all_but(servers, C, b"it")
    move_the_way(servers)
    assert not any(isinstance(answer, Settled) for answer in answers)
    let_it_come(servers)
    assert servers.log_of(MAX) == [b"it"]
    assert (answers[-1].mailboxes, answers[-1].servers) == (1, 1)


def test_the_same_while_the_server_that_it_leaves_starts_again(servers):
    answers = send_while_it_comes_to_all_but(servers, C, b"it")
    move_the_way(servers)
    servers.restart(C)
    let_it_come(servers)
    assert servers.log_of(MAX) == [b"it"]
    assert isinstance(answers[-1], Settled)


def test_the_same_where_the_last_arc_of_the_way_goes_and_several_parcels_wait(servers):
    send_while_it_comes_to_all_but(servers, C, b"first")
    servers.send(TOP, payload=b"second")
    servers.join(HALL, KEY)
    servers.leave(INN, KEY)
    servers.send(TOP, payload=b"third")
    let_it_come(servers)
    assert servers.log_of(MAX) == [b"first", b"second", b"third"]


def test_without_what_was_lost_it_is_settled_and_has_not_come(servers, monkeypatch):
    monkeypatch.setattr(RecentDownstream, "since", lambda _ways, _count: [])
    answers = send_while_it_comes_to_all_but(servers, C, b"it")
    move_the_way(servers)
    let_it_come(servers)
    assert (servers.log_of(MAX), answers[-1].mailboxes) == ([], 0)


def test_who_is_named_in_vain_is_posted_a_stub_alone_and_once(servers):
    servers.leave(INN, KEY)
    seen, step = [], servers.step

    def watched(server, event):
        if server == D and isinstance(event, PeerMessage) and event.lane is Lane.POST:
            seen.append(decode(event.encoded))
        return step(server, event)

    servers.step = watched
    for payload in (b"first", b"second"):
        assert isinstance(servers.send(TOP, payload=payload)[-1], Settled)
    assert [type(post) for post in seen] == [Stub]


def test_a_member_that_leaves_its_own_server_s_group_is_no_way(servers):
    lost = servers.servers[D].delivery.lost_ways
    before = lost.count
    servers.leave(KEY, MAX)
    assert lost.count == before
    servers.leave(INN, KEY)
    assert lost.count > before


def test_a_way_that_is_lost_again_is_named_again():
    ways = RecentDownstream()
    ways.note([B, C])
    told = ways.count
    assert sorted(ways.since(0)) == [B, C] and not ways.since(told)
    ways.note([C])
    ways.note([])
    assert ways.since(told) == [C] and ways.count == told + 1
