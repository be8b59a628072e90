"""Judgement of a certificate: the identity that it proves at a moment, or the reason for which it proves none.

The functions here are pure: the moment, the bundle and the revoked certificates are given.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

from cryptography import x509

from namegraph import NodeId, ServerId
from nameserver.trust.bundles import Bundle
from nameserver.trust.identities import Identity, NotAuthentic, PeerIdentity, TrustFault, UserIdentity
from nameserver.trust.leaves import Leaf
from nameserver.trust.path_validation import chain_fault


def judge_leaf(
    leaf: Leaf,
    between: Sequence[x509.Certificate],
    bundle: Bundle | None,
    *,
    at: datetime,
    revoked: Collection[str] = (),
) -> Identity | NotAuthentic:
    """Return the identity that a leaf proves.

    `between`: authorities that came with the leaf. `bundle`: the authorities pinned for its domain. None if there are
    none. `revoked`: fingerprints of certificates, or of their keys.
    """
    who = shown(leaf)
    if bundle is None:
        return NotAuthentic(TrustFault.NOT_PINNED, f"{who} is refused: no authority is pinned for {leaf.domain}")
    found = judge_seen_leaf(leaf, at=at, revoked=revoked)
    if isinstance(found, NotAuthentic):
        return found
    fault_of_chain = chain_fault(leaf.certificate, between, bundle.authorities, at=at)
    if fault_of_chain is not None:
        return NotAuthentic(
            TrustFault.UNKNOWN_AUTHORITY,
            f"{who} of the issuer {_issuer(leaf)!r} is refused: no authority pinned for {leaf.domain} "
            f"({', '.join(each[:23] for each in bundle.fingerprints)}) vouches for it ({fault_of_chain[:200]})",
        )
    return found


def judge_seen_leaf(leaf: Leaf, *, at: datetime, revoked: Collection[str]) -> Identity | NotAuthentic:
    """Do as `judge_leaf`, for a leaf for which a handshake has found an authority."""
    if leaf.fingerprint in revoked or leaf.key_pin in revoked:
        return NotAuthentic(TrustFault.REVOKED, f"{shown(leaf)} is refused: the settings call it revoked")
    return time_fault(leaf, at) or identity_of(leaf)


def identity_of(leaf: Leaf) -> Identity:
    """Return the identity that a leaf claims."""
    if leaf.is_server:
        return PeerIdentity(
            ServerId(leaf.owner), leaf.subnets, leaf.fingerprint, leaf.key_pin, leaf.expires, leaf.signing_key
        )
    return UserIdentity(NodeId(leaf.owner), leaf.fingerprint, leaf.key_pin, leaf.expires)


def time_fault(leaf: Leaf, at: datetime) -> NotAuthentic | None:
    """Return the refusal of a leaf that is not valid at a moment. None if it is valid."""
    if at < leaf.begins:
        why = f"{shown(leaf)} is refused: certificate is valid in {duration(leaf.begins - at)} (compare the clocks)"
        return NotAuthentic(TrustFault.NOT_YET_VALID, why)
    if at > leaf.expires:
        why = f"{shown(leaf)} is refused: certificate expired {duration(at - leaf.expires)} ago"
        return NotAuthentic(TrustFault.EXPIRED, why)
    return None


def shown(leaf: Leaf) -> str:
    """Return a leaf in the words of a log line."""
    kind = "server" if leaf.is_server else "user"
    return f"the certificate of the {kind} {leaf.owner} ({leaf.fingerprint[:23]}...)"


def duration(time: timedelta) -> str:
    """Return a duration in its largest unit: ``3 h``."""
    seconds = max(0, int(time.total_seconds()))
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def _issuer(leaf: Leaf) -> str:
    return leaf.certificate.issuer.rfc4514_string()[:100]
