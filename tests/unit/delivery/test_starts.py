"""Message ids hold the start in which a message was accepted. So no id comes twice, and a repetition is recognised."""

from copy import deepcopy

import pytest

from delivery.model.words import MessageContent, Quality, target_set
from delivery.origin.origin import START_CHANCES
from delivery.wire.posts import Parcel, encode
from namegraph import Lane, NodeId, PeerMessage, ServerId
from tests.unit.delivery.servers import Servers

A, B = ServerId("a.x"), ServerId("b.x")
GROUP, BOB = NodeId("g@a.x"), NodeId("bob@b.x")


@pytest.fixture
def servers():
    found = Servers(A, B)
    found.create(GROUP)
    found.join(GROUP, BOB)
    found.open(BOB)
    return found


def accepted(servers, **more):
    return servers.send(GROUP, **more)[0].message_id


def serials_at_b(servers):
    return [(parcel.start, parcel.first_serial) for parcel in servers.parcels_of(BOB)]


def test_an_older_copy_of_a_database_repeats_no_id(servers):
    accepted(servers)
    copy = deepcopy(servers.disks[A])
    given = [accepted(servers) for _ in range(3)]
    servers.disks[A] = copy
    servers.start(A)
    given += [accepted(servers, run=False) for _ in range(3)]
    assert [name.partition("@")[0] for name in given] == ["2", "3", "4"] * 2
    assert len(set(given)) == 6


def test_what_was_accepted_before_a_restart_is_answered_by_its_id(servers):
    first = accepted(servers, sender="ann", number=1)
    servers.restart(A)
    assert accepted(servers, sender="ann", number=1) == first
    assert accepted(servers, sender="ann", number=2) != first


def test_the_number_of_a_start_rises_though_the_clock_was_set_back(servers):
    accepted(servers)
    origin = servers.servers[A].delivery.origin
    last = origin.start
    assert origin.begin_start(last + 1) == last + 1
    assert last < origin.begin_start(START_CHANCES) <= START_CHANCES
    assert origin.begin_start(0) > last
    assert origin.begin_start(0) != origin.begin_start(1)


def come(servers, *parcels):
    """Parcels of the server a.x come to b.x, as (start, serial)."""
    for start, serial in parcels:
        lane = servers.servers[B].delivery.post
        parcel = Parcel(7, start, serial, target_set([GROUP]), Quality.FIFO, (MessageContent(b"hello"),))
        servers.step(B, PeerMessage(A, lane.handled_through(A) + 1, encode(parcel), Lane.POST))


def test_what_comes_again_of_an_earlier_start_is_not_logged_again(servers):
    come(servers, (1, 1), (1, 2), (2, 3))
    come(servers, (1, 1), (1, 2), (2, 3), (2, 4))
    assert serials_at_b(servers) == [(1, 1), (1, 2), (2, 3), (2, 4)]


def test_what_is_accepted_under_a_serial_of_before_an_origin_went_back_is_logged(servers):
    come(servers, (1, 1), (1, 2), (2, 3), (2, 4))
    come(servers, (1, 1), (3, 2), (3, 3), (3, 2), (3, 4))
    assert serials_at_b(servers) == [(1, 1), (1, 2), (2, 3), (2, 4), (3, 2), (3, 3), (3, 4)]


def test_what_follows_is_logged_though_the_clock_was_behind_when_the_origin_went_back(servers):
    come(servers, (9, 1), (9, 2), (3, 2), (3, 3))
    assert serials_at_b(servers) == [(9, 1), (9, 2), (3, 3)]
