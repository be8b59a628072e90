"""Fingerprints of certificates, without the libraries of the server."""

from __future__ import annotations

import hashlib
import re
import ssl
from binascii import Error
from typing import Final

_CERTIFICATE: Final = re.compile(r"-----BEGIN CERTIFICATE-----\n.*?-----END CERTIFICATE-----", re.DOTALL)


def fingerprints_in(pem: str) -> list[str]:
    """Return the fingerprint of each certificate of a PEM text. Empty if one of them cannot be read."""
    found = []
    for certificate in _CERTIFICATE.findall(pem):
        try:
            encoded = ssl.PEM_cert_to_DER_cert(certificate)
        except (ValueError, Error):
            return []
        found.append(f"sha256:{hashlib.sha256(encoded).hexdigest()}")
    return found
