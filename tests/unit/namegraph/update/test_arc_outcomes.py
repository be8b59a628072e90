"""The outcome of an update for its arcs, as several homes found them, and the record of changes about it."""

import pytest

from namegraph.graph.name_graph import NameGraph
from namegraph.model.changes import ChangeKind
from namegraph.model.names import NodeId, ServerId, Subnet
from namegraph.model.ownership import OwnershipTable
from namegraph.model.priorities import Priority
from namegraph.model.rows import ArcRecord, NodeKind
from namegraph.state.context import ServerContext
from namegraph.update import recorded_changes
from namegraph.update.arc_outcomes import ArcOutcomes
from namegraph.update.recorded_changes import changes_of_share
from namegraph.wire.columns import pack_arcs, pack_records, unpack_arcs
from namegraph.wire.message_parts import ArcId, ArcVersion, KnownArc, UpdateId
from namegraph.wire.update_messages import UpdateOutcome

HERE, THERE = ServerId("a.x"), ServerId("b.x")
ABOVE, BELOW, OTHER = NodeId("g@a.x"), NodeId("g@b.x"), NodeId("h@b.x")
GROUP = NodeKind.GROUP


def left(arc, version):
    return KnownArc(arc, False, GROUP, 0, version)


def united(*found):
    outcomes = ArcOutcomes()
    for changes in found:
        outcomes.add(pack_arcs(changes), dict.fromkeys([ABOVE, BELOW, OTHER], GROUP))
    outcomes.put_newest_last()
    return outcomes.all_columns()


def test_of_an_arc_that_both_ends_leave_the_newer_state_comes_last_whoever_told_it():
    arc, joined = ArcId(ABOVE, BELOW), KnownArc(ArcId(BELOW, ABOVE), True, GROUP, 3, 1)
    for older, newer in (([left(arc, 2)], [left(arc, 6)]), ([left(arc, 6)], [left(arc, 2)])):
        told = list(unpack_arcs(united([*older, joined], newer)))
        assert [change.version for change in told if change.arc == arc] == [2, 6]
        assert [change for change in told if change.arc != arc] == [joined]


def test_an_arc_rises_above_what_the_home_of_its_child_tells_and_never_falls():
    outcomes = ArcOutcomes()
    arcs = [ArcId(ABOVE, BELOW), ArcId(ABOVE, OTHER)]
    outcomes.add(pack_arcs([left(arcs[0], 2), left(arcs[1], 5)]), dict.fromkeys([ABOVE, BELOW, OTHER], GROUP))
    told = [ArcVersion(arcs[0], 6), ArcVersion(arcs[1], 3), ArcVersion(ArcId(BELOW, ABOVE), 9)]
    outcomes.rise_above([*told, ArcVersion(arcs[0], 4)])
    assert [change.version for change in unpack_arcs(outcomes.all_columns())] == [7, 5]


@pytest.mark.parametrize("listed_limit", [100, 0], ids=["listed", "counted"])
def test_that_such_an_arc_was_left_is_told_once(listed_limit, monkeypatch):
    monkeypatch.setattr(recorded_changes, "LISTED_LIMIT", listed_limit)
    context = ServerContext(
        server=HERE, table=OwnershipTable({Subnet(server): server for server in (HERE, THERE)}), graph=NameGraph()
    )
    graph = context.graph
    above, *children = (graph.intern(name) for name in (ABOVE, BELOW, OTHER))
    for child in children:
        graph.suspended[above, child] = ArcRecord(above, child, 0, 1, 1, present=True, suspended=True)
        graph.kinds[child] = GROUP
    arcs = united([left(ArcId(ABOVE, BELOW), 2), left(ArcId(ABOVE, OTHER), 2)], [left(ArcId(ABOVE, BELOW), 6)])
    share = UpdateOutcome(UpdateId(THERE, 5), Priority(7, HERE), (), arcs, (), pack_records(()), ())
    changes = changes_of_share(context, share)
    assert (len(changes), changes.left, changes.joined) == (2, 2, 0)
    if changes.listed:
        assert [(change.kind, change.member) for change in changes.listed] == [
            (ChangeKind.LEFT, BELOW),
            (ChangeKind.LEFT, OTHER),
        ]
