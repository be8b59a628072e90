"""Bundles: the authorities that may vouch for one organisation.

A bundle is a PEM file with one certificate of an authority, or with two while the organisation changes its authority.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import Encoding

from nameserver.trust.leaves import fingerprint_of

BUNDLE_CERTIFICATES_LIMIT = 16
"""Authorities of one bundle. Each one more can speak for the organisation."""

PEM_BYTES_LIMIT = 256 * 1024
"""Bytes of a PEM file or text: a leaf of the largest size with its chain, or a bundle."""


class BundleError(ValueError):
    """Text that is no bundle. The message says why, and begins in lower case."""


@dataclass(frozen=True)
class Bundle:
    """Authorities that may vouch for one organisation."""

    authorities: tuple[x509.Certificate, ...]

    @cached_property
    def pem(self) -> bytes:
        """PEM text of the authorities, and nothing else."""
        return b"".join(each.public_bytes(Encoding.PEM) for each in self.authorities)

    @cached_property
    def fingerprints(self) -> tuple[str, ...]:
        """Fingerprint of each authority, in the order of the file."""
        return tuple(fingerprint_of(each) for each in self.authorities)

    def has_issued(self, certificate: x509.Certificate) -> bool:
        """Return True if an authority of the bundle has issued a certificate."""
        return any(_has_issued(each, certificate) for each in self.authorities)

    @property
    def expires(self) -> datetime:
        """Last moment at which an authority of the bundle is valid."""
        return max(each.not_valid_after_utc for each in self.authorities)


def _has_issued(authority: x509.Certificate, certificate: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def parse_certificates(pem: bytes) -> tuple[x509.Certificate, ...]:
    """Return the certificates of a PEM text. Raises `BundleError` if there are none, or one cannot be read."""
    if len(pem) > PEM_BYTES_LIMIT:
        raise BundleError(f"it has more than {PEM_BYTES_LIMIT:,} bytes")
    try:
        return tuple(x509.load_pem_x509_certificates(pem))
    except ValueError:
        raise BundleError("it holds no certificate in PEM form, or one that cannot be read") from None


def parse_bundle(pem: bytes, *, at: datetime) -> Bundle:
    """Return the bundle of a PEM text.

    Raises `BundleError` if a certificate is no authority, or if none of them is valid at a moment.
    """
    authorities = parse_certificates(pem)
    if len(authorities) > BUNDLE_CERTIFICATES_LIMIT:
        raise BundleError(f"it holds {len(authorities)} certificates, and may hold {BUNDLE_CERTIFICATES_LIMIT}")
    for each in authorities:
        if not is_authority(each):
            raise BundleError(
                f"the certificate {fingerprint_of(each)[:23]}... in it is not that of an authority (give ca.pem)"
            )
    bundle = Bundle(tuple(dict.fromkeys(authorities)))
    if bundle.expires < at:
        raise BundleError(f"the authority expired at {bundle.expires:%Y-%m-%dT%H:%M:%SZ}")
    return bundle


def is_authority(certificate: x509.Certificate) -> bool:
    """Return True if a certificate may vouch for others."""
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except (x509.ExtensionNotFound, ValueError, x509.DuplicateExtension):
        return False
