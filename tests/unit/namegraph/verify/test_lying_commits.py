"""A coordinator that lies to a participant about the participant's own nodes is refused and counted.

The lie changes nothing. Each lie is told first, and then the coordinator's real decision, which is applied as if the
lie had not been told.
"""

from collections.abc import Callable

import pytest
from msgspec import structs

from namegraph.events import ImportCommand
from namegraph.model.names import NodeId
from namegraph.model.operations import ChildKind, CreateGroup, DeleteGroup, JoinArc, LeaveArc
from namegraph.model.peer_faults import PeerFault
from namegraph.model.priorities import NUMBER_LIMIT, Priority
from namegraph.model.rows import NodeKind, RequestId
from namegraph.wire.arc_sets import arcs_in_columns, arcs_of, each_arc, each_record, records_of
from namegraph.wire.codec import decode_in_view, decode_outcome, encode, encode_outcome
from namegraph.wire.message_parts import AncestryRecord, ArcId, GroupChange, InArc, KnownArc, UpdateId, Vnid
from namegraph.wire.older_forms import outcome_in_columns
from namegraph.wire.update_messages import Commit, UpdateOutcome
from tests.hostile_scene import HERE, OTHER, Scene

G, H = NodeId("g@b.x"), NodeId("h@b.x")
OLD, NEW = NodeId("old@b.x"), NodeId("new@b.x")
THEIR_G, THEIR_H = NodeId("g@a.x"), NodeId("h@a.x")
PERSON, FOREIGN = NodeId("q@b.x"), NodeId("f@nobody.example")
GROUP, PROCESS = NodeKind.GROUP, NodeKind.PROCESS
NOT_OF_A_PART = ("inbox", "outbox", "sent", "unmet")


class Talk(Scene):
    """A conversation whose next commit to here is held back."""

    def __init__(self):
        super().__init__(0)
        self.held = None

    def settle(self):
        """Deliver everything but commits to here; keep the first of those."""
        while any(self.pending.values()):
            for (sender, receiver), letters in self.pending.items():
                if not letters:
                    continue
                view, message = decode_in_view(letters.pop(0))
                if receiver == HERE and isinstance(message, Commit):
                    assert self.held is None
                    self.held = message
                else:
                    self.receive(receiver, sender, encode(message, view))

    def done(self, server, *operations):
        self.ask(server, *operations)
        self.settle()
        self.tell_truth()

    def tell(self, message):
        self.receive(HERE, OTHER, encode(message))

    def tell_truth(self):
        if self.held is not None:
            self.tell(self.held)
            self.held = None
            self.settle()

    def state(self):
        """Return the durable state, except for the channels."""
        found = self.disks[HERE].read()
        found.protocol[:] = sorted(row for row in found.protocol if row.part not in NOT_OF_A_PART)
        return found


def batch():
    """Return one update that creates, deletes, joins and leaves here."""
    talk = Talk()
    talk.done(HERE, CreateGroup(OLD), JoinArc(H, PERSON, ChildKind.PROCESS), JoinArc(G, FOREIGN, ChildKind.PROCESS))
    talk.ask(
        OTHER,
        JoinArc(THEIR_G, G, cost=3),
        CreateGroup(NEW),
        JoinArc(G, NEW),
        LeaveArc(H, PERSON),
        DeleteGroup(OLD),
        JoinArc(THEIR_G, PERSON, if_needed=True),
    )
    return talk


def loop():
    """Return an update that closes a loop over both servers. The ancestry of the loop is told here."""
    talk = Talk()
    talk.done(HERE, JoinArc(G, THEIR_G))
    talk.done(OTHER, JoinArc(THEIR_H, THEIR_G))
    talk.ask(OTHER, JoinArc(THEIR_G, G))
    return talk


def broken_loop():
    talk = Talk()
    talk.done(HERE, JoinArc(G, THEIR_G))
    talk.done(OTHER, JoinArc(THEIR_G, G))
    talk.ask(OTHER, LeaveArc(THEIR_G, G))
    return talk


def below():
    """Return a join of a group of the other server into a group here. More of the joined group is known here."""
    talk = Talk()
    talk.done(OTHER, JoinArc(THEIR_G, H))
    talk.done(HERE, JoinArc(H, PERSON, ChildKind.PROCESS))
    talk.ask(OTHER, JoinArc(THEIR_H, G), JoinArc(G, THEIR_G))
    return talk


def brought():
    """Return an import over both servers."""
    talk = Talk()
    talk.done(HERE, JoinArc(G, PERSON, ChildKind.PROCESS))
    names = [THEIR_G, G, NEW, PERSON, FOREIGN]
    talk.tickets += 1
    parents, children, kinds = [0, 1, 2, 1, 1, 0], [1, 2, 3, 4, 3, 3], bytes([1, 1, 2, 2, 2, 2])
    command = ImportCommand(talk.tickets, RequestId("import"), names, parents, children, kinds, groups=[])
    talk.step(OTHER, command)
    return talk


