"""Entries wait for one another by the rule. The work of a step does not grow with the undecided entries."""

import sys
from random import Random

import pytest

from namegraph.committed_state import CommittedState
from namegraph.core import ServerCore
from namegraph.events import PeerMessage, PeerMet, Tick, UpdateCommand
from namegraph.model.names import NodeId, ServerId, Subnet
from namegraph.model.operations import ChildKind, CreateGroup, JoinArc, LeaveArc
from namegraph.model.priorities import Priority
from namegraph.model.rows import RequestId
from namegraph.update import turns
from namegraph.verify import sender_rules
from namegraph.wire.codec import encode
from namegraph.wire.message_parts import Cover, PendingEntry, Update, UpdateId
from namegraph.wire.update_messages import Abort, Final, Order

HERE, THERE = ServerId("here"), ServerId("there")
NAMES = [NodeId(f"g{number}@here.example") for number in range(12)]
FAR = [NodeId(f"far{number}@there.example") for number in range(4)]
UNDECIDED = 2_000
CHANGES = [*3 * ["order", "final"], *2 * ["remove", "graph"], "answer", "extend", "hand"]


def make_core():
    core = ServerCore(server=HERE, subnets=[Subnet("here.example")], peers={Subnet("there.example"): THERE})
    core.step(PeerMet(THERE, (Subnet("there.example"),)), 0.0)
    return core


def do(core, *operations):
    request = f"r{core.channels.handled_through(THERE)}-{core.revision}-{len(core.graph.ids)}-{operations}"
    return core.step(UpdateCommand(0, RequestId(request[:200]), operations), 0.0).replies


class Naive:
    """The rule itself, entry by entry."""

    def __init__(self, entries):
        self.entries = entries

    def order(self, entry):
        return entry.place, entry.update_id

    def is_cut(self, entry):
        update = self.entries.updates.get(entry.update_id)
        return update is not None and update.cut is not None

    def overlap(self, one, other):
        if self.is_cut(one) or self.is_cut(other):
            return True
        return self.entries.part(one).overlaps(self.entries.part(other))

    def before(self, entry):
        others = self.entries.by_update.values()
        return [other for other in others if self.order(other) < self.order(entry) and self.overlap(other, entry)]

    def next_turn(self):
        due = sorted((entry for entry in self.entries.by_update.values() if entry.is_due), key=self.order)
        return next((entry for entry in due if not self.before(entry)), None)

    def all_before(self, update_id):
        found, unseen = {update_id}, [update_id]
        while unseen:
            new = {other.update_id for other in self.before(self.entries.by_update[unseen.pop()])} - found
            found |= new
            unseen += new
        return sorted(found - {update_id})

    def following(self, name, but):
        node = self.entries._context.graph.index.get(name)
        return tuple(
            PendingEntry(update_id, entry.bound, entry.final)
            for update_id, entry in sorted(self.entries.by_update.items())
            if update_id != but
            and (node in self.entries.part(entry).followed or name in self.entries.part(entry).unknown)
        )

    def affected(self, nodes):
        graph, entries = self.entries._context.graph, self.entries.by_update.values()
        parts = [self.entries.part(entry) for entry in entries]
        return {node for node in nodes if any(node in part.nodes or graph.ids[node] in part.unknown for part in parts)}

    def affects(self, nodes, names):
        graph = self.entries._context.graph
        wanted = set(nodes) | {graph.index[name] for name in names if name in graph.index}
        wanted_names = set(names) | {graph.ids[node] for node in wanted}
        for entry in self.entries.by_update.values():
            part = self.entries.part(entry)
            if self.is_cut(entry) or not (part.nodes.isdisjoint(wanted) and part.unknown.isdisjoint(wanted_names)):
                return True
        return False


def change_something(chance, core, entries, live):
    """Make one random change of the entries, or of the graph beneath them."""
    what = chance.choice(CHANGES)
    names = NAMES + FAR
    some = frozenset(chance.sample(names, chance.randrange(3)))
    entry = entries.find(chance.choice(live)) if live else None
    if what == "order" or entry is None:
        update_id = UpdateId(THERE, next(numbers))
        cut = "cut" if chance.random() < 0.05 else None
        new = entries.ask(
            Update(update_id, (), 0, (), None, cut=cut),
            Cover(some, frozenset(chance.sample(names, chance.randrange(3)))),
        )
        new.bound = Priority(chance.randrange(50), HERE)
        live.append(update_id)
    elif what == "final" and entry.final is None:
        entry.final = max(entry.bound, Priority(chance.randrange(60), THERE))
    elif what == "answer" and entry.is_due:
        entries.answer(entry, is_ready=chance.random() < 0.8)
    elif what == "remove":
        live.remove(entry.update_id)
        entries.remove(entry.update_id)
    elif what == "extend":
        entries.ask(entries.updates.get(entry.update_id) or Update(entry.update_id, (), 0, (), None), Cover(some, some))
    elif what == "hand":
        update_id = chance.choice([entry.update_id, UpdateId(THERE, next(numbers))])
        entries.install(PendingEntry(update_id, Priority(chance.randrange(60), HERE), None), some)
        if update_id not in live:
            live.append(update_id)
    elif what == "graph":
        # As when another server's outcome is applied: entries are not asked first.
        graph = core.graph
        tail, head = (graph.intern(name) for name in chance.sample(names, 2))
        arcs = graph.children.to_change(tail)
        if head in arcs:
            del arcs[head]
        else:
            arcs[head] = object()
        graph.note_changed([tail])


