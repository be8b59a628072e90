"""Beliefs: which servers are believed about the groups of others.

Servers of one organisation believe one another. So do all servers of a federation without certificates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Protocol

from namegraph import ServerId, Subnet
from nameserver.trust.peer_trust import PeerTrust


class KnownOwners(Protocol):
    """Part of the core that knows the owners of subnets."""

    @property
    def servers_met(self) -> Sequence[ServerId]:
        """Other servers that were met."""

    @property
    def peer_addresses(self) -> Mapping[Subnet, str]:
        """Address of each subnet of another server."""

    def owner_of(self, subnet: Subnet) -> ServerId | None:
        """Return the server that owns a subnet. None if it was not met."""


class Beliefs:
    """Servers of other organisations, as the pins of this server tell."""

    def __init__(self, core: KnownOwners, trust: PeerTrust) -> None:
        self._core = core
        self._trust = trust
        self._found: tuple[tuple[object, ...], frozenset[ServerId]] = ((), frozenset())
        """Servers that are not believed, with the state from which they were found."""

    def unbelieved(self) -> Set[ServerId]:
        """Return the servers whose word about groups of others needs a confirmation."""
        if not self._trust.is_protected:
            return frozenset()
        state = (self._trust.changes, *self._core.servers_met)
        if self._found[0] != state:
            self._found = state, self._find()
        return self._found[1]

    def _find(self) -> frozenset[ServerId]:
        subnets: dict[ServerId, list[Subnet]] = {server: [] for server in self._core.servers_met}
        for subnet in self._core.peer_addresses:
            owner = self._core.owner_of(subnet)
            if owner in subnets:
                subnets[owner].append(subnet)
        return frozenset(server for server, owned in subnets.items() if not self._trust.believes(owned))
