"""Names and tombstones of left arcs are forgotten, and numbers are reused, without any visible difference."""

from random import Random

import pytest

from namegraph.core import ServerCore
from namegraph.model.names import parse_name
from namegraph.model.operations import CreateGroup, DeleteGroup, JoinArc, LeaveArc
from namegraph.model.refusals import Reason
from resolver.census import Census, Counts
from resolver.group_order import GroupOrder
from tests.cores import CoreUnderTest
from tests.reads import graph_as_read

SUBNET = "x.example"
GROUPS = [parse_name(f"{letter}@{SUBNET}") for letter in "abcdef"]
PEOPLE = [parse_name(f"p{number}@{domain}") for number in range(6) for domain in (SUBNET, "people.example")]
A, B, C = GROUPS[:3]
ANN, BOB = PEOPLE[:2]

CHANGES = 6_000
"""Joins and leaves; `python -m benchmarks forgetting` makes more."""

MEMBERS = 50
WAITING_LIMIT = 1_500
"""Names and tombstones that may wait until they are forgotten, together."""


@pytest.fixture
def server():
    """A server that forgets at once."""
    return CoreUnderTest(SUBNET)


def restored(server):
    """Return a core restored from the durable state."""
    return ServerCore.restore(server.stored(), subnets=server.core.subnets)


def durable(core):
    """Return all state that must be the same after a restart. The count of changes need not be."""
    read = graph_as_read(core.graph)
    del read["changes"], read["recorded"], read["virtual nodes"], read["virtual node of"]
    return read, dict(core.graph.tombstones), sorted(core.graph._free)


@pytest.mark.parametrize("domain", [SUBNET, "people.example"])
def test_however_many_people_come_and_go_names_tombstones_and_rows_stay_few(domain):
    server = CoreUnderTest(SUBNET, forgets_at_once=False)
    server.create(A)
    people = [parse_name(f"p{number}@{domain}") for number in range(CHANGES // 2)]
    for number, person in enumerate(people):
        server.join(A, person)
        if number >= MEMBERS:
            server.leave(A, people[number - MEMBERS])
    graph, stored = server.core.graph, server.stored()
    assert len(graph.ids) < MEMBERS + WAITING_LIMIT
    assert len(graph.tombstones) < WAITING_LIMIT
    assert len(stored.nodes) == len(graph.ids)
    assert len(stored.arcs) == len(graph.tombstones) + MEMBERS
    assert len(graph.index) + graph.free_count == len(graph.ids)
    assert sorted(server.questions().resolve(A).processes) == sorted(people[-MEMBERS:])


def test_the_number_of_a_name_that_is_forgotten_is_given_to_another_one(server):
    server.create(A)
    server.join(A, ANN)
    number = server.core.graph.index[ANN]
    server.leave(A, ANN)
    assert ANN not in server.core.graph.index
    assert (server.core.graph.free_count, server.core.graph.tombstones) == (1, {})
    server.join(A, BOB)
    assert server.core.graph.index[BOB] == number
    assert server.core.graph.free_count == 0


def test_whoever_joins_again_after_it_was_forgotten_is_a_member_as_before(server):
    server.create(A)
    for _ in range(3):
        server.join(A, ANN)
        assert server.questions().check(A, ANN)
        server.leave(A, ANN)
        assert not server.questions().check(A, ANN)


def test_what_is_still_a_member_or_a_group_is_not_forgotten(server):
    server.create(A, B)
    server.join(A, ANN)
    server.join(B, ANN)
    server.leave(A, ANN)
    assert ANN in server.core.graph.index
    assert B in server.core.graph.index


def test_a_refused_update_gives_back_the_free_numbers_it_took(server):
    server.create(A)
    server.join(A, ANN)
    server.leave(A, ANN)
    before = durable(server.core)
    refusal = server.ask(JoinArc(A, BOB), JoinArc(A, PEOPLE[3]), LeaveArc(A, ANN))
    assert refusal.reason is Reason.NOT_A_MEMBER
    assert durable(server.core) == before
    server.join(A, BOB)
    assert durable(restored(server)) == durable(server.core)


@pytest.mark.parametrize("seed", range(20))
def test_a_server_that_starts_again_knows_the_same_and_has_the_same_numbers_free(server, seed):
    dice = Random(seed)
    for _ in range(60):
        parent, child = dice.choice(GROUPS), dice.choice(GROUPS + PEOPLE)
        server.ask(
            dice.choice(
                [CreateGroup(parent), DeleteGroup(parent, force=True), JoinArc(parent, child), LeaveArc(parent, child)]
            )
        )
        server.check_invariants()
        assert durable(restored(server)) == durable(server.core)


@pytest.mark.parametrize("seed", range(20))
def test_answers_that_are_kept_follow_numbers_that_change_their_names(server, seed):
    """One resolver, census and order of groups for all: they keep what they found by number."""
    dice, kept = Random(seed), server.questions()
    census, order = Census(server.core), GroupOrder(server.core)
    for _ in range(80):
        parent, child = dice.choice(GROUPS), dice.choice(GROUPS + PEOPLE)
        server.ask(
            dice.choice(
                [CreateGroup(parent), DeleteGroup(parent, force=True), JoinArc(parent, child), LeaveArc(parent, child)]
            )
        )
        there = [group for group in GROUPS if server.core.graph.group(group) is not None]
        assert list(order.groups(subnet=None, after=None)) == sorted(there)
        assert census.counts() == server.counts()
        fresh = server.questions()
        for group in there:
            assert kept.resolve(group).processes == fresh.resolve(group).processes
            assert kept.resolve(group).groups == fresh.resolve(group).groups


def test_who_reads_a_graph_that_is_held_sees_no_name_that_got_a_free_number_since(server):
    server.create(A)
    server.join(A, ANN)
    server.leave(A, ANN)
    graph = server.core.graph
    held = graph.hold()
    before = graph_as_read(held)
    server.join(A, BOB)
    assert BOB in graph.index
    assert BOB not in held.index
    assert graph_as_read(held) == before


def test_a_name_that_is_forgotten_while_somebody_holds_the_graph_is_still_known_there(server):
    server.create(A)
    server.join(A, ANN)
    graph = server.core.graph
    held = graph.hold()
    before = graph_as_read(held)
    server.leave(A, ANN)
    server.join(A, BOB)
    assert ANN not in graph.index
    assert ANN in held.index
    assert graph_as_read(held) == before


def test_a_virtual_node_that_is_gone_leaves_no_row(server):
    server.create(A, B)
    for _ in range(5):
        server.join(A, B)
        server.join(B, A)
        server.leave(A, B)
        server.leave(B, A)
    assert [row for row in server.stored().virtual_nodes if row.present] == []


def test_the_census_counts_a_number_for_whoever_has_it(server):
    server.create(A)
    server.join(A, ANN)
    census = Census(server.core)
    assert census.counts() == Counts(1, 1, 1, 0)
    server.leave(A, ANN)
    assert census.counts() == Counts(1, 0, 0, 0)
    server.create(C)
    assert census.counts() == Counts(2, 0, 0, 0)
