"""A group gets another name: its policy, archive and senders' numbers go along, as do messages under way."""

import pytest

from delivery.model.events import Accepted, Acknowledge, DeliveryRefused, SetDelivery, Settled
from delivery.model.policy import DEFAULT
from delivery.model.words import Kept, Position
from namegraph import (
    Committed,
    CreateGroup,
    DeleteGroup,
    NodeId,
    Reason,
    RenameGroups,
    RequestId,
    ServerId,
    UpdateCommand,
)
from tests.unit.delivery.servers import Servers

A, B = ServerId("a.x"), ServerId("b.x")
STAFF, CREW, OTHER = NodeId("staff@a.x"), NodeId("crew@a.x"), NodeId("other@a.x")
TOP, BOB, ANN = NodeId("top@b.x"), NodeId("bob@b.x"), NodeId("ann@a.x")


@pytest.fixture
def servers():
    """top@b.x -> staff@a.x -> ann and bob, who have mailboxes."""
    found = Servers("a.x", "b.x")
    found.create(STAFF, OTHER, TOP)
    for parent, child in ((TOP, STAFF), (STAFF, ANN), (STAFF, BOB)):
        found.join(parent, child)
    for person in (ANN, BOB):
        found.listen(person)
    return found


def rename(servers, old=STAFF, new=CREW):
    ticket = servers.ticket()
    command = UpdateCommand(ticket, RequestId(f"rename {ticket}"), (), composite=RenameGroups(((old, new),)))
    servers.step(A, command)
    servers.run()
    assert isinstance(servers.answers[ticket][-1], Committed), servers.answers[ticket]


def set_policy(servers, group, server=A, **more):
    servers.step(server, SetDelivery(servers.ticket(), group, **more))


def policy(servers, group, server=A):
    return servers.servers[server].delivery.policies.of(group)


def test_a_policy_goes_along_and_those_that_name_the_group_follow(servers):
    set_policy(servers, STAFF, senders=OTHER, kept=Kept.MEMORY)
    set_policy(servers, OTHER, senders=STAFF)
    set_policy(servers, TOP, server=B, senders=STAFF)
    rename(servers)
    for _ in range(2):
        assert (policy(servers, CREW).senders, policy(servers, CREW).kept) == (OTHER, Kept.MEMORY)
        assert policy(servers, STAFF) == DEFAULT
        assert policy(servers, OTHER).senders == policy(servers, TOP, B).senders == CREW
        servers.restart(A)
        servers.restart(B)


def test_an_archive_goes_along_with_its_subscriptions_and_their_places(servers):
    servers.open(STAFF)
    begun = servers.listen(STAFF, "reader")
    servers.send(STAFF, payload=b"one")
    through = Position(max(servers.disks[A].log), 0)
    servers.step(A, Acknowledge(begun.mailbox, "reader", begun.epoch, through))
    servers.send(STAFF, payload=b"two")
    rename(servers)
    servers.send(CREW, payload=b"three")
    for _ in range(2):
        assert servers.log_of(CREW) == [b"one", b"two", b"three"]
        mailboxes = servers.servers[A].delivery.mailboxes
        assert mailboxes.subscriptions(CREW) == {"reader": through}
        assert STAFF not in mailboxes.numbers
        servers.restart(A)
    again = servers.listen(CREW, "reader")
    assert (again.mailbox, again.cursor) == (begun.mailbox, through)
    refused = servers.listen(STAFF, "reader")
    assert isinstance(refused, DeliveryRefused)
    assert (refused.refusal.reason, refused.refusal.facts["renamed_to"]) == (Reason.MAILBOX_NOT_FOUND, CREW)


def test_a_mailbox_that_the_new_name_has_already_keeps_what_is_in_it(servers):
    servers.create(CREW)
    servers.open(CREW)
    servers.send(CREW, payload=b"before")
    servers.update(A, DeleteGroup(CREW))
    servers.open(STAFF)
    servers.send(STAFF, payload=b"to staff")
    rename(servers)
    servers.send(CREW, payload=b"after")
    assert servers.log_of(CREW) == [b"before", b"after"]
    assert servers.log_of(STAFF) == [b"to staff"]


@pytest.mark.parametrize("kept", [Kept.DURABLE, Kept.MEMORY])
def test_senders_go_on_with_their_numbers_under_the_new_name(servers, kept):
    set_policy(servers, STAFF, kept=kept)
    told = [servers.send(STAFF, payload=b"%d" % number, sender="s", number=number) for number in (1, 2)]
    rename(servers)
    again = servers.send(CREW, payload=b"2", sender="s", number=2)
    assert {each.message_id for each in again} == {each.message_id for each in told[1]}
    assert isinstance(servers.send(CREW, payload=b"3", sender="s", number=3)[0], Accepted)
    (refused,) = servers.send(CREW, payload=b"5", sender="s", number=5)
    assert refused.refusal.reason is Reason.OUT_OF_SEQUENCE
    if kept is Kept.DURABLE:
        assert servers.log_of(BOB) == [b"1", b"2", b"3"]


def test_a_message_that_was_accepted_for_the_old_name_reaches_the_members_and_is_settled(servers):
    servers.held_posts.add((A, B))
    first = servers.send(STAFF, payload=b"one", sender="s", number=1)
    assert [type(answer) for answer in first] == [Accepted]
    rename(servers)
    servers.send(CREW, payload=b"two", sender="s", number=2)
    servers.restart(B)
    servers.run()
    assert servers.log_of(BOB) == []
    servers.held_posts.clear()
    servers.run()
    assert servers.log_of(BOB) == [b"one", b"two"]
    assert servers.log_of(ANN) == [b"one", b"two"]
    assert isinstance(first[-1], Settled)


def test_a_message_that_waits_for_its_parcel_goes_to_the_members(servers):
    send = servers.new_send(STAFF, payload=b"one", sender="s", number=1)
    servers.step(A, send)
    rename(servers)
    servers.close_parcels(A)
    servers.send(CREW, payload=b"two", sender="s", number=2)
    assert servers.log_of(BOB) == servers.log_of(ANN) == [b"one", b"two"]


def test_nothing_is_accepted_for_the_old_name_and_the_sender_is_told_the_new_one(servers):
    rename(servers)
    (refused,) = servers.send(STAFF)
    assert (refused.refusal.reason, refused.refusal.facts["renamed_to"]) == (Reason.TARGET_NOT_FOUND, CREW)


def test_a_new_group_of_the_old_name_has_nothing_of_the_renamed_one(servers):
    set_policy(servers, STAFF, senders=OTHER)
    servers.open(STAFF)
    rename(servers)
    servers.update(A, CreateGroup(STAFF))
    servers.join(STAFF, BOB)
    servers.leave(CREW, BOB)
    servers.send(STAFF, payload=b"new")
    servers.send(CREW, payload=b"renamed")
    assert servers.log_of(BOB) == [b"new"]
    assert servers.log_of(ANN) == [b"renamed"]
    assert servers.log_of(CREW) == [b"renamed"]
    assert policy(servers, STAFF) == DEFAULT


def test_a_late_message_to_a_new_group_of_the_old_name_does_not_reach_the_renamed_one(servers):
    servers.join(OTHER, BOB)
    rename(servers)
    servers.update(A, CreateGroup(STAFF))
    servers.join(STAFF, BOB)
    servers.held_posts.add((A, B))
    servers.send(STAFF, payload=b"new")
    servers.leave(STAFF, BOB)
    servers.held_posts.clear()
    servers.run()
    assert servers.log_of(BOB) == []
