"""Certificate by which this server proves itself: read with its key, and checked against what the server is."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from namegraph import ServerId, Subnet
from nameserver.config.trust_settings import TlsSettings
from nameserver.trust.identities import NotAuthentic
from nameserver.trust.judgement import time_fault
from nameserver.trust.key_files import KeyPair, TrustFileError, read_key_pair
from nameserver.trust.leaves import Leaf, read_leaf

_RENEW = "`shadowtree certs renew {file}` renews it"


@dataclass(frozen=True, slots=True)
class OwnCertificate:
    """Certificate and key of this server."""

    pair: KeyPair
    leaf: Leaf


def load_own_certificate(
    files: TlsSettings, subnets: Collection[Subnet], *, name: ServerId | None, at: datetime
) -> OwnCertificate:
    """Return the certificate of this server. Raises `TrustFileError` if peers would not believe it.

    `name`: the name of the server. None if its database has not told it yet.
    """
    file, pair = files.certificate, read_key_pair(files.certificate, files.key)
    leaf = read_leaf(pair.certificate)
    if isinstance(leaf, NotAuthentic):
        raise TrustFileError(f"the certificate in {file} is of no use: {leaf.why}")
    if not leaf.is_server:
        raise TrustFileError(f"the certificate in {file} is that of the user {leaf.owner}, not that of a server")
    missing = sorted(frozenset(subnets).difference(leaf.subnets))
    if missing:
        raise TrustFileError(
            f"the certificate in {file} does not name {', '.join(missing[:3])}, which this server owns; make "
            "another one, by `shadowtree certs server` with a --subnet for each"
        )
    if name is not None and leaf.owner != name:
        raise TrustFileError(
            f"the certificate in {file} is that of the server {leaf.owner}, and this server is named {name}; make "
            f"another one, by `shadowtree certs server --name {name}`"
        )
    fault = time_fault(leaf, at)
    if fault is not None:
        raise TrustFileError(f"{file}: {fault.why}; {_RENEW.format(file=file)}")
    return OwnCertificate(pair, leaf)
