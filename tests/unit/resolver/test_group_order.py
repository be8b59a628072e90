"""The groups of a server come in the order of their ids, and what a change does not touch is not sorted again."""

from random import Random

import pytest

from namegraph.model.names import parse_name, subnet_of
from resolver import group_order
from resolver.group_order import GroupOrder
from tests.cores import CoreUnderTest

SUBNETS = "x.example", "y.example"
NAMES = [parse_name(f"{local}@{subnet}") for local in "abcdefghijklmnop" for subnet in SUBNETS]


@pytest.fixture(autouse=True)
def small_slices(monkeypatch):
    monkeypatch.setattr(group_order, "SLICE_NODES", 4)


@pytest.fixture
def server():
    return CoreUnderTest(*SUBNETS)


@pytest.fixture
def order(server):
    return GroupOrder(server.core)


@pytest.mark.parametrize("seed", range(10))
def test_whatever_is_created_and_deleted_the_order_is_that_of_the_ids(server, order, seed):
    dice, there = Random(seed), set()
    for _ in range(60):
        name = dice.choice(NAMES)
        if name in there:
            server.delete(name, force=True)
        else:
            server.create(name)
            server.join(name, f"somebody-{dice.randrange(20)}@people.example")
        there ^= {name}
        after, subnet = dice.choice([None, *NAMES]), dice.choice([None, *SUBNETS])
        assert list(order.groups(subnet=subnet, after=after)) == [
            group
            for group in sorted(there)
            if (after is None or group > after) and (subnet is None or subnet_of(group) == subnet)
        ]


def test_a_change_sorts_its_own_slice_alone(server, order):
    server.create(*NAMES[:12])
    assert len(list(order.fill())) == 3
    assert list(order.fill()) == []
    server.delete(NAMES[5])
    assert len(list(order.fill())) == 1
    server.join(NAMES[0], NAMES[1])
    assert list(order.fill()) == []


def test_what_is_being_read_stays_as_it_was(server, order):
    server.create(*NAMES[:12])
    reading = order.groups(subnet=None, after=None)
    first = next(reading)
    server.delete(NAMES[5])
    assert NAMES[5] not in order.groups(subnet=None, after=None)
    assert [first, *reading] == NAMES[:12]


def test_a_state_that_has_fewer_nodes_is_read_as_it_is(server, order):
    server.create(*NAMES[:3])
    before = server.core.graph.hold()
    server.create(*NAMES[3:12])
    list(order.fill())
    server.core.graph = before
    assert list(order.groups(subnet=None, after=None)) == NAMES[:3]
