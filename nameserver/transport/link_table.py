"""Table of the links to all addresses of the peer table, and of the server at the end of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from namegraph import ServerId, Subnet
from nameserver.session.frames import Hello
from nameserver.session.handshake_policy import SubnetKnowledge, subnets_by_address
from nameserver.transport.peer_link import Link


class LinkTable:
    """One link for each address."""

    def __init__(self, known: SubnetKnowledge, make: Callable[[str, tuple[Subnet, ...]], Link]) -> None:
        """`make` returns the link to an address at which some subnets are expected."""
        self._known = known
        self._make = make
        self._by_address: dict[str, Link] = {}

    def __iter__(self) -> Iterator[Link]:
        return iter(list(self._by_address.values()))

    def follow_table(self) -> tuple[list[Link], list[Link]]:
        """Follow the table of subnets and addresses. Return the removed links and the new ones."""
        table: Mapping[str, tuple[Subnet, ...]] = subnets_by_address(self._known)
        gone = [self._by_address.pop(address) for address in list(self._by_address) if address not in table]
        new = []
        for address, subnets in table.items():
            link = self._by_address.get(address)
            if link is None:
                link = self._by_address[address] = self._make(address, subnets)
                new.append(link)
            link.subnets = subnets
        return gone, new

    def to(self, server: ServerId) -> list[Link]:
        """Return all links to a server: links at which it was met, and links at which it is expected."""
        owner_of = self._known.owner_of
        return [
            link
            for link in self._by_address.values()
            if link.server == server or any(owner_of(subnet) == server for subnet in link.subnets)
        ]

    def to_subnet(self, subnet: Subnet) -> Link | None:
        """Return the link to the server of a subnet of the table. None if the table lacks the subnet."""
        return self._by_address.get(self._known.peer_addresses.get(subnet, ""))

    def of(self, hello: Hello) -> list[Link]:
        """Return the links at whose end an owner of a claimed subnet is expected."""
        return [link for link in self._by_address.values() if not frozenset(hello.subnets).isdisjoint(link.subnets)]

    def server_of(self, link: Link) -> ServerId | None:
        """Return the server at the end of a link. None if it was never met."""
        if link.server is not None:
            return link.server
        owners: Iterable[ServerId | None] = map(self._known.owner_of, link.subnets)
        return next((owner for owner in owners if owner is not None), None)
