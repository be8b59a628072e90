"""A server goes on under any letters of a peer. Refused letters are counted and change nothing, even after a restart.

Two servers talk over an attacker who changes, drops and forges letters. A third peer writes only nonsense. Seeds are
run one by one, so that a failing one can be examined alone.
"""

import pytest
from msgspec import structs

from namegraph.model.names import NodeId, ServerId
from namegraph.model.operations import ChildKind, CreateGroup, DeleteGroup, JoinArc, LeaveArc
from namegraph.model.peer_faults import PeerFault
from namegraph.model.priorities import NUMBER_LIMIT, Priority
from namegraph.model.refusals import Reason, Refusal
from namegraph.model.rows import NodeKind
from namegraph.verify.leaps import LEAP_LIMIT
from namegraph.wire.arc_sets import FEW
from namegraph.wire.codec import encode
from namegraph.wire.columns import pack_records
from namegraph.wire.message_parts import (
    AncestryRecord,
    ArcId,
    ArcList,
    ArcVersion,
    Cover,
    KnownArc,
    OperationColumns,
    ReconcileArc,
    RecordList,
    Update,
    UpdateId,
    ViewId,
)
from namegraph.wire.update_messages import Abort, Commit, Drop, Final, Order, Ready, Refuse
from namegraph.wire.view_messages import (
    ArcDigest,
    DigestReply,
    ExcludedFromView,
    HintedOutcome,
    Propose,
    Reach,
    SuspendIncoming,
)
from tests.hostile_scene import GROUPS, HERE, OTHER, PEOPLE, THIRD, Scene


@pytest.mark.parametrize("seed", range(100))
def test_no_letter_ends_a_server(seed):
    scene = Scene(seed)
    scene.live()
    scene.restart(HERE)
    assert scene.cores[HERE].channels.faults


UPDATE = UpdateId(OTHER, 1)
NOTHING = Cover(frozenset(), frozenset())
SUSPENDED = KnownArc(ArcId(GROUPS[0], GROUPS[1]), None, NodeKind.GROUP, 0, 1, 1)
"""State that an update alone gives an arc."""


def order(*operations, update_id=UPDATE, tentative=5, **of_update):
    numbered = tuple(enumerate(operations, start=1))
    update = Update(update_id, numbered, len(numbered), (), **{"read": None, **of_update})
    return Order(update, Priority(tentative, OTHER), NOTHING, None)


BEYOND = NUMBER_LIMIT + 1


@pytest.mark.parametrize(
    "letter",
    [
        order(JoinArc(NodeId("not a name"), NodeId("@@"), ChildKind.GROUP)),
        order(CreateGroup(NodeId("\0@b.x"))),
        order(CreateGroup(NodeId("g@B.X"))),
        order(read=NodeId("nope")),
        order(brought=OperationColumns(("nope",), b"", b"", b"", b"", b"", b"")),
        order(tentative=BEYOND),
        order(tentative=2**63),
        order(tentative=2**64 - 1),
        order(tentative=-1),
        order(update_id=UpdateId(OTHER, BEYOND)),
        order(JoinArc(GROUPS[0], GROUPS[1], cost=BEYOND)),
        Final(UPDATE, Priority(5, ServerId("\0"))),
        Reach(ViewId(BEYOND, OTHER), (OTHER,)),
        Propose(ViewId(2**64 - 1, OTHER)),
    ],
)
def test_what_is_no_name_or_number_is_refused(letter):
    scene = Scene(0)
    scene.receive(HERE, OTHER, encode(letter))
    assert scene.cores[HERE].channels.faults == {(OTHER, PeerFault.NOT_LEGAL): 1}


@pytest.mark.parametrize(
    ("letter", "fault"),
    [
        (SuspendIncoming(()), PeerFault.NOT_OUR_VIEW),
        (ExcludedFromView(ViewId(2, OTHER), (HERE, OTHER)), PeerFault.NOT_ITS_VIEW),
        (ExcludedFromView(ViewId(2, OTHER), ()), PeerFault.NOT_ITS_VIEW),
        (order(CreateGroup(GROUPS[0]), cut="a cut"), PeerFault.NOT_ONE_UPDATE),
        (order(CreateGroup(GROUPS[0]), read=GROUPS[0]), PeerFault.NOT_ONE_UPDATE),
        (order(ReconcileArc(GROUPS[0], GROUPS[1], True, NodeKind.ABSENT, 0, 1, 1)), PeerFault.NO_ARC),
        (order(ReconcileArc(GROUPS[0], GROUPS[0], True, NodeKind.GROUP, 0, 1, 1)), PeerFault.NO_ARC),
        (ArcDigest((SUSPENDED,)), PeerFault.NO_ARC),
        (DigestReply((SUSPENDED,)), PeerFault.NO_ARC),
        (HintedOutcome(Priority(3, OTHER), (), (SUSPENDED,)), PeerFault.NO_ARC),
        (Commit(UPDATE, b"", (), is_shared=True), PeerFault.NOT_READY),
    ],
)
def test_what_cannot_be_so_is_refused(letter, fault):
    scene = Scene(0)
    scene.receive(HERE, OTHER, encode(letter))
    assert scene.cores[HERE].channels.faults == {(OTHER, fault): 1}


