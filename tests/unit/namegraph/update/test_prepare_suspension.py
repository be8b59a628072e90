"""A server's statements about arcs that an update suspends or settles."""

import pytest

from namegraph.core import ServerCore
from namegraph.events import UpdateCommand
from namegraph.model.names import NodeId, ServerId, Subnet
from namegraph.model.operations import CreateGroup
from namegraph.model.rows import NodeKind
from namegraph.update.prepare_suspension import find_inner
from namegraph.wire.message_parts import ArcId, ReconcileArc

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


OUT, IN = (NodeId("staff@a.x"), NodeId("team@b.x")), (NodeId("team@b.x"), NodeId("staff@a.x"))


@pytest.mark.parametrize("ends", [OUT, IN], ids=["from here", "to here"])
@pytest.mark.parametrize(
    ("is_offered", "writer", "is_declined"),
    [
        pytest.param(True, 20, True, id="as old as what was forgotten"),
        pytest.param(True, 21, False, id="newer"),
        pytest.param(False, 20, False, id="known to who asks, who may have joined it alone"),
    ],
)
def test_what_was_left_and_forgotten_here_is_not_joined_anew_by_who_was_told_late(
    ends, is_offered, writer, is_declined
):
    core = ServerCore(server=HERE, subnets=[Subnet("a.x")], peers={Subnet("b.x"): THERE})
    core.step(UpdateCommand(1, "r", (CreateGroup(NodeId("staff@a.x")),)), 0.0)
    core._context.forgotten.note_overdue(THERE, writer=20)
    settle = ReconcileArc(*ends, True, NodeKind.GROUP, 1, 1, writer, is_offered)
    _, _, declined = find_inner(core._context, core.records, [settle], asked_by=THERE)
    assert declined == ((ArcId(*ends),) if is_declined else ())
