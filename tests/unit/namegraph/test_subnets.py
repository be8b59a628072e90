"""Which server owns which subnet."""

import pytest

from namegraph.names import ServerId, Subnet
from namegraph.subnets import SubnetTable

HERE, ELSEWHERE = ServerId("here"), ServerId("elsewhere")
MANY = [Subnet(f"s{number}.x") for number in range(1_000)]


@pytest.fixture
def alone():
    return SubnetTable(dict.fromkeys(MANY, HERE))


def test_a_server_is_alone_until_it_learns_of_another_one(alone):
    assert not alone.has_several_servers
    alone.learn(Subnet("far.x"), ELSEWHERE)
    assert alone.has_several_servers
    alone.forget(Subnet("far.x"))
    assert not alone.has_several_servers


def test_a_server_that_is_expected_is_another_one(alone):
    alone.expect(Subnet("far.x"))
    assert alone.has_several_servers


def test_an_arc_does_not_cost_a_walk_over_all_subnets():
    """A restart asks for each arc whether there are other servers."""
    looked_at = []

    class Name(str):
        __slots__ = ()

        def __hash__(self):
            looked_at.append(self)
            return super().__hash__()

    table = SubnetTable({subnet: ServerId(Name("here")) for subnet in MANY})
    assert not table.has_several_servers
    looked_at.clear()
    assert not table.has_several_servers
    assert looked_at == []
