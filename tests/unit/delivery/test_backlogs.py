"""A receiver that confirms nothing: messages to it are refused at a limit, and no other message is."""

import pytest

from delivery.model.events import Accepted, DeliveryRefused, SetDelivery, Settled
from delivery.model.words import Kept
from delivery.origin.backlogs import PARCEL_BYTES, STUCK_SECONDS
from namegraph import NodeId, Reason, ServerId
from tests.counted_work import instructions
from tests.unit.delivery.servers import Servers

A, B, C = map(ServerId, ("a.x", "b.x", "c.x"))
ALL, NEAR, LOCAL, DEEP, BELOW = "all@a.x", "near@a.x", "local@a.x", "deep@a.x", "below@b.x"
PAYLOAD = bytes(1_000)
LIMIT = 20 * (PARCEL_BYTES + len(PAYLOAD))

SILENCES = {
    "takes posts and confirms none": {(C, A)},
    "takes no post": {(A, C)},
    "takes no post and says nothing": {(A, C), (C, A)},
}


@pytest.fixture(params=[Kept.DURABLE, Kept.MEMORY])
def servers(request):
    """Groups with members at all three servers, at two, at one, and at the third by way of the second."""
    found = Servers(A, B, C)
    found.create(ALL, NEAR, LOCAL, DEEP, BELOW)
    for group, server in ((ALL, A), (ALL, B), (ALL, C), (NEAR, A), (NEAR, B), (LOCAL, A), (BELOW, C)):
        found.join(group, f"{group.partition('@')[0]}@{server}")
        found.listen(f"{group.partition('@')[0]}@{server}")
    found.join(DEEP, BELOW)
    for group in (ALL, NEAR, LOCAL, DEEP):
        found.step(A, SetDelivery(found.ticket(), NodeId(group), kept=request.param))
    found.kept = request.param
    for origin in origins(found):
        origin.backlogs.limit_bytes = LIMIT
    return found


def origins(servers):
    core = servers.servers[A].delivery
    return core.origin, core.in_memory.origin


def origin_of(servers):
    durable, in_memory = origins(servers)
    return durable if servers.kept is Kept.DURABLE else in_memory


def silence(servers, pairs):
    servers.held_posts = pairs
    if servers.kept is Kept.MEMORY:
        # Posts in memory travel as datagrams.
        servers.held = pairs


def fill(servers, group):
    """Send until a message is refused; returns the refusal."""
    for _ in range(100):
        (answer, *_) = servers.send(group, payload=PAYLOAD)
        if isinstance(answer, DeliveryRefused):
            return answer.refusal
        assert isinstance(answer, Accepted)
    raise AssertionError("no message was refused")


def is_settled(answers):
    return isinstance(answers[-1], Settled)


@pytest.mark.parametrize("pairs", SILENCES.values(), ids=SILENCES)
def test_messages_to_a_receiver_that_confirms_nothing_are_refused_and_all_others_settle(servers, pairs):
    assert is_settled(servers.send(DEEP, payload=PAYLOAD))
    silence(servers, pairs)
    refusal = fill(servers, ALL)
    assert refusal.reason is Reason.BACKLOG_FULL
    assert refusal.facts["server"] == C
    assert all(is_settled(servers.send(group, payload=PAYLOAD)) for _ in range(50) for group in (NEAR, LOCAL))
    # The receiver is below this group too, by way of another server.
    assert isinstance(servers.send(DEEP, payload=PAYLOAD)[0], DeliveryRefused)
    assert origin_of(servers).parcels.backlog_bytes <= LIMIT


FRESH = [f"fresh{number}@a.x" for number in range(60)]
OVERSHOOT = 10 * (PARCEL_BYTES + len(PAYLOAD))
MORE = 2 * (PARCEL_BYTES + 2 * len(PAYLOAD))
"""Memory of the last parcels before a refusal."""


