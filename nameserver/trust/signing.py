"""Signing key of this server: what other servers keep is signed with it, and the certificate names it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from nameserver.config.trust_settings import TlsSettings
from nameserver.trust.identities import NotAuthentic
from nameserver.trust.key_files import TrustFileError, read_key_pair, read_signing_key
from nameserver.trust.leaves import read_leaf

SUFFIX = ".signing.key"
"""Ending of the file beside NAME.pem, as `shadowtree certs server` names it."""


@dataclass(frozen=True, slots=True)
class CheckpointSigner:
    """Ed25519 key of this server."""

    private: Ed25519PrivateKey
    public_key: bytes
    """Public key, 32 bytes."""

    def sign(self, data: bytes) -> bytes:
        """Return the signature of some bytes."""
        return self.private.sign(data)


def load_signing_key(files: TlsSettings | None) -> CheckpointSigner | None:
    """Return the signing key beside the certificate. None if there is none.

    Raises `TrustFileError` if the file is of no use, or the certificate names another key.
    """
    if files is None:
        return None
    path = signing_key_path(files.certificate)
    if not path.exists():
        return None
    private = read_signing_key(path)
    public_key = private.public_key().public_bytes_raw()
    leaf = read_leaf(read_key_pair(files.certificate, files.key).certificate)
    if isinstance(leaf, NotAuthentic) or leaf.signing_key != public_key:
        raise TrustFileError(
            f"the certificate in {files.certificate} does not name the signing key in {path}; put the key back that "
            "was made with the certificate, or move this one away to sign nothing"
        )
    return CheckpointSigner(private, public_key)


def signing_key_path(certificate: Path) -> Path:
    """Return the file of the signing key beside a certificate."""
    return certificate.with_suffix(SUFFIX)
