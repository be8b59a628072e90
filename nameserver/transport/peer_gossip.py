"""Unknown servers and subnets: other servers know them, and an operator forgot to add them to the table here.

An unknown server may know memberships of foreign processes. Answers here lack these memberships, and must say so. A
name of an unknown subnet looks like that of a foreign process. If it were joined here as one, its home would not know
of the arc. No definite answer is given about it, and no update may name it where the settings say so (`unknown`).

Source: docs/protocol-partitions.md, "Who is missing".
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from itertools import islice

from namegraph import ServerId, Subnet
from nameserver.session.frames import KNOWN_SERVERS_LIMIT, KNOWN_SUBNETS_LIMIT, KnownServer
from nameserver.session.handshake_policy import SubnetKnowledge


@dataclass(frozen=True, slots=True)
class HeardServer:
    """A server of which this server has only heard."""

    server: ServerId
    subnets: tuple[Subnet, ...]
    """Subnets of the server, sorted. `known_to` is sorted too."""
    known_to: tuple[ServerId, ...]


@dataclass(frozen=True, slots=True)
class HeardOwner:
    """Owner of a subnet that the table here lacks, as other servers report it."""

    server: ServerId
    said_by: tuple[ServerId, ...]
    """Servers that reported the owner, sorted.

    They may include the owner itself, if another subnet of it is in the table.
    """


def servers_known(known: SubnetKnowledge) -> tuple[KnownServer, ...]:
    """Return the other servers that this server has met, with their subnets in its table, sorted.

    The result has at most as many servers and subnets as a frame holds.
    """
    found: dict[ServerId, list[Subnet]] = {}
    for subnet in islice(known.peer_addresses, KNOWN_SUBNETS_LIMIT):
        owner = known.owner_of(subnet)
        if owner is not None:
            found.setdefault(owner, []).append(subnet)
    servers = sorted(found.items())[:KNOWN_SERVERS_LIMIT]
    return tuple(KnownServer(server, tuple(sorted(subnets))) for server, subnets in servers)


class PeerGossip:
    """Servers that each other server reports to know. Call `look` once the table here has changed."""

    def __init__(
        self, known: SubnetKnowledge, organisation_of: Callable[[ServerId], object | None] = lambda _server: None
    ) -> None:
        """`organisation_of`: returns what tells the organisations of two servers apart. None for a believed server."""
        self._known = known
        self._organisation_of = organisation_of
        self._told: dict[ServerId, tuple[KnownServer, ...]] = {}
        """Reported servers, by reporting server. Each server also reports its own subnets."""
        self.unknown: list[HeardServer] = []
        """Servers that other servers know and the table here lacks, not even by the address of one subnet. Sorted."""
        self.missing: list[ServerId] = []
        """Those of `unknown` that a believed server knows, or servers of two organisations."""
        self.owners_told: dict[Subnet, HeardOwner] = {}
        """Owners of the subnets that other servers know and this server does not."""
        self.owners: dict[Subnet, HeardOwner] = {}
        """Those of `owners_told` that a believed server tells, or servers of two organisations.

        One organisation alone could make answers uncertain, by naming servers that are not there.
        """

    def take(self, sender: ServerId, subnets: tuple[Subnet, ...], known: tuple[KnownServer, ...]) -> None:
        """Take a server's report of its own subnets, and of the servers that it knows."""
        self._told[sender] = (KnownServer(sender, subnets), *known)
        self.look()

    def forget_all_but(self, servers: Collection[ServerId]) -> None:
        """Forget the reports of servers that are not in `servers`."""
        self._told = {server: known for server, known in self._told.items() if server in servers}
        self.look()

    def look(self) -> None:
        """Find the unknown servers and subnets anew."""
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
            HeardServer(server, tuple(sorted(its_subnets)), tuple(known_to[server]))
            for server, its_subnets in sorted(subnets.items())
        ]
        self.missing = [heard.server for heard in self.unknown if self._is_credible(heard.known_to)]

    def _look_for_subnets(self) -> None:
        addresses, own = self._known.peer_addresses, self._known.server
        self.owners_told = {}
        for sender, known in sorted(self._told.items()):
            for server, its_subnets in known:
                for subnet in its_subnets:
                    if server == own or subnet in addresses or self._known.owner_of(subnet) is not None:
                        continue
                    heard = self.owners_told.get(subnet, HeardOwner(server, ()))
                    if heard.server == server:
                        self.owners_told[subnet] = HeardOwner(server, (*heard.said_by, sender))
        self.owners = {subnet: heard for subnet, heard in self.owners_told.items() if self._is_credible(heard.said_by)}

    def _is_credible(self, told_by: tuple[ServerId, ...]) -> bool:
        organisations = {self._organisation_of(server) for server in told_by}
        return None in organisations or len(organisations) > 1
