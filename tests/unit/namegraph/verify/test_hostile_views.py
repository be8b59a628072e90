"""Wrong letters of a peer about views change nothing and end no server."""

import pytest

from namegraph.core import ServerCore
from namegraph.events import PeerMessage, PeerMet
from namegraph.model.names import NodeId, ServerId, Subnet
from namegraph.model.priorities import Priority
from namegraph.model.rows import NodeKind
from namegraph.wire.codec import encode
from namegraph.wire.message_parts import ArcId, Cohort, KnownArc, ViewId
from namegraph.wire.view_messages import (
    Accept,
    ArcDigest,
    ExcludedFromView,
    HintedOutcome,
    Install,
    Open,
    Propose,
    Reach,
    SuspendIncoming,
)

A, B, C = (ServerId(f"{name}.x") for name in "abc")
FIRST = Cohort(ViewId(0, ServerId("")), ServerId(""))
ARC = ArcId(NodeId("g@c.x"), NodeId("h@c.x"))
KNOWN = KnownArc(ARC, True, NodeKind.GROUP, 0, 1, 1)


@pytest.fixture
def core():
    core = ServerCore(server=A, subnets=[Subnet(A)], peers={Subnet(B): B, Subnet(C): C})
    for other in (B, C):
        core.step(PeerMet(other, (Subnet(other),)), 0.0)
    return core


def tell(core, *messages, sender=B, view=None):
    first = core.channels.handled_through(sender)
    for number, message in enumerate(messages, start=first + 1):
        encoded = encode(message) if view is None else encode(message, view)
        core.step(PeerMessage(sender, number, encoded), 0.0)


@pytest.mark.parametrize(
    "message",
    [
        Install(ViewId(3, C), ((A, FIRST), (B, FIRST)), 9, ()),
        Install(ViewId(3, B), ((B, FIRST),), 9, ()),
        Propose(ViewId(3, C)),
        Accept(ViewId(3, B), FIRST, (A, B), 9, (), ()),
        Open(),
        SuspendIncoming((ARC,)),
        ArcDigest((KNOWN,)),
        HintedOutcome(Priority(3, B), (), (KNOWN,)),
    ],
    ids=lambda message: type(message).__name__,
)
def test_who_speaks_for_others_is_not_heard(core, message):
    tell(core, message)
    assert sum(core.channels.faults.values()) == 1
    assert core.view == ""


def test_a_view_that_was_not_accepted_is_not_installed(core):
    tell(core, Install(ViewId(3, B), ((A, FIRST), (B, FIRST)), 9, ()))
    assert core.view == ""


def test_who_is_not_to_lead_is_declined(core):
    tell(core, Propose(ViewId(3, B)))
    assert not core.view_change_in_progress


def test_outcomes_that_are_none_are_passed_over():
    core = ServerCore(server=C, subnets=[Subnet(C)], peers={Subnet(B): B})
    core.step(PeerMet(B, (Subnet(B),)), 0.0)
    view = ViewId(3, B)
    tell(core, Propose(view), Install(view, ((B, FIRST), (C, FIRST)), 9, (b"", b"garbage", encode(Reach(view, (B,))))))
    assert core.view == "3@b.x"
    assert core.members == (B, C)


def test_a_server_that_is_left_out_goes_on_alone(core):
    tell(core, ExcludedFromView(ViewId(7, B), (B, C)))
    assert core.members == (A,)


def test_late_word_of_a_view_that_did_without_this_server_is_passed_over():
    core = ServerCore(server=C, subnets=[Subnet(C)], peers={Subnet(A): A, Subnet(B): B})
    for other in (A, B):
        core.step(PeerMet(other, (Subnet(other),)), 0.0)
    everybody = tuple((server, FIRST) for server in (A, B, C))
    tell(core, Propose(ViewId(2, A)), Install(ViewId(2, A), everybody, 9, ()), sender=A)
    assert core.view == "2@a.x"
    tell(core, ExcludedFromView(ViewId(1, A), (A, B)))
    assert (core.view, core.view_change_in_progress) == ("2@a.x", False)
    # A view that is newer than this one was accepted by whoever says so.
    tell(core, ExcludedFromView(ViewId(3, A), (A, B)))
    assert core.members == (C,)
