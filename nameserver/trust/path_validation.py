"""Validation of a chain of certificates, from a leaf to an authority.

This is the only use of `cryptography.x509.verification`, an interface that is not promised to stay as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from cryptography import x509
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

CHAIN_LIMIT = 3
"""Authorities between a leaf and its root. An organisation needs one or none."""


def chain_fault(
    leaf: x509.Certificate, between: Sequence[x509.Certificate], roots: Sequence[x509.Certificate], *, at: datetime
) -> str | None:
    """Return the reason for which no root vouches for a leaf at a moment. None if one does.

    `between`: authorities that came with the leaf, in any order.
    """
    if len(between) > CHAIN_LIMIT:
        return f"{len(between)} authorities came with it, and {CHAIN_LIMIT} may"
    try:
        builder = PolicyBuilder().store(Store(list(roots))).time(at).max_chain_depth(CHAIN_LIMIT)
        builder.build_client_verifier().verify(leaf, list(between))
    except (VerificationError, ValueError) as error:
        return str(error) or "validation failed"
    return None
