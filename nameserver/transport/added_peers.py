"""Check of a peer that an operator adds while the server runs: is the server at that address the one of the subnet?

authority given, or pinned before --> a TLS handshake shows the certificate of the server there
none                             --> the server there is asked, and believed: on loopback, or where settings allow it
"""

from __future__ import annotations

from datetime import UTC, datetime

from namegraph import Reason, RefusedError, Subnet, refuse
from nameserver.transport.identification import Identity, identify
from nameserver.transport.peer_transport import PeerTransport
from nameserver.trust.bundles import Bundle, BundleError, parse_bundle
from nameserver.trust.identities import NotAuthentic, PeerIdentity
from nameserver.trust.peer_trust import PeerTrust
from nameserver.trust.seen_leaf import Unbelieved

SUBNETS_NAMED = 5
"""Subnets of another server that a refusal names."""


class AddedPeers:
    """Check of peers that operators add."""

    def __init__(self, transport: PeerTransport, trust: PeerTrust) -> None:
        self._transport = transport
        self._trust = trust

    async def require_owner(self, subnet: Subnet, address: str, authority: str) -> None:
        """Raise `RefusedError` if another server than that of the subnet is at an address, even one of the same name.

        If no server is there yet, the address is accepted, unless the server of the subnet is connected at another one.

        `authority`: the authorities of the server as PEM text. Empty if the operator gives none.
        """
        bundle = self._bundle(authority) if authority else self._trust.pin_of(subnet)
        self._require_one_authority(subnet, address, bundle)
        if bundle is None:
            # A subnet may be moved to an address where it needs no proof, and not the other way round.
            why = self._trust.why_not_dialled(address, [subnet])
            if why is not None:
                raise _refused(f"{why}; nothing was changed", address)
            found = await identify(address)
        else:
            found = await self._seen(subnet, address, bundle)
        self._require(subnet, address, found)

    def _bundle(self, authority: str) -> Bundle:
        if not self._trust.is_protected:
            raise _refused_trust("this server has no certificate to show (`tls`), so it trusts nobody by certificate")
        try:
            return parse_bundle(authority.encode(), at=datetime.now(UTC))
        except BundleError as error:
            raise _refused_trust(f"the authority is of no use: {error}") from None

    def _require_one_authority(self, subnet: Subnet, address: str, bundle: Bundle | None) -> None:
        """Subnets of one address are those of one server, which has one authority."""
        for other in self._transport.subnets_at(address):
            if other != subnet and self._trust.pin_of(other) != bundle:
                raise _refused_trust(
                    f"{other} is at {address} too, so it is of the same server: give the authority pinned for it"
                )

    async def _seen(self, subnet: Subnet, address: str, bundle: Bundle) -> Identity | None:
        seen = await self._trust.see_with(bundle, address, subnet)
        match seen:
            case PeerIdentity():
                return Identity(seen.name, seen.subnets)
            case Unbelieved() | NotAuthentic():
                raise _refused(f"{seen.why}; nothing was changed", address)
        return None

    def _require(self, subnet: Subnet, address: str, found: Identity | None) -> None:
        link = self._transport.link_of_subnet(subnet)
        if found is None:
            if link is not None and link.is_connected and link.address != address:
                raise _refused(
                    f"nobody answers at {address}, and the server {link.server} of {subnet} is connected at "
                    f"{link.address}; nothing was changed",
                    address,
                )
            return
        if found.server is None:
            raise _refused(f"what answers at {address} is not a name server; nothing was changed", address)
        if subnet not in found.subnets:
            owned = ", ".join(found.subnets[:SUBNETS_NAMED])
            more = f" and {len(found.subnets) - SUBNETS_NAMED} more" if len(found.subnets) > SUBNETS_NAMED else ""
            raise _refused(
                f"the server {found.server} at {address} does not own {subnet}, but {owned}{more}; nothing was changed",
                address,
                server=found.server,
            )
        if link is not None and link.is_connected and link.address != address and link.server is not None:
            met = self._transport.start_of(link.server)
            if found.start is not None and found.start != met:
                raise _refused(
                    f"the server {found.server} at {address} is another one than {link.server}, which is connected at "
                    f"{link.address}; nothing was changed",
                    address,
                    server=found.server,
                )


def _refused(message: str, address: str, **facts: str) -> RefusedError:
    return refuse(Reason.INVALID_REQUEST, message, field="address", address=address, **facts)


def _refused_trust(message: str) -> RefusedError:
    return refuse(Reason.INVALID_REQUEST, f"{message}; nothing was changed", field="trust")
