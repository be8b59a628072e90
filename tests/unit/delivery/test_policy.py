"""The policy of a home for messages to its groups: the allowed senders. The shell adds its findings about a sender."""

import pytest

from delivery.model.events import Accepted, DatagramSent, DeliveryRefused, PolicySet, SetDelivery
from delivery.model.policy import ANYONE, DEFAULT, MEMBERS, DeliveryPolicy
from delivery.model.words import Quality
from namegraph import DeleteGroup, NodeId, Reason, Refusal, ServerId
from tests.unit.delivery.servers import Servers

A, STAFF, LAB = ServerId("a.x"), NodeId("staff@a.x"), NodeId("lab@b.x")
OBJECTION = Refusal(Reason.NOT_A_SENDER, "not you")


@pytest.fixture
def servers():
    found = Servers("a.x", "b.x")
    found.create(STAFF, "other@a.x", LAB)
    return found


def set_policy(servers, group=STAFF, server=A, **more):
    ticket = servers.ticket()
    servers.step(server, SetDelivery(ticket, group, **more))
    (answer,) = servers.answers[ticket]
    return answer


def policy(servers, group=STAFF):
    return servers.servers[A].delivery.policies.of(group)


def rows(servers):
    return {row.key for row in servers.disks[A].read().protocol if row.part == "policy"}


def test_a_group_has_the_default_until_something_else_is_laid_down(servers):
    assert policy(servers) == DEFAULT == DeliveryPolicy(Quality.FIFO, ANYONE)
    answer = set_policy(servers, senders=MEMBERS)
    assert isinstance(answer, PolicySet) and answer.policy == policy(servers) == DeliveryPolicy(senders=MEMBERS)
    assert policy(servers).senders_of(STAFF) == STAFF
    # What is not said stays.
    assert set_policy(servers, quality=Quality.FIFO).policy == DeliveryPolicy(senders=MEMBERS)
    set_policy(servers, senders=LAB)
    assert policy(servers).senders_of(STAFF) == LAB
    assert policy(servers, NodeId("other@a.x")) == DEFAULT


def test_a_policy_is_durable_and_one_that_is_the_default_takes_no_row(servers):
    set_policy(servers, senders=LAB)
    servers.restart(A)
    assert policy(servers) == DeliveryPolicy(senders=LAB)
    assert rows(servers) == {STAFF}
    set_policy(servers, senders=ANYONE)
    assert rows(servers) == set()


@pytest.mark.parametrize(
    ("group", "senders", "missing"),
    [
        ("nothing@a.x", MEMBERS, "nothing@a.x"),
        (STAFF, "nothing@a.x", "nothing@a.x"),
        (STAFF, "g@nowhere.y", "nowhere.y"),
    ],
)
def test_a_group_that_does_not_exist_is_an_error_at_once(servers, group, senders, missing):
    answer = set_policy(servers, NodeId(group), senders=senders)
    assert isinstance(answer, DeliveryRefused)
    assert answer.refusal.reason is Reason.GROUP_NOT_FOUND and missing in answer.refusal.message
    assert policy(servers, NodeId(group)) == DEFAULT and rows(servers) == set()


def test_a_policy_is_laid_down_at_the_home_of_its_group(servers):
    answer = set_policy(servers, LAB, senders=MEMBERS)
    assert isinstance(answer, DeliveryRefused) and answer.refusal.reason is Reason.INVALID_REQUEST


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_policy_goes_with_its_group_and_one_that_is_created_again_begins_anew(servers, is_restarted):
    servers.join(STAFF, "ann@a.x")
    set_policy(servers, senders=MEMBERS)
    set_policy(servers, NodeId("other@a.x"), senders=MEMBERS)
    servers.update("a.x", DeleteGroup(STAFF, force=True))
    if is_restarted:
        servers.restart(A)
    servers.create(STAFF)
    assert policy(servers) == DEFAULT
    assert rows(servers) == {"other@a.x"}


def test_a_message_has_the_quality_of_its_first_target_where_it_says_nothing(servers):
    set_policy(servers, quality=Quality.DATAGRAM)
    (sent,) = servers.send(STAFF, wants_settled=False)
    assert isinstance(sent, DatagramSent)
    assert isinstance(servers.send("other@a.x", STAFF, wants_settled=False)[0], Accepted)
    set_policy(servers, quality=Quality.FIFO)
    assert isinstance(servers.send(STAFF, wants_settled=False)[0], Accepted)
    assert isinstance(servers.send_datagram(STAFF)[0], DatagramSent)


@pytest.mark.parametrize(
    "more",
    [{"quality": Quality.FIFO}, {"wants_settled": True}, {"request_id": "r"}, {"sender": "s", "number": 1}],
)
def test_who_asks_for_more_than_a_group_gives_is_refused_and_nothing_is_sent(servers, more):
    set_policy(servers, quality=Quality.DATAGRAM)
    more = {"wants_settled": False} | more
    (refused,) = servers.send(STAFF, **more)
    assert isinstance(refused, DeliveryRefused) and refused.refusal.reason is Reason.TAKES_DATAGRAMS
    assert refused.refusal.facts == {"group": STAFF}
    # It takes no number, and is not remembered.
    set_policy(servers, quality=Quality.FIFO)
    (accepted, *_) = servers.send(STAFF, **more)
    assert isinstance(accepted, Accepted) and not accepted.is_repeated


def test_what_was_accepted_before_a_group_takes_datagrams_is_answered_as_then(servers):
    first = servers.send(STAFF, request_id="r")[0]
    set_policy(servers, quality=Quality.DATAGRAM)
    again = servers.send(STAFF, request_id="r")[0]
    assert again == Accepted(again.ticket, first.message_id, is_repeated=True)


def test_what_the_shell_objects_to_is_refused_and_takes_no_number(servers):
    (refused,) = servers.send(STAFF, sender="s", number=1, objection=OBJECTION)
    assert isinstance(refused, DeliveryRefused) and refused.refusal == OBJECTION
    assert isinstance(servers.send(STAFF, sender="s", number=1)[0], Accepted)


@pytest.mark.parametrize("known_by", [{"sender": "s", "number": 1}, {"request_id": "r"}])
def test_a_message_that_was_accepted_is_answered_as_then_whatever_is_objected_now(servers, known_by):
    first = servers.send(STAFF, **known_by)[0]
    again = servers.send(STAFF, objection=OBJECTION, **known_by)[0]
    assert again == Accepted(again.ticket, first.message_id, is_repeated=True)
    waiting, late = (
        servers.new_send(STAFF, request_id="w"),
        servers.new_send(STAFF, request_id="w", objection=OBJECTION),
    )
    servers.step(A, waiting)
    servers.step(A, late)
    servers.close_parcels(A)
    assert {type(servers.answers[send.ticket][0]) for send in (waiting, late)} == {Accepted}
