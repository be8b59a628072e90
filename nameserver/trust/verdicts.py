"""Verdicts on the certificates of callers: judged when a certificate is first seen, and again each minute.

    call --> auth_context of gRPC --> certificates that came --> verdict, 60 s old at most --> identity, or refusal

The handshake has proven that the caller has the key. gRPC has compared the certificate with all authorities of the
port together, so one organisation's authority could vouch for another one's server there. The verdict asks the
authorities of that one organisation.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from cryptography import x509

from nameserver.trust.bundles import Bundle, BundleError, parse_certificates
from nameserver.trust.identities import Identity, NotAuthentic, TrustFault
from nameserver.trust.judgement import judge_leaf
from nameserver.trust.leaves import Leaf, read_leaf

VERDICT_SECONDS = 60.0
"""Age at which a verdict is judged again: a certificate that is revoked or expires counts so much longer."""

VERDICTS_LIMIT = 10_000
"""Verdicts that are kept: one for each certificate of a caller. Beyond them, the oldest is judged again when needed."""

_LEAF = "x509_pem_cert"
_CHAIN = "x509_pem_cert_chain"


class _Verdict(NamedTuple):
    """Verdict on what a caller sent."""

    identity: Identity | NotAuthentic
    judged_at: float


class _Sent(NamedTuple):
    """Certificates that a caller sent."""

    leaf: Leaf
    between: tuple[x509.Certificate, ...]


class CertificateVerdicts:
    """Verdicts on certificates, each remembered for a minute."""

    def __init__(
        self,
        bundle_for: Callable[[Leaf], Bundle | None],
        *,
        revoked: Callable[[], Collection[str]],
        clock: Callable[[], float],
        wall_clock: Callable[[], float],
    ) -> None:
        """Create the verdicts.

        `bundle_for`: returns the authorities that may vouch for a leaf. `revoked`: returns fingerprints. `clock`:
        seconds that never jump. `wall_clock`: seconds since 1970.
        """
        self._bundle_for = bundle_for
        self._revoked = revoked
        self._clock = clock
        self._wall_clock = wall_clock
        self._verdicts: dict[bytes, _Verdict] = {}

    def on(self, auth_context: Mapping[str, Iterable[bytes]]) -> Identity | NotAuthentic | None:
        """Return the verdict on the caller of a call. None if the caller has sent no certificate."""
        leaf = b"".join(auth_context.get(_LEAF, ()))
        if not leaf:
            return None
        chain = b"".join(auth_context.get(_CHAIN, ()))
        return self.on_certificates(leaf, chain)

    def on_certificates(self, leaf: bytes, chain: bytes = b"") -> Identity | NotAuthentic:
        """Return the verdict on a certificate and the chain that came with it, both as PEM texts."""
        key = hashlib.sha256(leaf + chain).digest()
        known = self._verdicts.get(key)
        if known is not None and self._clock() - known.judged_at < VERDICT_SECONDS:
            return known.identity
        identity = self._judge(leaf, chain)
        # A later judgement stands behind all others, so the first one is the oldest.
        self._verdicts.pop(key, None)
        if len(self._verdicts) >= VERDICTS_LIMIT:
            del self._verdicts[next(iter(self._verdicts))]
        self._verdicts[key] = _Verdict(identity, self._clock())
        return identity

    def forget(self) -> None:
        """Forget all verdicts, because authorities or revoked certificates have changed."""
        self._verdicts.clear()

    def _judge(self, leaf: bytes, chain: bytes) -> Identity | NotAuthentic:
        sent = _sent(leaf, chain)
        if isinstance(sent, NotAuthentic):
            return sent
        at = datetime.fromtimestamp(self._wall_clock(), UTC)
        return judge_leaf(sent.leaf, sent.between, self._bundle_for(sent.leaf), at=at, revoked=self._revoked())


def _sent(leaf: bytes, chain: bytes) -> _Sent | NotAuthentic:
    try:
        certificate = parse_certificates(leaf)[0]
        others = parse_certificates(chain) if chain else ()
    except BundleError as error:
        return NotAuthentic(TrustFault.MALFORMED, f"a certificate is refused: {error}")
    found = read_leaf(certificate)
    if isinstance(found, NotAuthentic):
        return found
    return _Sent(found, tuple(each for each in others if each != certificate))
