"""A caller's network, of an address as gRPC names it."""

import pytest

from nameserver.config.addresses import THIS_MACHINE, network_of


@pytest.mark.parametrize(
    ("peer", "network"),
    [
        ("ipv4:192.0.2.77:40001", "192.0.2.0/24"),
        ("ipv4:192.0.2.78:40002", "192.0.2.0/24"),
        ("ipv6:%5B2001:db8:1:2::7%5D:40001", "2001:db8:1:2::/64"),
        ("ipv6:[2001:db8:1:2:ffff::8]:40002", "2001:db8:1:2::/64"),
        ("ipv6:%5B::ffff:192.0.2.9%5D:40001", "192.0.2.0/24"),
        ("ipv4:127.0.0.1:40001", THIS_MACHINE),
        ("ipv4:127.8.0.9:40001", THIS_MACHINE),
        ("ipv6:%5B::1%5D:40001", THIS_MACHINE),
        ("unix:", THIS_MACHINE),
        ("unix:/run/names.sock", THIS_MACHINE),
        ("vsock:3:7", "3"),
        ("", ""),
    ],
)
def test_callers_of_one_network_are_known_as_such(peer, network):
    assert network_of(peer) == network
