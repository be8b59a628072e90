"""What is durable of stored records: nodes by number where they have one, by name else, and either is read."""

import msgspec
import pytest
from namegraph.boundary import BOUNDARY, Boundary

from namegraph.ancestry_records import AncestryRecords
from namegraph.graph import NameGraph
from namegraph.message_parts import ArcId, RecordVersion
from namegraph.names import NodeId, ServerId, Subnet
from namegraph.priorities import Priority
from namegraph.records import ProtocolRow
from namegraph.site import Site
from namegraph.subnets import SubnetTable

KNOWN, UNKNOWN = NodeId("known@a.x"), NodeId("unknown@b.x")
OUT, IN = ArcId(NodeId("p@a.x"), NodeId("c@b.x")), ArcId(NodeId("p@b.x"), NodeId("c@a.x"))
VERSION = RecordVersion(Priority(3, ServerId("b.x")), is_block=True)


@pytest.fixture
def boundary():
    site = Site(
        server=ServerId("a.x"),
        table=SubnetTable({Subnet("a.x"): ServerId("a.x"), Subnet("b.x"): ServerId("b.x")}),
        graph=NameGraph(),
    )
    site.graph.intern(KNOWN)
    return Boundary(site, AncestryRecords(site))


def restored(boundary, rows):
    again = Boundary(boundary._site, AncestryRecords(boundary._site))
    again.restore(rows)
    return again.stored, again.sent


def test_records_are_the_same_after_a_restart(boundary):
    boundary.store(OUT, (KNOWN, UNKNOWN), VERSION)
    boundary.take_released([(IN, (KNOWN,))])
    rows = boundary.take_rows()
    assert restored(boundary, rows) == ({OUT: (KNOWN, UNKNOWN)}, {IN: (KNOWN,)})
    assert not any(KNOWN.encode() in row.value for row in rows)


def test_rows_of_the_third_layout_name_all_nodes_and_are_read(boundary):
    rows = [
        ProtocolRow(BOUNDARY, " ".join(arc), msgspec.msgpack.encode((arc, VERSION, stored, sent)))
        for arc, stored, sent in ((OUT, (KNOWN, UNKNOWN), None), (IN, (), (KNOWN,)))
    ]
    assert restored(boundary, rows) == ({OUT: (KNOWN, UNKNOWN)}, {IN: (KNOWN,)})
