"""Authority over arcs: every kind of step, every place of both homes, every known state of the arc.

The tables have a row for each place of the parent's home and a column for each place of the child's: here, in this view
and within reach, lost, away, retired.
"""

from itertools import product

import pytest

from namegraph.graph.name_graph import NameGraph
from namegraph.model.names import NodeId, ServerId, Subnet
from namegraph.model.operations import CreateGroup, JoinArc, LeaveArc
from namegraph.model.ownership import OwnershipTable
from namegraph.model.rows import ArcRecord, NodeKind
from namegraph.state.context import ServerContext
from namegraph.update.arc_authority import OUT, RULES, ArcStep, Place, authority, authority_over, marked
from namegraph.wire.message_parts import ArcId, Cohort, ReconcileArc, SuspendArc, ViewId

SERVERS = {place: ServerId(place.name.lower()) for place in Place}
PLACES = list(product(Place, Place))

ALL_BOTH = "BBBBB BBBBB BBBBB BBBBB BBBBB"
ALL_CHILD = "CCCCC CCCCC CCCCC CCCCC CCCCC"
ALL_PARENT = "PPPPP PPPPP PPPPP PPPPP PPPPP"
WHERE_THE_VIEW_HAS_IT = "PPPPP PPPPP PPPPP CCCCC CCCCC"

ASKED = {
    ArcStep.JOIN: ALL_BOTH,
    ArcStep.JOIN_OFFLINE: "BBBPP BBBPP BBBPP CBBPP CBBPP",
    ArcStep.LEAVE: "BBBPP BBBPP BBBPP CBBPP CBBPP",
    ArcStep.LEAVE_UNCONFIRMED: ALL_CHILD,
    ArcStep.SETTLE: ALL_BOTH,
    ArcStep.SUSPEND: ALL_CHILD,
}
JUDGE = {
    **dict.fromkeys(ArcStep, WHERE_THE_VIEW_HAS_IT),
    ArcStep.LEAVE_UNCONFIRMED: ALL_CHILD,
    ArcStep.SUSPEND: ALL_CHILD,
}
ANSWERS = {
    ArcStep.JOIN: ALL_PARENT,
    ArcStep.JOIN_OFFLINE: WHERE_THE_VIEW_HAS_IT,
    ArcStep.LEAVE: ALL_PARENT,
    ArcStep.LEAVE_UNCONFIRMED: ALL_CHILD,
}
"""No client asks for others."""

WAITS = "---ww ----- ----- w---- w----"
"""A join that may wait is noted as suspended by the one home that is there."""

STANDS_IN = "----- ----- ----- s---- s----"


PARTED = "---pp ----- ----- p---- p----"

LEFT = {
    # What an arc is, and what its child is: where it may be left.
    ("not suspended", NodeKind.GROUP): "lll-- lll-- lll-- -ll-- -ll--",
    ("not suspended", NodeKind.PROCESS): "lll-- lll-- lll-- -ll-- -ll--",
    ("suspended", NodeKind.GROUP): "lllll lllll lllll lllll lllll",
    ("suspended", NodeKind.PROCESS): "lllll lllll lllll -llll lllll",
    ("unconfirmed", NodeKind.GROUP): "lllll lllll lllll lllll lllll",
    ("unconfirmed", NodeKind.PROCESS): "lllll lllll lllll lllll lllll",
}


def cell(table, parent, child):
    return table.split()[parent][child]


def letter(end):
    return end.name[0]


class Arc:
    """An arc between the servers at two places, as this server sees it."""

    def __init__(self, parent, child, state="not suspended", kind=NodeKind.GROUP):
        self.context = context = ServerContext(
            server=SERVERS[Place.HERE],
            table=OwnershipTable({Subnet(server): server for server in SERVERS.values()}),
            graph=NameGraph(),
        )
        context.view = context.promised = ViewId(2, SERVERS[Place.HERE])
        there = [SERVERS[place] for place in Place if place not in OUT]
        context.members = dict.fromkeys(there, Cohort(context.view, there[0]))
        context.lost = {SERVERS[place]: "gone" for place in (Place.LOST, *OUT)}
        context.retired = {SERVERS[Place.RETIRED]: None}
        self.parent, self.child = NodeId(f"g@{SERVERS[parent]}"), NodeId(f"h@{SERVERS[child]}")
        self.above, self.below = SERVERS[parent], SERVERS[child]
        numbers = context.graph.intern(self.parent), context.graph.intern(self.child)
        context.graph.kinds[numbers[0]], context.graph.kinds[numbers[1]] = NodeKind.GROUP, kind
        if state != "not suspended":
            context.graph.suspend(ArcRecord(*numbers, 0, version=1, writer=1, present=True, suspended=True))
        if state == "unconfirmed":
            context.unconfirmed = {ArcId(self.parent, self.child): None}

    def says(self, step):
        return authority(self.context, step, self.parent, self.child)


