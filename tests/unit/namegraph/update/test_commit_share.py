"""What a server takes of a whole outcome is what a coordinator would have cut out for it; what is none is refused."""

import pytest
from msgspec import structs

from namegraph.core import ServerCore
from namegraph.events import PeerMessage, PeerMet
from namegraph.graph.name_graph import NameGraph
from namegraph.model.names import NodeId, ServerId, Subnet
from namegraph.model.ownership import OwnershipTable
from namegraph.model.peer_faults import PeerFault
from namegraph.model.priorities import Priority
from namegraph.model.rows import NodeKind
from namegraph.state.context import ServerContext
from namegraph.update.arc_outcomes import ArcOutcomes
from namegraph.update.commit_share import own_part
from namegraph.update.decision import Decision, Relay
from namegraph.wire.codec import NotAMessageError, decode, encode
from namegraph.wire.columns import pack_arcs, unpack_arcs, unpack_records
from namegraph.wire.message_parts import AncestryRecord, ArcChange, ArcId, GroupChange, InArc, PendingEntry, UpdateId
from namegraph.wire.update_messages import Drop

SERVERS = [ServerId(name) for name in ("a.x", "b.x", "c.x")]
TABLE = OwnershipTable({Subnet(server): server for server in SERVERS})
UPDATE = UpdateId(SERVERS[0], 5)
FINAL, BEFORE = Priority(7, SERVERS[1]), Priority(3, SERVERS[2])
A, B, C, ABOVE = (NodeId(name) for name in ("g@a.x", "g@b.x", "g@c.x", "above@c.x"))
GUEST, NATIVE = NodeId("guest@people.example"), NodeId("m@b.x")
ARCS = [(A, B), (B, C), (C, A), (ABOVE, C), (B, GUEST), (A, NATIVE), (B, NATIVE)]
KINDS = {GUEST: NodeKind.PROCESS, NATIVE: NodeKind.PROCESS}


def site_of(server):
    return ServerContext(server=server, table=TABLE, graph=NameGraph())


def decision():
    outcomes = ArcOutcomes()
    kinds = {child: KINDS.get(child, NodeKind.GROUP) for _, child in ARCS}
    changes = [ArcChange(ArcId(*arc), True, NodeKind.ABSENT, 0, 1) for arc in ARCS]
    outcomes.add(pack_arcs(changes), kinds)
    records = {
        ABOVE: AncestryRecord(ABOVE, (), None, BEFORE),
        C: AncestryRecord(C, (InArc(ABOVE, 0, 1, 7),), None, FINAL),
    }
    return Decision(
        UPDATE,
        FINAL,
        after=None,
        groups=(GroupChange(A, is_present=True), GroupChange(B, is_present=True)),
        arcs=outcomes,
        already_there=0,
        renamed=((B, None),),
        relay=Relay(dict.fromkeys(sorted(records), BEFORE), records.__getitem__),
        bases=((B, BEFORE), (C, BEFORE)),
        effects=[],
        home_of=lambda name: TABLE.home_of(name) or SERVERS[0],
    )


class NothingHeld:
    """All that is asked of a `Ready` here."""

    held = ()


READIES = dict.fromkeys(SERVERS, NothingHeld())
HANDED_ON = (PendingEntry(UpdateId(SERVERS[2], 1), BEFORE, None),)


def whole():
    made = decision()
    return made.for_all(encode(made.everything(READIES)), HANDED_ON)


def arcs_in(commit):
    return {change.arc for change in unpack_arcs(commit.arcs)}


@pytest.mark.parametrize("server", SERVERS)
def test_the_part_that_a_server_takes_is_the_one_that_would_be_cut_for_it(server):
    cut, taken = decision().parts(READIES, HANDED_ON)[server], own_part(whole(), site_of(server))
    # A process that is nobody's counts as the coordinator's where parts are cut; it has no use for such an arc.
    assert arcs_in(taken) == {arc for arc in arcs_in(cut) if arc.child != GUEST or TABLE.home_of(arc.parent) == server}
    assert list(unpack_records(taken.relay)) == list(unpack_records(cut.relay))
    assert set(cut.groups) <= set(taken.groups)
    same = ("update_id", "final", "renamed", "bases", "handed_on")
    assert [getattr(taken, field) for field in same] == [getattr(cut, field) for field in same]
    assert not taken.is_whole


def test_a_whole_outcome_is_read_back_as_it_was_sent():
    assert decode(encode(whole())) == whole()


def test_a_part_is_taken_as_it_is():
    part = decision().parts(READIES, ())[SERVERS[1]]
    assert own_part(part, site_of(SERVERS[1])) is part


BAD = {
    "garbage": b"garbage",
    "no commit": encode(Drop(UPDATE)),
    "whole again": encode(whole()),
    "of another update": encode(structs.replace(decision().everything(READIES), update_id=UpdateId(SERVERS[0], 6))),
    "columns that do not fit": encode(
        structs.replace(
            decision().everything(READIES),
            arcs=decision().everything(READIES).arcs._replace(parents=b"\xff\xff\xff\xff" * len(ARCS)),
        )
    ),
}


@pytest.mark.parametrize("everything", BAD.values(), ids=BAD.keys())
def test_what_is_no_whole_outcome_is_refused_and_counted(everything):
    bad = structs.replace(whole(), everything=everything)
    with pytest.raises(NotAMessageError):
        own_part(bad, site_of(SERVERS[1]))
    core = ServerCore(server=SERVERS[1], subnets=[Subnet("b.x")], peers={Subnet("a.x"): SERVERS[0]})
    core.step(PeerMet(SERVERS[0], (Subnet("a.x"),)), 0.0)
    core.step(PeerMessage(SERVERS[0], 1, encode(bad)), 0.0)
    assert core.channels.faults == {(SERVERS[0], PeerFault.UNREADABLE): 1}
