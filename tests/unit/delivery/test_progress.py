"""The progress of an accepted message, found by its id alone, however many messages wait."""

import pytest

from delivery.model.words import Kept
from delivery.wire.posts import PARCEL_MESSAGES_LIMIT, kept_of, message_id, read_message_id
from namegraph import SLICE_ITEMS, NodeId, ServerId, at_once
from namegraph.model.target_sets import Target
from tests.unit.delivery.servers import Servers

A, B = map(ServerId, ("a.x", "b.x"))
ALL, FEW = "all@a.x", "few@a.x"
BOB = "bob@b.x"


@pytest.fixture
def servers():
    """A group of one server with a member at another one, which gets nothing."""
    found = Servers(A, B, is_configured=False)
    found.create(ALL, FEW)
    for group in (ALL, FEW):
        found.join(group, BOB)
    found.open(BOB)
    found.held |= {(A, B), (B, A)}
    return found


def accept(servers, *sends):
    """Accept messages together."""
    for send in sends:
        servers.step(A, send)
    servers.close_parcels(A)


@pytest.mark.parametrize("name", ["g@a.x", "g+12@a.x", "g#1@a.x", "g+~3#4@a.x", "x-#+~@a.x"])
@pytest.mark.parametrize("kept", Kept)
@pytest.mark.parametrize("excluding", [(), ("h@a.x",)])
def test_an_id_tells_what_it_was_made_of(name, kept, excluding):
    named = read_message_id(message_id(7, (Target(NodeId(name), excluding),), 12, 65_537, kept))
    assert named == (7, name, 12 if excluding else 0, 65_537, kept)


@pytest.mark.parametrize("name", ["", "1", "1@g@a.x", "g@a.x#1", "1@g@a.x#", "1@g@a.x#1 ", "-1@g@a.x#1", "1@#1"])
def test_what_is_no_id_tells_nothing(name):
    assert read_message_id(name) is None
    assert kept_of(name) is Kept.DURABLE


def test_a_message_is_found_wherever_it_is_in_its_parcel(servers):
    origin = servers.servers[A].delivery.origin
    accept(servers, servers.new_send(ALL))
    accept(servers, *(servers.new_send(ALL) for _ in range(PARCEL_MESSAGES_LIMIT + 2)))
    accept(servers, servers.new_send(ALL))
    *parcels, (last,) = [origin.messages.ids(position) for position in origin.parcels.unsettled]
    assert sorted(map(len, parcels)) == [1, 2, PARCEL_MESSAGES_LIMIT]
    for position, ids in zip(origin.parcels.unsettled, parcels, strict=False):
        assert {origin.messages.position_of(name) for name in ids} == {position}
    serial = len(parcels[0] + parcels[1] + parcels[2]) + 1
    assert last == f"{serial}@{ALL}#{origin.start}"
    assert origin.messages.progress(last).pending == (B,)
    assert origin.messages.progress(f"{serial + 1}@{ALL}#{origin.start}") is None
    assert origin.messages.progress(f"{serial}@{ALL}#{origin.start + 1}") is None
    assert origin.messages.progress(f"{serial}@{FEW}#{origin.start}") is None


def test_messages_to_sets_of_targets_and_to_one_are_told_apart(servers):
    origin = servers.servers[A].delivery.origin
    accept(servers, servers.new_send(ALL), servers.new_send(ALL, FEW), servers.new_send(ALL, excluding=(FEW,)))
    positions = origin.parcels.unsettled
    assert [
        origin.messages.position_of(name) for position in positions for name in origin.messages.ids(position)
    ] == positions
    servers.held.clear()
    names = [name for position in positions for name in origin.messages.ids(position)]
    servers.restart(B)
    servers.run()
    assert origin.parcels.unsettled == []
    assert [origin.messages.progress(name) for name in names] == [None] * 3


def test_for_whom_very_many_parcels_wait_is_counted_in_slices(servers):
    origin = servers.servers[A].delivery.origin
    for _ in range(SLICE_ITEMS + 1):
        servers.step(A, servers.new_send(ALL))
        servers.close_parcels(A)
        servers.under_way.clear()
    assert list(origin.messages.pending()) == [SLICE_ITEMS, 1]
    assert at_once(origin.messages.pending()) == {B: SLICE_ITEMS + 1}
