"""A graph read back: whole where the rows fit together, refused with the row and the reason where they do not."""

from dataclasses import replace

import pytest

from namegraph.core import ServerCore
from namegraph.model.names import NodeId, Subnet, parse_name
from namegraph.model.rows import ArcRecord, NodeIndex, NodeKind, NodeRecord, StoredState, VirtualNodeRecord
from namegraph.state.recovery import InconsistentStateError
from resolver.census import Census, Counts
from resolver.membership import MembershipResolver
from tests.cores import CoreUnderTest

A, B, C = (parse_name(f"{letter}@x.example") for letter in "abc")
ANN = parse_name("ann@people.example")


@pytest.fixture
def stored():
    """Return stored rows: a and b on a loop, c below them, ann in c, and the tombstone a -> c."""
    server = CoreUnderTest("x.example", forgets_at_once=False)
    server.create(A, B, C)
    for parent, child in ((A, B), (B, A), (B, C), (A, C), (C, ANN)):
        server.join(parent, child)
    server.leave(A, C)
    return server.stored()


def nodes(stored):
    return list(stored.nodes)


def restored(stored):
    return ServerCore.restore(stored, subnets=[Subnet("x.example")])


class CountedName(str):
    """A server's name that counts how often it is looked up somewhere."""

    lookups = 0

    def __hash__(self):
        CountedName.lookups += 1
        return super().__hash__()


@pytest.mark.parametrize("peers", [{}, {"other.example": "host:1"}])
def test_a_restart_looks_at_each_row_and_at_each_subnet_a_few_times_however_many_there_are(peers):
    server = CountedName("x.example")
    subnets = [Subnet(f"s{number}.example") for number in range(500)]
    names = [NodeId(f"g@{subnet}") for subnet in subnets]
    stored = StoredState(
        server,
        1,
        [NodeRecord(NodeIndex(number), name, NodeKind.GROUP, None, 1, None) for number, name in enumerate(names)],
        [],
        [ArcRecord(NodeIndex(above), NodeIndex(above + 1), 1, 1, 1, True, False) for above in range(len(names) - 1)],
        [],
    )
    CountedName.lookups = 0
    core = ServerCore.restore(stored, subnets=subnets, peers=peers)
    assert len(list(core.graph.present_arcs())) == 499
    assert CountedName.lookups < 3 * len(subnets)


def refused(stored):
    with pytest.raises(InconsistentStateError) as caught:
        restored(stored)
    return str(caught.value)


def test_what_was_written_reads_back_with_counts_tombstones_and_virtual_nodes(stored):
    core = restored(stored)
    assert Census(core).counts() == Counts(groups=3, processes=1, arcs=4, virtual_nodes=1)
    graph = core.graph
    ((key, tombstone),) = graph.tombstones.items()
    assert [graph.ids[node] for node in key] == [A, C]
    assert (tombstone.version, tombstone.present) == (2, False)
    assert graph.label(graph.index[A]) == graph.label(graph.index[B]) == f"{A}#5.x.example"
    assert graph.next_virtual_node == 1


def test_the_rows_of_arcs_and_virtual_nodes_may_come_in_any_order(stored):
    backwards = replace(stored, arcs=reversed(stored.arcs), virtual_nodes=reversed(stored.virtual_nodes))
    core = restored(backwards)
    assert MembershipResolver(core).resolve(A).groups == (A, B, C)


def test_a_server_that_starts_anew_goes_on_where_it_stopped(stored):
    core = restored(stored)
    assert core.revision == "9@x.example"
    assert core.server == "x.example"
    assert core.subnets == ("x.example",)


def test_numbers_of_virtual_nodes_that_are_gone_are_not_used_again_while_the_server_runs():
    server = CoreUnderTest("x.example")
    server.create(A, B)
    server.join(A, B)
    server.join(B, A)
    server.leave(B, A)
    server.join(B, A)
    assert [(row.number, row.present) for row in server.records.virtual_nodes] == [(0, True), (0, False), (1, True)]


def test_a_version_of_an_arc_outlives_the_arc_and_the_restart_until_it_is_forgotten():
    server = CoreUnderTest("x.example", forgets_at_once=False)
    server.create(A, B)
    for _ in range(3):
        server.join(A, B)
        server.leave(A, B)
        server.restart()
    assert [row.version for row in server.records.arcs] == [1, 2, 3, 4, 5, 6]


def test_nodes_with_a_gap_are_refused(stored):
    message = refused(replace(stored, nodes=[row for row in nodes(stored) if row.node_id != B]))
    assert C in message
    assert "is not the next one" in message


def test_nodes_out_of_order_are_refused(stored):
    assert "is not the next one" in refused(replace(stored, nodes=nodes(stored)[::-1]))


def test_two_nodes_of_one_id_are_refused(stored):
    again = NodeRecord(NodeIndex(4), A, NodeKind.GROUP, None, 1, None)
    assert A in refused(replace(stored, nodes=[*nodes(stored), again]))


def test_a_virtual_node_of_one_component_is_refused(stored):
    rows = [row._replace(virtual_node=None) if row.node_id == B else row for row in nodes(stored)]
    assert refused(replace(stored, nodes=rows)) == "virtual node 0 has 1 components"


def test_a_virtual_node_without_components_is_refused(stored):
    extra = VirtualNodeRecord(7, NodeId(A), 1, stored.server, present=True)
    assert refused(replace(stored, virtual_nodes=[*stored.virtual_nodes, extra])) == "virtual node 7 has 0 components"


def test_a_component_of_a_virtual_node_that_is_not_there_is_refused(stored):
    assert refused(replace(stored, virtual_nodes=[])) == "node 0 is in a virtual node that is not there"
    gone = [row._replace(present=False) for row in stored.virtual_nodes]
    assert "not there" in refused(replace(stored, virtual_nodes=gone))


@pytest.mark.parametrize("arc", [(0, 99), (99, 0)])
def test_an_arc_to_or_from_an_unknown_node_is_refused(stored, arc):
    for present in (True, False):
        row = ArcRecord(*map(NodeIndex, arc), 0, 1, 1, present, suspended=False)
        assert "only 4 are there" in refused(replace(stored, arcs=[*stored.arcs, row]))


def test_an_arc_to_a_node_that_is_gone_is_refused(stored):
    rows = [row._replace(kind=NodeKind.ABSENT) if row.node_id == ANN else row for row in nodes(stored)]
    message = refused(replace(stored, nodes=rows))
    assert C in message
    assert ANN in message


def test_an_arc_from_a_process_is_refused(stored):
    rows = [row._replace(kind=NodeKind.PROCESS) if row.node_id == C else row for row in nodes(stored)]
    assert "one of which is gone" in refused(replace(stored, nodes=rows))
