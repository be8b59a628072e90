"""Readers see the state before a batch until it is durable, and a reader may keep the state that it began with."""

import weakref

import pytest
from pyroaring import BitMap

from namegraph.committed_state import LONG_FROM_OPERATIONS, CommittedState
from namegraph.core import ServerCore
from namegraph.events import Lane, PeerLost, PeerMessage, PeerMet, PeerPosts, PeerReceived, Tick, UpdateCommand
from namegraph.model.names import NodeId, ServerId, Subnet
from namegraph.model.operations import CreateGroup, DeleteGroup, JoinArc, LeaveArc
from namegraph.model.rows import ArcRecord, RequestId
from tests.counted_work import instructions

A, B = ServerId("a.x"), ServerId("b.x")
G = NodeId("g@a.x")


def test_readers_see_the_view_before_a_step_that_is_not_durable():
    core = ServerCore(server=A, subnets=[Subnet(A)], peers={Subnet(B): B})
    core.step(PeerMet(B, (Subnet(B),)), 0.0)
    readers = CommittedState(core)
    readers.hold()
    core.step(PeerLost(B, "gone"), 0.0)
    assert (readers.view, readers.members) == ("", ())
    readers.let_go(earliest=True)
    assert (readers.view, readers.members) == ("1@a.x", (A,))


@pytest.fixture
def crowd():
    """A core with a group of so many members that deleting it takes long."""
    core = ServerCore(server=A, subnets=[Subnet(A)])
    core.step(update(CreateGroup(G), *(JoinArc(G, NodeId(f"p{n}@b.x")) for n in range(LONG_FROM_OPERATIONS))), 0.0)
    return core


def test_what_a_core_computes_during_a_long_step_serves_no_reader_of_the_state_before_it(crowd):
    readers = CommittedState(crowd)
    crowd.ancestors.forget_all()
    node = crowd.graph.index[NodeId("p1@b.x")]
    for is_long in (False, True):
        readers.hold(for_long_step=is_long)
        crowd.ancestors.of(node)
        assert readers.ancestors.is_known(node) is not is_long
        readers.let_go(earliest=True)
        crowd.ancestors.forget_all()


def test_what_a_large_deletion_leaves_can_be_freed_bit_by_bit(crowd):
    readers = CommittedState(crowd)
    for name in crowd.graph.index.values():
        crowd.ancestors.of(name)
    readers.hold()
    held, left = weakref.ref(readers.graph), []
    readers.free = lambda *lists: left.extend(lists)
    crowd.step(UpdateCommand(2, RequestId("another"), (DeleteGroup(G, force=True),)), 0.0)
    assert not left
    readers.let_go(earliest=True)
    assert held() is None
    kinds = [type(piece) for some in left for piece in some]
    assert kinds.count(BitMap) == LONG_FROM_OPERATIONS, "the ancestor sets of all members, which were forgotten"
    assert kinds.count(dict) == LONG_FROM_OPERATIONS, "the arcs of each member"
    assert kinds.count(ArcRecord) == LONG_FROM_OPERATIONS, "the arcs of the group, one by one"


def update(*operations):
    return UpdateCommand(1, RequestId("r"), operations)


def test_updates_of_many_operations_take_long_and_deletions_of_large_groups_with_force(crowd):
    readers = CommittedState(crowd)
    joins = [JoinArc(G, NodeId(f"q{n}@b.x")) for n in range(LONG_FROM_OPERATIONS + 1)]
    assert readers.may_take_long(update(*joins))
    assert not readers.may_take_long(update(*joins[1:]))
    assert readers.may_take_long(update(DeleteGroup(G, force=True)))
    assert not readers.may_take_long(update(DeleteGroup(G)))
    assert not readers.may_take_long(update(LeaveArc(G, NodeId("p0@b.x"))))
    assert not readers.may_take_long(update(DeleteGroup(NodeId("unknown@a.x"), force=True)))


def groups_of(state):
    return {name for name, node in state.graph.index.items() if state.graph.group(name) == node}


def names(*letters):
    return {NodeId(f"{letter}@a.x") for letter in letters}


class Batches:
    """A core with a group, and the batches of its steps: each creates a group."""

    def __init__(self):
        self.core = ServerCore(server=A, subnets=[Subnet(A)])
        self.seen = CommittedState(self.core)
        self.create("a")

    def create(self, letter):
        self.core.step(UpdateCommand(1, RequestId(letter), (CreateGroup(NodeId(f"{letter}@a.x")),)), 0.0)

    def join(self, letter, person):
        for change in (JoinArc, LeaveArc):
            arc = change(NodeId(f"{letter}@a.x"), NodeId(f"{person}@a.x"))
            self.core.step(UpdateCommand(1, RequestId(f"{change.__name__} {self.core.revision}"), (arc,)), 0.0)

    def begin(self, letter):
        """Take the first step of a batch."""
        self.seen.hold()
        self.create(letter)

    @property
    def notes(self):
        """True if the core notes what readers may still see."""
        core = self.core
        parts = (core.graph.children, core.graph.index, core.ancestors._sets, core._context.details, core.records.above)
        return any(part.former is not None for part in parts)


