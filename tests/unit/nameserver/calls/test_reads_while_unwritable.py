"""Answers that are given while the database fails are those of the state that is stored."""

import random
from types import SimpleNamespace

import pytest

from namegraph.model.names import parse_name
from namegraph.model.operations import ChildKind, CreateGroup, DeleteGroup, JoinArc, LeaveArc
from namegraph.model.rows import Records
from nameserver.calls import reads_while_unwritable as standing_module
from nameserver.calls.reads_while_unwritable import ReadsWhileUnwritable
from resolver.membership import MembershipResolver
from shadowtree.v1 import name_service_pb2 as messages
from shadowtree.v1.names_pb2 import Target
from tests.cores import CoreUnderTest

GROUPS = [parse_name(f"g{number}@x.y") for number in range(9)]
PEOPLE = [parse_name(f"p{number}@x.y") for number in range(5)]


def change_at_random(core, chance):
    """Make one random join or leave, which may be refused, or delete or create a group."""
    match chance.randrange(8):
        case 0:
            core.ask_to_delete(chance.choice(GROUPS))
        case 1:
            core.ask_to_create(chance.choice(GROUPS))
        case 2 | 3:
            core.ask_to_leave(chance.choice(GROUPS), chance.choice(GROUPS + PEOPLE))
        case _:
            core.ask_to_join(chance.choice(GROUPS), chance.choice(GROUPS + PEOPLE))


def answers(core):
    """Return the answer to each question about the state. None if the group does not exist."""
    resolver, index = MembershipResolver(core), core.graph.index
    found = {}
    for group in GROUPS:
        is_there = core.graph.group(group) is not None
        plan = resolver.resolve(group) if is_there else None
        found["resolve", group] = (plan.groups, plan.processes) if plan is not None else None
        below = {*plan.groups, *plan.processes} if plan is not None else set()
        for member in GROUPS + PEOPLE:
            found["check", group, member] = member in below if is_there else None
    for member in GROUPS + PEOPLE:
        groups = [group for group in GROUPS if found["check", group, member]]
        found["memberships", member] = groups if member in index else []
    return found


@pytest.mark.parametrize("seed", range(60))
def test_an_answer_that_stands_is_that_of_the_stored_state(seed):
    chance = random.Random(seed)
    core = StandingCore()
    for _ in range(chance.randrange(5, 60)):
        change_at_random(core, chance)
    stored, core.records = answers(core.core), Records()
    for _ in range(chance.randrange(1, 4)):
        change_at_random(core, chance)
    now = answers(core.core)
    standing = standing_over(core)
    for group in GROUPS:
        stands = standing.resolve(messages.ResolveRequest(group=group))
        if stands:
            assert now["resolve", group] == stored["resolve", group]
        # A set stands where each of its groups does, exceptions too.
        for other in GROUPS:
            target = messages.ResolveRequest(targets=[Target(group=group, excluding=[other])])
            stands_too = stands and standing.resolve(messages.ResolveRequest(group=other))
            assert standing.resolve(target) == stands_too
        for member in GROUPS + PEOPLE:
            if standing.check(messages.CheckRequest(group=group, member=member)):
                assert now["check", group, member] == stored["check", group, member]
    for member in GROUPS + PEOPLE:
        if standing.memberships(messages.ListMembershipsRequest(member=member)):
            assert now["memberships", member] == stored["memberships", member]


class StandingCore(CoreUnderTest):
    """A core whose refusals do not matter."""

    def __init__(self):
        super().__init__("x.y")

    def ask_to_create(self, group):
        self.ask(CreateGroup(group))

    def ask_to_delete(self, group):
        self.ask(DeleteGroup(group, True))

    def ask_to_join(self, parent, child):
        self.ask(JoinArc(parent, child, ChildKind.AUTO))

    def ask_to_leave(self, parent, child):
        self.ask(LeaveArc(parent, child, ChildKind.AUTO))


def standing_over(core, *, is_alone=True):
    run_loop = SimpleNamespace(step_count=1, undurable_records_seen=lambda: [core.records])
    return ReadsWhileUnwritable(core=core.core, run_loop=run_loop, is_alone=lambda: is_alone)


def with_two_groups():
    core = CoreUnderTest("x.y")
    core.create(*GROUPS[:2])
    core.join(GROUPS[0], PEOPLE[0])
    core.records = Records()
    core.join(GROUPS[1], PEOPLE[1])
    return core


def test_what_nothing_touches_stands_and_the_rest_does_not():
    standing = standing_over(with_two_groups())
    assert standing.resolve(messages.ResolveRequest(group=GROUPS[0]))
    assert not standing.resolve(messages.ResolveRequest(group=GROUPS[0], walk=True))
    assert not standing.resolve(messages.ResolveRequest(group=GROUPS[1]))
    assert standing.memberships(messages.ListMembershipsRequest(member=PEOPLE[0]))
    assert not standing.memberships(messages.ListMembershipsRequest(member=PEOPLE[1]))
    assert standing.check(messages.CheckRequest(group=GROUPS[1], member=PEOPLE[0]))
    assert not standing.check(messages.CheckRequest(group=GROUPS[1], member=PEOPLE[1]))


def test_among_several_servers_only_what_is_above_a_member_stands():
    standing = standing_over(with_two_groups(), is_alone=False)
    assert not standing.resolve(messages.ResolveRequest(group=GROUPS[0]))
    assert standing.memberships(messages.ListMembershipsRequest(member=PEOPLE[0]))


def test_after_a_large_change_nothing_is_taken_to_stand(monkeypatch):
    monkeypatch.setattr(standing_module, "TOUCHED_LIMIT", 1)
    standing = standing_over(with_two_groups())
    assert not standing.resolve(messages.ResolveRequest(group=GROUPS[0]))
    assert not standing.memberships(messages.ListMembershipsRequest(member=PEOPLE[0]))
