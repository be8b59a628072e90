"""Choice of the connection that gives way when all places are taken and another connection needs one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, ip_address, ip_network
from typing import Final, Generic, TypeVar

LOOPBACK: Final = "loopback"
IPV4_PREFIX, IPV6_PREFIX = 24, 64
"""Prefix lengths of the network of one user: a machine has all IPv6 addresses of its subnet."""

Owner = TypeVar("Owner")


@dataclass(frozen=True, slots=True)
class Holder(Generic[Owner]):
    """A connection that has a place."""

    owner: Owner
    network: str
    """Network of the other end, as `network_of` returns it."""
    since: float
    """Time at which the connection got its place, or last brought a whole message."""


def who_gives_way(holders: Iterable[Holder[Owner]], now: float, *, patience_seconds: float) -> Owner | None:
    """Return the owner of the place to be freed. None if no holder has had its place for `patience_seconds`.

    The network with the most places loses its oldest place. So a network that takes all places takes them from itself.
    """
    late = [each for each in holders if now >= each.since + patience_seconds]
    if not late:
        return None
    places = Counter(each.network for each in late)
    return min(late, key=lambda each: (-places[each.network], each.since)).owner


def network_of(address: object) -> str:
    """Return the network of a socket address. Empty if the address has no network, as with a Unix socket."""
    try:
        found = ip_address(address[0].partition("%")[0])  # type: ignore[index]
    except (TypeError, IndexError, ValueError, AttributeError):
        return ""
    if not isinstance(found, IPv4Address) and found.ipv4_mapped is not None:
        found = found.ipv4_mapped
    if found.is_loopback:
        return LOOPBACK
    prefix = IPV4_PREFIX if isinstance(found, IPv4Address) else IPV6_PREFIX
    return str(ip_network(f"{found}/{prefix}", strict=False))