Lie = Callable[[UpdateOutcome], UpdateOutcome]


def arcs(change: Callable[[list[KnownArc]], object]) -> Lie:
    """Return a lie about arcs."""

    def lie(outcome):
        found = list(each_arc(outcome.arcs))
        change(found)
        return structs.replace(outcome, arcs=arcs_of(found))

    return lie


def without(parent, child):
    return arcs(lambda found: found.remove(next(one for one in found if one.arc == (parent, child))))


def altered(parent, child, **fields):
    def change(found):
        place = next(place for place, one in enumerate(found) if one.arc == (parent, child))
        found[place] = found[place]._replace(**fields)

    return arcs(change)


def added(parent, child, *, is_present=True, kind=GROUP, version=1):
    arc = KnownArc(ArcId(parent, child), is_present, kind, 0, version)
    return arcs(lambda found: found.append(arc))


def groups(*changes):
    """Return a lie about groups: these in place of those with the same names, or in addition."""

    def lie(outcome):
        kept = [one for one in outcome.groups if one.group not in [change.group for change in changes]]
        return structs.replace(outcome, groups=(*kept, *changes))

    return lie


def without_group(group):
    return lambda outcome: structs.replace(outcome, groups=tuple(one for one in outcome.groups if one.group != group))


def relayed(node, *in_arcs, vnid=None, version=None):
    """Return a lie about the ancestry record of a node."""

    def lie(outcome):
        kept = [one for one in each_record(outcome.relay) if one.node != node]
        told = tuple(InArc(parent, 0, 1, outcome.final.counter) for parent in in_arcs)
        record = AncestryRecord(node, told, vnid, version or outcome.final)
        return structs.replace(outcome, relay=records_of([*kept, record]))

    return lie


def renamed(*nodes, vnid=None, of=None, made_at=None):
    def lie(outcome):
        name = vnid or (of and Vnid(of, made_at or outcome.final))
        kept = [one for one in outcome.renamed if one[0] not in nodes]
        return structs.replace(outcome, renamed=tuple(sorted([*kept, *((node, name) for node in nodes)], key=str)))

    return lie