def test_every_step_has_one_rule_wherever_the_homes_are():
    found = [each for rule in RULES for each in product(rule.steps, rule.parents, rule.children)]
    assert len(found) == len(set(found)) == len(ArcStep) * len(PLACES)


@pytest.mark.parametrize("step", ArcStep)
@pytest.mark.parametrize(("parent", "child"), PLACES)
def test_who_is_asked_who_judges_and_who_answers(step, parent, child):
    arc = Arc(parent, child)
    says = arc.says(step)
    assert (says.parent_at, says.child_at, says.above, says.below) == (parent, child, arc.above, arc.below)
    asked = cell(ASKED[step], parent, child)
    expected = [(arc.above, arc.parent, False), (arc.below, arc.child, True)]
    assert says.asked == {"B": expected, "P": expected[:1], "C": expected[1:]}[asked]
    judge = arc.above if cell(JUDGE[step], parent, child) == "P" else arc.below
    assert says.is_judged_here == (judge == SERVERS[Place.HERE])
    if step in ANSWERS:
        assert letter(says.rule.answers) == cell(ANSWERS[step], parent, child)
    assert says.rule.waits == (step is ArcStep.JOIN_OFFLINE and cell(WAITS, parent, child) == "w")
    assert says.acts_for_parent_home == (cell(STANDS_IN, parent, child) == "s")
    assert says.is_parted == (cell(PARTED, parent, child) == "p")
    assert says.is_child_here == (child is Place.HERE)
    both = dict.fromkeys([arc.above, arc.below])
    assert says.concerned == ((arc.below,) if step is ArcStep.SUSPEND else tuple(both))


@pytest.mark.parametrize(("state", "kind"), LEFT)
@pytest.mark.parametrize(("parent", "child"), PLACES)
def test_what_may_be_left_and_who_begins_that(state, kind, parent, child):
    arc = Arc(parent, child, state, kind)
    may_leave = cell(LEFT[state, kind], parent, child) == "l"
    assert arc.says(ArcStep.LEAVE).may_leave == may_leave
    assert arc.says(ArcStep.LEAVE_UNCONFIRMED).may_leave == (state == "unconfirmed")
    acts_for_parent_home = cell(STANDS_IN, parent, child) == "s"
    begins = {
        ArcStep.JOIN_OFFLINE: acts_for_parent_home,
        ArcStep.LEAVE: acts_for_parent_home and may_leave,
        ArcStep.LEAVE_UNCONFIRMED: child is Place.HERE,
        ArcStep.SUSPEND: child is Place.HERE,
    }
    assert {step for step in ArcStep if arc.says(step).begins_here} == {step for step in begins if begins[step]}


@pytest.mark.parametrize(("parent", "child"), PLACES)
def test_a_foreign_process_is_where_its_parent_is(parent, child):
    arc = Arc(parent, child)
    says = authority(arc.context, ArcStep.LEAVE, arc.parent, NodeId("bob@elsewhere.example"))
    assert (says.child_at, says.below) == (parent, arc.above)
    assert not says.acts_for_parent_home


def test_each_operation_is_a_step_of_its_own():
    arc = Arc(Place.AWAY, Place.HERE, "unconfirmed")
    ends = arc.parent, arc.child
    steps = {
        ArcStep.JOIN: JoinArc(*ends),
        ArcStep.JOIN_OFFLINE: JoinArc(*ends, offline=True),
        ArcStep.LEAVE: LeaveArc(*ends),
        ArcStep.LEAVE_UNCONFIRMED: marked(arc.context, LeaveArc(*ends)),
        ArcStep.SETTLE: ReconcileArc(*ends, is_present=True, kind=NodeKind.GROUP, cost=0, version=1, writer=1),
        ArcStep.SUSPEND: SuspendArc(*ends),
    }
    assert {step: authority_over(arc.context, operation).step for step, operation in steps.items()} == {
        step: step for step in ArcStep
    }
    for other in (JoinArc(*ends), LeaveArc(arc.child, arc.parent), CreateGroup(arc.child)):
        assert marked(arc.context, other) == other
