"""Protection that settings must have: what other machines can reach is reached with certificates alone.

| | loopback | elsewhere |
|---|---|---|
| `listen` | plain text, or TLS with `tls` | TLS |
| a peer | plain text, or TLS with `trust` | TLS with `trust` |

`insecure_listen_on_a_public_address` allows plain text elsewhere: for networks that protect it, and while servers move
to TLS.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from namegraph import Subnet
from nameserver.config.addresses import is_on_this_machine
from nameserver.config.trust_settings import ConfiguredPeer, TlsSettings

ALLOWED = "--insecure-listen-on-a-public-address"

MAKE = (
    "make certificates by `shadowtree certs init certs --name {subnet}` and `shadowtree certs server --subnet "
    '{subnet}`, and set tls = {{certificate = "certs/{subnet}.pem", key = "certs/{subnet}.key"}}'
)


class UnprotectedError(Exception):
    """Settings that would let other machines in without proof. The message is one line that says what to do."""


class ProtectedSettings(Protocol):
    """Part of the settings that decides about protection."""

    @property
    def listen(self) -> str:
        """Address that takes calls."""

    @property
    def listen_mutual(self) -> str | None:
        """Address that takes calls with certificates."""

    @property
    def tls(self) -> TlsSettings | None:
        """Files by which this server proves itself."""

    @property
    def peers(self) -> Mapping[Subnet, ConfiguredPeer]:
        """Servers of other subnets."""

    @property
    def subnets(self) -> tuple[Subnet, ...]:
        """Subnets that this server owns."""

    @property
    def insecure_listen_on_a_public_address(self) -> bool:
        """True if plain text is allowed elsewhere."""


def require_protection(settings: ProtectedSettings) -> None:
    """Raise `UnprotectedError` for settings that need certificates and have none."""
    make = MAKE.format(subnet=settings.subnets[0])
    if settings.tls is None:
        if settings.listen_mutual is not None:
            raise UnprotectedError(f"listen_mutual: this server has no certificate: {make}")
        for subnet, peer in sorted(settings.peers.items()):
            if peer.trust is not None:
                raise UnprotectedError(
                    f"peers: {subnet} is to be trusted by certificate, and this server has none to show: {make}"
                )
    if settings.insecure_listen_on_a_public_address:
        return
    if settings.tls is None and not is_on_this_machine(settings.listen):
        raise UnprotectedError(
            f"listen: other machines can reach {settings.listen}, and this server could not tell who calls: {make}; or "
            f"let everybody do everything, by {ALLOWED}"
        )
    for subnet, peer in sorted(settings.peers.items()):
        if peer.trust is None and not is_on_this_machine(peer.address):
            also = "" if settings.tls is not None else f"; {make}"
            raise UnprotectedError(
                f"peers: the server of {subnet} is on another machine, {peer.address}, and nothing would prove that it "
                "is that server: get the authority of its organisation, the ca.pem of its `shadowtree certs init`, and "
                f'set peers."{subnet}" = {{address = "{peer.address}", trust = "{subnet}-ca.pem"}}{also}; or believe '
                f"whatever answers there, by {ALLOWED}"
            )
