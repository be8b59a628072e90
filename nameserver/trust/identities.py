"""Identities that a certificate proves, and the reasons for which it proves none."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from namegraph import NodeId, ServerId, Subnet


@dataclass(frozen=True, slots=True)
class PeerIdentity:
    """Name server that a certificate proves."""

    name: ServerId
    subnets: tuple[Subnet, ...]
    """Subnets that the certificate names, sorted."""
    fingerprint: str
    """Fingerprint of the certificate: ``sha256:`` and 64 hexadecimal digits."""
    key_pin: str
    """Fingerprint of the public key of the certificate, in the same form."""
    expires: datetime
    signing_key: bytes | None
    """Public Ed25519 key with which the server signs: 32 bytes. None if the certificate names none."""


@dataclass(frozen=True, slots=True)
class UserIdentity:
    """User that a certificate proves."""

    principal: NodeId
    fingerprint: str
    """Fingerprint as in `PeerIdentity`."""
    key_pin: str
    """Fingerprint as in `PeerIdentity`."""
    expires: datetime


Identity = PeerIdentity | UserIdentity


class TrustFault(StrEnum):
    """Kind of reason for which a certificate proves nothing. Operators see it in counts."""

    MALFORMED = "malformed certificate"
    WRONG_USE = "certificate for another use"
    WRONG_NAME = "certificate of another name"
    NOT_YET_VALID = "certificate not yet valid"
    EXPIRED = "certificate expired"
    REVOKED = "certificate revoked"
    UNKNOWN_AUTHORITY = "certificate of another authority"
    NOT_PINNED = "no authority pinned"


@dataclass(frozen=True, slots=True)
class NotAuthentic:
    """Refusal of a certificate."""

    kind: TrustFault
    why: str
    """One line for operators of this server. It names the certificate and what was expected."""