@pytest.fixture
def batches():
    return Batches()


def test_readers_see_each_batch_when_it_is_durable_and_nothing_is_noted_afterwards(batches):
    batches.begin("b")
    batches.create("c")
    batches.begin("d")
    assert groups_of(batches.seen) == names("a")
    batches.seen.let_go(earliest=True)
    assert groups_of(batches.seen) == names("a", "b", "c")
    assert batches.notes
    batches.seen.let_go(earliest=True)
    assert groups_of(batches.seen) == names("a", "b", "c", "d")
    assert not batches.notes


def test_steps_with_nothing_to_write_are_seen_with_the_batches_before_them(batches):
    batches.begin("b")
    batches.begin("c")
    batches.seen.let_go(earliest=False)
    assert groups_of(batches.seen) == names("a")
    batches.seen.let_go(earliest=True)
    assert groups_of(batches.seen) == names("a", "b", "c")
    assert not batches.notes


def test_a_kept_state_stays_as_it_was_over_several_batches(batches):
    with batches.seen.kept() as kept:
        for letter in "bcd":
            batches.begin(letter)
            batches.seen.let_go(earliest=True)
            assert groups_of(kept) == names("a")
            assert kept.revision == "1@a.x"
        assert groups_of(batches.seen) == names("a", "b", "c", "d")
        assert batches.notes
    assert not batches.notes


def test_the_work_of_a_reader_does_not_grow_with_the_batches_since_it_began(batches):
    def look():
        for node in kept.graph.index.values():
            assert kept.ancestors.of(node)
            kept.graph.representative(node)
            list(kept.graph.children[node])

    def go_on(count):
        for _ in range(count):
            batches.begin("b")
            batches.join("a", "p")
            batches.seen.let_go(earliest=True)

    batches.create("z")  # It stays as it is: a reader looks through all that has changed.
    with batches.seen.kept() as kept:
        go_on(10)
        few = instructions(look)
        go_on(200)
        assert instructions(look) <= 1.1 * few


def test_a_state_that_is_kept_during_a_batch_is_the_one_before_it(batches):
    batches.begin("b")
    with batches.seen.kept() as kept, batches.seen.kept() as again:
        assert kept is again, "holding it once more would cost"
        batches.begin("c")
        batches.seen.let_go(earliest=True)
        batches.seen.let_go(earliest=True)
        assert groups_of(kept) == names("a")
        with batches.seen.kept() as newer:
            assert groups_of(newer) == names("a", "b", "c")
        assert groups_of(kept) == names("a")
        assert batches.notes
    assert not batches.notes


def test_a_state_is_kept_until_the_reader_that_began_first_ends(batches):
    first = batches.seen.kept()
    kept = first.__enter__()
    batches.begin("b")
    with batches.seen.kept():
        batches.seen.let_go(earliest=True)
    assert groups_of(kept) == names("a")
    batches.create("c")
    assert groups_of(kept) == names("a")
    first.__exit__(None, None, None)
    assert not batches.notes


def test_a_reader_that_fails_keeps_no_state(batches):
    with pytest.raises(ZeroDivisionError), batches.seen.kept():
        raise ZeroDivisionError
    assert not batches.notes


def test_a_kept_state_is_freed_when_its_last_user_ends(batches):
    freed = []
    batches.seen.free = lambda *lists: freed.append(lists)
    batches.begin("b")
    held = weakref.ref(batches.seen.graph)
    with batches.seen.kept():
        batches.seen.let_go(earliest=True)
        assert not freed
        assert held() is not None
    assert len(freed) == 1
    assert held() is None


def test_steps_about_messages_alone_change_nothing_that_readers_see(batches):
    letter, post = (PeerMessage(B, 1, b"", lane) for lane in (Lane.LETTERS, Lane.POST))
    changing = [update(CreateGroup(G)), letter, Tick(), PeerMet(B, (Subnet(B),)), PeerLost(B, "gone")]
    assert all(map(batches.seen.changes, changing))
    assert not any(map(batches.seen.changes, [post, PeerPosts((post, post)), PeerReceived(B, 1)]))


def test_a_receipt_for_which_a_cut_waits_may_let_updates_go_on(batches, monkeypatch):
    monkeypatch.setattr(batches.core, "_cuts_waiting", ["a cut"])
    assert batches.seen.changes(PeerReceived(B, 1))
