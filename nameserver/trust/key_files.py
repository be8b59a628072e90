"""Keys and certificates on disk: read with clear errors, written whole and private.

A certificate is usable only with the key that fits it: both are read together.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from nameserver.config.regular_file import read_regular_file
from nameserver.trust.bundles import PEM_BYTES_LIMIT, BundleError, parse_certificates

PRIVATE_MODE = 0o600

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


class TrustFileError(Exception):
    """File that cannot be read or written, or that does not hold what it should. The message names the file."""


@dataclass(frozen=True, slots=True)
class KeyPair:
    """Certificate with its chain, and the key that fits it."""

    certificate: x509.Certificate
    between: tuple[x509.Certificate, ...]
    """Certificates of authorities that stand behind the first one in the file."""
    chain_pem: bytes
    key_pem: bytes


def read_pem(path: Path) -> bytes:
    """Return the content of a file of ordinary size."""
    try:
        return read_regular_file(path, limit_bytes=PEM_BYTES_LIMIT)
    except OSError as error:
        raise TrustFileError(f"cannot read {path}: {error.strerror or error}") from None


def read_certificates(path: Path) -> tuple[x509.Certificate, ...]:
    """Return the certificates of a file."""
    try:
        return parse_certificates(read_pem(path))
    except BundleError as error:
        raise TrustFileError(f"{path} is of no use: {error}") from None


def read_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """Return the key of a certificate."""
    key = _private_key(path)
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise TrustFileError(f"{path} holds no key of the kind ECDSA P-256")
    return key


def read_signing_key(path: Path) -> ed25519.Ed25519PrivateKey:
    """Return the key with which a server signs."""
    key = _private_key(path)
    if not isinstance(key, ed25519.Ed25519PrivateKey):
        raise TrustFileError(f"{path} holds no key of the kind Ed25519")
    return key


def _private_key(path: Path) -> object:
    try:
        return load_pem_private_key(read_pem(path), password=None)
    except TypeError:
        raise TrustFileError(f"the key in {path} is encrypted; a server cannot ask for its password") from None
    except (ValueError, UnsupportedAlgorithm):
        raise TrustFileError(f"{path} holds no private key in PEM form") from None


def read_key_pair(certificate: Path, key: Path) -> KeyPair:
    """Return a certificate with the key that fits it."""
    chain = read_certificates(certificate)
    key_pem = read_pem(key)
    private = _private_key(key)
    public = getattr(private, "public_key", None)
    fits = public is not None and _info(public()) == _info(chain[0].public_key())
    if not fits:
        raise TrustFileError(f"the key in {key} does not fit the certificate in {certificate}")
    return KeyPair(chain[0], chain[1:], b"".join(each.public_bytes(Encoding.PEM) for each in chain), key_pem)


def _info(key: object) -> bytes:
    encoded: bytes = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)  # type: ignore[attr-defined]
    return encoded


def pem_of_key(key: ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey) -> bytes:
    """Return the PEM text of a key."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def write_new(path: Path, content: bytes) -> None:
    """Write a file that must not be there yet, readable by its owner alone."""
    try:
        with os.fdopen(os.open(path, _NEW, PRIVATE_MODE), "wb") as file:
            file.write(content)
    except FileExistsError:
        raise TrustFileError(f"{path} is there already, and is not overwritten") from None
    except OSError as error:
        raise TrustFileError(f"cannot write {path}: {error.strerror or error}") from None


def replace(path: Path, content: bytes) -> None:
    """Put another content in the place of a file, so that readers see the one or the other."""
    beside = path.with_name(f".{path.name}.new")
    try:
        beside.unlink(missing_ok=True)
        write_new(beside, content)
        beside.replace(path)
    except OSError as error:
        raise TrustFileError(f"cannot write {path}: {error.strerror or error}") from None