@pytest.fixture
def fresh(servers):
    """Groups by way of the second server to the third, to which nothing was sent."""
    servers.create(*FRESH)
    for group in FRESH:
        servers.join(group, BELOW)
        servers.step(A, SetDelivery(servers.ticket(), NodeId(group), kept=servers.kept))
    for origin in origins(servers):
        origin.backlogs.overshoot_limit_bytes = OVERSHOOT
    return servers


@pytest.mark.parametrize("held", [{(C, A)}, {(C, A), (B, A)}], ids=["told at once", "told by nobody"])
def test_target_sets_of_which_nobody_told_where_they_go_take_a_full_receiver_a_little_beyond_its_limit(fresh, held):
    for group in (DEEP, NEAR):
        assert is_settled(fresh.send(group, payload=PAYLOAD))
    silence(fresh, {(C, A)})
    fill(fresh, ALL)
    silence(fresh, held)
    answers = [fresh.send(group, payload=PAYLOAD)[0] for group in FRESH]
    silence(fresh, {(C, A)})
    fresh.now += 5.0
    fresh.run()
    refused = [answer for answer in answers if isinstance(answer, DeliveryRefused)]
    assert 0 < len(refused) < len(FRESH)
    assert {answer.refusal.facts["server"] for answer in refused} == {C}
    assert LIMIT < fresh.servers[A].delivery.unconfirmed(C).size <= LIMIT + OVERSHOOT + MORE
    assert all(is_settled(fresh.send(group, payload=PAYLOAD)) for group in (NEAR, LOCAL))


def test_what_turns_out_to_go_to_a_full_receiver_is_bounded_and_is_a_dead_letter_beyond(fresh):
    fresh.leave(BELOW, "below@c.x")
    for group in (*FRESH, DEEP, NEAR):
        assert is_settled(fresh.send(group, payload=PAYLOAD))
    given_up = []
    core = fresh.servers[A].delivery
    core.in_memory.on_given_up = given_up.extend
    for origin in origins(fresh):
        origin.backlogs.most_bytes = LIMIT + OVERSHOOT
    silence(fresh, {(C, A)})
    fill(fresh, ALL)
    # What was told of all these groups is old now, so no message to them is refused.
    fresh.join(BELOW, "below@c.x")
    answers = [fresh.send(group, payload=PAYLOAD) for group in FRESH]
    assert all(isinstance(first, Accepted) for first, *_ in answers)
    assert core.unconfirmed(C).size <= LIMIT + OVERSHOOT + MORE
    lacking = [answer for answer in answers if is_settled(answer)]
    assert len(lacking) > len(FRESH) - 15
    assert all(answer[-1].unreachable == (C,) for answer in lacking)
    if fresh.kept is Kept.DURABLE:
        letters = core.dead_letters.after(0, 100)
        assert [letter.servers for letter in letters] == [(C,)] * len(lacking)
    else:
        assert len(given_up) == len(lacking)
    assert is_settled(fresh.send(NEAR, payload=PAYLOAD))


def test_what_was_told_of_a_target_holds_with_other_exceptions_and_in_sets_of_several(servers):
    assert is_settled(servers.send(DEEP, payload=PAYLOAD))
    silence(servers, {(C, A)})
    fill(servers, ALL)
    for targets, less in (((DEEP,), ("near@a.x",)), ((DEEP, LOCAL), ()), ((LOCAL, DEEP), ())):
        (answer,) = servers.send(*targets, excluding=less, payload=PAYLOAD)
        assert answer.refusal.reason is Reason.BACKLOG_FULL
    assert is_settled(servers.send(NEAR, LOCAL, payload=PAYLOAD))


def test_nothing_counts_as_untold_once_all_is_settled(fresh):
    for group in (*FRESH, ALL, NEAR, LOCAL, DEEP):
        assert is_settled(fresh.send(group, payload=PAYLOAD))
    assert [origin.backlogs.untold.size for origin in origins(fresh)] == [0, 0]


