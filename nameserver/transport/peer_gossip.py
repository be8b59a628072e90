"""Unknown servers and subnets: other servers know them, and an operator forgot to add them to the table here.

An unknown server may know memberships of foreign processes. Answers here lack these, and must say so. A name of an
unknown subnet looks like that of a foreign process. If it were joined here as one, its home would know nothing of that.
So no update may name it, and nothing definite is said of it.

Source: protocol.md section 8 (never a silent gap).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from itertools import islice

from namegraph import ServerId, Subnet
from nameserver.session.frames import KNOWN_SERVERS_LIMIT, KNOWN_SUBNETS_LIMIT, KnownServer
from nameserver.session.handshake_policy import SubnetKnowledge


@dataclass(frozen=True, slots=True)
class UnknownServer:
    """A server of which this one has only heard."""

    server: ServerId
    subnets: tuple[Subnet, ...]
    """Sorted, as are the next."""
    known_to: tuple[ServerId, ...]


@dataclass(frozen=True, slots=True)
class HeardOwner:
    """The owner, as others say, of a subnet that is not in the table here."""

    server: ServerId
    said_by: tuple[ServerId, ...]
    """Sorted; maybe the owner itself, which has another subnet that is in the table."""


def servers_known(known: SubnetKnowledge) -> tuple[KnownServer, ...]:
    """The other servers that this one has met, with their subnets in its table; sorted. As many as a frame holds."""
    found: dict[ServerId, list[Subnet]] = {}
    for subnet in islice(known.peer_addresses, KNOWN_SUBNETS_LIMIT):
        owner = known.owner_of(subnet)
        if owner is not None:
            found.setdefault(owner, []).append(subnet)
    servers = sorted(found.items())[:KNOWN_SERVERS_LIMIT]
    return tuple(KnownServer(server, tuple(sorted(subnets))) for server, subnets in servers)


class PeerGossip:
    """The servers that each other server says it knows. Call `look` once the table here has changed."""

    def __init__(self, known: SubnetKnowledge) -> None:
        self._known = known
        self._told: dict[ServerId, tuple[KnownServer, ...]] = {}
        """By the server that said it; each also says its own subnets."""
        self.unknown: list[UnknownServer] = []
        """Servers that others know and this one does not, not even by the address of one subnet; sorted."""
        self.owners: dict[Subnet, HeardOwner] = {}
        """The subnets that others know, and this server does not."""

    def take(self, sender: ServerId, subnets: tuple[Subnet, ...], known: tuple[KnownServer, ...]) -> None:
        """A server says which subnets are its own, and which servers it knows."""
        self._told[sender] = (KnownServer(sender, subnets), *known)
        self.look()

    def forget_all_but(self, servers: Collection[ServerId]) -> None:
        """Forget what was said by servers that are not among these."""
        self._told = {server: known for server, known in self._told.items() if server in servers}
        self.look()

    def look(self) -> None:
        """Find anew which servers and subnets are unknown."""
        self._look_for_servers()
        self._look_for_subnets()

    def _look_for_servers(self) -> None:
        addresses, own = self._known.peer_addresses, self._known.server
        subnets: dict[ServerId, set[Subnet]] = {}
        known_to: dict[ServerId, list[ServerId]] = {}
        here = {server for server, _ in servers_known(self._known)} | {own, *self._told}
        for sender, known in sorted(self._told.items()):
            for server, its_subnets in known:
                if server not in here and addresses.keys().isdisjoint(its_subnets):
                    subnets.setdefault(server, set()).update(its_subnets)
                    known_to.setdefault(server, []).append(sender)
        self.unknown = [
            UnknownServer(server, tuple(sorted(its_subnets)), tuple(known_to[server]))
            for server, its_subnets in sorted(subnets.items())
        ]

    def _look_for_subnets(self) -> None:
        addresses, own = self._known.peer_addresses, self._known.server
        self.owners = {}
        for sender, known in sorted(self._told.items()):
            for server, its_subnets in known:
                for subnet in its_subnets:
                    if server == own or subnet in addresses or self._known.owner_of(subnet) is not None:
                        continue
                    heard = self.owners.get(subnet, HeardOwner(server, ()))
                    if heard.server == server:
                        self.owners[subnet] = HeardOwner(server, (*heard.said_by, sender))
