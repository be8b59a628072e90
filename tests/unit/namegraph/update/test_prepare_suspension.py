"""What a server says of arcs that an update suspends or settles."""

import pytest

from namegraph.core import ServerCore
from namegraph.model.names import NodeId, ServerId, Subnet
from namegraph.model.rows import NodeKind
from namegraph.update.prepare_suspension import find_inner
from namegraph.wire.message_parts import ReconcileArc

HERE, THERE = ServerId("a.x"), ServerId("b.x")
CHILD = NodeId("ann@a.x")

STAYS = ReconcileArc(NodeId("staff@b.x"), CHILD, True, NodeKind.PROCESS, 2, 1, 7)
LEFT_BY_WHO_DOES_NOT_KNOW_IT = ReconcileArc(NodeId("old@b.x"), CHILD, False, NodeKind.ABSENT, 0, 2, 8)


@pytest.mark.parametrize(
    "settled", [(STAYS, LEFT_BY_WHO_DOES_NOT_KNOW_IT), (LEFT_BY_WHO_DOES_NOT_KNOW_IT, STAYS)], ids=["last", "first"]
)
def test_a_child_that_one_arc_keeps_is_no_less_for_another_arc_that_goes(settled):
    core = ServerCore(server=HERE, subnets=[Subnet("a.x")], peers={Subnet("b.x"): THERE})
    _, children, declined = find_inner(core._context, core.records, settled, asked_by=THERE)
    assert not declined
    assert [(truth.child, truth.kind) for truth in children] == [(CHILD, NodeKind.PROCESS)]