def test_a_receiver_is_sent_messages_again_once_it_confirms(servers):
    silence(servers, {(C, A)})
    fill(servers, ALL)
    silence(servers, set())
    for _ in range(4):
        servers.now += 5.0
        servers.run()
    assert is_settled(servers.send(ALL, payload=PAYLOAD))
    assert not origin_of(servers).parcels.unsettled
    assert origin_of(servers).parcels.backlog_bytes == 0
    assert servers.servers[A].delivery.unconfirmed(C) is None


@pytest.mark.parametrize("pairs", SILENCES.values(), ids=SILENCES)
def test_a_message_takes_no_more_work_for_a_long_backlog_of_another_receiver(servers, pairs):
    for origin in origins(servers):
        origin.backlogs.limit_bytes = 2**30
    silence(servers, pairs)
    work = []
    for length in (30, 300):
        while len(origin_of(servers).parcels.unsettled) < length:
            servers.send(ALL, payload=PAYLOAD)
            # What the receiver never takes is kept by the origin; the lanes of this test need not hold it, too.
            servers.waiting.clear()
        work.append({group: work_at_origin(servers, group) for group in (ALL, NEAR, LOCAL)})
    short, long = work
    assert all(long[group] < 1.02 * short[group] for group in short)


def work_at_origin(servers, group):
    """Count the instructions of all steps of the origin in which a message is accepted, posted and confirmed."""
    core, work = servers.servers[A], 0
    step = core.step

    def counted(event, now):
        nonlocal work
        effects = []
        work += instructions(lambda: effects.append(step(event, now)))
        return effects[0]

    core.step = counted
    servers.send(group, payload=PAYLOAD)
    del core.step
    return work


@pytest.mark.parametrize("servers", [Kept.DURABLE], indirect=True)
def test_a_group_that_the_receiver_has_left_goes_on_and_keeps_no_settled_message_beyond_a_limit(servers):
    silence(servers, {(C, A)})
    fill(servers, ALL)
    servers.leave(ALL, "all@c.x")
    origin = origin_of(servers)
    origin.settling.settled_limit_bytes = 5 * len(PAYLOAD)
    before = origin.parcels.backlog_bytes
    for _ in range(60):
        assert is_settled(servers.send(ALL, payload=PAYLOAD))
        assert origin.parcels.backlog_bytes <= before + 8 * len(PAYLOAD)


@pytest.mark.parametrize("servers", [Kept.DURABLE], indirect=True)
def test_a_server_that_starts_again_still_refuses_what_its_receiver_has_no_room_for(servers):
    silence(servers, {(C, A)})
    fill(servers, ALL)
    waiting = servers.servers[A].delivery.unconfirmed(C).size
    servers.restart(A)
    assert servers.servers[A].delivery.unconfirmed(C).size == waiting
    servers.servers[A].delivery.origin.backlogs.limit_bytes = waiting + 1
    refusal = fill(servers, ALL)
    assert refusal.reason is Reason.BACKLOG_FULL
    assert is_settled(servers.send(NEAR, payload=PAYLOAD))


def test_a_receiver_is_stuck_once_it_has_confirmed_nothing_for_a_minute_since_it_was_met(servers):
    core = servers.servers[A].delivery
    assert is_settled(servers.send(ALL, payload=PAYLOAD))
    assert core.unconfirmed(C) is None
    servers.now = 100.0
    silence(servers, {(C, A)})
    servers.send(ALL, payload=PAYLOAD)
    servers.now = 130.0
    servers.send(ALL, payload=PAYLOAD)
    unconfirmed = core.unconfirmed(C)
    assert unconfirmed.since == 100.0
    assert unconfirmed.size == pytest.approx(2 * (PARCEL_BYTES + len(PAYLOAD)), rel=0.2)
    assert not unconfirmed.is_stuck(100.0 + STUCK_SECONDS - 1)
    assert unconfirmed.is_stuck(100.0 + STUCK_SECONDS)
    servers.now = 150.0
    servers.meet(A)
    assert core.unconfirmed(C).since == 150.0
