"""The owner of a subnet is found without a look at the other subnets."""

from namegraph.model.names import NodeId, ServerId, Subnet
from namegraph.model.ownership import HOMES_REMEMBERED, OwnershipTable

A, B = ServerId("a.example"), ServerId("b.example")


class Counted(str):
    """A name that counts how often it is looked up somewhere."""

    lookups = 0

    def __hash__(self):
        Counted.lookups += 1
        return super().__hash__()


def test_it_knows_servers_by_what_they_own():
    table = OwnershipTable({Subnet(A): A})
    assert not table.has_several_servers
    table.learn(Subnet("s1.example"), B)
    table.learn(Subnet("s2.example"), B)
    assert table.has_several_servers
    assert (table.servers(), table.owned_by(B)) == ((A, B), ("s1.example", "s2.example"))
    table.forget(Subnet("s1.example"))
    table.learn(Subnet("s2.example"), A)
    assert not table.has_several_servers
    assert (table.servers(), table.owned_by(B)) == ((A,), ())


def test_a_server_that_is_only_expected_is_another_one():
    table = OwnershipTable({Subnet(A): A})
    table.expect(Subnet(B))
    assert table.has_several_servers
    table.learn(Subnet(B), B)
    assert table.has_several_servers
    table.forget(Subnet(B))
    assert not table.has_several_servers


def test_a_table_that_readers_hold_stays_as_it_was():
    table = OwnershipTable({Subnet(A): A}, expected=[Subnet("c.x")])
    held = table.hold()
    table.learn(Subnet(B), B)
    table.learn(Subnet("c.x"), B)
    table.forget(Subnet(A))
    table.expect(Subnet("d.x"))
    assert (held.servers(), held.owned_by(A), held.expected()) == ((A,), (A,), ("c.x",))
    assert (held.home_of(NodeId(f"g@{A}")), held.home_of(NodeId(f"g@{B}"))) == (A, None)
    assert (table.servers(), table.owned_by(B), table.expected()) == ((B,), (B, "c.x"), ("d.x",))
    assert (table.home_of(NodeId(f"g@{A}")), table.home_of(NodeId(f"g@{B}"))) == (None, B)


def test_each_change_of_an_owner_is_counted():
    table = OwnershipTable({Subnet(A): A})
    table.expect(Subnet(B))
    assert table.changes == 0
    table.learn(Subnet(B), B)
    assert table.changes == 1
    assert table.homes_of([NodeId("g@b.example"), NodeId("p@elsewhere.example")]) == [B, None]


def test_a_home_that_was_looked_up_before_follows_each_change_of_an_owner():
    table = OwnershipTable({Subnet(A): A})
    name = NodeId("g@b.example")
    assert table.home_of(name) is None
    table.learn(Subnet("b.example"), B)
    assert (table.home_of(name), table.homes[name]) == (B, B)
    table.learn(Subnet("b.example"), A)
    assert table.home_of(name) == A
    table.forget(Subnet("b.example"))
    assert table.home_of(name) is None


def test_a_reader_that_holds_former_homes_does_not_bring_one_back():
    table = OwnershipTable({Subnet(A): A})
    former = table.homes
    table.learn(Subnet("b.example"), B)
    table.learn(Subnet("b.example"), A)
    assert former[NodeId("g@b.example")] == A
    table.forget(Subnet("b.example"))
    assert table.home_of(NodeId("g@b.example")) is None


def test_the_homes_of_few_names_are_remembered_at_once():
    table = OwnershipTable({Subnet(A): A})
    for number in range(2 * HOMES_REMEMBERED + 1):
        assert table.home_of(NodeId(f"p{number}@a.example")) == A
        assert len(table.homes) <= HOMES_REMEMBERED


def test_questions_do_not_walk_over_all_subnets():
    owners = {Counted(f"s{number}.example"): Counted(f"server{number % 5}") for number in range(1000)}
    table = OwnershipTable(owners)
    table.servers()
    Counted.lookups = 0
    assert table.has_several_servers
    assert len(table.servers()) == 5
    assert table.owner_of(Subnet("s7.example")) == "server2"
    assert not table.is_expected(NodeId("g@s7.example"))
    assert Counted.lookups == 0
