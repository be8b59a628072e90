"""Homes of names, as far as a call needs them: this server, another server, or none.

Finding the owner of a name costs two look-ups of its domain, so every call can afford it. Letter case in a domain does
not matter. A text that is no name has no owner. The code that reads it refuses it.

Source: docs/glossary.md, "Names and who owns them" (home).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Set
from enum import Enum

from namegraph import Reason, RefusedError, ServerId, Subnet, refuse
from nameserver.session.handshake_policy import SubnetKnowledge
from nameserver.transport.peer_directory import PeerDirectory
from nameserver.transport.peer_gossip import HeardOwner


class OwnerKind(Enum):
    """Kind of owner of a name or a subnet."""

    OURS = 1
    ANOTHERS = 2
    UNOWNED = 3
    """A process with such a name is foreign: it lives at the home of each group that it joined."""


class Routing:
    """Look-up of the owner of a name, and of the server that answers for it."""

    def __init__(self, *, known: SubnetKnowledge, directory: PeerDirectory) -> None:
        self._known = known
        self._directory = directory
        self._own = frozenset(known.subnets)
        self.server = known.server

    @property
    def is_alone(self) -> bool:
        """True if no other server is known, not even by its address."""
        return not (self._known.peer_addresses or self._directory.others())

    @property
    def unbelieved(self) -> Set[ServerId]:
        """Servers whose word about the groups of other servers needs a confirmation by these."""
        return self._directory.unbelieved

    def note_contradicted(self, server: ServerId) -> None:
        """Count a fault of a server: it told a membership, and the home of the group denies that."""
        self._directory.note_contradicted(server)

    def owner_kind(self, name: str) -> OwnerKind:
        """Return the kind of owner of a name or a subnet, in any spelling."""
        domain = name[name.find("@") + 1 :]
        if domain in self._own:
            return OwnerKind.OURS
        subnet = Subnet(domain.lower())
        if subnet in self._own:
            return OwnerKind.OURS
        if self._known.owner_of(subnet) is not None or subnet in self._known.peer_addresses:
            return OwnerKind.ANOTHERS
        return OwnerKind.UNOWNED

    def known_home(self, name: str) -> ServerId | None:
        """Return the server of a name. None if no server owns it, or its server was never met."""
        return self._known.owner_of(Subnet(name[name.find("@") + 1 :].lower()))

    async def home_of(self, name: str) -> ServerId:
        """Return the server of a name, or of a subnet, that has an owner.

        Waits a moment for a server that was never met. Raises `RefusedError` (UNAVAILABLE).
        """
        owner = self.known_home(name)
        if owner is None:
            return await self._directory.home_of_subnet(Subnet(name[name.find("@") + 1 :].lower()))
        return owner

    def unheard(self) -> list[ServerId]:
        """Return the servers of the view that may have lost this server by now, sorted."""
        return self._directory.unheard()

    @property
    def knows_all_that_was_heard(self) -> bool:
        """True if the table here lacks no subnet that other servers have reported."""
        return not self._directory.heard_owners()

    def heard_owner(self, name: str) -> ServerId | None:
        """Return the server that owns a name as other servers report, if the table here lacks its subnet.

        None otherwise.
        """
        heard = self._directory.heard_owners().get(Subnet(name[name.find("@") + 1 :].lower()))
        return None if heard is None else heard.server

    @property
    def refuses_no_update(self) -> bool:
        """True if no update is refused for a subnet that the table here lacks."""
        return not self._directory.owners_that_refuse()

    def require_named(self, name: str) -> None:
        """Raise `RefusedError` (UNAVAILABLE) if no update may name the subnet of a name, or a subnet."""
        self._require(name, self._directory.owners_that_refuse(), ())

    def require_listed(self, name: str, *, unreachable: Iterable[str] = ()) -> None:
        """Raise `RefusedError` (UNAVAILABLE) if the table here lacks the subnet of a name, or a subnet.

        `unreachable`: other servers that could not be asked.
        """
        self._require(name, self._directory.heard_owners(), unreachable)

    def _require(self, name: str, owners: Mapping[Subnet, HeardOwner], unreachable: Iterable[str]) -> None:
        subnet = Subnet(name[name.find("@") + 1 :].lower())
        heard = owners.get(subnet)
        if heard is not None:
            raise refuse(
                Reason.UNAVAILABLE,
                f"the server {heard.server} owns the subnet {subnet} (says {', '.join(heard.said_by)}), "
                f"which the table of {self.server} lacks: add it there with `shadowtree peers add {subnet}=HOST:PORT`",
                unreachable="\n".join(sorted({heard.server, *unreachable})),
                server=heard.server,
                subnet=subnet,
            )

    def require_owned(self, subnet: Subnet | None) -> None:
        """Raise `RefusedError` (UNKNOWN_SUBNET) if no server is known to own a subnet that was named."""
        if subnet is not None and self.owner_kind(subnet) is OwnerKind.UNOWNED:
            raise refuse(Reason.UNKNOWN_SUBNET, f"no server is known to own the subnet {subnet}", subnet=subnet)

    async def others(self) -> tuple[list[ServerId], list[str]]:
        """Return all other servers, and the names that cannot be asked.

        Both are sorted.

        The latter are subnets whose servers were not met even after a moment's wait, and servers that only other
        servers know.
        """
        servers = set(self._directory.others())
        expected = sorted(subnet for subnet in self._known.peer_addresses if self._known.owner_of(subnet) is None)
        found = await asyncio.gather(*map(self._owner_or_none, expected))
        servers.update(owner for owner in found if owner is not None)
        never_met = [subnet for subnet, owner in zip(expected, found, strict=True) if owner is None]
        return sorted(servers), sorted({*never_met, *self._directory.unknown_here()})

    async def _owner_or_none(self, subnet: Subnet) -> ServerId | None:
        try:
            return await self._directory.home_of_subnet(subnet)
        except RefusedError:
            return None
