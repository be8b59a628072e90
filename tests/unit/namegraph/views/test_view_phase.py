"""The phases of a view: every phase against every event, by the table, and by messages and lost peers."""

import pytest

from namegraph.core import ServerCore
from namegraph.events import PeerLost, PeerMessage, PeerMet
from namegraph.model.names import ServerId, Subnet
from namegraph.model.priorities import Priority
from namegraph.state.view_phase import ViewEvent, ViewPhase
from namegraph.wire.codec import decode, encode
from namegraph.wire.message_parts import FIRST_VIEW, Cohort, ViewId
from namegraph.wire.view_messages import (
    Accept,
    ArcDigest,
    Decline,
    DigestReply,
    ExcludedFromView,
    HintedOutcome,
    IncomingSuspended,
    Install,
    MemberReconciled,
    Open,
    Propose,
    Reach,
    SuspendIncoming,
    ViewReconciled,
)

A, B, C = (ServerId(f"{name}.x") for name in "abc")
FIRST_COHORT = Cohort(FIRST_VIEW, ServerId(""))
EVERYBODY = tuple((server, FIRST_COHORT) for server in (A, B, C))
NOW, PROMISED, LATER = (ViewId(number, A) for number in (2, 3, 9))
FIRST, SUSPENDING, HEALING, HEALED = ViewPhase


@pytest.mark.parametrize(
    ("event", "after"),
    [
        (ViewEvent.INSTALLED, (SUSPENDING, SUSPENDING, SUSPENDING, SUSPENDING)),
        (ViewEvent.OPENED, (None, HEALING, None, None)),
        (ViewEvent.RECONCILED, (None, None, HEALED, None)),
    ],
)
def test_every_phase_against_every_event(event, after):
    assert tuple(phase.after(event) for phase in ViewPhase) == after


def new_core():
    core = ServerCore(server=B, subnets=[Subnet(B)], peers={Subnet(A): A, Subnet(C): C})
    for other in (A, C):
        core.step(PeerMet(other, (Subnet(other),)), 0.0)
    return core


def tell(core, sender, message):
    number = core.channels.handled_through(sender) + 1
    effects = core.step(PeerMessage(sender, number, encode(message, core._context.view)), 0.0)
    return [(letter.receiver, type(decode(letter.encoded))) for letter in effects.messages]


LEADS_TO = {
    FIRST: (),
    SUSPENDING: (Propose(NOW), Install(NOW, EVERYBODY, 9, ())),
    HEALING: (Propose(NOW), Install(NOW, EVERYBODY, 9, ()), Open()),
    HEALED: (Propose(NOW), Install(NOW, EVERYBODY, 9, ()), Open(), ViewReconciled()),
}


def member_in(phase, *, is_given_up):
    """Return a member of the view of all three, led by the first. It may have promised the next view."""
    core = new_core()
    for message in (*LEADS_TO[phase], *((Propose(PROMISED),) if is_given_up else ())):
        tell(core, A, message)
    return core


def state(core):
    return core._context.phase, core.view_change_in_progress


STAYS, PROMISES, IS_ALONE = "stays", "gives up the view", "is healed alone"
FAULT = "is a fault of the sender"
OF_EACH_PHASE = {
    "reach": (C, Reach(FIRST_VIEW, (A, B, C)), (STAYS,) * 4, STAYS),
    "propose": (A, Propose(LATER), (PROMISES,) * 4, STAYS),
    "propose as who is not the smallest": (C, Propose(ViewId(9, C)), (STAYS,) * 4, STAYS),
    "decline": (C, Decline(ViewId(3, B), LATER, A), (STAYS,) * 4, STAYS),
    "accept": (C, Accept(ViewId(3, B), FIRST_COHORT, (A, B, C), 9, (), ()), (STAYS,) * 4, STAYS),
    "excluded": (A, ExcludedFromView(LATER, (A, C)), (IS_ALONE,) * 4, IS_ALONE),
    "install what is promised": (A, Install(PROMISED, EVERYBODY, 9, ()), (STAYS,) * 4, SUSPENDING),
    "install once more": (A, Install(NOW, EVERYBODY, 9, ()), (STAYS,) * 4, STAYS),
    "suspend incoming": (C, SuspendIncoming(()), (FAULT,) * 4, STAYS),
    "incoming suspended": (C, IncomingSuspended(), (FAULT,) * 4, STAYS),
    "open": (A, Open(), (FAULT, HEALING, STAYS, STAYS), STAYS),
    "digest": (A, ArcDigest(()), (STAYS,) * 4, STAYS),
    "digest reply": (A, DigestReply(()), (STAYS,) * 4, STAYS),
    "member reconciled": (C, MemberReconciled(), (FAULT,) * 4, STAYS),
    "view reconciled": (A, ViewReconciled(), (FAULT, STAYS, HEALED, STAYS), STAYS),
    "hinted outcome": (A, HintedOutcome(Priority(3, A), (), ()), (STAYS,) * 4, STAYS),
    "met": (C, None, (STAYS,) * 4, STAYS),
    "lost": (C, PeerLost, (STAYS,) * 4, STAYS),
    "leader lost": (A, PeerLost, (PROMISES,) * 4, PROMISES),
}
"""For every event at a member: its sender, the message, its effect in each phase, and after the view is given up."""


