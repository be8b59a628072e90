"""Reading of all files that the settings of trust name, at a start and again while a server runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from namegraph import ServerId, Subnet
from nameserver.config.trust_settings import ConfiguredPeer, TlsSettings
from nameserver.trust.bundles import Bundle
from nameserver.trust.key_files import TrustFileError
from nameserver.trust.own_certificate import OwnCertificate, load_own_certificate
from nameserver.trust.pins import load_bundle


class TrustSettings(Protocol):
    """Part of the settings that names the files."""

    @property
    def tls(self) -> TlsSettings | None:
        """Files by which this server proves itself. None if it does not."""

    @property
    def peers(self) -> Mapping[Subnet, ConfiguredPeer]:
        """Servers of other subnets."""

    @property
    def subnets(self) -> tuple[Subnet, ...]:
        """Subnets that this server owns."""

    @property
    def revoked(self) -> frozenset[str]:
        """Fingerprints of certificates and keys that prove nothing."""

    @property
    def refuses_unknown(self) -> bool:
        """True if no update may name a subnet of a server that only other servers know."""

    @property
    def insecure_listen_on_a_public_address(self) -> bool:
        """True if plain text is allowed with other machines."""

    @property
    def listen_mutual(self) -> str | None:
        """Address that takes calls with certificates."""


@dataclass(frozen=True, slots=True)
class TrustFiles:
    """Content of all files of trust."""

    own: OwnCertificate | None
    """Certificate of this server. None if it has none."""
    of_users: Bundle | None
    of_peers: Mapping[Subnet, Bundle]


def load_trust_files(settings: TrustSettings, *, name: ServerId | None, at: datetime) -> TrustFiles:
    """Return the content of the files. Raises `TrustFileError` for the first one that is of no use.

    `name`: the name of the server. None if its database has not told it yet.
    """
    tls = settings.tls
    if tls is None:
        return TrustFiles(None, None, {})
    own = load_own_certificate(tls, settings.subnets, name=name, at=at)
    of_users = None if tls.client_ca is None else load_bundle(tls.client_ca, at=at)
    of_peers: dict[Subnet, Bundle] = {}
    for subnet, peer in sorted(settings.peers.items()):
        if peer.trust is None:
            continue
        try:
            of_peers[subnet] = load_bundle(peer.trust, at=at)
        except TrustFileError as error:
            raise TrustFileError(f"the trust of {subnet}: {error}") from None
    return TrustFiles(own, of_users, of_peers)
