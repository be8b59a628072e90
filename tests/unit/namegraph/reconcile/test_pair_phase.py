"""Settling the arcs between two homes: every phase against every event, and every update that it starts, as it ends."""

from itertools import count

import pytest

from namegraph.graph.name_graph import NameGraph
from namegraph.model.names import NodeId, ServerId, Subnet
from namegraph.model.operations import CreateGroup
from namegraph.model.ownership import OwnershipTable
from namegraph.model.priorities import Priority
from namegraph.model.rows import NodeKind
from namegraph.reconcile import pair_phase
from namegraph.reconcile.pair_phase import PairPhase, PairState
from namegraph.reconcile.reconciliation import Reconciliation
from namegraph.state.context import ServerContext
from namegraph.state.view_phase import ViewPhase
from namegraph.wire.message_parts import ArcId, Cohort, GroupChange, KnownArc, ReconcileArc, UpdateId, ViewId
from namegraph.wire.view_messages import ArcDigest, DigestReply, HintedOutcome, MemberReconciled

SETTLED, COMPARING, SETTLING, INTERRUPTED = PairPhase
A, B = ServerId("a.x"), ServerId("b.x")


def arcs(number):
    return [
        ReconcileArc(NodeId(f"g{each}@a.x"), NodeId("h@b.x"), True, NodeKind.GROUP, 0, 1, 1) for each in range(number)
    ]


def pair_in(phase, *, waiting=0):
    pair = PairState()
    match phase:
        case PairPhase.COMPARING:
            pair.compare()
        case PairPhase.SETTLING:
            pair.reply(arcs(1 + waiting))
        case PairPhase.INTERRUPTED:
            pair.interrupt()
    assert pair.phase is phase
    return pair


@pytest.mark.parametrize(
    ("event", "after", "to_settle"),
    [
        (PairState.compare, (COMPARING, COMPARING, COMPARING, COMPARING), None),
        (lambda pair: len(pair.reply(arcs(1))), (SETTLING, SETTLING, SETTLING, SETTLING), 1),
        (lambda pair: len(pair.reply([])), (SETTLED, SETTLED, SETTLED, SETTLED), 0),
        (lambda pair: len(pair.next_batch()), (SETTLED, COMPARING, SETTLED, INTERRUPTED), 0),
        (PairState.interrupt, (INTERRUPTED, INTERRUPTED, INTERRUPTED, INTERRUPTED), None),
    ],
    ids=["compare", "reply with arcs", "reply without", "last batch is over", "interrupt"],
)
@pytest.mark.parametrize("phase", PairPhase, ids=lambda phase: phase.name)
def test_every_phase_against_every_event(phase, event, after, to_settle):
    pair = pair_in(phase)
    assert event(pair) == to_settle
    assert pair.phase is dict(zip(PairPhase, after, strict=True))[phase]


@pytest.mark.parametrize("end", [PairState.compare, PairState.interrupt])
def test_arcs_that_wait_are_compared_again_and_not_settled_as_they_were(monkeypatch, end):
    monkeypatch.setattr(pair_phase, "BATCH", 1)
    pair = pair_in(SETTLING, waiting=1)
    end(pair)
    assert pair.next_batch() == []


def test_batches_follow_one_another(monkeypatch):
    monkeypatch.setattr(pair_phase, "BATCH", 2)
    pair = PairState()
    batches = [pair.reply(arcs(5)), pair.next_batch(), pair.next_batch()]
    assert [len(batch) for batch in batches] == [2, 2, 1]
    assert (pair.phase, pair.next_batch(), pair.phase) == (SETTLING, [], SETTLED)


class StartedUpdates:
    """A coordinator that only starts."""

    def __init__(self):
        self._numbers = count(1)
        self.started = {}

    def start(self, plan, **_):
        update_id = UpdateId(A, next(self._numbers))
        self.started[update_id] = plan
        return update_id


class Scene:
    """The home `a.x` in one view with `b.x`, where it has begun one update."""

    def __init__(self, task):
        self.context = context = ServerContext(
            server=A, table=OwnershipTable({Subnet(A): A, Subnet(B): B}), graph=NameGraph()
        )
        context.view = context.promised = ViewId(2, A)
        context.members = dict.fromkeys((A, B), Cohort(context.view, A))
        context.phase = ViewPhase.HEALING
        self.coordinator = StartedUpdates()
        self.healing = Reconciliation(context, None, self.coordinator)
        self.healing.view_opened()
        TASKS[task](self)
        (self.update_id,) = self.coordinator.started
        self.take_sent()

    def go_back(self):
        self.context.has_gone_back = True

    def take_sent(self):
        sent = [type(message) for receiver, message, _ in self.context.outbox]
        sent += [type(message) for message in self.context.loopback]
        self.context.outbox.clear()
        self.context.loopback.clear()
        return sent

    @property
    def phase(self):
        return self.healing._pairs[B].phase


