"""Folder of an organisation's authority: its certificate and key, and the leaves that it issues.

    ca.pem, ca.key          the authority; the key never leaves the machine on which the folder is
    NAME.pem, NAME.key      leaf of a server or user, and its key
    NAME.signing.key        key with which the server signs; the leaf names it

`ca.pem` is what other organisations pin.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from urllib.parse import quote

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding

from namegraph import NodeId, ServerId, Subnet
from nameserver.trust.bundles import is_authority
from nameserver.trust.identities import NotAuthentic
from nameserver.trust.issuing import make_authority, make_server_leaf, make_user_leaf, new_key
from nameserver.trust.judgement import duration
from nameserver.trust.key_files import (
    TrustFileError,
    pem_of_key,
    read_certificates,
    read_key,
    read_key_pair,
    read_signing_key,
    replace,
    write_new,
)
from nameserver.trust.leaves import Leaf, read_leaf

AUTHORITY = "ca"
"""File name of the authority, without its ending."""


@dataclass(frozen=True, slots=True)
class IssuedLeaf:
    """Leaf that was written, and where."""

    certificate: Path
    key: Path
    signing_key: Path | None
    """Key with which the server signs. None for a user."""
    leaf: Leaf


class AuthorityFolder:
    """Authority of one organisation."""

    def __init__(self, folder: Path, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        """Create the object for what is in the folder. Use `begin` or `open`."""
        self.folder = folder
        self.certificate = certificate
        self._key = key

    @classmethod
    def begin(cls, folder: Path, name: Subnet, *, at: datetime) -> AuthorityFolder:
        """Make an authority in a folder, which is made too if it is missing. Raises `TrustFileError`."""
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise TrustFileError(f"cannot make the folder {folder}: {error.strerror or error}") from None
        key = new_key()
        certificate = make_authority(name, key, at=at)
        for ending in ("pem", "key"):
            if os.path.lexists(there := folder / f"{AUTHORITY}.{ending}"):
                raise TrustFileError(f"{there} is there already, and is not overwritten")
        write_new(folder / f"{AUTHORITY}.key", pem_of_key(key))
        write_new(folder / f"{AUTHORITY}.pem", certificate.public_bytes(Encoding.PEM))
        return cls(folder, certificate, key)

    @classmethod
    def open(cls, folder: Path, *, at: datetime) -> AuthorityFolder:
        """Open the authority of a folder. Raises `TrustFileError` also if it has expired, or its key does not fit."""
        file, key_file = folder / f"{AUTHORITY}.pem", folder / f"{AUTHORITY}.key"
        if not file.exists():
            raise TrustFileError(f"{file} is missing: make an authority first, by `shadowtree certs init`")
        certificate = read_key_pair(file, key_file).certificate
        if not is_authority(certificate):
            raise TrustFileError(f"the certificate in {file} is not that of an authority")
        if at > certificate.not_valid_after_utc:
            raise TrustFileError(
                f"the authority in {file} expired {duration(at - certificate.not_valid_after_utc)} ago: make another "
                "one, by `shadowtree certs init` in another folder"
            )
        return cls(folder, certificate, read_key(key_file))

    def issue_server(self, name: ServerId, subnets: Sequence[Subnet], *, at: datetime) -> IssuedLeaf:
        """Write the leaf of a server, with new keys. Raises `TrustFileError`."""
        key, signing_key = new_key(), ed25519.Ed25519PrivateKey.generate()
        certificate = make_server_leaf(
            name,
            subnets,
            key.public_key(),
            signing_key.public_key(),
            self.certificate,
            self._key,
            at=at,
        )
        return self._write(certificate, key, signing_key)

    def issue_user(self, principal: NodeId, *, at: datetime) -> IssuedLeaf:
        """Write the leaf of a user, with a new key. Raises `TrustFileError`."""
        key = new_key()
        return self._write(make_user_leaf(principal, key.public_key(), self.certificate, self._key, at=at), key, None)

    def renew(self, file: Path, *, at: datetime, is_key_new: bool = False) -> IssuedLeaf:
        """Replace the leaf in a file by one that names the same, with the life of a new one.

        `is_key_new`: the key is replaced too. The signing key stays: others keep what was signed with it.
        """
        key_file, signing_file = _beside(file)
        old = _leaf_of(file)
        key = new_key() if is_key_new else read_key(key_file)
        signing_key = None
        if old.is_server:
            signing_key = read_signing_key(signing_file)
            certificate = make_server_leaf(
                ServerId(old.owner),
                old.subnets,
                key.public_key(),
                signing_key.public_key(),
                self.certificate,
                self._key,
                at=at,
            )
        else:
            certificate = make_user_leaf(NodeId(old.owner), key.public_key(), self.certificate, self._key, at=at)
        leaf = _checked(certificate)
        if is_key_new:
            replace(key_file, pem_of_key(key))
        replace(file, certificate.public_bytes(Encoding.PEM))
        return IssuedLeaf(file, key_file, signing_file if old.is_server else None, leaf)

    def _write(
        self,
        certificate: x509.Certificate,
        key: ec.EllipticCurvePrivateKey,
        signing_key: ed25519.Ed25519PrivateKey | None,
    ) -> IssuedLeaf:
        leaf = _checked(certificate)
        # A principal may hold characters that file names must not.
        file = self.folder / f"{quote(leaf.owner, safe='@+')}.pem"
        key_file, signing_file = _beside(file)
        for there in (file, key_file, signing_file):
            if os.path.lexists(there):
                raise TrustFileError(
                    f"{there} is there already, and is not overwritten: `shadowtree certs renew` renews a certificate"
                )
        write_new(key_file, pem_of_key(key))
        if signing_key is not None:
            write_new(signing_file, pem_of_key(signing_key))
        write_new(file, certificate.public_bytes(Encoding.PEM))
        return IssuedLeaf(file, key_file, None if signing_key is None else signing_file, leaf)


def _beside(file: Path) -> tuple[Path, Path]:
    """Return the files of the key and the signing key beside a certificate."""
    if file.suffix != ".pem":
        raise TrustFileError(f"{file} is not named NAME.pem, so its key cannot be found beside it")
    return file.with_suffix(".key"), file.with_suffix(".signing.key")


def _leaf_of(file: Path) -> Leaf:
    found = read_leaf(read_certificates(file)[0])
    if isinstance(found, NotAuthentic):
        raise TrustFileError(f"{file} cannot be renewed: {found.why}")
    return found


def _checked(certificate: x509.Certificate) -> Leaf:
    """Return the leaf of a certificate just made. Raises `TrustFileError` if servers would refuse its form."""
    leaf = read_leaf(certificate)
    if isinstance(leaf, NotAuthentic):
        raise TrustFileError(f"no certificate is made: {leaf.why}")
    return leaf
