"""The outcome of an update for its arcs, as several homes found them, and the record of changes about it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from namegraph.graph.name_graph import NameGraph
from namegraph.model.changes import ChangeKind
from namegraph.model.names import NodeId, ServerId, Subnet
from namegraph.model.ownership import OwnershipTable
from namegraph.model.priorities import Priority
from namegraph.model.rows import ArcRecord, NodeKind
from namegraph.state.context import ServerContext
from namegraph.update import recorded_changes
from namegraph.update.arc_outcomes import UnsaidError, unite_arcs, unite_few, unite_many
from namegraph.update.recorded_changes import changes_of_share
from namegraph.wire.arc_sets import FEW, NO_RECORDS, arcs_of, each_arc
from namegraph.wire.columns import pack_arcs
from namegraph.wire.message_parts import ArcId, ArcList, ArcVersion, KnownArc, UpdateId
from namegraph.wire.update_messages import UpdateOutcome

HERE, THERE = ServerId("a.x"), ServerId("b.x")
ABOVE, BELOW, OTHER = NodeId("g@a.x"), NodeId("g@b.x"), NodeId("h@b.x")
GROUP = NodeKind.GROUP


def left(arc, version):
    return KnownArc(arc, False, GROUP, 0, version)


KINDS = dict.fromkeys([ABOVE, BELOW, OTHER], GROUP)
WAYS = pytest.mark.parametrize("unite", [unite_few, unite_many])


def united(unite, *found, told=()):
    return unite([(arcs_of(arcs), KINDS) for arcs in found], declined=frozenset(), told=told)


@WAYS
def test_of_an_arc_that_both_ends_leave_the_newer_state_comes_last_whoever_told_it(unite):
    arc, joined = ArcId(ABOVE, BELOW), KnownArc(ArcId(BELOW, ABOVE), True, GROUP, 3, 1)
    for older, newer in (([left(arc, 2)], [left(arc, 6)]), ([left(arc, 6)], [left(arc, 2)])):
        arcs = list(each_arc(united(unite, [*older, joined], newer)))
        assert [known.version for known in arcs if known.arc == arc] == [2, 6]
        assert [known for known in arcs if known.arc != arc] == [joined]


@WAYS
def test_an_arc_rises_above_what_the_home_of_its_child_tells_and_never_falls(unite):
    arcs = [ArcId(ABOVE, BELOW), ArcId(ABOVE, OTHER)]
    told = [ArcVersion(arcs[0], 6), ArcVersion(arcs[1], 3), ArcVersion(ArcId(BELOW, ABOVE), 9), ArcVersion(arcs[0], 4)]
    found = united(unite, [left(arcs[0], 2), left(arcs[1], 5)], told=told)
    assert [known.version for known in each_arc(found)] == [7, 5]


names = st.sampled_from([ABOVE, BELOW, OTHER])
versions = st.integers(min_value=0, max_value=3)
arcs = st.builds(ArcId, names, names)
kinds = st.sampled_from(NodeKind)
states = st.builds(KnownArc, arcs, st.none() | st.booleans(), kinds, versions, versions, st.just(0))
findings = st.lists(st.tuples(st.lists(states, max_size=4), st.dictionaries(names, kinds)), max_size=3)


@given(findings, st.frozensets(arcs, max_size=2), st.lists(st.builds(ArcVersion, arcs, versions), max_size=2))
def test_few_arcs_are_united_to_what_many_are(found, declined, told):
    def of(unite):
        try:
            return list(
                each_arc(unite([(arcs_of(arcs), there) for arcs, there in found], declined=declined, told=told))
            )
        except UnsaidError as error:
            return error.node

    assert of(unite_few) == of(unite_many)


def test_arcs_of_several_homes_are_listed_up_to_the_limit_of_a_list():
    arcs = [KnownArc(ArcId(ABOVE, NodeId(f"p{number}@b.x")), True, NodeKind.PROCESS, 0, 1) for number in range(FEW)]
    there = dict.fromkeys((known.arc.child for known in arcs), NodeKind.PROCESS)
    few, many = (
        unite_arcs([(arcs_of(some[:50]), there), (arcs_of(some[50:]), there)], declined=frozenset(), told=())
        for some in (arcs[1:], arcs)
    )
    assert few == ArcList(tuple(arcs[1:]))
    assert many == pack_arcs(arcs)


@WAYS
@pytest.mark.parametrize("listed_limit", [100, 0], ids=["listed", "counted"])
def test_that_such_an_arc_was_left_is_told_once(listed_limit, unite, monkeypatch):
    monkeypatch.setattr(recorded_changes, "LISTED_LIMIT", listed_limit)
    context = ServerContext(
        server=HERE, table=OwnershipTable({Subnet(server): server for server in (HERE, THERE)}), graph=NameGraph()
    )
    graph = context.graph
    above, *children = (graph.intern(name) for name in (ABOVE, BELOW, OTHER))
    for child in children:
        graph.suspended[above, child] = ArcRecord(above, child, 0, 1, 1, present=True, suspended=True)
        graph.kinds[child] = GROUP
    arcs = united(unite, [left(ArcId(ABOVE, BELOW), 2), left(ArcId(ABOVE, OTHER), 2)], [left(ArcId(ABOVE, BELOW), 6)])
    share = UpdateOutcome(UpdateId(THERE, 5), Priority(7, HERE), (), arcs, (), NO_RECORDS, ())
    changes = changes_of_share(context, share)
    assert (len(changes), changes.left, changes.joined) == (2, 2, 0)
    if changes.listed:
        assert [(change.kind, change.member) for change in changes.listed] == [
            (ChangeKind.LEFT, BELOW),
            (ChangeKind.LEFT, OTHER),
        ]
