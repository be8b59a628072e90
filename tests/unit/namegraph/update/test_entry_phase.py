"""An entry: every phase against every event, as its coordinator's messages and its turn lead there."""

import pytest

from namegraph.core import ServerCore
from namegraph.events import PeerMessage, PeerMet, UpdateCommand
from namegraph.model.names import NodeId, ServerId, Subnet
from namegraph.model.operations import CreateGroup, LeaveArc
from namegraph.model.priorities import Priority
from namegraph.model.rows import RequestId
from namegraph.update.order_queue import Entry, EntryPhase
from namegraph.wire.codec import decode, encode, encode_outcome
from namegraph.wire.columns import pack_arcs, pack_records
from namegraph.wire.message_parts import Cover, PendingEntry, Update, UpdateId
from namegraph.wire.update_messages import Abort, Commit, Drop, Final, Order, Ready, Refuse, UpdateOutcome, Vote

HERE, THERE = ServerId("a.x"), ServerId("b.x")
GROUP, OTHER, FAR = NodeId("g@a.x"), NodeId("h@a.x"), NodeId("far@b.x")
UPDATE = UpdateId(THERE, 1)
HANDED_ON, VOTED, PLACED, READY, EXTENDED, REFUSED = EntryPhase
GONE = "gone"


def at(counter):
    return Priority(counter, THERE)


def order(*, final=None, highest_vote=None, names=(GROUP,), steps=()):
    """Return an update of another server. It leaves nothing here, unless it names an arc that does not exist."""
    update = Update(UPDATE, tuple(enumerate(steps, 1)), max(1, len(steps)), (), None)
    return Order(update, at(1), Cover(frozenset(names), frozenset()), final, (), highest_vote)


CANNOT = (LeaveArc(GROUP, OTHER),)


def block(core):
    """Add an earlier update of the same nodes. While it has no place, no later update gets its turn."""
    core.entries.install(PendingEntry(UpdateId(THERE, 9), at(2), None), [GROUP, OTHER])


def handed_on(core, *, final=None):
    core.entries.install(PendingEntry(UPDATE, at(5), final), [GROUP])


def tell(message):
    return lambda core: receive(core, message)


def receive(core, message):
    number = core.channels.handled_through(THERE) + 1
    effects = core.step(PeerMessage(THERE, number, encode(message)), 0.0)
    return [type(decode(letter.encoded)) for letter in effects.messages]


def turn(core):
    return receive(core, Abort(UpdateId(THERE, 9)))


def commit(core):
    final = core.entries.by_update[UPDATE].final or at(50)
    outcome = UpdateOutcome(UPDATE, final, (), pack_arcs(()), (), pack_records(()), ())
    receive(core, Commit(UPDATE, encode_outcome(outcome), (), is_shared=False))


PLACE = (tell(order()), tell(Final(UPDATE, at(50))))
LEADS_TO = {
    HANDED_ON: (handed_on,),
    VOTED: (tell(order()),),
    PLACED: PLACE,
    READY: (*PLACE, turn, block),
    EXTENDED: (*PLACE, turn, block, tell(order(final=at(90), names=(OTHER,)))),
    REFUSED: (tell(order(steps=CANNOT)), tell(Final(UPDATE, at(50))), turn, block),
}
"""Events that lead to each phase, if another update blocks the way."""


def core_in(phase):
    core = ServerCore(server=HERE, subnets=[Subnet(HERE)], peers={Subnet(THERE): THERE})
    core.step(PeerMet(THERE, (Subnet(THERE),)), 0.0)
    core.step(UpdateCommand(1, RequestId("r"), (CreateGroup(GROUP), CreateGroup(OTHER))), 0.0)
    block(core)
    for event in LEADS_TO[phase]:
        event(core)
    assert phase_of(core) is phase
    return core


def phase_of(core):
    entry = core.entries.by_update.get(UPDATE)
    return GONE if entry is None else entry.phase


STAYS = (HANDED_ON, VOTED, PLACED, READY, EXTENDED, REFUSED)
EVENTS = {
    "handed on": (handed_on, STAYS),
    "handed on with its place": (lambda core: handed_on(core, final=at(99)), (HANDED_ON, PLACED, *STAYS[2:])),
    "ordered": (tell(order()), (VOTED, *STAYS[1:])),
    "ordered as the last voter": (tell(order(highest_vote=at(40))), (PLACED, PLACED, *STAYS[2:])),
    "ordered, for more": (tell(order(names=(OTHER,))), (VOTED, VOTED, PLACED, EXTENDED, EXTENDED, PLACED)),
    "ordered with its place": (tell(order(final=at(90))), (PLACED, PLACED, *STAYS[2:])),
    "final": (tell(Final(UPDATE, at(90))), (HANDED_ON, PLACED, *STAYS[2:])),
    "turn": (turn, (HANDED_ON, VOTED, READY, READY, READY, REFUSED)),
    "drop": (tell(Drop(UPDATE)), (GONE, *STAYS[1:])),
    "abort": (tell(Abort(UPDATE)), (GONE,) * 6),
    "commit": (commit, (HANDED_ON, VOTED, PLACED, GONE, GONE, REFUSED)),
}
"""For every event, the phase after it in each phase."""


@pytest.mark.parametrize("phase", EntryPhase, ids=lambda phase: phase.name)
@pytest.mark.parametrize("event", EVENTS)
def test_every_phase_against_every_event(event, phase):
    happens, after = EVENTS[event]
    core = core_in(phase)
    happens(core)
    assert phase_of(core) is dict(zip(EntryPhase, after, strict=True))[phase]


@pytest.mark.parametrize(
    ("phase", "event", "answer"),
    [
        (VOTED, "ordered", [Vote]),
        (VOTED, "ordered as the last voter", [Vote]),
        (VOTED, "ordered with its place", []),
        (VOTED, "final", []),
        (PLACED, "turn", [Ready]),
        (EXTENDED, "turn", [Ready]),
        (READY, "turn", []),
    ],
    ids=str,
)
def test_what_the_coordinator_is_answered(phase, event, answer):
    assert EVENTS[event][0](core_in(phase)) == answer


def test_what_cannot_be_done_is_refused_at_its_turn_and_again_when_more_is_asked():
    core = core_in(REFUSED)
    receive(core, order(final=at(50), names=(OTHER,), steps=CANNOT))
    assert phase_of(core) is PLACED
    assert turn(core) == [Refuse]
    assert phase_of(core) is REFUSED


def test_what_was_extended_and_cannot_be_done_so_stays_ready():
    entry = Entry(UPDATE, asked=Cover(frozenset([GROUP]), frozenset()), final=at(50))
    entry.answer(is_ready=True)
    entry.asked = Cover(frozenset([GROUP, OTHER]), frozenset())
    assert entry.phase is EXTENDED
    entry.answer(is_ready=False)
    assert entry.phase is READY


@pytest.mark.parametrize("phase", [HANDED_ON, VOTED, READY, REFUSED], ids=lambda phase: phase.name)
def test_nothing_is_answered_out_of_turn(phase):
    entry = core_in(phase).entries.by_update[UPDATE]
    with pytest.raises(AssertionError):
        entry.answer(is_ready=True)