def test_a_leap_within_the_limit_leaves_room_for_those_that_follow_it():
    scene = Scene(0)
    scene.receive(HERE, OTHER, encode(order(tentative=LEAP_LIMIT)))
    scene.restart(HERE)
    scene.ask(HERE, CreateGroup(NodeId("later@b.x")))
    assert "later@b.x" in scene.cores[HERE].graph.index


def test_text_that_is_none_is_unreadable():
    scene = Scene(0)
    scene.receive(HERE, OTHER, encode(order(CreateGroup(GROUPS[0]))).replace(b"@b.x", b"@b\xff\xfe"))
    assert scene.cores[HERE].channels.faults == {(OTHER, PeerFault.UNREADABLE): 1}


def test_who_is_not_in_the_view_does_not_speak_in_it():
    scene = Scene(0)
    scene.receive(HERE, OTHER, encode(ExcludedFromView(ViewId(2, OTHER), (OTHER, THIRD))))
    core = scene.cores[HERE]
    assert core.members == (HERE,)
    number, leader = core.view.split("@")
    scene.receive(HERE, OTHER, encode(order(), ViewId(int(number), ServerId(leader))))
    assert core.channels.faults == {(OTHER, PeerFault.NOT_IN_VIEW): 1}


def test_who_is_ready_without_saying_what_its_nodes_are_ends_the_update():
    scene = Scene(0)
    scene.ask(HERE, JoinArc(GROUPS[0], GROUPS[2]))
    scene.deliver_all()
    core = scene.cores[HERE]
    assert core.graph.children[core.graph.index[GROUPS[0]]]
    scene.ask(HERE, JoinArc(GROUPS[1], GROUPS[2]))
    scene.deliver_all(lambda message: structs.replace(message, children=()) if isinstance(message, Ready) else message)
    assert core.channels.faults == {(OTHER, PeerFault.UNSAID): 1}
    assert not core.graph.children[core.graph.index[GROUPS[1]]]


def test_who_is_ready_without_the_ancestry_of_its_parents_ends_the_update():
    """A loop that closes here makes what is above count, and another arc of the same update leads from there."""
    scene = Scene(0)
    scene.ask(HERE, JoinArc(GROUPS[0], GROUPS[1]))
    scene.ask(HERE, JoinArc(GROUPS[1], GROUPS[0]), JoinArc(GROUPS[2], GROUPS[3]))
    scene.deliver_all(
        lambda message: structs.replace(message, ancestry=pack_records(())) if isinstance(message, Ready) else message
    )
    core = scene.cores[HERE]
    assert core.channels.faults == {(OTHER, PeerFault.UNSAID): 1}
    assert not core.graph.virtual_nodes


LONG_ARCS = (KnownArc(ArcId(GROUPS[0], GROUPS[2]), True, NodeKind.GROUP, 0, 1),) * FEW
LONG_RECORDS = (AncestryRecord(GROUPS[2], (), None, Priority(1, OTHER)),) * FEW


@pytest.mark.parametrize("lie", [{"arcs": ArcList(LONG_ARCS)}, {"ancestry": RecordList(LONG_RECORDS)}], ids=list)
def test_who_is_ready_with_a_list_that_is_too_long_ends_the_update(lie):
    scene = Scene(0)
    scene.ask(HERE, JoinArc(GROUPS[0], GROUPS[2]))
    scene.deliver_all(lambda message: structs.replace(message, **lie) if isinstance(message, Ready) else message)
    core = scene.cores[HERE]
    assert core.channels.faults == {(OTHER, PeerFault.NO_COLUMNS): 1}
    assert not core.graph.children[core.graph.index[GROUPS[0]]]
    assert not core._coordinator.under_way()


