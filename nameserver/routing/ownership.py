"""Where names are at home, as far as a call needs to know: here, at another server, or nowhere.

Finding the owner of a name costs two look-ups of its domain, so that every call can afford it. Letter case in a domain
does not matter. A text that is no name has no owner; the code that reads it refuses it.

Source: interfaces.md, gRPC (any server accepts any call); protocol.md section 1 (home).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from enum import Enum

from namegraph import Reason, RefusedError, ServerId, Subnet, refuse
from nameserver.session.handshake_policy import SubnetKnowledge
from nameserver.transport.peer_directory import PeerDirectory


class OwnerKind(Enum):
    """Whose a name or a subnet is."""

    OURS = 1
    ANOTHERS = 2
    UNOWNED = 3
    """A process of such a name is foreign: it lives at the home of each group that it joined."""


class Routing:
    """Tells whose a name is, and which server answers for it."""

    def __init__(self, *, known: SubnetKnowledge, directory: PeerDirectory) -> None:
        self._known = known
        self._directory = directory
        self._own = frozenset(known.subnets)
        self.server = known.server

    @property
    def is_alone(self) -> bool:
        """Whether no other server is known, not even by its address."""
        return not (self._known.peer_addresses or self._directory.others())

    def owner_kind(self, name: str) -> OwnerKind:
        """Whose a name is, or a subnet, in any spelling."""
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
        """The server of a name; None where no server owns it, or its server was never met."""
        return self._known.owner_of(Subnet(name[name.find("@") + 1 :].lower()))

    async def home_of(self, name: str) -> ServerId:
        """The server of a name, or of a subnet, that is somebody's.

        Waits a moment for one that was never met; raises `RefusedError` (UNAVAILABLE).
        """
        owner = self.known_home(name)
        if owner is None:
            return await self._directory.home_of_subnet(Subnet(name[name.find("@") + 1 :].lower()))
        return owner

    def unheard(self) -> list[ServerId]:
        """The servers of the view that may have lost this one by now, sorted."""
        return self._directory.unheard()

    @property
    def knows_all_that_was_heard(self) -> bool:
        """Whether no subnet is missing in the table here, as far as others have said."""
        return not self._directory.heard_owners()

    def heard_owner(self, name: str) -> ServerId | None:
        """The server that owns a name as others say, where the table here lacks its subnet."""
        heard = self._directory.heard_owners().get(Subnet(name[name.find("@") + 1 :].lower()))
        return None if heard is None else heard.server

    def require_listed(self, name: str, *, unreachable: Iterable[str] = ()) -> None:
        """Raise `RefusedError` (UNAVAILABLE) where the subnet of a name, or a subnet, is missing in the table here.

        `unreachable`: who else could not be asked.
        """
        subnet = Subnet(name[name.find("@") + 1 :].lower())
        heard = self._directory.heard_owners().get(subnet)
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
        """Raise `RefusedError` (UNKNOWN_SUBNET) where nobody owns a subnet that was named."""
        if subnet is not None and self.owner_kind(subnet) is OwnerKind.UNOWNED:
            raise refuse(Reason.UNKNOWN_SUBNET, f"no server is known to own the subnet {subnet}", subnet=subnet)

    async def others(self) -> tuple[list[ServerId], list[str]]:
        """All other servers, and those that cannot be asked; both sorted.

        Those are the subnets whose servers were not met even after a moment's wait, and the servers that only other
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
