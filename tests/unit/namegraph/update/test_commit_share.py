"""A server takes every part of an outcome that it can use. Malformed outcomes are refused."""

import pytest
from msgspec import structs

from namegraph.graph.name_graph import NameGraph
from namegraph.model.names import NodeId, ServerId, Subnet
from namegraph.model.ownership import OwnershipTable
from namegraph.model.priorities import NUMBER_LIMIT, Priority
from namegraph.model.rows import NodeKind
from namegraph.state.context import ServerContext
from namegraph.update.commit_share import read_share
from namegraph.wire.arc_sets import FEW, arcs_of, each_arc, records_of
from namegraph.wire.codec import NotAMessageError, decode, encode, encode_outcome
from namegraph.wire.inflation import COMPRESSED_FROM_BYTES
from namegraph.wire.message_parts import (
    AncestryRecord,
    ArcId,
    ArcList,
    GroupChange,
    InArc,
    KnownArc,
    PendingEntry,
    RecordList,
    UpdateId,
)
from namegraph.wire.older_forms import outcome_in_columns
from namegraph.wire.update_messages import Commit, Drop, UpdateOutcome

SERVERS = [ServerId(name) for name in ("a.x", "b.x", "c.x")]
TABLE = OwnershipTable({Subnet(server): server for server in SERVERS})
UPDATE = UpdateId(SERVERS[0], 5)
FINAL, BEFORE = Priority(7, SERVERS[1]), Priority(3, SERVERS[2])
A, B, C, ABOVE = (NodeId(name) for name in ("g@a.x", "g@b.x", "g@c.x", "above@c.x"))
GUEST, NATIVE = NodeId("guest@people.example"), NodeId("m@b.x")
ARCS = [(A, B), (B, C), (C, A), (ABOVE, C), (B, GUEST), (A, NATIVE), (B, NATIVE)]
KINDS = {GUEST: NodeKind.PROCESS, NATIVE: NodeKind.PROCESS}
OUTCOME = UpdateOutcome(
    UPDATE,
    FINAL,
    groups=(GroupChange(A, is_present=True), GroupChange(B, is_present=True)),
    arcs=arcs_of([KnownArc(ArcId(*arc), True, KINDS.get(arc[1], NodeKind.GROUP), 0, 1) for arc in ARCS]),
    renamed=((B, None),),
    relay=records_of(
        [AncestryRecord(ABOVE, (), None, BEFORE), AncestryRecord(C, (InArc(ABOVE, 0, 1, 7),), None, FINAL)]
    ),
    bases=((B, BEFORE),),
)


IN_COLUMNS = outcome_in_columns(OUTCOME)
FORMS = pytest.mark.parametrize("outcome", [OUTCOME, IN_COLUMNS], ids=["listed", "in columns"])


def site_of(server):
    return ServerContext(server=server, table=TABLE, graph=NameGraph())


@FORMS
@pytest.mark.parametrize(
    ("server", "arcs"),
    [
        # Each may hold a record of every child that is a group and not relayed.
        (SERVERS[0], [(A, B), (C, A), (A, NATIVE)]),
        (SERVERS[1], [(A, B), (B, C), (C, A), (B, GUEST), (A, NATIVE), (B, NATIVE)]),
        (SERVERS[2], [(A, B), (B, C), (C, A), (ABOVE, C)]),
    ],
)
def test_a_share_has_the_arcs_of_own_nodes_and_into_groups_that_are_not_relayed(outcome, server, arcs):
    share = read_share(encode_outcome(outcome), site_of(server))
    assert [change.arc for change in each_arc(share.arcs)] == arcs
    assert structs.replace(share, arcs=outcome.arcs) == outcome


@FORMS
def test_a_share_of_a_share_is_all_of_it(outcome):
    context = site_of(SERVERS[0])
    share = read_share(encode_outcome(outcome), context)
    assert read_share(encode_outcome(share), context) == share


def test_a_large_outcome_is_compressed_once():
    large = structs.replace(OUTCOME, groups=tuple(GroupChange(A, True) for _ in range(COMPRESSED_FROM_BYTES)))
    commit = Commit(UPDATE, encode_outcome(large), (PendingEntry(UPDATE, BEFORE, None),), is_shared=True)
    assert len(commit.outcome) < COMPRESSED_FROM_BYTES
    assert commit.outcome in encode(commit)
    assert decode(encode(commit)) == commit
    assert read_share(commit.outcome, site_of(SERVERS[1])).groups == large.groups


BAD = {
    "nothing": b"",
    "garbage": b"garbage",
    "a message": encode(Drop(UPDATE)),
    "of another update": encode_outcome(structs.replace(OUTCOME, update_id=UpdateId(SERVERS[0], 6))),
    "arcs whose columns do not fit": encode_outcome(
        structs.replace(OUTCOME, arcs=IN_COLUMNS.arcs._replace(parents=b"\xff\xff\xff\xff" * len(ARCS)))
    ),
    "records whose columns do not fit": encode_outcome(
        structs.replace(OUTCOME, relay=IN_COLUMNS.relay._replace(degrees=b""))
    ),
    "a list of too many arcs": encode_outcome(structs.replace(OUTCOME, arcs=ArcList(OUTCOME.arcs.arcs[:1] * FEW))),
    "a list of too many records": encode_outcome(
        structs.replace(OUTCOME, relay=RecordList(OUTCOME.relay.records[:1] * FEW))
    ),
    "a list of a record with too many arcs": encode_outcome(
        structs.replace(OUTCOME, relay=RecordList((AncestryRecord(C, (InArc(ABOVE, 0, 1, 7),) * FEW, None, FINAL),)))
    ),
    **{
        f"{why}{where}": encode_outcome(form(structs.replace(OUTCOME, arcs=arcs_of([KnownArc(*arc, 1)]))))
        for where, form in (("", lambda outcome: outcome), (", in columns", outcome_in_columns))
        for why, arc in (
            ("an arc to itself", (ArcId(A, A), True, NodeKind.GROUP, 0)),
            ("a present arc to nothing", (ArcId(A, B), True, NodeKind.ABSENT, 0)),
            ("a suspended arc to nothing", (ArcId(A, B), None, NodeKind.ABSENT, 0)),
            ("a cost beyond all numbers", (ArcId(A, B), True, NodeKind.GROUP, NUMBER_LIMIT + 1)),
        )
    },
    "no name in a list": encode_outcome(
        structs.replace(OUTCOME, arcs=arcs_of([KnownArc(ArcId(A, NodeId("g@A.X")), True, NodeKind.GROUP, 0, 1)]))
    ),
    "a negative number in a list": encode_outcome(
        structs.replace(OUTCOME, relay=records_of([AncestryRecord(C, (InArc(ABOVE, -1, 1, 7),), None, FINAL)]))
    ),
    "no name": encode_outcome(structs.replace(OUTCOME, groups=(GroupChange(NodeId("g@A.X"), True),))),
    "no number": encode_outcome(structs.replace(OUTCOME, final=Priority(-1, SERVERS[1]))),
}


@pytest.mark.parametrize("encoded", BAD.values(), ids=BAD.keys())
def test_what_is_no_outcome_is_refused(encoded):
    with pytest.raises(NotAMessageError):
        read_share(encoded, site_of(SERVERS[1]), update_id=UPDATE)
