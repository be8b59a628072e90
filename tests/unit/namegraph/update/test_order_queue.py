"""Entries, turns and growth on one server, without messages (NG 6.2; docs/protocol-updates.md, "Order")."""

import pytest

from namegraph.core import ServerCore
from namegraph.events import UpdateCommand
from namegraph.model.names import NodeId, ServerId, Subnet
from namegraph.model.operations import CreateGroup, JoinArc
from namegraph.model.priorities import Priority
from namegraph.model.rows import RequestId
from namegraph.wire.columns import pack_records
from namegraph.wire.message_parts import AncestryRecord, ArcId, Cover, InArc, PendingEntry, UpdateId

HERE, THERE = ServerId("here"), ServerId("there")
A, B, C = NodeId("a@here.example"), NodeId("b@here.example"), NodeId("c@here.example")
FAR, FARTHER = NodeId("far@there.example"), NodeId("farther@there.example")


def at(counter):
    return Priority(counter, THERE)


@pytest.fixture
def entries():
    """Groups a -> b and c on one of two servers."""
    core = ServerCore(server=HERE, subnets=[Subnet("here.example")], peers={Subnet("there.example"): THERE})
    operations = (CreateGroup(A), CreateGroup(B), CreateGroup(C), JoinArc(A, B))
    core.step(UpdateCommand(1, RequestId("r"), operations), 0.0)
    return core.entries


def enter(entries, number, *, ends=(), below=(), bound=0, final=None, joins=(), is_asked=True):
    cover = Cover(frozenset(ends), frozenset(below))
    entry = entries.of(UpdateId(THERE, number))
    entry.bound, entry.final = at(bound), None if final is None else at(final)
    entry.ends, entry.entry_nodes = set(ends), set(below)
    entry.joins = tuple(joins)
    entry.asked = cover if is_asked else None
    return entry


def names(entries, nodes):
    return {entries._context.graph.ids[node] for node in nodes}


def test_all_below_an_entry_node_is_affected_and_an_end_alone_is_not_followed(entries):
    part = entries.part(enter(entries, 1, ends=[C], below=[A]))
    assert names(entries, part.nodes) == {A, B, C}
    assert names(entries, part.followed) == {A, B}
    assert not part.unknown


def test_what_has_no_number_here_is_affected_by_name(entries):
    entry = enter(entries, 1, ends=[FAR], below=[FARTHER])
    assert entries.part(entry).unknown == {FAR, FARTHER}
    assert entries.affects(frozenset(), [FAR])
    assert not entries.affects(frozenset(), [A])
    for number, far in enumerate((FAR, FARTHER), start=2):
        assert entries.part(entry).overlaps(entries.part(enter(entries, number, below=[far, C])))
    assert not entries.part(entry).overlaps(entries.part(enter(entries, 9, below=[A])))


def test_a_turn_waits_for_an_earlier_final_priority_on_a_common_node(entries):
    later = enter(entries, 1, below=[B], final=7)
    earlier = enter(entries, 2, below=[A], final=5)
    assert entries.next_turn() is earlier
    entries.answer(earlier, is_ready=False)
    assert entries.next_turn() is None
    entries.remove(earlier.update_id)
    assert entries.next_turn() is later


def test_a_turn_waits_for_an_unknown_final_priority_whose_vote_is_lower(entries):
    entry = enter(entries, 1, below=[B], final=7)
    other = enter(entries, 2, below=[A], bound=6)
    assert entries.next_turn() is None
    entries.of(other.update_id).bound = at(8)
    assert entries.next_turn() is entry


def test_updates_that_affect_no_common_node_do_not_wait(entries):
    entry = enter(entries, 1, ends=[C], final=7)
    enter(entries, 2, below=[A], final=5).covered = Cover(frozenset(), frozenset([A]))
    assert entries.next_turn() is entry


def test_an_entry_that_was_only_handed_on_takes_no_turn_and_holds_later_ones_back(entries):
    enter(entries, 1, below=[B], final=5, is_asked=False)
    enter(entries, 2, below=[A], final=7)
    assert entries.next_turn() is None


def test_an_arc_that_a_ready_update_will_add_counts_for_votes(entries):
    ready = enter(entries, 1, ends=[B], final=5, joins=[ArcId(B, FAR)])
    voting = enter(entries, 2, below=[A])
    assert entries.part(voting, with_ready=True).leads == ()
    entries.answer(ready, is_ready=True)
    assert entries.part(voting, with_ready=True).leads == ((THERE, (FAR,)),)
    assert entries.part(voting).leads == ()


def record(node, *parents, version):
    return AncestryRecord(node, tuple(InArc(parent, 0, 1, 1) for parent in parents), None, at(version))


def test_nodes_that_are_entered_from_elsewhere_are_covered_as_if_asked_for_and_stay_so(entries):
    records = [record(C, FARTHER, version=2), record(FARTHER, FAR, version=2), record(FAR, version=2)]
    entries._records.install(pack_records(records))
    entry = enter(entries, 1, below=[A, FAR])
    assert entries.cover_entered(entry) == (C,), "b is entered from here, and farther is not owned"
    assert entry.asked == Cover(frozenset(), frozenset([A, C, FAR]))
    assert entries.cover_entered(entry) == ()
    entries._records.install(pack_records([record(C, version=3)]))
    assert names(entries, entries.part(entry).nodes) == {A, B, C, FAR, FARTHER}
    entry.final = at(9)
    entry.answer(is_ready=True)
    entry.narrow()
    assert entry.entry_nodes == {A, C, FAR}


def test_only_entries_that_follow_a_node_are_handed_on(entries):
    enter(entries, 1, ends=[B], bound=3)
    follows = enter(entries, 2, below=[A], bound=4)
    assert entries.following(B, but=UpdateId(THERE, 9)) == (PendingEntry(follows.update_id, at(4), None),)
    assert entries.following(B, but=follows.update_id) == ()


def test_an_entry_handed_on_twice_keeps_the_highest_bound_and_all_nodes(entries):
    update_id = UpdateId(THERE, 1)
    assert entries.install(PendingEntry(update_id, at(6), None), [B])
    assert not entries.install(PendingEntry(update_id, at(4), at(9)), [C])
    entry = entries.by_update[update_id]
    assert (entry.bound, entry.final, entry.entry_nodes) == (at(6), at(9), {B, C})
