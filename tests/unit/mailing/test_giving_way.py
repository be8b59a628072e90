"""The connection that loses its place: the oldest one of the network with the most connections."""

import pytest

from mailing.rules.giving_way import LOOPBACK, Holder, network_of, who_gives_way


def test_the_network_with_most_places_loses_its_oldest_one():
    holders = [Holder("honest", "10.0.0.0/24", 0.0), Holder("newer", "b", 2.0), Holder("older", "b", 1.0)]
    assert who_gives_way(holders, 9.0, patience_seconds=5) == "older"


def test_nobody_loses_a_place_before_patience_is_over():
    holders = [Holder(number, "b", 1.0 + number) for number in range(3)]
    assert who_gives_way(holders, 5.9, patience_seconds=5) is None
    assert who_gives_way(holders, 6.0, patience_seconds=5) == 0
    assert who_gives_way([], 6.0, patience_seconds=0) is None


@pytest.mark.parametrize(
    ("address", "network"),
    [
        (("10.1.2.3", 25), "10.1.2.0/24"),
        (("::ffff:10.1.2.3", 25, 0, 0), "10.1.2.0/24"),
        (("2001:db8::1", 25, 0, 0), "2001:db8::/64"),
        (("fe80::1%eth0", 25, 0, 0), "fe80::/64"),
        (("127.0.0.1", 25), LOOPBACK),
        (("127.9.9.9", 25), LOOPBACK),
        (("::1", 25, 0, 0), LOOPBACK),
        ("", ""),
        (None, ""),
    ],
)
def test_all_addresses_of_one_user_are_one_network(address, network):
    assert network_of(address) == network
