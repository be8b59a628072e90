"""No letter brings a server's numbers near their end."""

import pytest

from namegraph.core import ServerCore
from namegraph.events import PeerMessage, PeerMet, UpdateCommand
from namegraph.model.names import NodeId, ServerId, Subnet
from namegraph.model.operations import CreateGroup
from namegraph.model.outcomes import Committed
from namegraph.model.peer_faults import PeerFault
from namegraph.model.priorities import NUMBER_LIMIT, Priority, parse_revision
from namegraph.model.rows import RequestId
from namegraph.verify.leaps import LEAP_FROM, LEAP_LIMIT, LEAPS_AT_ONCE, SECONDS_FOR_A_LEAP
from namegraph.wire.codec import encode
from namegraph.wire.message_parts import FIRST_VIEW, Cohort, Cover, PendingEntry, Update, UpdateId, ViewId
from namegraph.wire.update_messages import Commit, Final, Order, Vote
from namegraph.wire.view_messages import Accept, Decline, ExcludedFromView, HintedOutcome, Install, Propose, Reach

HERE, OTHER, THIRD = (ServerId(f"{name}.x") for name in "bac")
GROUP = NodeId(f"g@{HERE}")
UPDATE = UpdateId(OTHER, 1)
FAR = NUMBER_LIMIT
COHORT = Cohort(FIRST_VIEW, ServerId(""))


@pytest.fixture
def core():
    core = ServerCore(server=HERE, subnets=[Subnet(HERE)], peers={Subnet(OTHER): OTHER, Subnet(THIRD): THIRD})
    for other in (OTHER, THIRD):
        core.step(PeerMet(other, (Subnet(other),)), 0.0)
    return core


def order(number, update_id=UPDATE, **fields):
    update = Update(update_id, ((1, CreateGroup(GROUP)),), 1, (), read=None)
    values = {"tentative": Priority(5, OTHER), "final": None, **fields}
    if not fields:
        values["tentative"] = Priority(number, OTHER)
    return Order(update, cover=Cover(frozenset(), frozenset()), **values)


def tell(core, *messages, sender=OTHER, now=0.0):
    for message in messages:
        number = core.channels.handled_through(sender) + 1
        core.step(PeerMessage(sender, number, encode(message)), now)


def counter_after_a_local_update(core):
    reply = core.step(UpdateCommand(1, RequestId("r"), (CreateGroup(NodeId(f"new@{HERE}")),)), 0.0).replies[0]
    assert isinstance(reply.outcome, Committed)
    return parse_revision(reply.outcome.revision).counter


@pytest.mark.parametrize(
    "message",
    [
        order(FAR),
        order(0, final=Priority(FAR, OTHER)),
        order(0, highest_vote=Priority(FAR, OTHER)),
        order(0, over_below=FAR),
        order(0, update_id=UpdateId(OTHER, FAR)),
        Vote(UpdateId(HERE, 1), Priority(FAR, OTHER), ()),
        Final(UPDATE, Priority(FAR, OTHER)),
        Commit(UPDATE, b"", (PendingEntry(UpdateId(OTHER, 2), Priority(FAR, OTHER), None),), is_shared=True),
        Reach(ViewId(FAR, OTHER), (OTHER,)),
        Propose(ViewId(FAR, OTHER)),
        Decline(FIRST_VIEW, ViewId(FAR, OTHER), OTHER),
        ExcludedFromView(ViewId(FAR, OTHER), (OTHER, THIRD)),
        Accept(FIRST_VIEW, COHORT, (OTHER,), FAR, (), ()),
        Install(ViewId(1, OTHER), ((HERE, COHORT), (OTHER, COHORT)), FAR, ()),
        HintedOutcome(Priority(FAR, OTHER), (), ()),
    ],
    ids=lambda message: type(message).__name__,
)
def test_a_number_near_the_end_is_dropped_and_all_goes_on(core, message):
    tell(core, message)
    assert core.channels.faults == {(OTHER, PeerFault.LEAP): 1}
    assert core.channels.leaps_refused == {OTHER: FAR}
    assert core._views.agreement._highest == 0
    assert counter_after_a_local_update(core) == 1


def test_the_leaps_of_a_fresh_incarnation_are_followed(core):
    tell(core, order(LEAP_LIMIT))
    assert not core.channels.faults
    assert counter_after_a_local_update(core) > LEAP_LIMIT


def test_leaps_are_few_and_come_back_with_time(core):
    number = 0
    for _ in range(LEAPS_AT_ONCE):
        number += LEAP_LIMIT
        tell(core, order(number))
    assert not core.channels.faults
    tell(core, order(number + LEAP_LIMIT))
    assert core.channels.faults == {(OTHER, PeerFault.LEAP): 1}
    tell(core, order(number + LEAP_LIMIT), now=SECONDS_FOR_A_LEAP)
    assert core.channels.faults == {(OTHER, PeerFault.LEAP): 1}
    tell(core, order(number + 2 * LEAP_LIMIT), now=SECONDS_FOR_A_LEAP + 1)
    assert core.channels.faults == {(OTHER, PeerFault.LEAP): 2}


def test_the_leaps_of_one_server_are_not_those_of_another(core):
    for number in range(1, LEAPS_AT_ONCE + 2):
        tell(core, order(number * LEAP_LIMIT))
    tell(core, order((LEAPS_AT_ONCE + 1) * LEAP_LIMIT, update_id=UpdateId(THIRD, 1)), sender=THIRD)
    assert core.channels.faults == {(OTHER, PeerFault.LEAP): 1}


def test_what_is_heard_again_is_no_leap(core):
    for _ in range(3 * LEAPS_AT_ONCE):
        tell(core, order(0, over_below=LEAP_FROM + 1))
    assert not core.channels.faults