LEAVE = KnownArc(ArcId(NodeId("g@a.x"), NodeId("h@b.x")), False, NodeKind.GROUP, 0, 1, 1)
FROM_BELOW = KnownArc(ArcId(NodeId("g@a.x"), NodeId("h@b.x")), True, NodeKind.GROUP, 0, 1, 1)
FROM_ABOVE = KnownArc(ArcId(NodeId("h@b.x"), NodeId("g@a.x")), True, NodeKind.GROUP, 0, 1, 1)
MADE = HintedOutcome(Priority(5, B), (GroupChange(NodeId("new@a.x"), True),), ())


def recreate_for_reply(scene):
    scene.go_back()
    scene.healing.held_too(B, DigestReply((FROM_BELOW,)))


def recreate_for_digest(scene):
    scene.healing.held_too(B, DigestReply(()))
    scene.go_back()
    scene.healing.held(B, ArcDigest((FROM_ABOVE,)))


def take_offer(scene):
    scene.healing.held_too(B, DigestReply(()))
    scene.healing.offer(B, MADE)


TASKS = {
    "arcs": lambda scene: scene.healing.held_too(B, DigestReply((LEAVE,))),
    "offer": take_offer,
    "groups for a reply": recreate_for_reply,
    "groups for a digest": recreate_for_digest,
}


@pytest.mark.parametrize(
    ("task", "end", "phase", "sent", "started"),
    [
        ("arcs", "done", SETTLED, [MemberReconciled], 0),
        ("arcs", "refused", SETTLED, [MemberReconciled], 0),
        ("arcs", "lost", INTERRUPTED, [], 0),
        # The group was not made in this scene, so the offer says something new again; it has no further part.
        ("offer", "done", SETTLED, [MemberReconciled], 0),
        ("offer", "refused", SETTLED, [MemberReconciled], 0),
        ("offer", "lost", SETTLED, [], 0),
        ("groups for a reply", "done", SETTLING, [], 1),
        ("groups for a reply", "refused", SETTLING, [], 1),
        ("groups for a reply", "lost", INTERRUPTED, [], 0),
        ("groups for a digest", "done", SETTLED, [DigestReply, MemberReconciled], 0),
        ("groups for a digest", "refused", SETTLED, [DigestReply, MemberReconciled], 0),
        ("groups for a digest", "lost", SETTLED, [], 0),
    ],
)
def test_every_update_that_settles_something_as_it_ends(task, end, phase, sent, started):
    scene = Scene(task)
    if end == "lost":
        scene.context.lost[B] = "gone"
    scene.healing.ended(scene.update_id, is_done=end == "done")
    assert (scene.phase, scene.take_sent(), len(scene.coordinator.started) - 1) == (phase, sent, started)


@pytest.mark.parametrize(
    ("task", "sent", "started"),
    [
        ("arcs", [ArcDigest], 0),
        ("offer", [], 1),
        ("groups for a reply", [ArcDigest], 0),
        ("groups for a digest", [], 1),
    ],
)
@pytest.mark.parametrize("is_interrupted", [False, True])
def test_what_was_interrupted_begins_again_once_and_nothing_else_does(task, sent, started, is_interrupted):
    scene = Scene(task)
    if is_interrupted:
        scene.context.lost[B] = "gone"
        scene.healing.ended(scene.update_id, is_done=False)
        del scene.context.lost[B]
    for _ in range(2):
        scene.healing.go_on()
    expected = (sent, started) if is_interrupted else ([], 0)
    assert (scene.take_sent(), len(scene.coordinator.started) - 1) == expected


def test_an_update_that_goes_on_under_another_id_still_says_what_it_is_for():
    scene = Scene("offer")
    scene.healing.begun_again(scene.update_id, UpdateId(A, 77))
    scene.healing.ended(scene.update_id, is_done=True)
    assert scene.take_sent() == []
    scene.healing.ended(UpdateId(A, 77), is_done=True)
    assert scene.take_sent() == [MemberReconciled]


def test_groups_that_an_older_copy_lost_are_made_first():
    scene = Scene("groups for a reply")
    (plan,) = scene.coordinator.started.values()
    assert [step for _, step in plan.operations] == [CreateGroup(NodeId("g@a.x"), if_needed=True)]
