"""Servers that others have met, and this one does not know."""

from types import SimpleNamespace

import pytest

from nameserver.session.frames import KnownServer
from nameserver.transport.peer_gossip import HeardOwner, HeardServer, PeerGossip, servers_known

C = KnownServer("c.x", ("c.x", "c2.x"))


@pytest.fixture
def table():
    """The table of a.x, which has met b.x and b's second subnet. The address d.x has not answered yet."""
    owners = {"a.x": "a.x", "b.x": "b.x", "b2.x": "b.x"}
    addresses = {"b2.x": "host:1", "b.x": "host:1", "d.x": "host:2"}
    return SimpleNamespace(server="a.x", subnets=("a.x",), peer_addresses=addresses, owners=owners, owner_of=owners.get)


@pytest.fixture
def hearsay(table):
    return PeerGossip(table)


def test_those_that_were_met_are_known_with_their_subnets_of_the_table(table):
    assert servers_known(table) == (KnownServer("b.x", ("b.x", "b2.x")),)


def test_who_is_met_or_expected_here_or_is_this_server_is_no_news(hearsay):
    hearsay.take("b.x", ("b.x",), (KnownServer("a.x", ("a.x",)), KnownServer("d", ("d.x",))))
    hearsay.take("d", ("d.x",), (KnownServer("b.x", ("b3.x",)),))
    assert hearsay.unknown == []


def test_who_is_not_known_here_is_named_with_all_that_know_it_until_they_do_not(hearsay):
    hearsay.take("e.x", ("e.x",), (KnownServer("c.x", ("c3.x",)), KnownServer("f.x", ())))
    hearsay.take("b.x", ("b.x",), (C,))
    assert hearsay.unknown == [
        HeardServer("c.x", ("c.x", "c2.x", "c3.x"), ("b.x", "e.x")),
        HeardServer("f.x", (), ("e.x",)),
    ]
    hearsay.forget_all_but({"b.x"})
    assert hearsay.unknown == [HeardServer("c.x", ("c.x", "c2.x"), ("b.x",))]
    hearsay.take("b.x", ("b.x",), ())
    assert hearsay.unknown == []


@pytest.mark.parametrize("subnet", ["c.x", "c2.x"])
def test_it_is_known_once_one_of_its_subnets_is_in_the_table(hearsay, table, subnet):
    hearsay.take("b.x", ("b.x",), (C,))
    table.peer_addresses[subnet] = "host:3"
    hearsay.look()
    assert hearsay.unknown == []


def test_of_a_subnet_that_is_missing_here_it_is_known_who_owns_it_and_who_said_so(hearsay, table):
    hearsay.take("b.x", ("b.x", "b2.x", "b3.x"), (C, KnownServer("d", ("d.x", "d2.x")), KnownServer("a.x", ("a9.x",))))
    hearsay.take("d", ("d.x", "d2.x"), (KnownServer("c.x", ("c.x",)), KnownServer("b.x", ("b.x",))))
    assert hearsay.owners == {
        "b3.x": HeardOwner("b.x", ("b.x",)),
        "c.x": HeardOwner("c.x", ("b.x", "d")),
        "c2.x": HeardOwner("c.x", ("b.x",)),
        "d2.x": HeardOwner("d", ("b.x", "d")),
    }
    table.peer_addresses |= {"c.x": "host:3", "b3.x": "host:1", "d2.x": "host:2"}
    hearsay.look()
    assert hearsay.owners == {"c2.x": HeardOwner("c.x", ("b.x",))}
    hearsay.forget_all_but({"d"})
    assert hearsay.owners == {}


def test_where_two_claim_a_subnet_one_of_them_is_told_and_who_says_so_of_it(hearsay):
    hearsay.take("e.x", ("e.x",), (KnownServer("c.x", ("n.x",)),))
    hearsay.take("b.x", ("b.x",), (KnownServer("f.x", ("n.x",)),))
    assert hearsay.owners["n.x"] == HeardOwner("f.x", ("b.x",))


def test_one_other_organisation_alone_makes_no_answer_uncertain(table):
    organisations = {"b.x": "b", "b2.x": "b", "c.x": "c", "own.x": None}
    unknown = (KnownServer("ghost.x", ("ghost.x",)),)

    def owners(*tellers):
        gossip = PeerGossip(table, organisations.__getitem__)
        for teller in tellers:
            gossip.take(teller, (), unknown)
        assert [heard.server for heard in gossip.unknown] == ["ghost.x"]
        assert list(gossip.owners_told) == ["ghost.x"]
        assert gossip.missing == (["ghost.x"] if gossip.owners else [])
        return list(gossip.owners)

    assert owners("b.x") == owners("b.x", "b2.x") == []
    assert owners("own.x") == owners("b.x", "c.x") == ["ghost.x"]
