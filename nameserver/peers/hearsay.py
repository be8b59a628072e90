"""Servers that others have met and this one does not know: an operator forgot one address.

Two servers that do not know each other share no arc, since an update that needs both is refused. But what only one of
them knows, of processes that are nobody's own, is missing from the other's answers, which must say so.

Source: protocol.md section 8 (never a silent gap).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from namegraph.names import ServerId, Subnet
from nameserver.peers.acquaintance import SubnetKnowledge
from nameserver.peers.frames import KnownServer


@dataclass(frozen=True, slots=True)
class UnknownServer:
    """A server of which this one has only heard."""

    server: ServerId
    subnets: tuple[Subnet, ...]
    """Sorted, as are the next."""
    known_to: tuple[ServerId, ...]


def servers_known(known: SubnetKnowledge) -> tuple[KnownServer, ...]:
    """The other servers that this one has met, with their subnets in its table; sorted."""
    found: dict[ServerId, list[Subnet]] = {}
    for subnet in known.peer_addresses:
        owner = known.owner_of(subnet)
        if owner is not None:
            found.setdefault(owner, []).append(subnet)
    return tuple(KnownServer(server, tuple(sorted(subnets))) for server, subnets in sorted(found.items()))


class Hearsay:
    """Whom each other server has said that it knows. `look` once the table here has changed."""

    def __init__(self, known: SubnetKnowledge) -> None:
        self._known = known
        self._told: dict[ServerId, tuple[KnownServer, ...]] = {}
        self.unknown: list[UnknownServer] = []
        """Whom others know, and this server does not: not even by the address of one of its subnets; sorted."""

    def take(self, sender: ServerId, known: tuple[KnownServer, ...]) -> None:
        """A server says whom it knows."""
        self._told[sender] = known
        self.look()

    def forget_all_but(self, servers: Collection[ServerId]) -> None:
        """Forget what was said by servers that are not among these."""
        self._told = {server: known for server, known in self._told.items() if server in servers}
        self.look()

    def look(self) -> None:
        """Find anew who is unknown."""
        addresses, own = self._known.peer_addresses, self._known.server
        subnets: dict[ServerId, set[Subnet]] = {}
        known_to: dict[ServerId, list[ServerId]] = {}
        here = {server for server, _ in servers_known(self._known)} | {own}
        for sender, known in sorted(self._told.items()):
            for server, its_subnets in known:
                if server not in here and addresses.keys().isdisjoint(its_subnets):
                    subnets.setdefault(server, set()).update(its_subnets)
                    known_to.setdefault(server, []).append(sender)
        self.unknown = [
            UnknownServer(server, tuple(sorted(its_subnets)), tuple(known_to[server]))
            for server, its_subnets in sorted(subnets.items())
        ]