@pytest.mark.parametrize("counter", [None, 10**6], ids=["at the version held", "at a later one"])
def test_nobody_else_says_what_is_above_the_groups_of_a_coordinator(counter):
    scene = Scene(0)
    core = scene.cores[HERE]
    scene.ask(HERE, JoinArc(GROUPS[0], GROUPS[1]))
    scene.ask(HERE, JoinArc(GROUPS[1], GROUPS[2]))
    node = core.graph.index[GROUPS[1]]
    version = core.records.version_of(node) if counter is None else Priority(counter, OTHER)
    lie = pack_records([AncestryRecord(GROUPS[1], (), None, version)])
    scene.deliver_all(lambda message: structs.replace(message, ancestry=lie) if isinstance(message, Ready) else message)
    assert core.channels.faults == {(OTHER, PeerFault.NOT_ITS_ANCESTRY): 1}
    assert core.graph.parents[node]
    assert not core._coordinator.under_way()


def test_nobody_tells_versions_of_arcs_to_the_nodes_of_another_server():
    scene = Scene(0)
    scene.ask(HERE, JoinArc(GROUPS[0], GROUPS[2]))
    lie = (ArcVersion(ArcId(GROUPS[0], GROUPS[1]), 7),)
    scene.deliver_all(lambda message: structs.replace(message, told=lie) if isinstance(message, Ready) else message)
    core = scene.cores[HERE]
    assert core.channels.faults == {(OTHER, PeerFault.NOT_ITS_NODE): 1}
    assert not core.graph.children[core.graph.index[GROUPS[0]]]


def in_use(update_id, *arcs, number=1):
    return Refuse(update_id, number, Refusal(Reason.GROUP_IN_USE, "in use"), tuple(ArcId(*arc) for arc in arcs))


def test_arcs_are_left_for_nobody_but_the_home_of_a_group_that_is_deleted():
    scene = Scene(0)
    scene.ask(HERE, JoinArc(GROUPS[0], GROUPS[2]))
    scene.deliver_all()
    scene.ask(HERE, JoinArc(GROUPS[1], PEOPLE[1], ChildKind.PROCESS))
    scene.ask(HERE, DeleteGroup(GROUPS[0], force=True))
    core = scene.cores[HERE]
    (update_id,) = core._coordinator.under_way()
    scene.receive(HERE, THIRD, encode(in_use(update_id, (GROUPS[1], PEOPLE[1]))))
    scene.deliver_all()
    assert core.channels.faults == {(THIRD, PeerFault.UNASKED): 1}
    assert core.graph.index[PEOPLE[1]] in core.graph.children[core.graph.index[GROUPS[1]]]
    assert core.graph.group(GROUPS[0]) is None


@pytest.mark.parametrize(
    ("group", "arc"),
    [(GROUPS[0], (GROUPS[0], GROUPS[1])), (GROUPS[2], (GROUPS[1], PEOPLE[1]))],
    ids=["the group of another", "arcs of another group"],
)
def test_who_has_no_group_to_be_deleted_has_no_arcs_to_be_left(group, arc):
    scene = Scene(0)
    scene.ask(HERE, JoinArc(*arc, ChildKind.AUTO))
    scene.ask(HERE, JoinArc(GROUPS[1], GROUPS[3]), DeleteGroup(group, force=True))
    lie = in_use(scene.cores[HERE]._coordinator.under_way()[0], arc, number=2)
    scene.deliver_all(lambda message: lie if isinstance(message, Ready) else message)
    core = scene.cores[HERE]
    assert core.channels.faults == {(OTHER, PeerFault.NOT_IN_USE): 1}
    assert core.graph.index[arc[1]] in core.graph.children[core.graph.index[arc[0]]]


def test_an_update_that_was_asked_for_is_aborted_and_not_dropped():
    scene = Scene(0)
    below, above, top = GROUPS[0], GROUPS[2], GROUPS[3]
    for parent, child in [(above, below), (top, below), (top, above)]:
        scene.ask(OTHER, JoinArc(parent, child))
        scene.deliver_all()
    scene.ask(OTHER, LeaveArc(top, above))
    core, letters = scene.cores[HERE], scene.pending[OTHER, HERE]
    while letters:
        scene.receive(HERE, OTHER, letters.pop(0))
    (update_id,) = core.entries.by_update
    scene.receive(HERE, OTHER, encode(Drop(update_id)))
    assert core.channels.faults == {(OTHER, PeerFault.NOT_ITS_UPDATE): 1}
    scene.receive(HERE, OTHER, encode(Abort(update_id)))
    assert not core.entries.by_update
