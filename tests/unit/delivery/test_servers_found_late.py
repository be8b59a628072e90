"""A server that is found while very much is not settled is posted all of it, in order, by slices of many steps."""

import pytest

from delivery.events import Settled
from namegraph import Lane, PeerLetter, PeerMessage, ServerId
from tests.unit.delivery.servers import Servers

A, B, C, D = map(ServerId, ("a.x", "b.x", "c.x", "d.x"))
ALL, BELOW, OTHER = "all@a.x", "below@b.x", "other@a.x"
SLICE, WAITING = 10, 95


@pytest.fixture
def servers():
    """A group with members at two servers, one of them in a group of its server, where a third one may be joined."""
    found = Servers(A, B, C, D)
    found.create(ALL, BELOW, OTHER)
    for group, member in ((ALL, "dan@d.x"), (ALL, BELOW), (BELOW, "bob@b.x"), (OTHER, "bob@b.x")):
        found.join(group, member)
    for process in ("dan@d.x", "bob@b.x", "cy@c.x"):
        found.listen(process)
    found.servers[A].delivery.origin.posted_at_once = SLICE
    return found


def payloads(number):
    return [b"%d" % each for each in range(number)]


@pytest.fixture
def posts(servers):
    """The posts of each step of the origin, as receivers in order."""
    found = []
    step = servers.servers[A].step

    def watched(event, now):
        effects = step(event, now)
        found.append([each.receiver for each in effects.messages if is_post(each)])
        return effects

    servers.servers[A].step = watched
    return found


def is_post(letter):
    return isinstance(letter, PeerLetter) and letter.lane is Lane.POST


def leave_unsettled(servers):
    """Send messages that one of the servers below never confirms."""
    servers.held_posts = {(D, A)}
    for payload in payloads(WAITING):
        servers.send(ALL, payload=payload)


def largest(posts, receiver):
    return max(step.count(receiver) for step in posts)


def settle(servers):
    servers.held_posts = set()
    for _ in range(3):
        servers.run()
    assert servers.servers[A].delivery.origin.unsettled == []


def test_a_server_that_a_confirmation_names_is_posted_a_long_backlog_in_slices(servers, posts):
    leave_unsettled(servers)
    servers.join(BELOW, "cy@c.x")
    servers.send(ALL, payload=b"found")
    servers.run()
    assert servers.log_of("cy@c.x") == [*payloads(WAITING), b"found"]
    assert largest(posts, C) <= SLICE + 1
    settle(servers)


def test_a_server_that_the_own_graph_shows_is_posted_a_long_backlog_in_slices_before_what_is_new(servers, posts):
    leave_unsettled(servers)
    servers.join(ALL, "cy@c.x")
    servers.send(ALL, payload=b"found")
    servers.run()
    assert servers.log_of("cy@c.x") == [*payloads(WAITING), b"found"]
    assert largest(posts, C) <= SLICE + 1
    settle(servers)


def test_a_server_that_wants_what_it_has_stubs_of_is_posted_it_whole_in_slices(servers, posts):
    # It has no mailbox of anybody for a parcel, and says so: from then on it is posted stubs.
    servers.create("empty@c.x")
    servers.join(ALL, "empty@c.x")
    servers.join("empty@c.x", "eve@c.x")
    servers.send(ALL, payload=b"before")
    assert servers.servers[A].delivery.origin._sequences[1].stubs == {C}
    servers.held_posts = {(A, C)}
    for payload in payloads(WAITING):
        servers.send(ALL, payload=payload)
    servers.listen("eve@c.x")
    posts.clear()
    settle(servers)
    assert servers.log_of("eve@c.x") == payloads(WAITING)
    assert largest(posts, C) <= SLICE + 1


def test_what_is_not_caught_up_goes_on_after_a_crash(servers):
    leave_unsettled(servers)
    servers.join(BELOW, "cy@c.x")
    servers.send(ALL, payload=b"found", run=False)
    servers.held_posts |= {(B, A)}
    servers.run()
    servers.held_posts -= {(B, A)}
    (confirm,) = [letter for sender, _, letter in servers.waiting if sender == B]
    # One slice of it is durable, and nothing of it has left.
    core, origin = servers.servers[A], servers.servers[A].delivery.origin
    effects = core.step(PeerMessage(B, confirm.number, confirm.encoded, Lane.POST), servers.now)
    servers.disks[A].write(effects.records)
    assert sum(C in row.posted for row in origin._parcels.values()) == SLICE
    servers.restart(A)
    servers.servers[A].delivery.origin.posted_at_once = SLICE
    servers.run()
    assert servers.log_of("cy@c.x") == [*payloads(WAITING), b"found"]
    settle(servers)


def test_messages_to_others_settle_while_a_server_is_caught_up(servers):
    leave_unsettled(servers)
    servers.join(BELOW, "cy@c.x")
    servers.held_posts |= {(B, A)}
    servers.send(ALL, payload=b"found")
    servers.held_posts -= {(B, A)}
    (confirm,) = [letter for sender, _, letter in servers.waiting if sender == B]
    servers.step(A, PeerMessage(B, confirm.number, confirm.encoded, Lane.POST))
    assert servers.servers[A].delivery.has_more
    assert isinstance(servers.send(OTHER)[-1], Settled)
    servers.run()
    assert servers.log_of("cy@c.x") == [*payloads(WAITING), b"found"]