numbers = iter(range(1, 10**9))


@pytest.mark.parametrize("wide_from", [turns.WIDE_FROM_NODES, 2, 0])
@pytest.mark.parametrize("seed", range(12))
def test_turns_are_those_of_the_rule_whatever_happens(seed, wide_from, monkeypatch):
    monkeypatch.setattr(turns, "WIDE_FROM_NODES", wide_from)
    chance, core, live = Random(seed), make_core(), []
    do(core, *map(CreateGroup, NAMES[:8]))
    entries = core.entries
    naive = Naive(entries)
    for _ in range(150):
        change_something(chance, core, entries, live)
        if chance.random() < 0.5:
            assert entries.next_turn() is naive.next_turn()
        if live and chance.random() < 0.3:
            update_id, name = chance.choice(live), chance.choice(NAMES + FAR)
            assert entries.all_before(update_id) == naive.all_before(update_id)
            assert entries.following(name, but=update_id) == naive.following(name, update_id)
            nodes = set(chance.sample(range(len(core.graph.ids)), 2))
            assert entries.affects(nodes, [name]) == naive.affects(nodes, [name])
            assert {node for node in nodes if entries.is_affected(node)} == naive.affected(nodes)
            assert entries.lowest_counter == min(entry.place.counter for entry in entries.by_update.values())
    assert set(entries.ready) == {key for key, entry in entries.by_update.items() if entry.is_ready}


def tell(core, message):
    core.step(PeerMessage(THERE, core.channels.handled_through(THERE) + 1, encode(message)), 0.0)


def undecided(number, cover):
    update = Update(UpdateId(THERE, number), (), 0, (), NodeId("g@there.example"))
    return Order(update, Priority(5, THERE), cover, None)


def below(name):
    return Cover(frozenset(), frozenset({name}))


def core_with(count, kind):
    """Return a core beside `count` updates that are never decided."""
    core = make_core()
    do(core, *map(CreateGroup, NAMES))
    do(core, *(JoinArc(NAMES[1], NodeId(f"p{number}@here.example"), ChildKind.PROCESS) for number in range(20)))
    for number in range(1, count + 1):
        name = NAMES[1] if kind.endswith("of one group") else NodeId(f"x{number}@here.example")
        tell(core, undecided(number, below(name)))
        if not kind.startswith("voted"):
            tell(core, Final(UpdateId(THERE, number), Priority(10_000 + number, THERE), ()))
    return core


def calls_in(step):
    calls = 0

    def count(frame, event, argument):
        nonlocal calls
        calls += event in {"call", "c_call"}

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        step()
    finally:
        sys.setprofile(before)
    return calls


def work_of(core):
    """Return the amount of work of each kind of step."""
    readers, number = CommittedState(core), 10**6
    join = JoinArc(NAMES[9], NodeId("new@here.example"), ChildKind.PROCESS)
    far = JoinArc(NAMES[8], NodeId("new@there.example"), ChildKind.PROCESS)
    final = Final(UpdateId(THERE, number), Priority(10**7, THERE), ())
    steps = {
        "a local join": lambda: do(core, join),
        "a local leave": lambda: do(core, LeaveArc(join.parent, join.child)),
        "an update over two servers begins": lambda: do(core, far),
        "an order": lambda: tell(core, undecided(number, below(NAMES[7]))),
        "a turn": lambda: tell(core, final),
        "its end": lambda: tell(core, Abort(final.update_id)),
        "a tick": lambda: core.step(Tick(), 0.0),
        "whether a step may take long": lambda: readers.may_take_long(UpdateCommand(0, RequestId("r"), (join,))),
    }
    return {name: calls_in(step) for name, step in steps.items()}


KINDS = ["voted for, of one group", "voted for, each of its own", "placed, of one group", "ready, each of its own"]


@pytest.mark.parametrize("kind", KINDS)
def test_however_many_updates_are_not_decided_a_step_does_as_much_as_beside_one(kind, monkeypatch):
    monkeypatch.setattr(sender_rules, "ORDERS_LIMIT", UNDECIDED)
    beside_one, beside_many = work_of(core_with(1, kind)), work_of(core_with(UNDECIDED, kind))
    assert {
        name: calls - beside_one[name] for name, calls in beside_many.items() if calls > beside_one[name] + 20
    } == {}


def test_as_one_ends_that_many_wait_for_few_are_looked_at(monkeypatch):
    monkeypatch.setattr(sender_rules, "ORDERS_LIMIT", UNDECIDED)
    core = core_with(300, "placed, of one group")
    assert list(core.entries.ready) == [UpdateId(THERE, 1)]
    for number in range(1, 100):
        looks = core.entries._turns.looks
        tell(core, Abort(UpdateId(THERE, number)))
        assert core.entries._turns.looks <= looks + 2
        assert list(core.entries.ready) == [UpdateId(THERE, number + 1)]


def test_all_that_wait_one_behind_another_are_found_in_one_go(monkeypatch):
    monkeypatch.setattr(sender_rules, "ORDERS_LIMIT", UNDECIDED)
    core = core_with(300, "placed, of one group")
    last = UpdateId(THERE, 300)
    assert len(core.entries.all_before(last)) == 299
    assert calls_in(lambda: core.entries.all_before(last)) < 40 * 300
