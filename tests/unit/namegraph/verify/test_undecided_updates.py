"""However many updates a coordinator asks for and never decides, what is kept of them has a limit; it keeps to one."""

import pytest

from namegraph.core import ServerCore
from namegraph.events import PeerMessage, PeerMet, ReadCommand, Tick, UpdateCommand
from namegraph.model.names import NodeId, ServerId, Subnet
from namegraph.model.operations import ChildKind, CreateGroup, JoinArc
from namegraph.model.outcomes import Committed
from namegraph.model.peer_faults import PeerFault
from namegraph.model.priorities import Priority
from namegraph.model.refusals import Reason
from namegraph.model.rows import RequestId
from namegraph.update import coordinator
from namegraph.verify import sender_rules
from namegraph.wire.codec import encode
from namegraph.wire.message_parts import Cover, Update, UpdateId
from namegraph.wire.update_messages import Abort, Order

HERE, OTHER, THIRD = (ServerId(f"{name}.x") for name in "abc")
GROUP = NodeId(f"staff@{HERE}")
LIMIT = 5
DEADLINE = 8.0


@pytest.fixture
def core(monkeypatch):
    monkeypatch.setattr(sender_rules, "ORDERS_LIMIT", LIMIT)
    monkeypatch.setattr(coordinator, "COORDINATED_LIMIT", LIMIT)
    core = ServerCore(server=HERE, subnets=[Subnet(HERE)], peers={Subnet(OTHER): OTHER, Subnet(THIRD): THIRD})
    for other in (OTHER, THIRD):
        core.step(PeerMet(other, (Subnet(other),)), 0.0)
    core.step(UpdateCommand(0, RequestId("r"), (CreateGroup(GROUP),)), 0.0)
    return core


def order(number, sender=OTHER):
    update = Update(UpdateId(sender, number), (), 0, (), read=NodeId(f"g@{sender}"))
    return Order(update, Priority(5, sender), Cover(frozenset({GROUP}), frozenset()), None)


def tell(core, message, sender=OTHER):
    core.step(PeerMessage(sender, core.channels.handled_through(sender) + 1, encode(message)), 0.0)


def test_the_updates_of_one_coordinator_that_are_not_over_are_so_many_and_no_more(core):
    for number in range(1, 3 * LIMIT + 1):
        tell(core, order(number))
    assert len(core.entries.by_update) == len(core.entries.updates) == LIMIT
    assert core.channels.faults == {(OTHER, PeerFault.TOO_MANY_UPDATES): 2 * LIMIT}
    tell(core, order(1, THIRD), THIRD)
    assert len(core.entries.updates) == LIMIT + 1
    assert core.step(UpdateCommand(1, RequestId("s"), (CreateGroup(NodeId(f"n@{HERE}")),)), 0.0).replies


def test_what_is_asked_again_of_an_update_that_is_known_is_not_one_more(core):
    for number in [*range(1, LIMIT + 1), *range(1, LIMIT + 1)]:
        tell(core, order(number))
    assert not core.channels.faults


def test_with_the_end_of_one_there_is_room_for_another(core):
    for number in range(1, LIMIT + 1):
        tell(core, order(number))
    tell(core, Abort(UpdateId(OTHER, 1)))
    tell(core, order(LIMIT + 1))
    assert not core.channels.faults
    assert len(core.entries.updates) == LIMIT


def join(ticket, deadline=DEADLINE):
    operation = JoinArc(GROUP, NodeId(f"m{ticket}@{OTHER}"), ChildKind.PROCESS)
    return UpdateCommand(ticket, RequestId(f"join {ticket}"), (operation,), deadline)


def test_a_coordinator_takes_no_more_updates_than_others_take_of_it(core):
    for ticket in range(1, LIMIT + 1):
        assert not core.step(join(ticket), 0.0).replies
    for command in (join(LIMIT + 1), ReadCommand(LIMIT + 2, GROUP, DEADLINE)):
        (reply,) = core.step(command, 0.0).replies
        assert reply.outcome.reason is Reason.UNAVAILABLE
        assert "nothing was done" in reply.outcome.message
    (reply,) = core.step(UpdateCommand(99, RequestId("alone"), (CreateGroup(NodeId(f"n@{HERE}")),)), 0.0).replies
    assert isinstance(reply.outcome, Committed), "what concerns this server alone is done"
    assert len(core.step(Tick(), DEADLINE + 1).replies) == LIMIT
    assert not core.step(join(LIMIT + 1, 2 * DEADLINE), DEADLINE + 1).replies