@pytest.mark.parametrize("is_given_up", [False, True], ids=["going on", "given up"])
@pytest.mark.parametrize("phase", ViewPhase, ids=lambda phase: phase.name)
@pytest.mark.parametrize("event", OF_EACH_PHASE)
def test_every_phase_of_a_member_against_every_message(event, phase, is_given_up):
    sender, message, in_phases, in_any_given_up = OF_EACH_PHASE[event]
    expected = in_any_given_up if is_given_up else dict(zip(ViewPhase, in_phases, strict=True))[phase]
    core = member_in(phase, is_given_up=is_given_up)
    view = core.view
    if message is None:
        core.step(PeerMet(sender, (Subnet(sender),)), 0.0)
    elif message is PeerLost:
        core.step(PeerLost(sender, "gone"), 0.0)
    else:
        tell(core, sender, message)
    assert (sum(core.channels.faults.values()) > 0) == (expected is FAULT)
    if expected is IS_ALONE:
        assert (state(core), core.members) == ((HEALED, False), (B,))
    elif expected in (STAYS, FAULT):
        assert (state(core), core.view) == ((phase, is_given_up), view)
    elif expected is PROMISES:
        assert (state(core), core.view) == ((phase, True), view)
    else:
        assert state(core) == (expected, False)


LED = ViewId(1, B)
ACCEPT = Accept(LED, FIRST_COHORT, (B, C), 9, (), ())
TO_LEADER = (ACCEPT, SuspendIncoming(()), DigestReply(()), MemberReconciled())
"""Letters that lead the view of two from each stage to the next at its leader, which is itself a member."""

PROPOSING = "proposing"
STAGES = (PROPOSING, SUSPENDING, HEALING, "all but one reconciled", HEALED)
"""Each with one more message of the other member."""

AT_LEADER = {
    "reach": (Reach(LED, (B, C)), STAGES),
    "reach from nowhere": (Reach(FIRST_VIEW, (B, C)), (PROPOSING,) * 5),
    "decline": (Decline(LED, FIRST_VIEW, B), STAGES),
    "accept": (ACCEPT, (SUSPENDING, *STAGES[1:])),
    "accept of another view": (Accept(ViewId(7, B), FIRST_COHORT, (B, C), 9, (), ()), STAGES),
    "suspend incoming": (SuspendIncoming(()), (PROPOSING, HEALING, *STAGES[2:])),
    "incoming suspended": (IncomingSuspended(), STAGES),
    "digest": (ArcDigest(()), STAGES),
    "digest reply": (DigestReply(()), (PROPOSING, SUSPENDING, STAGES[3], STAGES[3], HEALED)),
    "member reconciled": (MemberReconciled(), (PROPOSING, SUSPENDING, HEALING, HEALED, HEALED)),
    "open of a member": (Open(), STAGES),
    "view reconciled of a member": (ViewReconciled(), STAGES),
}
"""Letters of another member, and the stage after each in each stage."""


def leader_at(stage):
    core = new_core()
    core.step(PeerLost(A, "gone"), 0.0)
    for message in TO_LEADER[: STAGES.index(stage)]:
        tell(core, C, message)
    return core


def stage_of(core):
    phase, is_given_up = state(core)
    if is_given_up:
        return PROPOSING
    return STAGES[3] if phase is HEALING and B in core._views._healed else phase


@pytest.mark.parametrize("stage", STAGES, ids=str)
@pytest.mark.parametrize("event", AT_LEADER)
def test_every_stage_of_a_leader_against_every_message(event, stage):
    message, after = AT_LEADER[event]
    core = leader_at(stage)
    assert stage_of(core) == stage
    tell(core, C, message)
    assert stage_of(core) == after[STAGES.index(stage)]


@pytest.mark.parametrize(
    ("stage", "expected"),
    [
        (PROPOSING, [Install]),
        (SUSPENDING, [Open, ArcDigest]),
        (HEALING, []),
        (STAGES[3], [ViewReconciled]),
    ],
    ids=str,
)
def test_a_leader_tells_the_members_of_each_stage_that_begins(stage, expected):
    core = leader_at(stage)
    told = tell(core, C, TO_LEADER[STAGES.index(stage)])
    assert [kind for receiver, kind in told if receiver == C] == expected
