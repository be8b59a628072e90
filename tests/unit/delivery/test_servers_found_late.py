"""A server that is found while very much is not settled is posted all of it, in order, by slices of many steps."""

from copy import deepcopy

import pytest

from delivery.model.events import Settled
from delivery.origin import parcel_posting
from namegraph import Lane, PeerLetter, PeerMessage, PeerMet, PeerRestored, ServerId, Subnet
from tests.unit.delivery.servers import Servers

A, B, C, D = map(ServerId, ("a.x", "b.x", "c.x", "d.x"))
ALL, BELOW, OTHER = "all@a.x", "below@b.x", "other@a.x"
SLICE, WAITING = 10, 95


@pytest.fixture
def servers(monkeypatch):
    """A group with members at two servers. One of them is in a group of its server, which a third server may join."""
    monkeypatch.setattr(parcel_posting, "POSTED_AT_ONCE", SLICE)
    found = Servers(A, B, C, D, is_configured=False)
    found.create(ALL, BELOW, OTHER)
    for group, member in ((ALL, "dan@d.x"), (ALL, BELOW), (BELOW, "bob@b.x"), (OTHER, "bob@b.x")):
        found.join(group, member)
    for process in ("dan@d.x", "bob@b.x", "cy@c.x"):
        found.listen(process)
    return found


def payloads(number):
    return [b"%d" % each for each in range(number)]


@pytest.fixture
def posts(servers):
    """Return the posts of each step of the origin, as receivers in order."""
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
    assert servers.servers[A].delivery.origin.parcels.unsettled == []


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
    assert servers.servers[A].delivery.origin.parcels.states[1].stubs == {C}
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
    core = servers.servers[A]
    effects = core.step(PeerMessage(B, confirm.number, confirm.encoded, Lane.POST), servers.now)
    servers.disks[A].write(effects.records)
    assert sum(C in row.posted for row in core.delivery.origin.parcels.rows.values()) == SLICE
    servers.restart(A)
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


def restore(servers, number):
    """Let the third server lose all messages that it had, as from an old backup; returns when the origin knows it."""
    for lost in (servers.under_way, servers.waiting):
        left = [each for each in lost if C not in each[:2]]
        lost.clear()
        lost.extend(left)
    servers.start(C)
    servers.meet(C)
    for one, two in ((A, C), (C, A)):
        servers.step(one, PeerRestored(two, number))
    servers.step(A, PeerMet(C, (Subnet(C),)))
    servers.step(C, PeerMet(A, (Subnet(A),)))


@pytest.fixture
def confirmed(servers):
    """A long backlog, confirmed by the third server except for the last parcels, with its disk of before."""
    servers.join(ALL, "cy@c.x")
    disk = deepcopy(servers.disks[C])
    leave_unsettled(servers)
    assert servers.log_of("cy@c.x") == payloads(WAITING)
    servers.disks[C] = disk
    return servers


def of(servers):
    """Return the origin's state of its messages."""
    return servers.servers[A].delivery.origin


def test_a_server_whose_lane_begins_anew_is_posted_again_in_slices_and_in_order(confirmed, posts):
    restore(confirmed, 1)
    assert largest(posts, C) == SLICE
    # What is accepted meanwhile comes behind all of it.
    confirmed.send(ALL, payload=b"new", run=False)
    assert of(confirmed).posting.posts_again
    confirmed.run()
    assert not of(confirmed).posting.posts_again
    assert largest(posts, C) <= SLICE + 1
    assert confirmed.log_of("cy@c.x") == [*payloads(WAITING), b"new"]
    settle(confirmed)


def test_what_is_posted_again_is_not_settled_before_and_goes_on_after_a_crash(confirmed):
    restore(confirmed, 1)
    confirmed.held_posts = set()
    assert len(of(confirmed).parcels.unsettled) == WAITING
    confirmed.start(A)
    assert of(confirmed).posting.posts_again
    confirmed.restart(A)
    settle(confirmed)
    assert confirmed.log_of("cy@c.x") == payloads(WAITING)
    assert not of(confirmed).posting.posts_again


def test_a_server_that_is_removed_while_it_is_posted_again_holds_up_nothing(confirmed):
    restore(confirmed, 1)
    confirmed.lose(C)
    confirmed.remove(A, C)
    settle(confirmed)
    assert not confirmed.servers[A].delivery.origin.posting.posts_again
