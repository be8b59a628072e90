"""Tokens: secrets that the gateway tells one person alone, and recognises later."""

from __future__ import annotations

import base64
import hashlib
import hmac

BYTES = 10
FORM = "[a-z2-7]{16}"
"""Regular expression of a token."""


def mac_of(secret: bytes, *parts: str) -> str:
    """Return 80 bits that nobody can compute without the secret. `parts`: texts that each count separately."""
    digest = hmac.new(secret, digestmod=hashlib.sha256)
    for part in parts:
        digest.update(b"%d:%b" % (len(part.encode()), part.encode()))
    return base64.b32encode(digest.digest()[:BYTES]).decode("ascii").lower()