LIES = {
    "another place": (
        batch,
        lambda outcome: structs.replace(outcome, final=Priority(9_999, OTHER)),
        PeerFault.OTHER_PLACE,
    ),
    "a group of here is deleted": (batch, groups(GroupChange(H, False)), PeerFault.OTHER_GROUPS),
    "a group of here is created": (batch, groups(GroupChange(NodeId("more@b.x"), True)), PeerFault.OTHER_GROUPS),
    "a deleted group stays": (batch, without_group(OLD), PeerFault.OTHER_GROUPS),
    "a created group is deleted": (batch, groups(GroupChange(NEW, False)), PeerFault.OTHER_GROUPS),
    "an arc that is joined to here is left out": (batch, without(THEIR_G, G), PeerFault.OTHER_ARCS),
    "an arc that is joined here is left out": (batch, without(G, NEW), PeerFault.OTHER_ARCS),
    "an arc that is left here stays": (batch, without(H, PERSON), PeerFault.OTHER_ARCS),
    "an arc that is joined is left": (batch, altered(G, NEW, is_present=False), PeerFault.OTHER_ARCS),
    "an arc that is left is joined": (batch, altered(H, PERSON, is_present=True), PeerFault.OTHER_ARCS),
    "an arc is suspended": (batch, altered(THEIR_G, G, is_present=None), PeerFault.OTHER_ARCS),
    "an arc of another cost": (batch, altered(THEIR_G, G, cost=4), PeerFault.OTHER_ARCS),
    "an arc of another version": (batch, altered(G, NEW, version=7), PeerFault.OTHER_ARCS),
    "a group is a process": (batch, altered(THEIR_G, G, kind=PROCESS), PeerFault.OTHER_ARCS),
    "a process is a group": (batch, altered(THEIR_G, PERSON, kind=GROUP), PeerFault.OTHER_ARCS),
    "another arc leaves here": (batch, added(H, THEIR_H), PeerFault.OTHER_ARCS),
    "another arc enters here": (batch, added(THEIR_H, H), PeerFault.OTHER_ARCS),
    "another arc within here": (batch, added(G, H), PeerFault.OTHER_ARCS),
    "an arc of here is left": (
        batch,
        added(G, FOREIGN, is_present=False, kind=PROCESS, version=2),
        PeerFault.OTHER_ARCS,
    ),
    "an arc of here is suspended": (
        batch,
        added(G, FOREIGN, is_present=None, kind=PROCESS),
        PeerFault.OTHER_ARCS,
    ),
    "an arc comes twice": (batch, added(G, NEW), PeerFault.OTHER_ARCS),
    "a group of here has more above it": (batch, relayed(H, THEIR_H), PeerFault.OTHER_RECORDS),
    "a group of here has less above it": (batch, relayed(G), PeerFault.OTHER_RECORDS),
    "a group that was never there": (batch, relayed(NodeId("none@b.x")), PeerFault.OTHER_RECORDS),
    "a record from nowhere": (batch, relayed(H, version=Priority(9_999, HERE)), PeerFault.OTHER_RECORDS),
    "a group of here is above another": (batch, relayed(THEIR_H, H), PeerFault.OTHER_RECORDS),
    "what is no group of here is above another": (batch, relayed(THEIR_H, PERSON), PeerFault.OTHER_RECORDS),
    "a group of here is on a loop": (batch, renamed(THEIR_H, H, of=THEIR_H), PeerFault.OTHER_LOOPS),
    "a loop of one": (batch, renamed(H, of=H), PeerFault.OTHER_LOOPS),
    "a loop that is gone was none": (batch, renamed(G), PeerFault.OTHER_LOOPS),
    "a loop of another name": (loop, renamed(THEIR_G, G, of=G), PeerFault.OTHER_LOOPS),
    "a loop from before": (loop, renamed(THEIR_G, G, of=THEIR_G, made_at=Priority(1, OTHER)), PeerFault.OTHER_LOOPS),
    "another group is on the loop": (loop, renamed(THEIR_G, G, H, of=THEIR_G), PeerFault.OTHER_LOOPS),
    "another group was on the loop": (broken_loop, renamed(H), PeerFault.OTHER_LOOPS),
    "the loop stays": (broken_loop, renamed(THEIR_G, G, of=THEIR_G), PeerFault.OTHER_LOOPS),
    "what has members is a process": (below, altered(G, THEIR_G, kind=PROCESS), PeerFault.IMPOSSIBLE),
    "an arc to itself": (batch, added(THEIR_H, THEIR_H), PeerFault.UNREADABLE),
    "an arc to nothing": (batch, altered(G, NEW, kind=NodeKind.ABSENT), PeerFault.UNREADABLE),
    "a number beyond the limit": (batch, altered(G, NEW, version=NUMBER_LIMIT + 1), PeerFault.UNREADABLE),
    "what is no name": (batch, groups(GroupChange(NodeId("g@B.X"), True)), PeerFault.UNREADABLE),
    "columns that do not fit": (
        batch,
        lambda outcome: structs.replace(outcome, arcs=arcs_in_columns(outcome.arcs)._replace(children=b"")),
        PeerFault.UNREADABLE,
    ),
    "the outcome of another update": (
        batch,
        lambda outcome: structs.replace(outcome, update_id=UpdateId(OTHER, 9_999)),
        PeerFault.UNREADABLE,
    ),
    "an imported arc is left out": (brought, without(G, FOREIGN), PeerFault.OTHER_ARCS),
    "an imported arc of a cost": (brought, altered(THEIR_G, G, cost=1), PeerFault.OTHER_ARCS),
    "an imported arc of another version": (brought, altered(G, FOREIGN, version=2), PeerFault.OTHER_ARCS),
    "an imported process is a group": (brought, altered(THEIR_G, PERSON, kind=GROUP), PeerFault.OTHER_ARCS),
    "an imported arc is left": (brought, altered(G, NEW, is_present=False), PeerFault.OTHER_ARCS),
    "an arc that was not imported": (brought, added(THEIR_H, H), PeerFault.OTHER_ARCS),
    "an arc that was there already": (brought, added(G, PERSON, kind=PROCESS), PeerFault.OTHER_ARCS),
    "an imported group stays away": (brought, without_group(NEW), PeerFault.OTHER_GROUPS),
}


@pytest.mark.parametrize("form", [lambda outcome: outcome, outcome_in_columns], ids=["listed", "in columns"])
@pytest.mark.parametrize("restarts", [False, True], ids=["at once", "after a restart"])
@pytest.mark.parametrize("name", LIES)
def test_a_lie_is_refused_and_what_was_decided_is_done(name, restarts, form):
    scenario, lie, fault = LIES[name]
    honest, talk = scenario(), scenario()
    honest.settle()
    talk.settle()
    if restarts:
        honest.restart(HERE)
        talk.restart(HERE)
    assert talk.held is not None
    before = talk.state()
    outcome = decode_outcome(talk.held.outcome)
    assert lie(outcome) != outcome
    talk.tell(structs.replace(talk.held, outcome=encode_outcome(form(lie(outcome)))))
    core = talk.cores[HERE]
    assert core.channels.faults == {(OTHER, fault): 1}
    assert talk.state() == before
    assert [update.coordinator for update in core.in_doubt] == [OTHER]
    talk.restart(HERE)
    assert talk.state() == before
    honest.restart(HERE)
    for one in (honest, talk):
        one.tell_truth()
        assert not one.cores[HERE].in_doubt
        assert one.cores[OTHER].is_idle()
    assert talk.state() == honest.state()
    assert talk.cores[HERE].channels.faults == {(OTHER, fault): 1}
    talk.restart(HERE)
